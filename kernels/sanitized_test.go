package kernels_test

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/expr"
	"github.com/evotune/evotune/kernels"
)

// A coverage is what a launch under tools has to reach of a built-in implementation, by what
// its template says. Expressions are over the parameters.
type coverage struct {
	kernel, name string
	// tiles give the extent of a tile along a dimension: there are to be two, the last of
	// them ragged, unless whole says that it need not be.
	tiles map[string]string
	whole string // a condition
	// step is how far a step goes along a dimension, and least how many there are to be.
	// Stages is how many have to be come round to whatever the usual shape has, and ragged
	// says that one step is no whole one.
	along, step, least, stages string
	ragged                     bool
	// wanted are the sizes that reach all this. Where the usual shape is smaller in one, its
	// own size is the launch's.
	wanted map[string]string
}

var coverages = []coverage{
	{
		kernel: "gemm", name: "mma", tiles: map[string]string{"M": "BLOCK_M", "N": "BLOCK_N"}, along: "K", step: "BLOCK_K", least: "(STAGES + 1)*SPLIT_K", stages: "STAGES", ragged: true,
		wanted: map[string]string{"M": "BLOCK_M + 8", "N": "BLOCK_N + 8", "K": "((STAGES + 1)*SPLIT_K - 1)*BLOCK_K + 8"},
	},
	{
		kernel: "gemm", name: "wmma", tiles: map[string]string{"M": "BLOCK_M", "N": "BLOCK_N"}, along: "K", step: "BLOCK_K", least: "64/BLOCK_K + 2", stages: "64/BLOCK_K + 1", ragged: true,
		wanted: map[string]string{"M": "BLOCK_M + 8", "N": "BLOCK_N + 8", "K": "64 + BLOCK_K + 8"},
	},
	{
		kernel: "conv2d", name: "patches", tiles: map[string]string{"H": "TILE_H", "W": "TILE_W", "F": "FILTERS"}, whole: "TILE_H == 1", along: "C", step: "CHANNELS", least: "BUFFERS + 1", ragged: true,
		wanted: map[string]string{"C": "BUFFERS*CHANNELS + 10", "H": "TILE_H + 1", "W": "TILE_W + 2", "F": "FILTERS + 4"},
	},
	{
		kernel: "transpose", name: "blocks", tiles: map[string]string{"ROWS": "DOWN*VECTOR", "COLS": "ACROSS*VECTOR"},
		wanted: map[string]string{"ROWS": "(DOWN + 1)*VECTOR", "COLS": "(ACROSS + 1)*VECTOR"},
	},
	rowCoverage("softmax"), rowCoverage("rmsnorm"), rowCoverage("layernorm"),
}

// rowCoverage is that of the kernels over rows, whose two blocks take their rounds by turns.
func rowCoverage(kernel string) coverage {
	return coverage{
		kernel: kernel, tiles: map[string]string{"ROWS": "int(THREADS/LANES)*FLIGHT*ROUNDS"}, whole: "int(THREADS/LANES)*FLIGHT*ROUNDS == 1",
		along: "ROWS", step: "2*int(THREADS/LANES)*FLIGHT", least: "ROUNDS > 1 ? 3 : 1",
		wanted: map[string]string{"ROWS": "int(THREADS/LANES)*FLIGHT*ROUNDS + 1"},
	}
}

// sanitizing is the implementation of a coverage.
func (c coverage) sanitizing(t *testing.T, d *kernels.Definition) *kernels.Implementation {
	t.Helper()
	var found *kernels.Implementation
	for _, im := range d.Implementations {
		if im.SanitizeDims != nil && (c.name == "" || c.name == im.Name) {
			if found != nil {
				t.Fatalf("%s has several implementations with launches of their own", c.kernel)
			}
			found = im
		}
	}
	if found == nil {
		t.Fatalf("%s: there is no implementation %s with launches of its own", c.kernel, c.name)
	}
	return found
}

// Launches under tools that are smaller than the usual one still reach what the comments in
// kernel.toml say, and are never larger than it.
func TestSanitizedTemplates(t *testing.T) {
	cat, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	for _, name := range cat.Names() {
		d, err := cat.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, im := range d.Implementations {
			if im.SanitizeDims != nil {
				declared++
			}
		}
	}
	if declared != len(coverages) {
		t.Errorf("%d implementations have launches of their own, and %d are looked at here", declared, len(coverages))
	}
	for _, c := range coverages {
		t.Run(c.kernel+" "+c.name, func(t *testing.T) {
			d, err := cat.Get(c.kernel)
			if err != nil {
				t.Fatal(err)
			}
			im := c.sanitizing(t, d)
			p := im.Problem()
			usual := p.ShapesFor(kernels.Sanitize)[0]
			limits := map[string]any{"device_max_shared_bytes": int64(227 << 10), "device_l2_bytes": int64(50 << 20), "device_cores": int64(132)}
			space, err := d.Space([]*kernels.Implementation{im}, p.ShapesFor(kernels.Tune)[:1], limits)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewSource(3))
			smaller, reached := 0, 0
			const samples = 400
			for range samples {
				g := space.Random(rng)
				own, err := im.SanitizeShape(g, usual, limits)
				if err != nil {
					t.Fatal(err)
				}
				if im.Supports(g, own, limits) != nil {
					t.Fatalf("%s cannot compute %s", g, own.Name)
				}
				geo, err := im.Geometry(g, own, limits)
				if err != nil {
					t.Fatal(err)
				}
				before, err := im.Geometry(g, usual, limits)
				if err != nil {
					t.Fatal(err)
				}
				if blocks(geo) > blocks(before) {
					t.Errorf("%s: %d blocks, and %d at %s", g, blocks(geo), blocks(before), usual.Name)
				}
				if blocks(geo) < blocks(before) {
					smaller++
				}
				all := true // whether it has the sizes that reach everything
				for dim, src := range c.wanted {
					wanted := valueOf(t, src, g, (*expr.Expr).Int)
					if want := min(wanted, usual.Dims[dim]); own.Dims[dim] != want {
						t.Fatalf("%s: %s is %d, want %d", g, dim, own.Dims[dim], want)
					}
					all = all && own.Dims[dim] == wanted
				}
				for dim := range own.Dims {
					if _, ok := c.wanted[dim]; !ok && own.Dims[dim] != usual.Dims[dim] {
						t.Fatalf("%s: %s is %d at %s", g, dim, own.Dims[dim], own.Name)
					}
				}
				if all {
					reached++
				}
				for dim, src := range c.tiles {
					n, tile := own.Dims[dim], valueOf(t, src, g, (*expr.Expr).Int)
					ragged := n%tile != 0 || c.whole != "" && valueOf(t, c.whole, g, (*expr.Expr).Bool)
					// Where there are no two tiles, or no ragged one, the usual shape has none either.
					if (n <= tile || !ragged) && n != usual.Dims[dim] {
						t.Errorf("%s: %s is %d, for tiles of %d", g, dim, n, tile)
					}
				}
				if c.along == "" {
					continue
				}
				n, step := own.Dims[c.along], valueOf(t, c.step, g, (*expr.Expr).Int)
				steps, before0 := (n+step-1)/step, (usual.Dims[c.along]+step-1)/step
				if least := valueOf(t, c.least, g, (*expr.Expr).Int); steps < min(least, before0) {
					t.Errorf("%s: %d steps at %s, want %d", g, steps, own.Name, least)
				}
				if c.stages != "" && steps <= valueOf(t, c.stages, g, (*expr.Expr).Int) {
					t.Errorf("%s: %d steps at %s do not come round to every stage", g, steps, own.Name)
				}
				if c.ragged && n%step == 0 {
					t.Errorf("%s: no step is ragged at %s", g, own.Name)
				}
			}
			t.Logf("%d of %d genomes reach everything, %d have fewer blocks than at %s", reached, samples, smaller, usual.Name)
			if smaller < samples/4 {
				t.Errorf("of %d genomes %d have fewer blocks than at %s", samples, smaller, usual.Name)
			}
		})
	}
}

func blocks(g kernels.Geometry) int64 { return g.Grid[0] * g.Grid[1] * g.Grid[2] }

// valueOf evaluates an expression over a genome, as (*expr.Expr).Int or .Bool.
func valueOf[T any](t *testing.T, src string, g genome.Genome, as func(*expr.Expr, map[string]any) (T, error)) T {
	t.Helper()
	env := g.Map()
	e, err := expr.Compile(src, env)
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", src, err))
	}
	v, err := as(e, env)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
