package kernels

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/evotune/evotune/internal/naming"
)

//go:embed templates
var embedded embed.FS

// Builtin returns the folders of the built-in kernels, and the folder include with the
// headers that several of them share.
func Builtin() fs.FS {
	sub, err := fs.Sub(embedded, "templates")
	if err != nil {
		panic(err) // the name is a constant
	}
	return sub
}

// formName matches a kernel's name at the beginning of a [[form]].
var formName = regexp.MustCompile(`(?m)^\[\[form\]\]\nname = "([^"]*)"`)

// builtins reads the built-in kernels: each once, when it is first asked for, since they never change.
var builtins = sync.OnceValue(func() map[string]func() (*Definition, error) {
	fsys := Builtin()
	list, err := fs.ReadDir(fsys, ".")
	if err != nil {
		panic(err) // they are part of the program
	}
	read := map[string]func() (*Definition, error){}
	for _, e := range list {
		folder := e.Name()
		if folder == includeFolder {
			continue
		}
		text, err := fs.ReadFile(fsys, path.Join(folder, DefinitionFile))
		if err != nil {
			panic(err) // they are part of the program
		}
		names := []string{folder}
		if forms := formName.FindAllStringSubmatch(string(text), -1); forms != nil {
			names = nil
			for _, m := range forms {
				names = append(names, m[1])
			}
		}
		for _, name := range names {
			read[name] = sync.OnceValues(func() (*Definition, error) { return loadFrom(fsys, folder, builtinDir(folder), name) })
		}
	}
	return read
})

// builtinDir is the Dir of a built-in kernel.
func builtinDir(name string) string { return path.Join("builtin", name) }

// A Catalogue is a set of kernels by name: the built-in ones, and those of folders.
type Catalogue struct {
	own    map[string]*Definition
	broken map[string]error // by the names of the folder and of the kernel
	errs   []error
}

// Open collects the built-in kernels and those in folders: each folder is a
// kernel itself, or holds several. Of two kernels with the same name, the later one
// counts, so a user's kernel replaces a built-in one; its Overrides says so. A broken
// kernel does not hide the others: Get returns its error, and Errors lists all errors.
// Open itself fails when a folder cannot be read or holds no kernel.
//
// A built-in kernel is read when Get first asks for it. All catalogues share its definition:
// do not change it.
func Open(dirs ...string) (*Catalogue, error) {
	c := &Catalogue{own: map[string]*Definition{}, broken: map[string]error{}}
	for _, dir := range dirs {
		if err := c.addFolder(dir); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// addFolder adds the kernel or the kernels of a folder.
func (c *Catalogue) addFolder(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, DefinitionFile)); err == nil || errors.Is(err, fs.ErrPermission) {
		folder := dir
		if abs, err := filepath.Abs(dir); err == nil {
			folder = abs
		}
		c.addKernels(filepath.Base(folder), dir)
		return nil
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return unreadable(dir, err, "--kernels needs a folder that is a kernel or holds several")
	}
	found := false
	for _, e := range list {
		sub := filepath.Join(dir, e.Name())
		if info, err := os.Stat(sub); err != nil || !info.IsDir() {
			continue
		}
		if _, err := os.Stat(filepath.Join(sub, DefinitionFile)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		c.addKernels(e.Name(), sub)
		found = true
	}
	if !found {
		return &Error{File: dir, Msg: "neither this folder nor one in it has a " + DefinitionFile + ": name a kernel's folder, or one that holds kernels", Err: ErrDefinition}
	}
	return nil
}

// addKernels adds the kernels of a folder.
func (c *Catalogue) addKernels(folder, dir string) {
	list, err := loadDir(dir, true)
	if err != nil {
		c.add(folder, "", nil, err)
	}
	for _, one := range list {
		if len(list) > 1 { // the others are as good as they are
			folder = one.name
		}
		c.add(folder, one.name, one.def, one.err)
	}
}

// add notes a kernel, or the error of a folder. name is the definition's name, if it
// could be read that far.
func (c *Catalogue) add(folder, name string, d *Definition, err error) {
	if err != nil {
		c.errs = append(c.errs, err)
		// No kernel is better than the one that the broken one should replace.
		for _, n := range []string{folder, name} {
			c.broken[n] = err
			delete(c.own, n)
		}
		return
	}
	if prev := c.own[name]; prev != nil {
		d.Overrides = prev.Dir
	} else if builtins()[name] != nil && c.broken[name] == nil {
		d.Overrides = builtinDir(name)
	}
	c.own[name] = d
	delete(c.broken, name)
}

// Names lists the kernels but for broken ones, sorted.
func (c *Catalogue) Names() []string {
	all := map[string]bool{}
	for name := range builtins() {
		all[name] = c.broken[name] == nil
	}
	for name := range c.own {
		all[name] = true
	}
	maps.DeleteFunc(all, func(_ string, there bool) bool { return !there })
	return slices.Sorted(maps.Keys(all))
}

// Errors lists the errors of the folders' kernels that did not load.
func (c *Catalogue) Errors() []error { return slices.Clone(c.errs) }

// Get finds a kernel by name. For a kernel that did not load it returns the load error;
// for an unknown one, an error that wraps ErrUnknownKernel and suggests similar names.
func (c *Catalogue) Get(name string) (*Definition, error) {
	if d := c.own[name]; d != nil {
		return d, nil
	}
	if err := c.broken[name]; err != nil && name != "" {
		return nil, err
	}
	if read := builtins()[name]; read != nil {
		return read()
	}
	names := c.Names()
	near := ""
	if n := naming.Nearest(name, names); n != "" {
		near = "did you mean " + n + "? "
	}
	return nil, fmt.Errorf("%w %q: %sthere are %s; --kernels DIR adds your own", ErrUnknownKernel, name, near, strings.Join(names, ", "))
}
