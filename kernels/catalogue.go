package kernels

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
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

// An entry is a kernel of a catalogue. It is read once, when it is first asked for.
type entry struct {
	name    string // "" where kernel.toml cannot be parsed
	folder  string // a broken kernel answers to this name, too
	dir     string
	builtin bool
	read    func() (*Definition, error)
}

// broken says that the kernel does not load. Built-in kernels do.
func (e *entry) broken() bool {
	if e.builtin {
		return false
	}
	_, err := e.read()
	return err != nil
}

// last finds the kernel that counts among those of one name; nil if there is none. No kernel is better than the one that a
// broken one should replace.
func last(list []*entry, name string) *entry {
	for _, e := range slices.Backward(list) {
		if name != "" && (e.name == name || e.folder == name && e.broken()) {
			return e
		}
	}
	return nil
}

// builtins lists the built-in kernels.
var builtins = sync.OnceValue(func() (list []*entry) {
	fsys := Builtin()
	folders, err := fs.ReadDir(fsys, ".")
	if err != nil {
		panic(err) // they are part of the program
	}
	for _, e := range folders {
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
			list = append(list, &entry{name: name, folder: name, dir: path.Join("builtin", name), builtin: true, read: sync.OnceValues(func() (*Definition, error) {
				return loadFrom(fsys, folder, path.Join("builtin", folder), name)
			})})
		}
	}
	return list
})

// A Catalogue is a set of kernels by name: the built-in ones, and those of folders.
type Catalogue struct {
	all []*entry // later ones replace earlier ones
}

// Open collects the built-in kernels and those in folders: each folder is a
// kernel itself, or holds several. Of two kernels with the same name, the later one
// counts, so a user's kernel replaces a built-in one; its Overrides says so. A broken
// kernel does not hide the others: Get returns its error, and Errors lists all errors.
// Open itself fails when a folder cannot be read or holds no kernel.
//
// Of a kernel's folder, Open reads the names alone: a kernel is read when Get first asks for
// it. All catalogues share the definitions of built-in kernels: do not change them.
func Open(folders ...string) (*Catalogue, error) {
	c := &Catalogue{all: slices.Clone(builtins())}
	for _, given := range folders {
		dirs, err := kernelFolders(given)
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			c.add(dir)
		}
	}
	return c, nil
}

// Find reads the kernel of a name: that of the last of the folders that has it, else the built-in
// one. No other kernel is read, unless none has the name: then a folder that does not load is the
// likelier reason, and the error is that of the first. See [Open].
func Find(name string, folders ...string) (*Definition, error) {
	c, err := Open(folders...)
	if err != nil {
		return nil, err
	}
	d, err := c.Get(name)
	if errors.Is(err, ErrUnknownKernel) {
		if broken := c.Errors(); len(broken) > 0 {
			return nil, broken[0]
		}
	}
	return d, err
}

// kernelFolders lists the folders with a kernel.toml: the one given, or those in it.
func kernelFolders(dir string) (dirs []string, err error) {
	if _, err := os.Stat(filepath.Join(dir, DefinitionFile)); err == nil || errors.Is(err, fs.ErrPermission) {
		return []string{dir}, nil
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, unreadable(dir, err, "--kernels needs a folder that is a kernel or holds several")
	}
	for _, e := range list {
		sub := filepath.Join(dir, e.Name())
		if info, err := os.Stat(sub); err != nil || !info.IsDir() {
			continue
		}
		if _, err := os.Stat(filepath.Join(sub, DefinitionFile)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		dirs = append(dirs, sub)
	}
	if len(dirs) == 0 {
		return nil, &Error{File: dir, Msg: "neither this folder nor one in it has a " + DefinitionFile + ": name a kernel's folder, or one that holds kernels", Err: ErrDefinition}
	}
	return dirs, nil
}

// add adds the kernel, or the kernels, of a folder with a kernel.toml.
func (c *Catalogue) add(dir string) {
	folder, names := folderName(dir), namesIn(dir)
	for _, name := range names {
		if len(names) > 1 { // the others are as good as they are
			folder = name
		}
		earlier := slices.Clip(c.all)
		c.all = append(earlier, &entry{name: name, folder: folder, dir: dir, read: sync.OnceValues(func() (*Definition, error) {
			replaced := last(earlier, name)
			d, err := loadDir(dir, name)
			if err == nil && replaced != nil && !replaced.broken() {
				d.Overrides = replaced.dir
			}
			return d, err
		})})
	}
}

// Names lists the kernels but for broken ones, sorted.
func (c *Catalogue) Names() (names []string) {
	for _, e := range c.all {
		if e.name != "" && !last(c.all, e.name).broken() {
			names = append(names, e.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Errors lists the errors of the folders' kernels that do not load.
func (c *Catalogue) Errors() (list []error) {
	for _, e := range c.all {
		if e.broken() {
			_, err := e.read()
			list = append(list, err)
		}
	}
	return list
}

// Get finds a kernel by name. For a kernel that does not load it returns the load error;
// for an unknown one, an error that wraps ErrUnknownKernel and suggests similar names.
func (c *Catalogue) Get(name string) (*Definition, error) {
	if e := last(c.all, name); e != nil {
		return e.read()
	}
	names := c.Names()
	near := ""
	if n := naming.Nearest(name, names); n != "" {
		near = "did you mean " + n + "? "
	}
	return nil, fmt.Errorf("%w %q: %sthere are %s; --kernels DIR adds your own", ErrUnknownKernel, name, near, strings.Join(names, ", "))
}
