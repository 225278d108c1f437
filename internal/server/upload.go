package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/kernels"
)

// Bounds of an upload, which no honest kernel meets.
const (
	maxUpload      = 2 << 20 // bytes of all files
	maxUploadBody  = 4 << 20 // as JSON
	maxUploadDepth = 8       // folders in each other
	maxUploads     = 4096    // contents that are kept
	// uploadSamples is how many random genomes are rendered before a kernel is accepted, and
	// uploadTime how long that may take. So many uploads are looked at at once.
	uploadSamples = 200
	uploadTime    = 30 * time.Second
	uploadsAtOnce = 2
)

// An uploaded kernel is the newest of its name.
type uploaded struct {
	Name string    `json:"name"`
	SHA  string    `json:"sha256"` // of the content, which names its folder
	By   string    `json:"by"`
	Time time.Time `json:"time"`
}

// folder is where an upload lies. Its content never changes, and it is never removed: the
// campaigns that were submitted for it have it in their jobs.
func (l *library) folder(u uploaded) string { return filepath.Join(l.root, u.SHA, u.Name) }

// has says that a folder is one of an upload.
func (l *library) has(dir string) bool {
	return strings.HasPrefix(dir, l.root+string(filepath.Separator))
}

// open reads which kernels were uploaded.
func (l *library) open(s *state, storePath string) error {
	l.state = s
	root, err := filepath.Abs(storePath + ".kernels")
	if err != nil {
		return err
	}
	l.root = root
	// What a killed service was about to accept.
	left, err := filepath.Glob(filepath.Join(root, ".new-*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	list, err := all[uploaded](s, kernelsBucket)
	for _, u := range list {
		l.newest[u.Name] = u
	}
	return err
}

// mark says in a kernel's folder that it was uploaded.
func mark(dir string) error {
	return os.WriteFile(filepath.Join(dir, kernels.UploadedFile), []byte("This kernel was uploaded to a service: its flags may not name files.\n"), 0o600)
}

// uploads lists those that stand, by their names.
func (l *library) uploads() []uploaded {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Values(l.newest), func(a, b uploaded) int { return cmp.Compare(a.Name, b.Name) })
}

// folders is what a new campaign for a kernel needs to find it besides what the machine has.
func (l *library) folders(kernel string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	u, known := l.newest[kernel]
	if !known {
		return nil
	}
	return []string{l.folder(u)}
}

// part is what the name of a file or a folder may be.
var part = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}$`)

// kernelName is what the name of an uploaded kernel may be: what the loader accepts.
var kernelName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// odd says what is wrong with the path of a file in an upload; empty when nothing is.
func odd(name string, files map[string]string) string {
	parts := strings.Split(name, "/")
	if len(parts) > maxUploadDepth {
		return fmt.Sprintf("more than %d folders in each other", maxUploadDepth)
	}
	for i, p := range parts {
		if !part.MatchString(p) { // which no part is that leads out of the folder
			return "paths have / between their parts, which are made of letters, digits and _ . + -, and begin with a letter, a digit or _"
		}
		if i > 0 {
			if _, file := files[strings.Join(parts[:i], "/")]; file {
				return "a file of the upload has the name of its folder"
			}
		}
	}
	return ""
}

// check refuses an upload before anything is written.
func (l *library) check(in api.Upload) error {
	refuse := func(status int, kind, location, format string, args ...any) error {
		text := fmt.Sprintf(format, args...)
		return fail(status, kind, text, api.Detail{Location: location, Message: text})
	}
	// Here and not in the schema: huma names the wrong place for what follows a map.
	if !kernelName.MatchString(in.Name) {
		return refuse(http.StatusUnprocessableEntity, api.BadRequest, "body.name", "the name of a kernel is made of a-z, 0-9, - and _, begins with a letter or a digit, and has at most 63 characters")
	}
	c, err := l.catalogue()
	if err != nil {
		return err
	}
	if d, err := c.Get(in.Name); err == nil {
		return refuse(http.StatusConflict, api.Conflict, "body.name", "the name %s is that of a kernel of the server (%s): take another", in.Name, d.Dir)
	} else if !errors.Is(err, kernels.ErrUnknownKernel) || in.Name == "include" {
		return refuse(http.StatusConflict, api.Conflict, "body.name", "the name %s is taken: take another", in.Name)
	}
	size := 0
	var wrong []api.Detail
	for _, name := range slices.Sorted(maps.Keys(in.Files)) {
		size += len(name) + len(in.Files[name])
		if why := odd(name, in.Files); why != "" {
			wrong = append(wrong, api.Detail{Location: "body.files." + words.OneLine(name), Message: why})
		}
		if strings.ContainsRune(in.Files[name], 0) {
			wrong = append(wrong, api.Detail{Location: "body.files." + words.OneLine(name), Message: "this is not text: it has a zero byte"})
		}
	}
	switch {
	case len(wrong) > 0:
		return fail(http.StatusUnprocessableEntity, api.BadRequest, "the upload has files that are refused", wrong...)
	case size > maxUpload:
		return refuse(http.StatusRequestEntityTooLarge, api.TooLarge, "body.files", "the files have %d bytes, at most %d are accepted", size, maxUpload)
	}
	return nil
}

// upload checks a kernel and makes it the one of its name, for campaigns to come.
func (l *library) upload(ctx context.Context, in api.Upload) (api.Kernel, error) {
	var none api.Kernel
	if err := l.check(in); err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, uploadTime)
	defer cancel()
	if err := l.linting.Acquire(ctx, 1); err != nil {
		return none, fail(http.StatusServiceUnavailable, api.Unavailable, "other uploads are being looked at: try again")
	}
	defer l.linting.Release(1)
	if err := privateFolder(l.root); err != nil {
		return none, err
	}
	fresh, err := os.MkdirTemp(l.root, ".new-")
	if err != nil {
		return none, err
	}
	defer os.RemoveAll(fresh) //nolint:errcheck // what is left is removed when the service starts
	dir := filepath.Join(fresh, in.Name)
	if err := errors.Join(writeUpload(dir, in.Files), mark(dir)); err != nil {
		return none, err
	}
	d, err := lint(ctx, dir, in.Name)
	if err != nil {
		return none, err
	}
	k, err := l.whole(d)
	if err != nil {
		return none, err
	}
	l.uploading.Lock()
	defer l.uploading.Unlock()
	u := uploaded{Name: in.Name, SHA: contentSHA(in), By: callerOf(ctx).name, Time: time.Now().UTC()}
	if _, err := os.Lstat(l.folder(u)); errors.Is(err, fs.ErrNotExist) {
		kept, err := os.ReadDir(l.root)
		if err != nil {
			return none, err
		}
		if len(kept) > maxUploads {
			return none, fail(http.StatusConflict, api.Conflict, fmt.Sprintf("this service has %d uploaded kernels, and takes no more", maxUploads))
		}
		if err := os.Rename(fresh, filepath.Join(l.root, u.SHA)); err != nil {
			return none, err
		}
	} else if err != nil {
		return none, err
	}
	if err := l.state.change(func(tx *bbolt.Tx) error { return put(tx, kernelsBucket, u.Name, u) }); err != nil {
		return none, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.newest[u.Name] = u
	return k, nil
}

// contentSHA names a content: no two have the same.
func contentSHA(in api.Upload) string {
	h := sha256.New()
	add := func(s string) { fmt.Fprintf(h, "%d:%s", len(s), s) }
	add(in.Name)
	for _, name := range slices.Sorted(maps.Keys(in.Files)) {
		add(name)
		add(in.Files[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// privateFolder makes a folder that nobody else may read. One that is there must be one: not
// a link to another.
func privateFolder(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder: move it away", dir)
	}
	return err
}

// writeUpload writes the files of a kernel, whose paths were checked.
func writeUpload(dir string, files map[string]string) error {
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// lint loads a kernel and looks for what is suspicious in it; what it finds, it refuses. What
// needs a compiler is proven by every campaign, before it searches.
func lint(ctx context.Context, dir, name string) (*kernels.Definition, error) {
	place := func(f kernels.Finding) api.Detail {
		file := strings.TrimPrefix(filepath.ToSlash(f.File), filepath.ToSlash(dir)+"/")
		if f.Line > 0 {
			file = fmt.Sprintf("%s:%d", file, f.Line)
		}
		return api.Detail{Location: file, Message: words.OneLine(strings.ReplaceAll(f.Msg, dir, path.Base(dir)))}
	}
	refused := func(found ...kernels.Finding) error {
		var list []api.Detail
		for _, f := range found {
			list = append(list, place(f))
		}
		return fail(http.StatusUnprocessableEntity, api.BadRequest, fmt.Sprintf("the kernel %s is refused: %s: %s", name, list[0].Location, list[0].Message), list...)
	}
	d, err := kernels.LoadDir(dir)
	var fault *kernels.Error
	switch {
	case errors.As(err, &fault) && len(fault.Unfilled) > 0:
		return nil, refused(fault.Unfilled...)
	case errors.As(err, &fault):
		return nil, refused(kernels.Finding{File: fault.File, Line: fault.Line, Col: fault.Col, Msg: fault.Msg})
	case err != nil:
		return nil, err
	case d.Name != name:
		return nil, refused(kernels.Finding{File: "kernel.toml", Msg: fmt.Sprintf("the kernel calls itself %q: upload it with that name", d.Name)})
	}
	if found := kernels.Lint(ctx, d, uploadSamples, rand.New(rand.NewSource(1))); len(found) > 0 {
		return nil, refused(found...)
	}
	return d, nil
}
