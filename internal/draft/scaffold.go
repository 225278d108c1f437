package draft

import (
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/evotune/evotune/kernels"
)

// New writes a small complete kernel for a backend into the new folder dir: a
// definition, a template and a reference that load, lint and run as they are.
// The folder appears whole or not at all. If dir exists, New writes nothing, and
// the error wraps fs.ErrExist.
func New(dir, name, backend string) error {
	names := strings.NewReplacer("KERNEL-NAME", name, "KERNEL_ENTRY", "run_"+strings.ReplaceAll(name, "-", "_"))
	from := path.Join("scaffold", backend)
	list, err := scaffold.ReadDir(from)
	if err != nil {
		return fmt.Errorf("kernel folder: %w", err)
	}
	files := map[string]string{}
	for _, f := range list {
		text, err := scaffold.ReadFile(path.Join(from, f.Name()))
		if err != nil {
			return fmt.Errorf("kernel folder: %w", err)
		}
		files[f.Name()] = names.Replace(string(text))
	}
	return newFolder(dir, name, files, func(temp string) error {
		if _, err := kernels.LoadDir(temp); err != nil {
			return fmt.Errorf("the new kernel does not load: %w", err)
		}
		return nil
	}, true)
}

// newFolder writes a folder that appears whole, or not at all if check fails; with
// keep false it never appears.
func newFolder(dir, name string, files map[string]string, check func(temp string) error, keep bool) (err error) {
	if err := kernels.CheckName(name); err != nil {
		return err
	}
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s is already there: choose another name, or remove it: %w", dir, fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("kernel folder: %w", err)
	}
	temp := filepath.Join(filepath.Dir(dir), ".evotune-new-"+rand.Text()[:10])
	if err := os.Mkdir(temp, 0o755); err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err // the path names a folder that the user does not know
		}
		return fmt.Errorf("%s cannot be made in %s: %w", filepath.Base(dir), filepath.Dir(dir), err)
	}
	defer func() {
		if err != nil || !keep {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	for f, text := range files {
		if !filepath.IsLocal(filepath.FromSlash(f)) {
			return fmt.Errorf("the file name %q leads out of the kernel's folder: choose another", f)
		}
		at := filepath.Join(temp, filepath.FromSlash(f))
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil {
			err = os.WriteFile(at, []byte(text), 0o644)
		}
		if err != nil {
			return fmt.Errorf("kernel folder: %w", err)
		}
	}
	if err := check(temp); err != nil || !keep {
		return err
	}
	if err := os.Rename(temp, dir); err != nil {
		return fmt.Errorf("kernel folder: %w", err)
	}
	return nil
}

// scaffold holds the files of the kernels that New writes, by backend.
//
//go:embed scaffold
var scaffold embed.FS
