package server

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/kernels"
)

func TestKernels(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	list := fetch[[]api.Kernel](f, "/v1/kernels")
	c, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, k := range list {
		names = append(names, k.Name)
		if !k.Builtin || k.Hash == "" || k.Genes != nil || len(k.Backends) == 0 {
			t.Errorf("%+v", k)
		}
	}
	if !slices.Equal(names, c.Names()) {
		t.Errorf("%v, want %v", names, c.Names())
	}
	d, err := c.Get("softmax")
	if err != nil {
		t.Fatal(err)
	}
	k := fetch[api.Kernel](f, "/v1/kernels/softmax")
	if k.Hash != d.Hash || !slices.Contains(k.Backends, "cpu") || len(k.Implementations) == 0 || k.SpaceSize < 2 {
		t.Errorf("%+v", k)
	}
	if !slices.Equal(k.Dims, d.Problem.Dims) {
		t.Errorf("dims: %v", k.Dims)
	}
	for _, s := range d.On("cpu").Problem.Shapes {
		if !slices.ContainsFunc(k.Shapes, func(o api.Shape) bool {
			return o.Name == s.Name && slices.Contains(o.Uses, string(s.Use)) && slices.Contains(o.Backends, "cpu")
		}) {
			t.Errorf("no shape %s among %+v", s.Name, k.Shapes)
		}
	}
	for _, im := range d.On("cpu").Implementations {
		for _, p := range im.Parameters {
			at := slices.IndexFunc(k.Genes, func(g api.KernelGene) bool {
				return g.Implementation == im.Name && g.Backend == "cpu" && g.Name == p.Name
			})
			if at < 0 || len(k.Genes[at].Values) == 0 {
				t.Errorf("no gene %s of %s", p.Name, im.Name)
			}
		}
	}
	if !slices.Equal(list[slices.Index(names, "softmax")].Backends, k.Backends) {
		t.Errorf("the list has the backends %v, the kernel %v", list[slices.Index(names, "softmax")].Backends, k.Backends)
	}
	f.do("GET", "/v1/kernels/nothing", nil, nil, 404)
}
