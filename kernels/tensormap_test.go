package kernels_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/kernels"
)

// mapped is sequence with two tensor maps.
var mapped = strings.Replace(sequence, "[implementation.baseline]", `[[implementation.tensor_map]]
name = "A_map"
buffer = "A"
dims = ["K", "M"]
box = ["TILE*4", "ROWS*32"]
swizzle = "TILE*16"
promotion = "device_cores > 100 ? 256 : 128"
[[implementation.tensor_map]]
name = "C_map"
buffer = "C"
dtype = "u8"
dims = ["4*N", "int(M/2)", "2"]
strides = ["8*N", "4*N"]
box = ["128", "ROWS", "1"]
[implementation.baseline]`, 1)

// mapping gives mapped with some pieces replaced, old and new in turn.
func mapping(tb testing.TB, pieces ...string) string {
	tb.Helper()
	text := mapped
	for i := 0; i < len(pieces); i += 2 {
		if n := strings.Count(text, pieces[i]); n != 1 {
			tb.Fatalf("%q is %d times in the definition, want 1", pieces[i], n)
		}
		text = strings.Replace(text, pieces[i], pieces[i+1], 1)
	}
	return base + text
}

// mapGenes is a genome of mapped.
var mapGenes = map[string]any{"TILE": 8, "ROWS": 2, "THREADS": 1, "SPLIT": 1}

func TestTensorMaps(t *testing.T) {
	d := mustLoad(t, folder(mapping(t)))
	im := d.Implementations[1]
	g, err := spaceOf(t, im).FromMap(mapGenes)
	if err != nil {
		t.Fatal(err)
	}
	got, err := im.Geometry(g, d.Problem.Shapes[0], map[string]any{"device_cores": 132})
	want := []kernels.MapGeometry{
		{Buffer: 0, DType: kernels.F32, Dims: []int64{32, 64}, Strides: []int64{128}, Box: []int64{32, 64}, Swizzle: 128, Promotion: 256},
		{Buffer: 3, DType: kernels.U8, Dims: []int64{256, 32, 2}, Strides: []int64{512, 256}, Box: []int64{128, 2, 1}},
	}
	if diff := cmp.Diff(want, got.Maps); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	header := kernels.Header(&d.Problem, im)
	const params = "float *C, float alpha, const __grid_constant__ evotune_tensor_map A_map, const __grid_constant__ evotune_tensor_map C_map, void *workspace);\n"
	if strings.Count(header, params) != 2 {
		t.Errorf("not two kernels with the tensor maps between the scalars and the workspace:\n%s", header)
	}
}

// What a kernel without tensor maps gets does not change.
func TestNoTensorMapType(t *testing.T) {
	d := mustLoad(t, folder(base+sequence))
	if h := kernels.Header(&d.Problem, d.Implementations[1]); strings.Contains(h, "tensor_map") {
		t.Errorf("the header declares tensor maps that nothing uses:\n%s", h)
	}
}

func TestWrongTensorMaps(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`name = "A_map"`, `name = "A map"`, `kernel.toml:175:8: tensor map "A map" cannot be a name in C`},
		{`name = "A_map"`, `name = "int"`, "is a word of C or C++"},
		{`name = "A_map"`, `name = "evotune_map"`, "belong to the generated header"},
		{`name = "A_map"`, `name = "C_map"`, "kernel.toml:182:8: tensor map C_map: the name is already taken on line 175"},
		{`name = "A_map"`, `name = "K"`, "tensor map K: a dimension has the name already: choose another"},
		{`name = "A_map"`, `name = "mask"`, "a buffer has the name already"},
		{`name = "A_map"`, `name = "alpha"`, "a scalar has the name already"},
		{`name = "A_map"`, `name = "workspace"`, "the workspace has the name already"},
		{`name = "A_map"` + "\n", "", `[[implementation.tensor_map]] lacks name: add name = "A_map"`},
		{`buffer = "C"`, `buffer = "D"`, `kernel.toml:183:10: tensor map C_map: no buffer is called "D"`},
		{`dims = ["K", "M"]`, "dims = []", "kernel.toml:177:8: tensor map A_map has 0 axes, expected one to 5"},
		{`dims = ["K", "M"]`, `dims = ["1", "1", "1", "1", "1", "1"]`, "has 6 axes, expected one to 5"},
		{`dims = ["K", "M"]`, `dims = ["K", "WIDTH"]`, `in the expression "WIDTH"`},
		{`box = ["128", "ROWS", "1"]`, `box = ["128"]`, "kernel.toml:187:7: tensor map C_map has 3 axes and a box of 1"},
		{`strides = ["8*N", "4*N"]`, `strides = ["8*N"]`, "kernel.toml:186:11: tensor map C_map has 3 axes and 1 strides: give one for each axis but the innermost, or none"},
		{`strides = ["8*N", "4*N"]`, `strides = []`, "3 axes and 0 strides"},
		{`dtype = "u8"`, `dtype = "u9"`, `unknown dtype "u9": did you mean u8?`},
		{`dtype = "u8"`, "dtype = \"u8\"\nfill = \"nan\"", "kernel.toml:185:8: tensor map C_map: u8 cannot be filled with NaN"},
		{`dtype = "u8"`, "dtype = \"u8\"\nfill = \"zero\"", `unknown fill "zero": did you mean zeros?`},
		{`target = "sm_90a"`, `target = "sm_89"`, "need a target of sm_90 or above, and this is sm_89"},
	} {
		text := mapping(t, c.old, c.new)
		if strings.Contains(c.new, "sm_89") {
			text = strings.Replace(text, "cluster = [\"1\", \"TILE / 4\", \"SPLIT\"]\n", "", 1)
		}
		_, err := kernels.Load(folder(text), "k")
		if err == nil || !strings.Contains(filepath.ToSlash(err.Error()), c.want) || !errors.Is(err, kernels.ErrDefinition) {
			t.Errorf("%s: %v, want %q", c.new, err, c.want)
		}
	}
	_, err := kernels.Load(folder(change(t, "[implementation.baseline]", "[[implementation.tensor_map]]\nname = \"A_map\"\nbuffer = \"A\"\ndims = [\"K\"]\nbox = [\"64\"]\n[implementation.baseline]")), "k")
	if err == nil || !strings.Contains(err.Error(), "the cpu backend has no tensor maps: remove this one") {
		t.Errorf("a tensor map for the CPU: %v", err)
	}
}

// What is wrong with a tensor map at a shape is a fault of the genome there, in one
// line that says what to do.
func TestTensorMapFaults(t *testing.T) {
	const constrain = " at shape 64: add a constraint over the dimensions"
	for _, c := range []struct{ old, new, want, advice string }{
		{`dims = ["K", "M"]`, `dims = ["K", "M - 64"]`, `kernel.toml:177:14: tensor map A_map: dims: "M - 64" gives 0, expected 1 to 4294967296`, constrain},
		{`dims = ["K", "M"]`, `dims = ["M", "4294967297"]`, `dims: "4294967297" gives 4294967297, expected 1 to 4294967296`, constrain},
		{`dims = ["K", "M"]`, `dims = ["K - 1", "M"]`, `kernel.toml:177:9: tensor map A_map: dims, packed: axis 1 has a stride of 124 bytes, which is not a multiple of 16`, constrain},
		{`dims = ["K", "M"]`, `dims = ["K", "M + 1"]`, "kernel.toml:177:14: tensor map A_map: dims and strides reach 8320 bytes into the buffer A, which has 8192", " at shape 64: correct them"},
		{`dims = ["K", "M"]` + "\n" + `box = ["TILE*4", "ROWS*32"]`, `dims = ["4294967296", "4294967296", "4294967296"]` + "\n" + `box = ["32", "1", "1"]`, "dims, packed: axis 2 has a stride of 2^40 bytes or more", constrain},
		{`strides = ["8*N", "4*N"]`, `strides = ["8*N", "4*N + 8"]`, "axis 2 has a stride of 264 bytes, which is not a multiple of 16", constrain},
		{`strides = ["8*N", "4*N"]`, `strides = ["8*N", "0 - N"]`, `strides: "0 - N" gives -64, expected 0 to 1099511627776`, constrain},
		{`strides = ["8*N", "4*N"]`, `strides = ["1099511627776", "4*N"]`, "strides: axis 1 has a stride of 2^40 bytes or more", constrain},
		{`strides = ["8*N", "4*N"]`, `strides = ["8*N", "8*N"]`, "dims and strides reach 16640 bytes into the buffer C, which has 16384", "correct them"},
		{`strides = ["8*N", "4*N"]`, `strides = ["8*N", "N/3"]`, "which is not an integer", " at shape 64"},
		{`box = ["128", "ROWS", "1"]`, `box = ["128", "ROWS", "257"]`, `kernel.toml:187:23: tensor map C_map: box: "257" gives 257, expected 1 to 256`, constrain},
		{`box = ["128", "ROWS", "1"]`, `box = ["128", "0", "1"]`, `box: "0" gives 0, expected 1 to 256`, constrain},
		{`box = ["128", "ROWS", "1"]`, `box = ["100", "1", "1"]`, "kernel.toml:187:8: tensor map C_map: box: the innermost row has 100 bytes, which is not a multiple of 16", "give it another size"},
		{`swizzle = "TILE*16"`, `swizzle = "64"`, "kernel.toml:178:8: tensor map A_map: box: the innermost row has 128 bytes, more than the swizzle of 64", "make the box narrower, or the swizzle wider"},
		{`swizzle = "TILE*16"`, `swizzle = "TILE"`, `kernel.toml:179:11: tensor map A_map: swizzle: "TILE" gives 8, expected one of 0 32 64 128 bytes`, ""},
		{`promotion = "device_cores > 100 ? 256 : 128"`, `promotion = "32"`, `promotion: "32" gives 32, expected one of 0 64 128 256 bytes`, ""},
	} {
		d := mustLoad(t, folder(mapping(t, c.old, c.new)))
		im := d.Implementations[1]
		g, err := spaceOf(t, im).FromMap(mapGenes)
		if err != nil {
			t.Fatal(err)
		}
		_, err = im.Geometry(g, d.Problem.Shapes[0], nil)
		if err == nil || !strings.Contains(filepath.ToSlash(err.Error()), c.want) || !strings.HasSuffix(err.Error(), c.advice) || !errors.Is(err, kernels.ErrRender) {
			t.Errorf("%s: %v, want %q and %q", c.new, err, c.want, c.advice)
		}
	}
}

// The largest that a tensor map may have.
func TestLargestTensorMap(t *testing.T) {
	text := mapping(t, `dims = ["K", "M"]`+"\n"+`box = ["TILE*4", "ROWS*32"]`, `dims = ["4", "1", "4294967296", "1", "1"]`+"\nstrides = [\"274877906940\", \"0\", \"4\", \"4\"]\n"+`box = ["4", "256", "256", "256", "256"]`)
	d := mustLoad(t, folder(text))
	im := d.Implementations[1]
	g, err := spaceOf(t, im).FromMap(mapGenes)
	if err != nil {
		t.Fatal(err)
	}
	geo, err := im.Geometry(g, d.Problem.Shapes[0], nil)
	want := kernels.MapGeometry{DType: kernels.F32, Dims: []int64{4, 1, 1 << 32, 1, 1}, Strides: []int64{1<<40 - 16, 0, 16, 16}, Box: []int64{4, 256, 256, 256, 256}, Swizzle: 128, Promotion: 128}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, geo.Maps[0]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A shape that a constraint excludes has no tensor maps, and lint does not ask for them.
func TestTensorMapConstraint(t *testing.T) {
	const tail = "[implementation.baseline]\nlibrary = \"libcublas"
	findings := func(constraint string) (n int) {
		text := strings.Replace(mapping(t, `values = [1, 2, 16]`, "values = [1, 2]"), tail, constraint+tail, 1)
		for _, f := range lint(mustLoad(t, folder(text)), 5) {
			if strings.Contains(f, "tensor map ") {
				n++
			}
		}
		return n
	}
	if n := findings(""); n == 0 {
		t.Error("lint takes tensor maps that odd shapes do not have")
	}
	if n := findings("[[implementation.constraint]]\nexpr = \"K % 4 == 0 and N % 4 == 0 and M % 2 == 0\"\nwhy = \"rows are multiples of 16 bytes\"\n"); n != 0 {
		t.Errorf("%d findings for shapes that the constraint excludes", n)
	}
}

func TestDirectedTensorMaps(t *testing.T) {
	d := mustLoad(t, folder(mapping(t, `dtype = "u8"`, "dtype = \"f32\"\nfill = \"nan\"", `dims = ["4*N", "int(M/2)", "2"]`, `dims = ["N", "int(M/2)", "2"]`,
		`strides = ["8*N", "4*N"]`, `strides = ["2*N", "N"]`)))
	im := d.Implementations[1]
	g, err := spaceOf(t, im).FromMap(mapGenes)
	if err != nil {
		t.Fatal(err)
	}
	r, err := im.Render(g)
	if err != nil {
		t.Fatal(err)
	}
	file := directed(t, d, r)
	sole, err := file.Render(mustGenome(t, file))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range d.Problem.Shapes[:2] {
		for _, limits := range []map[string]any{nil, {"device_cores": 132}} {
			want, err := im.Geometry(g, s, limits)
			if err != nil {
				t.Fatal(err)
			}
			got, err := file.Geometry(sole.Genome, s, limits)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s: %v, -want +got:\n%s\n%s", s.Name, err, diff, r.Directives("product"))
			}
		}
	}
	if r.Header != sole.Header {
		t.Errorf("header of the file:\n%s\nwant\n%s", sole.Header, r.Header)
	}
}
