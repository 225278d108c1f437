package kernels_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/kernels"
)

// FuzzLoad reads arbitrary kernel.toml files beside the other files of base.
// Whatever is wrong is one error with a place inside the file; whatever loads
// keeps the promises of a Definition.
func FuzzLoad(f *testing.F) {
	f.Add(base)
	f.Add(base + second)
	f.Add(string(formed()["k/kernel.toml"].Data))
	f.Add(base + cuda)
	f.Add(base + mapped)
	f.Add(gpuOnly(f, "role = \"inout\"\ndata = \"constant(0.25)\"", "role = \"out\"\ntolerance = 1e-3\nrepeat = 1e-6\nunwritten = \"nan\"") + variant)
	for _, tt := range loadErrors {
		f.Add(strings.Replace(strings.Replace(base, tt.old, tt.new, 1), mark, "", 1))
	}
	builtin := kernels.Builtin()
	list, err := fs.Glob(builtin, "*/kernel.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range list {
		text, err := fs.ReadFile(builtin, name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(strings.Replace(string(text), "[[form]]\nname = \""+path.Dir(name)+"\"", "[[form]]\nname = \"k\"", 1)) // the folder's own
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := kernels.Load(folder(text), "k")
		if err != nil {
			var e *kernels.Error
			if !errors.As(err, &e) || !errors.Is(err, kernels.ErrDefinition) {
				t.Fatalf("%T %v", err, err)
			}
			if strings.ContainsAny(err.Error(), "\n\r") || e.Msg == "" {
				t.Fatalf("not one line: %q", err)
			}
			if e.File == filepath.Join("k", "kernel.toml") && e.Line > 0 {
				lines := strings.Split(text, "\n")
				if e.Line > len(lines) || e.Col < 1 || e.Col > len(lines[e.Line-1])+1 {
					t.Fatalf("the place is outside of the file: %v", err)
				}
			}
			return
		}
		checkDefinition(t, d)
	})
}

// checkDefinition holds a definition to what Load promises of it.
func checkDefinition(t *testing.T, d *kernels.Definition) {
	t.Helper()
	if _, err := json.Marshal(d); err != nil {
		t.Fatal(err)
	}
	p := &d.Problem
	for _, s := range p.Shapes {
		if ops, err := p.Operations(s); err != nil || !(ops >= 0) {
			t.Fatalf("operations: %g, %v", ops, err)
		}
		if bytes, err := p.Bytes(s); err != nil || !(bytes >= 0) {
			t.Fatalf("bytes: %g, %v", bytes, err)
		}
		if _, err := p.ScalarValues(s); err != nil {
			t.Fatal(err)
		}
		for _, b := range p.Buffers {
			if n, err := p.Elements(b, s); err != nil || n < 1 {
				t.Fatalf("buffer %s: %d, %v", b.Name, n, err)
			}
		}
	}
	for _, use := range []kernels.Use{kernels.Tune, kernels.Verify, kernels.Sanitize} {
		if len(p.ShapesFor(use)) == 0 {
			t.Fatalf("no shape to %s", use)
		}
	}
	for _, b := range p.Outputs() {
		if _, ok := p.ToleranceOf(b); !ok {
			t.Fatalf("no tolerance for %s", b.Name)
		}
	}
	for _, im := range d.Implementations {
		b := im.Baseline()
		if b == nil {
			t.Fatalf("%s has no baseline", im.Name)
		}
		if _, err := im.RenderBaseline(im.Problem().ShapesFor(kernels.Tune)[0]); err != nil && !errors.Is(err, kernels.ErrRender) && !errors.Is(err, errors.ErrUnsupported) {
			t.Fatal(err)
		}
		values := 0
		for _, g := range im.Parameters {
			values += len(g.Values)
		}
		if values > 100 || len(im.Constraints) > 10 {
			continue // genome has fuzzers for what is large
		}
		var limits map[string]any
		if im.Target == "sm_90a" {
			limits = map[string]any{"device_capability": 90, "device_max_shared_bytes": 227 << 10}
		}
		for _, s := range p.ShapesFor(kernels.Tune) {
			space, err := d.Space([]*kernels.Implementation{im}, []kernels.Shape{s}, limits)
			if errors.Is(err, genome.ErrEmpty) && b.Genome == nil {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			if b.Implementation() == im && b.Genome != nil {
				if _, err := space.FromMap(b.Genome); err != nil {
					t.Fatalf("the baseline is not in the space: %v", err)
				}
			}
			g := space.Random(rand.New(rand.NewSource(1)))
			if im.Launch != nil {
				if geo, err := im.Geometry(g, s, limits); err != nil && !errors.Is(err, kernels.ErrRender) {
					t.Fatal(err)
				} else if err == nil && (len(geo.Then) != len(im.Launch.Then) || len(geo.Maps) != len(im.TensorMaps)) {
					t.Fatalf("launched: %+v", geo)
				}
			}
			if r, err := im.Render(g); err != nil && !errors.Is(err, kernels.ErrRender) {
				t.Fatal(err)
			} else if err == nil && (r.Threads < 1 || len(r.Hash) != 64) {
				t.Fatalf("rendered: %+v", r)
			}
		}
	}
}
