package kernels

import (
	"os"
	"testing"
)

func TestLoadBuiltin(t *testing.T) {
	cat, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range cat.Errors() {
		t.Error(err)
	}
	t.Log(cat.Names())
	d, err := Load(os.DirFS("../evaluator/testdata"), "zoo")
	if err != nil {
		t.Fatal(err)
	}
	im := d.Implementations[0]
	s, err := d.Space(d.Implementations, d.Problem.Shapes, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(s.Size())
	r, err := im.RenderBaseline()
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r.Source, r.Flags, r.Threads, r.Header, r.Hash)
}
