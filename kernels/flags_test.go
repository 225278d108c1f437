package kernels

import (
	"math/rand"
	"testing"
	"testing/fstest"
)

// Every built-in kernel, and each of the examples, can be uploaded.
func TestUploadable(t *testing.T) {
	c, err := Open("../examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range c.Names() {
		d, err := c.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		uploaded := fstest.MapFS{name + "/" + UploadedFile: {}}
		for file, text := range d.Files() {
			uploaded[name+"/"+file] = &fstest.MapFile{Data: []byte(text)}
		}
		if d, err = Load(uploaded, name); err != nil {
			t.Error(err)
			continue
		}
		rng := rand.New(rand.NewSource(1))
		for _, im := range d.Implementations {
			if im.Baseline().Kind != BaselineLibrary {
				if _, err := im.RenderBaseline(im.Problem().ShapesFor(Tune)[0]); err != nil {
					t.Error(err)
				}
			}
			space, err := d.Space([]*Implementation{im}, im.Problem().ShapesFor(Tune)[:1], leastLimits(im.Target))
			if err != nil {
				t.Error(err)
				continue
			}
			for range 20 {
				if _, err := im.Render(space.Random(rng)); err != nil {
					t.Error(err)
					break
				}
			}
		}
	}
}
