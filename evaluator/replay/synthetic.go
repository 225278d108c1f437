package replay

import (
	"bytes"
	"fmt"
	"math"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
)

// Synthetic makes a table of at least n configurations by a formula. Nothing in
// it was measured: it serves tests and benchmarks that need a space of a given
// size, without a file.
//
// The formula imitates a tiled stencil on a GPU: plateaus where occupancy is a
// whole number of blocks, regions that fail for want of registers (which no
// constraint foretells), ordinal and categorical parameters that interact, and
// a fixed ripple of 2% in place of noise. The same n gives the same table.
func Synthetic(n int) *Table {
	params, rows := syntheticRows(n)
	rules := make([]rule, len(syntheticRules))
	for i, source := range syntheticRules {
		expr, err := translate(source)
		if err != nil {
			panic(fmt.Sprintf("replay: synthetic constraint %q: %v", source, err)) // a fault of this file
		}
		rules[i] = rule{source, expr}
	}
	name := fmt.Sprintf("synthetic-%d", n)
	t, err := newTable(name, "no device (synthetic)", digest(fmt.Appendf(nil, "synthetic/1 %d", n)), params, rules, rows)
	if err != nil {
		panic("replay: synthetic table: " + err.Error()) // a fault of this file
	}
	return t
}

// SyntheticFile is the table of Synthetic as a file in the compact form.
func SyntheticFile(n int) []byte {
	var b bytes.Buffer
	if err := Synthetic(n).Encode(&b); err != nil {
		panic("replay: encode in memory: " + err.Error()) // cannot happen
	}
	return b.Bytes()
}

// syntheticRules are what synthetic.valid computes; a test compares them.
var syntheticRules = []string{
	"32 <= block_x * block_y <= 1024",
	"tile_x % vector == 0",
	"staged == 0 or (block_x * tile_x + 4) * (block_y * tile_y + 4) <= 12288",
	"staged == 1 or order != 'swizzled'",
}

// A synthetic is one configuration of the made-up kernel.
type synthetic struct {
	blockX, blockY, tileX, tileY, vector, unroll, staged int64
	order                                                string
}

func (c synthetic) valid() bool {
	threads := c.blockX * c.blockY
	return threads >= 32 && threads <= 1024 &&
		c.tileX%c.vector == 0 &&
		(c.staged == 0 || (c.blockX*c.tileX+4)*(c.blockY*c.tileY+4) <= 12288) &&
		(c.staged == 1 || c.order != "swizzled")
}

// timeMS is the made-up time; 0 means that the configuration fails.
func (c synthetic) timeMS() float64 {
	threads, tile := c.blockX*c.blockY, c.tileX*c.tileY
	registers := 18 + 2*tile + 3*c.vector*c.unroll
	if registers > 128 || registers*threads > 65536 {
		return 0
	}
	warps := (threads + 31) / 32
	resident := min(64/warps, 65536/(registers*warps*32), 16)
	if c.staged == 1 {
		resident = min(resident, 16384/((c.blockX*c.tileX+4)*(c.blockY*c.tileY+4)))
	}
	if resident == 0 {
		return 0
	}
	occupancy := float64(resident*warps) / 64
	// Parallelism within a thread can stand in for occupancy, up to a point.
	hiding := math.Min(1, occupancy+0.06*float64(min(tile, 8)))
	compute := 4.0 * (1 + 0.25/float64(min(c.unroll, 4)) + 0.02*float64(c.unroll)) *
		(float64(warps*32) / float64(threads)) * (1 + 0.3/float64(tile))
	reuse := float64(tile) / float64(c.tileX+c.tileY)
	memory := 6.0 / (0.5 + reuse)
	if c.staged == 1 {
		memory = memory*0.6 + 0.5
	}
	switch {
	case c.order == "column":
		memory *= 1 + 0.6*float64(c.vector)/4
	case c.order == "swizzled":
		memory *= 0.9
	case c.blockX%32 != 0:
		memory *= 1.35
	}
	memory *= 1 + 0.4/float64(c.vector)
	return (math.Max(compute, memory) + 0.3*math.Min(compute, memory)) / hiding
}

// syntheticRows enumerates the smallest space of its kind with n valid
// configurations.
func syntheticRows(n int) ([]param, []row) {
	orders := []genome.Value{genome.Str("row"), genome.Str("column"), genome.Str("swizzled")}
	steps := func(count int, value func(i int) int64) []genome.Value {
		values := make([]genome.Value, count)
		for i := range values {
			values[i] = genome.Int(value(i))
		}
		return values
	}
	multiples := func(of int64) func(int) int64 { return func(i int) int64 { return int64(i+1) * of } }
	powers := func(i int) int64 { return 1 << i }
	for size := 2; ; size++ {
		params := []param{
			{"block_x", steps(size, multiples(16))},
			{"block_y", steps(size, multiples(1))},
			{"tile_x", steps(min(size, 8), multiples(1))},
			{"tile_y", steps(min(size, 8), multiples(1))},
			{"vector", steps(min(size, 3), powers)},
			{"unroll", steps(min(size, 4), powers)},
			{"staged", steps(2, func(i int) int64 { return int64(i) })},
			{"order", orders},
		}
		if rows := enumerate(params); len(rows) >= n {
			return params, rows
		}
	}
}

func enumerate(params []param) []row {
	total, err := radix(params)
	if err != nil {
		panic("replay: synthetic table: " + err.Error()) // far from it
	}
	var rows []row
	index := make([]int, len(params))
	value := func(i int) int64 { return params[i].values[index[i]].Any().(int64) }
	for rank := range total {
		rest := rank
		for i := len(params) - 1; i >= 0; i-- {
			k := uint64(len(params[i].values))
			index[i] = int(rest % k)
			rest /= k
		}
		c := synthetic{
			blockX: value(0), blockY: value(1), tileX: value(2), tileY: value(3),
			vector: value(4), unroll: value(5), staged: value(6),
			order: params[7].values[index[7]].Any().(string),
		}
		if !c.valid() {
			continue
		}
		w := row{rank: rank, timeMS: c.timeMS(), costS: 0.4 + 0.05*float64(c.tileX*c.tileY*c.unroll)}
		if w.timeMS == 0 {
			w.failed = evaluator.Launch
			w.costS = 0.3
		} else {
			// Four digits, as a recorder would write them.
			w.timeMS = math.Round(w.timeMS*ripple(rank)*1000) / 1000
		}
		rows = append(rows, w)
	}
	return rows
}

// ripple is between 0.98 and 1.02, and has no pattern that a search could
// use: the finaliser of SplitMix64 over the rank.
func ripple(rank uint64) float64 {
	z := rank + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return 0.98 + 0.04*float64(z>>11)/(1<<53)
}
