package kernels_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evotune/evotune/kernels"
)

// formed is base as two kernels of one folder: in single precision, and in double precision with a shape and a tolerance of
// its own.
func formed(replace ...string) fstest.MapFS {
	text := strings.NewReplacer(
		"name = \"product\"\ndescription = \"C = alpha A B\"\n", `
[[form]]
name = "k"
description = "C = alpha A B"
words = { TYPE = "f32", TOLERANCE = 1e-5, WIDE = ["M", "K"] }

[[form]]
name = "k-f64"
description = "C = alpha A B in double precision"
words = { TYPE = "f64", TOLERANCE = 1e-12, WIDE = ["M", "K"] }
`,
		`dtype = "f32"`, `dtype = "$TYPE"`,
		"f32 = 1e-5\n", "\"$TYPE\" = \"$TOLERANCE\"\n",
		"shape = [\"M\", \"K\"]\n", "shape = \"$WIDE\"\n",
		"name = \"odd\"\n", "forms = [\"k\"]\nname = \"odd\"\n",
		"[[problem.shape]]\nname = \"small\"\n", "[[problem.shape]]\nforms = [\"k-f64\"]\nname = \"odder\"\ndims = { M = 7, N = 9, K = 11 }\nuse = \"verify\"\n\n[[problem.shape]]\nname = \"small\"\n",
	).Replace(strings.Replace(base, "license = \"Apache-2.0\"\n", "", 1))
	return folder(strings.NewReplacer(replace...).Replace(text))
}

// One folder has several kernels; each is read as if it were alone, and a folder with what was read has it alone.
func TestForms(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "k")
	writeFolder(t, dir, formed())
	all, err := kernels.LoadAll(dir)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d kernels: %v", len(all), err)
	}
	cat, err := kernels.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	hashes := map[string]bool{}
	for i, want := range []struct {
		name, odd string
		dtype     kernels.DType
		tolerance float64
	}{{"k", "odd", kernels.F32, 1e-5}, {"k-f64", "odder", kernels.F64, 1e-12}} {
		d := all[i]
		hashes[d.Hash] = true
		b, _ := d.Problem.Buffer("A")
		if d.Name != want.name || !strings.HasPrefix(d.Description, "C = ") || b.DType != want.dtype || !slices.Equal(b.Shape, []string{"M", "K"}) ||
			d.Problem.ShapesFor(kernels.Verify)[0].Name != want.odd || !maps.Equal(d.Problem.Tolerance, map[kernels.DType]float64{want.dtype: want.tolerance}) {
			t.Errorf("%s: %+v", want.name, d.Problem)
		}
		if again, err := cat.Get(want.name); err != nil || again.Hash != d.Hash {
			t.Errorf("%s of the catalogue: %v", want.name, err)
		}
		copied := fstest.MapFS{}
		for name, text := range d.Files() {
			copied["elsewhere/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
		if again, err := kernels.Load(copied, "elsewhere"); err != nil || again.Name != want.name || again.Hash != d.Hash {
			t.Errorf("a copy of %s: %v", want.name, err)
		}
	}
	if len(hashes) != 2 {
		t.Error("both kernels have one hash")
	}
	if d, err := kernels.LoadDir(dir); err != nil || d.Name != "k" {
		t.Errorf("the folder's own: %v", err)
	}
	for what, c := range map[string]struct{ from, to, want string }{
		"another folder": {`name = "k"`, `name = "k-f32"`, `kernel.toml:3:3: the folder has the kernels k-f32, k-f64, and none has the name k: write name = "k-f32" at the top, or rename the folder`},
		"twice":          {`name = "k-f64"`, `name = "k"`, "form k: the name is already taken"},
		"no word":        {`words = { TYPE = "f64", `, `words = { `, "lacks the word TYPE, which form k-f64 has"},
		"unknown word":   {`dtype = "$TYPE"`, `dtype = "$TYP"`, "form k has no text TYP: add it to words"},
		"unused word":    {`WIDE = `, `MORE = 1, WIDE = `, "nothing that form k has says $MORE"},
		"unknown form":   {`forms = ["k"]`, `forms = ["q"]`, `the folder has no form "q": there are k, k-f64`},
		"lower case":     {`TYPE = "f`, `type = "f`, `the word "type" has other characters`},
	} {
		from, to := c.from, c.to
		if what == "no word" { // of the other form
			from, to = `words = { TYPE = "f32", `, `words = { `
		}
		if _, err := kernels.Load(formed(from, to), "k"); err == nil || !strings.Contains(filepath.ToSlash(err.Error()), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
}
