package cpu

import (
	"math"
	"slices"
	"strings"
)

// drawNormals and drawUniforms make as many numbers as out has, which are multiples of 16 and of 8, of a secret's
// fields. A uniform number outside of low and high is replaced by instead. They need what canDrawWide looks for.
//
//go:noescape
func drawNormals(out []float32, at, first, second uint64, middle, spread float32)

//go:noescape
func drawUniforms(out []float32, at, first, second uint64, middle, step float64, low, high, instead float32)

// canDrawWide says that the processor multiplies whole numbers of 64 bits in vectors. Those have 32 bytes: wider ones
// lower the clock of some processors for as long as a batch lasts.
func canDrawWide() bool {
	flags := strings.Fields(cpuInfo()["flags"])
	lacks := func(flag string) bool { return !slices.Contains(flags, flag) }
	return !slices.ContainsFunc([]string{"fma", "avx2", "avx512f", "avx512dq", "avx512vl"}, lacks)
}

// wideSingles makes what singles makes, in vectors. An even number of uniform numbers is the same to the last bit;
// normal ones are others, of the same distribution.
func (d distribution) wideSingles(out []float32, from secret) secret {
	const lanes = 16
	if rest := len(out) % lanes; rest > 0 {
		var few [lanes]float32
		whole := len(out) - rest
		from = d.wideSingles(out[:whole], from)
		from = d.wideSingles(few[:], from)
		copy(out[whole:], few[:])
		return from
	}
	if d.kind == "normal" {
		drawNormals(out, from.at, from.first, from.second, float32(d.a), float32(d.b))
	} else {
		middle, step := d.uniformly()
		low, high := float32(d.a), float32(d.b) // the outermost numbers of single precision within
		if float64(low) < d.a {
			low = math.Nextafter32(low, float32(math.Inf(1)))
		}
		if float64(high) > d.b {
			high = math.Nextafter32(high, float32(math.Inf(-1)))
		}
		drawUniforms(out, from.at, from.first, from.second, middle, step, low, high, float32(middle))
	}
	from.at += uint64(len(out)/2) * weyl
	return from
}
