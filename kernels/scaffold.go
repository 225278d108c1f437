package kernels

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Scaffold writes a small complete kernel into the new folder dir: a
// definition, a template and a reference that load, lint and run as they are.
// The folder appears whole or not at all. It never writes into something that
// exists: the error then wraps fs.ErrExist.
func Scaffold(dir, name string) (err error) {
	if !kernelName.MatchString(name) {
		return fmt.Errorf("%q cannot name a kernel: use a-z, 0-9, - and _, beginning with a letter or digit", name)
	}
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s is already there: choose another name, or remove it: %w", dir, fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("kernel folder: %w", err)
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), ".evotune-new-*")
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err // the path is that of a folder that nobody asked for
		}
		return fmt.Errorf("%s cannot be made in %s: %w", filepath.Base(dir), filepath.Dir(dir), err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	names := strings.NewReplacer("KERNEL-NAME", name, "KERNEL_ENTRY", "run_"+strings.ReplaceAll(name, "-", "_"))
	files, err := scaffold.ReadDir("scaffold")
	if err != nil {
		return fmt.Errorf("kernel folder: %w", err)
	}
	for _, f := range files {
		text, err := scaffold.ReadFile("scaffold/" + f.Name())
		if err == nil {
			err = os.WriteFile(filepath.Join(temp, f.Name()), []byte(names.Replace(string(text))), 0o644)
		}
		if err != nil {
			return fmt.Errorf("kernel folder: %w", err)
		}
	}
	if err := os.Chmod(temp, 0o755); err != nil { // MkdirTemp gives 0700
		return fmt.Errorf("kernel folder: %w", err)
	}
	if _, err := LoadDir(temp); err != nil {
		return fmt.Errorf("the new kernel does not load: %w", err)
	}
	if err := os.Rename(temp, dir); err != nil {
		return fmt.Errorf("kernel folder: %w", err)
	}
	return nil
}

// scaffold holds the files of the kernel that Scaffold writes.
//
//go:embed scaffold
var scaffold embed.FS
