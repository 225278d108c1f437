package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/semaphore"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/kernels"
)

// A kernelRequest names a kernel.
type kernelRequest struct {
	Name string `path:"name" minLength:"1" maxLength:"200"`
}

type uploadRequest struct{ Body api.Upload }

type kernelAnswer struct {
	Location string `header:"Location"`
	Body     api.Kernel
}

// kernelRoutes are those of the kernels that campaigns can be submitted for.
func (s *Service) kernelRoutes() {
	huma.Register(s.api, operation(http.MethodGet, "/v1/kernels", "kernels", api.Viewer, "List the kernels"),
		func(context.Context, *struct{}) (*body[[]api.Kernel], error) {
			list, err := s.kernels.list()
			return &body[[]api.Kernel]{list}, failed(err)
		})
	huma.Register(s.api, operation(http.MethodGet, "/v1/kernels/{name}", "kernel", api.Viewer, "One kernel: its shapes, implementations and genes", 404, 422),
		func(_ context.Context, in *kernelRequest) (*body[api.Kernel], error) {
			k, err := s.kernels.describe(in.Name)
			return &body[api.Kernel]{k}, failed(err)
		})
	upload := operation(http.MethodPost, "/v1/kernels", "upload-kernel", api.Author, "Upload a kernel, for campaigns to come", 409, 413, 422)
	upload.DefaultStatus, upload.MaxBodyBytes = http.StatusCreated, maxUploadBody
	huma.Register(s.api, upload, func(ctx context.Context, in *uploadRequest) (*kernelAnswer, error) {
		if err := s.takesCampaigns(); err != nil {
			return nil, err
		}
		k, err := s.kernels.upload(ctx, in.Body)
		return &kernelAnswer{"/v1/kernels/" + in.Body.Name, k}, failed(err)
	})
}

// A library is the set of kernels that the service knows: the built-in ones, those of its
// folders, and those that were uploaded, of which the newest of a name stands. An upload
// cannot take the name of another kernel.
type library struct {
	tools *evotune.Machine
	state *state // nil where nothing can be uploaded
	root  string // of the uploads

	linting   *semaphore.Weighted // of uploads
	uploading sync.Mutex          // one becomes the newest at a time

	mu        sync.Mutex
	described map[string]api.Kernel          // by hash
	newest    map[string]uploaded            // by name
	loaded    map[string]*kernels.Definition // uploads, by their folders
	folded    *kernels.Catalogue             // with the folders, as they were when they had these marks
	marks     string
}

func newLibrary(tools *evotune.Machine) *library {
	return &library{
		tools: tools, described: map[string]api.Kernel{}, newest: map[string]uploaded{}, loaded: map[string]*kernels.Definition{}, linting: semaphore.NewWeighted(uploadsAtOnce),
	}
}

// catalogue is the kernels but for the uploaded ones. Those of folders are read again when
// one of their files has changed.
func (l *library) catalogue() (*kernels.Catalogue, error) {
	if len(l.tools.Definitions) == 0 {
		return kernels.Open()
	}
	var marks strings.Builder
	for _, dir := range l.tools.Definitions {
		err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err == nil {
				fmt.Fprintln(&marks, name, info.Size(), info.ModTime().UnixNano())
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	c := l.folded
	if l.marks != marks.String() {
		c = nil
	}
	l.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := kernels.Open(l.tools.Definitions...)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.folded, l.marks = c, marks.String()
	return c, nil
}

// list lists the kernels by their names.
func (l *library) list() ([]api.Kernel, error) {
	c, err := l.catalogue()
	if err != nil {
		return nil, err
	}
	own, err := kernels.Open()
	if err != nil {
		return nil, err
	}
	list := []api.Kernel{}
	for _, name := range c.Names() {
		d, err := c.Get(name)
		if err != nil {
			return nil, err
		}
		list = append(list, briefly(d, own))
	}
	for _, u := range l.uploads() {
		// One whose folder was taken away does not hide the others: who asks for it is told why.
		if d, err := l.load(l.folder(u)); err == nil {
			list = append(list, briefly(d, own))
		}
	}
	slices.SortStableFunc(list, func(a, b api.Kernel) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// briefly is a kernel as lists have it.
func briefly(d *kernels.Definition, builtin *kernels.Catalogue) api.Kernel {
	own, err := builtin.Get(d.Name)
	k := api.Kernel{Name: d.Name, Description: d.Description, Hash: d.Hash, Builtin: err == nil && own.Hash == d.Hash}
	for _, backend := range kernels.Backends() {
		if slices.ContainsFunc(d.Implementations, func(im *kernels.Implementation) bool { return im.Backend == backend }) {
			k.Backends = append(k.Backends, backend)
		}
	}
	return k
}

// describe tells of one kernel what a form for a campaign needs.
func (l *library) describe(name string) (api.Kernel, error) {
	d, err := l.get(name)
	if errors.Is(err, kernels.ErrUnknownKernel) {
		return api.Kernel{}, fail(http.StatusNotFound, api.NotFound, err.Error())
	}
	if err != nil {
		return api.Kernel{}, fail(http.StatusUnprocessableEntity, api.BadRequest, err.Error())
	}
	return l.whole(d)
}

// get is the definition of a kernel.
func (l *library) get(name string) (*kernels.Definition, error) {
	if folders := l.folders(name); folders != nil {
		return l.load(folders[0])
	}
	c, err := l.catalogue()
	if err != nil {
		return nil, err
	}
	return c.Get(name)
}

// load reads an upload, whose content never changes.
func (l *library) load(folder string) (*kernels.Definition, error) {
	l.mu.Lock()
	d := l.loaded[folder]
	l.mu.Unlock()
	if d != nil {
		return d, nil
	}
	d, err := kernels.LoadDir(folder)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.loaded) >= maxDescribed {
		clear(l.loaded)
	}
	l.loaded[folder] = d
	return d, nil
}

// whole tells all of a definition. Spaces take a while to make, so it is kept.
func (l *library) whole(d *kernels.Definition) (api.Kernel, error) {
	l.mu.Lock()
	k, known := l.described[d.Hash]
	l.mu.Unlock()
	if known {
		return k, nil
	}
	own, err := kernels.Open()
	if err != nil {
		return k, err
	}
	k = briefly(d, own)
	k.Dims = d.Problem.Dims
	for _, backend := range kernels.Backends() {
		if err := detail(&k, d.On(backend), backend); err != nil {
			return k, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.described) >= maxDescribed {
		clear(l.described)
	}
	l.described[d.Hash] = k
	return k, nil
}

// maxDescribed bounds how many descriptions are kept.
const maxDescribed = 256

// detail adds what a kernel has on a backend.
func detail(k *api.Kernel, on *kernels.Definition, backend string) error {
	if len(on.Implementations) == 0 {
		return nil
	}
	for _, shape := range on.Problem.Shapes {
		at := slices.IndexFunc(k.Shapes, func(s api.Shape) bool { return s.Name == shape.Name && maps.Equal(s.Dims, shape.Dims) })
		if at < 0 {
			at = len(k.Shapes)
			k.Shapes = append(k.Shapes, api.Shape{Name: shape.Name, Dims: shape.Dims})
		}
		s := &k.Shapes[at]
		if use := string(shape.Use); !slices.Contains(s.Uses, use) {
			s.Uses = append(s.Uses, use)
		}
		if !slices.Contains(s.Backends, backend) {
			s.Backends = append(s.Backends, backend)
		}
	}
	first := on.Problem.ShapesFor(kernels.Tune)[:1]
	for _, im := range on.Implementations {
		if !slices.Contains(k.Implementations, im.Name) {
			k.Implementations = append(k.Implementations, im.Name)
		}
		space, err := on.Space([]*kernels.Implementation{im}, first, nil)
		if err != nil {
			return fail(http.StatusUnprocessableEntity, api.BadRequest, fmt.Sprintf("the space of %s: %v", im.Name, err))
		}
		k.SpaceSize += space.Size()
		for _, g := range space.Genes() {
			gene := api.KernelGene{Implementation: im.Name, Backend: backend, Name: g.Name, When: g.When, Ordinal: g.Ordinal}
			for _, v := range g.Values {
				gene.Values = append(gene.Values, v.Any())
			}
			k.Genes = append(k.Genes, gene)
		}
	}
	return nil
}
