package kernels

import "errors"

// Scaffold writes a small complete kernel into a new folder.
func Scaffold(dir, name string) error { return errors.ErrUnsupported }
