package tables

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
		var err error
		if rules[i], err = newRule(source); err != nil {
			panic(fmt.Sprintf("replay: synthetic constraint %q: %v", source, err)) // a fault of this file
		}
	}
	t := &Table{
		name: fmt.Sprintf("synthetic-%d", n), form: compactForm, device: "no device (synthetic)",
		hash: digest(fmt.Appendf(nil, "synthetic/1 %d", n)), params: params, rules: rules, rows: rows,
	}
	if err := t.index(); err != nil {
		panic("replay: synthetic table: " + err.Error()) // a fault of this file
	}
	return t
}

// SyntheticFile is the table of Synthetic as a file in the compact form.
func SyntheticFile(n int) []byte {
	var b bytes.Buffer
	if err := Synthetic(n).encodeCompact(&b); err != nil {
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
	blockX, blockY, tileX, tileY, vector, unroll, depth, staged int64
	order                                                       string
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
	registers := 24 + 4*tile + 3*c.vector*c.unroll
	if registers > 96 || registers*threads > 65536 {
		return 0
	}
	warps := (threads + 31) / 32
	resident := min(64/warps, 65536/(registers*warps*32), 16)
	if c.staged == 1 {
		resident = min(resident, 16384/((c.blockX*c.tileX+4)*(c.blockY*c.tileY+4)))
	}
	// Parallelism within a thread can stand in for occupancy, up to a point.
	hiding := math.Min(1, float64(resident*warps)/64+0.06*float64(min(tile, 8)))
	compute := 4.0 * (1 + 0.25/float64(min(c.unroll, 4)) + 0.02*float64(c.unroll)) *
		(float64(warps*32) / float64(threads)) * (1 + 0.3/float64(tile)) *
		(1 + 0.05*math.Abs(math.Log2(float64(c.depth)/6)))
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

// syntheticRows enumerates a space of its kind with n valid configurations or
// up to 1.75 times as many. The depth alone grows without bound; the other
// parameters grow as long as it would not take their place.
func syntheticRows(n int) ([]Parameter, []Row) {
	count := func(params []Parameter) int {
		n := 0
		each(params, func(uint64, synthetic) { n++ })
		return n
	}
	size, perDepth := 2, count(syntheticParams(2, 1))
	for size < 16 {
		next := count(syntheticParams(size+1, 1))
		if 4*next > 7*n {
			break
		}
		size, perDepth = size+1, next
	}
	params := syntheticParams(size, max(1, (n+perDepth-1)/perDepth))
	var rows []Row
	each(params, func(rank uint64, c synthetic) { rows = append(rows, c.row(rank)) })
	return params, rows
}

func syntheticParams(size, depth int) []Parameter {
	steps := func(count int, value func(i int) int64) []genome.Value {
		values := make([]genome.Value, count)
		for i := range values {
			values[i] = genome.Int(value(i))
		}
		return values
	}
	multiples := func(of int64) func(int) int64 { return func(i int) int64 { return int64(i+1) * of } }
	powers := func(i int) int64 { return 1 << i }
	tiles := func(i int) int64 { return max(1, 2*int64(i)) }
	return []Parameter{
		parameter("block_x", steps(min(size+1, 16), multiples(16))),
		parameter("block_y", steps(min(size, 16), multiples(1))),
		parameter("tile_x", steps(min(size, 4), tiles)),
		parameter("tile_y", steps(min(size, 4), tiles)),
		parameter("vector", steps(min(size-1, 3), powers)),
		parameter("unroll", steps(min(size-1, 4), powers)),
		parameter("depth", steps(depth, multiples(1))),
		parameter("staged", steps(2, func(i int) int64 { return int64(i) })),
		parameter("order", []genome.Value{genome.Str("row"), genome.Str("column"), genome.Str("swizzled")}),
	}
}

// each calls visit for every valid configuration, in the order of the ranks.
func each(params []Parameter, visit func(rank uint64, c synthetic)) {
	numbers := make([][]int64, len(params)-1)
	for i := range numbers {
		for _, v := range params[i].Values {
			numbers[i] = append(numbers[i], v.Any().(int64))
		}
	}
	var orders []string
	for _, v := range params[len(params)-1].Values {
		orders = append(orders, v.Any().(string))
	}
	index := make([]int, len(params))
	total, err := radix(params)
	if err != nil {
		panic("replay: synthetic table: " + err.Error()) // far from it
	}
	for rank := range total {
		c := synthetic{
			numbers[0][index[0]], numbers[1][index[1]], numbers[2][index[2]], numbers[3][index[3]],
			numbers[4][index[4]], numbers[5][index[5]], numbers[6][index[6]], numbers[7][index[7]],
			orders[index[8]],
		}
		if c.valid() {
			visit(rank, c)
		}
		for i := len(index) - 1; i >= 0; i-- {
			if index[i]++; index[i] < len(params[i].Values) {
				break
			}
			index[i] = 0
		}
	}
}

func (c synthetic) row(rank uint64) Row {
	ms := c.timeMS()
	if ms == 0 {
		return Row{rank: rank, CostS: 0.3, Failed: evaluator.Launch}
	}
	return Row{
		rank: rank,
		// As many digits as a recorder would write.
		TimeMS: math.Round(ms*ripple(rank)*1000) / 1000,
		CostS:  0.4 + math.Round(50*float64(c.tileX*c.tileY*c.unroll))/1000,
	}
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
