package kernels

import (
	"fmt"

	"github.com/evotune/evotune/internal/backend"
)

// UploadedFile is the name of a file that marks a kernel's folder as one that was uploaded
// to a service. No upload can contain it, and it goes wherever the folder is copied.
const UploadedFile = ".uploaded"

// CheckFlag says why a file to judge, or an uploaded kernel, may not give a flag to its
// compiler of the backend name; nil if it may. It takes the flag as the compiler would, after rendering. A
// definition of one's own may use any flag.
func CheckFlag(name, flag string) error {
	if allowed := backend.Of(name).Flag; allowed != nil && allowed(flag) {
		return nil
	}
	return fmt.Errorf("flag %q: a file to judge, or an uploaded kernel, may ask for optimization, a language standard, macros of one line, warnings and machine features, "+
		"and for nothing that reads or writes other files, reaches another tool or switches a check off: remove it", flag)
}

// checkFlag checks a rendered flag of an uploaded kernel, at its place in kernel.toml.
func (im *Implementation) checkFlag(u *unit, flag string) error {
	if !im.definition.Uploaded {
		return nil
	}
	err := CheckFlag(im.Backend, flag)
	switch {
	case err == nil:
		return nil
	case u.at != nil:
		return im.fail(u.at, "%v", err)
	}
	return &Error{File: u.file, Line: 1, Msg: err.Error(), Err: ErrRender}
}

// OwnFlags lists the flags, as templates, whose files compilers may read: those of a
// definition of one's own. Those of an uploaded one name none.
func (im *Implementation) OwnFlags() []string {
	if im.definition.Uploaded {
		return nil
	}
	return im.Flags
}
