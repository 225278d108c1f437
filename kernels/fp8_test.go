package kernels

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// fp8Values lists the finite numbers of an 8-bit type that are not negative, in the
// order of their bits, by the definition of OCP (8-bit Floating Point Specification,
// 5.1 and 5.2).
func fp8Values(t DType) (list []float64) {
	fraction, bias, bits := 3, 7, 0x7f // the last of E4M3 is NaN
	if t == E5M2 {
		fraction, bias, bits = 2, 15, 0x7c // from there on infinity and NaN
	}
	for b := range bits {
		exponent, m := b>>fraction, float64(b&(1<<fraction-1))
		if exponent == 0 {
			list = append(list, math.Ldexp(m, 1-bias-fraction))
		} else {
			list = append(list, math.Ldexp(m+math.Ldexp(1, fraction), exponent-bias-fraction))
		}
	}
	return list
}

// All that is said of the 8-bit types follows from the numbers that they have.
func TestFP8(t *testing.T) {
	for _, dtype := range []DType{E4M3, E5M2} {
		values := fp8Values(dtype)
		last := values[len(values)-1]
		if want := map[DType]float64{E4M3: 448, E5M2: 57344}[dtype]; last != want || dtype.span() != (Domain{-want, want}) || dtype.Size() != 1 || !dtype.Float() || !dtype.FP8() {
			t.Errorf("%s: the largest is %v, the span %v", dtype, last, dtype.span())
		}
		one := slices.Index(values, 1)
		if dtype.Step() != values[one+1]-1 {
			t.Errorf("%s: the step is %v, want %v", dtype, dtype.Step(), values[one+1]-1)
		}
		normal := slices.Index(values, dtype.normal())
		if normal <= 0 || values[normal]-values[normal-1] != values[1] || values[2*normal]-values[2*normal-1] != values[1] || values[2*normal+1]-values[2*normal] != 2*values[1] {
			t.Errorf("%s: %v is not the smallest normal number", dtype, dtype.normal())
		}
		_, whole := dtype.Range()
		for x := range int(whole) + 1 {
			if !slices.Contains(values, float64(x)) {
				t.Errorf("%s does not hold %d", dtype, x)
			}
		}
		if slices.Contains(values, whole+1) {
			t.Errorf("%s holds %g", dtype, whole+1)
		}
		for i, x := range values {
			for _, sign := range []float64{1, -1} {
				if got := dtype.Round(sign * x); got != sign*x || math.Signbit(got) != math.Signbit(sign*x) {
					t.Errorf("%s of %v: %v", dtype, sign*x, got)
				}
				if i > 0 { // half way: to the one whose last bit is even
					mid, even := (values[i-1]+x)/2, values[i-i%2]
					for at, want := range map[float64]float64{mid: even, math.Nextafter(mid, 0): values[i-1], math.Nextafter(mid, 1e9): x} {
						if got := dtype.Round(sign * at); got != sign*want {
							t.Errorf("%s of %v: %v, want %v", dtype, sign*at, got, sign*want)
						}
					}
				}
				up, down := 0.0, 0.0 // away from zero, and towards it
				switch {
				case i < normal:
					up = values[normal]
				case i+1 < len(values):
					up = values[i+1]
				}
				if i > normal {
					down = values[i-1]
				} else if i == 0 {
					down = -values[normal]
				}
				if got := dtype.next(sign*x, sign); up != 0 && got != sign*up {
					t.Errorf("%s after %v is %v, want %v", dtype, sign*x, got, sign*up)
				}
				if got := dtype.next(sign*x, -sign); got != sign*down {
					t.Errorf("%s before %v is %v, want %v", dtype, sign*x, got, sign*down)
				}
			}
		}
	}
}

// Whatever the domain, contents are numbers of the type within it.
func TestFP8Contents(t *testing.T) {
	for _, dtype := range []DType{E4M3, E5M2} {
		values := fp8Values(dtype)
		p := &Problem{Buffers: []Buffer{{Name: "X", DType: dtype, Role: In, Data: Data{Distribution: Normal, B: 1}, Domain: dtype.span(), Denormals: true}}}
		list := p.Further()
		if len(list) != len(further) {
			t.Errorf("%s: %d contents, want %d", dtype, len(list), len(further))
		}
		for _, c := range list {
			kinds := map[float64]bool{}
			for i, x := range c.Make(0, 4096, 64, 7, nil) {
				if !slices.Contains(values, math.Abs(x)) {
					t.Fatalf("%s, %s: element %d is %v, which the type does not hold", dtype, c.Name, i, x)
				}
				kinds[x] = true
			}
			if c.Name == "tiny" && len(kinds) < 8 {
				t.Errorf("%s: tiny contents are %v", dtype, kinds)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		dtype := rapid.SampledFrom([]DType{E4M3, E5M2}).Draw(t, "type")
		lo, width := rapid.Float64Range(-500, 400).Draw(t, "lo"), rapid.Float64Range(1, 500).Draw(t, "width")
		d := Domain{lo, lo + width}.within(dtype)
		values := fp8Values(dtype)
		empty := !(d.Lo <= d.Hi) // the type has no normal number there, as the loop sees
		if !empty && (d.Lo < lo || d.Hi > lo+width || !slices.Contains(values, math.Abs(d.Lo)) || !slices.Contains(values, math.Abs(d.Hi))) {
			t.Fatalf("%s: [%v, %v] becomes %v", dtype, lo, lo+width, d)
		}
		// None that is normal is left out.
		for _, v := range values {
			for _, x := range []float64{v, -v} {
				if lo <= x && x <= lo+width && math.Abs(x) >= dtype.normal() && !d.Holds(x) {
					t.Fatalf("%s: [%v, %v] becomes %v, without %v", dtype, lo, lo+width, d, x)
				}
			}
		}
	})
}

// The CPU has no 8-bit types: a definition says what stands in for them there.
func TestFP8OnCPU(t *testing.T) {
	const lines = "dtype = \"e4m3\"\nrole = \"in\"\ndata = \"normal(0,1)\"\n"
	if _, err := biting(t, lines); err == nil || !strings.Contains(err.Error(), "k/kernel.toml:42:11: buffer X is e4m3, which the cpu backend does not have: give it another type there by a [[problem.variant]]") {
		t.Errorf("a kernel for the CPU with 8-bit numbers: %v", err)
	}
	d, err := biting(t, lines+"[[problem.variant]]\nbackend = \"cpu\"\ndtype = { X = \"f32\" }\n")
	if err != nil {
		t.Fatal(err)
	}
	if x, y := d.Problem.Buffers[0], d.ProblemOn("cpu").Buffers[0]; x.DType != E4M3 || y.DType != F32 || x.Domain.String() != "[-6, 6]" {
		t.Errorf("%s in %v, and %s for the CPU", x.DType, x.Domain, y.DType)
	}
	if _, err := biting(t, "dtype = \"e5m2\"\nrole = \"in\"\ndata = \"integers(0,9)\"\n[[problem.variant]]\nbackend = \"cpu\"\ndtype = { X = \"f32\" }\n"); err == nil ||
		!strings.Contains(err.Error(), "e5m2 holds the integers from -8 to 8") {
		t.Errorf("integers that the type does not hold: %v", err)
	}
	if _, err := biting(t, "dtype = \"e4m3\"\nrole = \"in\"\ndata = \"uniform(33,35)\"\n"); err == nil ||
		!strings.Contains(err.Error(), "data uniform(33,35) of buffer X: e4m3 has no number there: widen it") {
		t.Errorf("data between two numbers of the type: %v", err)
	}
}

// The conversions in C of the 8-bit types: of every number to single precision, and of
// many numbers of single precision to the nearest.
func TestFP8Conversions(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed: no conversion was run")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var inputs []float32
	for range 4000 {
		inputs = append(inputs, math.Float32frombits(rng.Uint32()), float32(rng.NormFloat64()), float32(math.Ldexp(rng.NormFloat64(), rng.IntN(30)-20)))
	}
	inputs = append(inputs, 0, float32(math.Inf(1)), float32(math.NaN()))
	for _, dtype := range []DType{E4M3, E5M2} {
		values := fp8Values(dtype)
		for i := range values[1:] { // halfway between neighbors, and beside that
			mid := float32(values[i]+values[i+1]) / 2
			inputs = append(inputs, mid, math.Nextafter32(mid, 0), math.Nextafter32(mid, 1e9), float32(values[i]), -mid)
		}
	}
	for _, dtype := range []DType{E4M3, E5M2} {
		values := fp8Values(dtype)
		program := "#include <stdint.h>\n#include <stdio.h>\n" + Conversions(dtype) + strings.ReplaceAll(`int main(void)
{
	float x;
	for (int i = 0; i < 256; i++) {
		const float x = evotune_TYPE_to_float((evotune_TYPE)i);
		uint32_t bits;
		__builtin_memcpy(&bits, &x, 4);
		printf("%x\n", (unsigned)bits);
	}
	while (fread(&x, 4, 1, stdin) == 1)
		printf("%x\n", (unsigned)evotune_TYPE_from_float(x));
	return 0;
}
`, "TYPE", string(dtype))
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "p.c"), []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), cc, "-std=c11", "-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror", "-o", filepath.Join(dir, "p"), filepath.Join(dir, "p.c")).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var stdin bytes.Buffer
		if err := binary.Write(&stdin, binary.NativeEndian, inputs); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "p"))
		cmd.Stdin = &stdin
		text, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Fields(string(text))
		if len(lines) != 256+len(inputs) {
			t.Fatalf("%d lines, want %d", len(lines), 256+len(inputs))
		}
		for i, line := range lines {
			bits, err := strconv.ParseUint(line, 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			if i < 256 {
				got, size := float64(math.Float32frombits(uint32(bits))), i&0x7f
				want := math.NaN()
				switch {
				case size < len(values):
					want = values[size]
				case dtype == E5M2 && size == 0x7c:
					want = math.Inf(1)
				}
				if i >= 128 {
					want = -want
				}
				if got != want && !(math.IsNaN(got) && math.IsNaN(want)) || math.Signbit(got) != (i >= 128) && !math.IsNaN(want) {
					t.Errorf("%s %02x is %v in C, want %v", dtype, i, got, want)
				}
				continue
			}
			x := float64(inputs[i-256])
			last := values[len(values)-1]
			if math.IsNaN(x) {
				if bits&0x7f != 0x7f {
					t.Errorf("%s of NaN is %02x", dtype, bits)
				}
				continue
			}
			want := dtype.Round(math.Max(-last, math.Min(last, x)))
			at := slices.Index(values, math.Abs(want))
			if math.Signbit(x) {
				at += 128
			}
			if uint64(at) != bits {
				t.Errorf("%s of %v is %02x in C, want %02x", dtype, x, bits, at)
			}
		}
	}
}
