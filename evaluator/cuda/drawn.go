package cuda

import (
	"math"
	"math/rand/v2"

	"github.com/evotune/evotune/kernels"
)

// drawn gives n elements of a buffer that are drawn as the harness does for timed launches: a candidate could tell
// another generator by the numbers that it never gives, such as those between its steps. They are nil where any
// generator gives the same numbers.
func drawn(b kernels.Buffer, n int64, seed uint64) []float64 {
	if appendVector(nil, b, [4]uint32{}) == nil {
		return nil
	}
	rng := rand.New(rand.NewPCG(seed, 4))
	all := make([]float64, 0, n+8)
	for int64(len(all)) < n {
		x, y := rng.Uint64(), rng.Uint64()
		all = appendVector(all, b, [4]uint32{uint32(x), uint32(x >> 32), uint32(y), uint32(y >> 32)})
	}
	return all[:n]
}

// appendVector appends what the harness makes of 128 random bits: random_halves and random_floats. Its logarithms,
// sines and cosines are approximate, so the last bits may differ.
func appendVector(x []float64, b kernels.Buffer, w [4]uint32) []float64 {
	normal := b.Data.Distribution == kernels.Normal
	if !normal && b.Data.Distribution != kernels.Uniform {
		return x
	}
	from, by := float32(b.Data.A), float32(b.Data.B)
	put := func(value float32) { x = append(x, float64(float32(float64(by)*float64(value)+float64(from)))) }
	pair := func(u, turn float32) {
		sin, cos := math.Sincos(2 * math.Pi * float64(turn))
		length := math.Sqrt(math.Max(-2*math.Log(float64(u)), 1e-20))
		put(float32(length * cos))
		put(float32(length * sin))
	}
	if !normal {
		by -= from
	}
	switch b.DType {
	case kernels.F16, kernels.BF16:
		for _, v := range w {
			lo, hi := float32(v&0xffff)*0x1p-16, float32(v>>16)*0x1p-16
			if normal {
				pair(lo+0x1p-17, hi)
			} else {
				put(lo)
				put(hi)
			}
		}
	case kernels.F32:
		for k, v := range w {
			switch {
			case !normal:
				put(float32(v>>8) * 0x1p-24)
			case k%2 == 0:
				pair(float32(v)*0x1p-32+0x1p-33, float32(w[k+1]>>8)*0x1p-24)
			}
		}
	}
	return x
}
