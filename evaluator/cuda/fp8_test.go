package cuda

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evotune/evotune/kernels"
)

// fp8Main reads doubles and writes what each is as E4M3 and as E5M2, then all codes of
// both as doubles.
const fp8Main = `
#include <stdio.h>
#define __device__
typedef unsigned char u8;
typedef unsigned long long u64;
PART
int main(void)
{
	u64 x;
	while (fread(&x, sizeof x, 1, stdin) == 1)
		putchar(e4m3_from_bits(x)), putchar(e5m2_from_bits(x));
	for (int type = 0; type < 2; type++)
		for (int code = 0; code < 256; code++) {
			x = type ? e5m2_to_bits((u8)code) : e4m3_to_bits((u8)code);
			fwrite(&x, sizeof x, 1, stdout);
		}
	return 0;
}
`

// fp8Value is a code's value by the definition of the format: digits of the significand,
// the exponent's bias, and whether it has infinities.
func fp8Value(code, digits, bias int, infinite bool) float64 {
	sign := 1 - 2*float64(code>>7)
	exponent, fraction := code>>digits&(1<<(7-digits)-1), code&(1<<digits-1)
	all := 1<<(7-digits) - 1
	switch {
	case infinite && exponent == all && fraction == 0:
		return math.Inf(int(sign))
	case infinite && exponent == all, !infinite && code&0x7f == 0x7f:
		return math.NaN()
	case exponent == 0:
		return sign * math.Ldexp(float64(fraction), 1-bias-digits)
	}
	return sign * math.Ldexp(1+math.Ldexp(float64(fraction), -digits), exponent-bias)
}

// The harness's conversions of 8-bit floating point are compiled for the CPU and held
// against a table that is computed here.
func TestFP8(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("there is no gcc to compile the conversions with")
	}
	_, part, _ := strings.Cut(HarnessSource, "// What follows up to \"end of fp8\"")
	part, _, ok := strings.Cut(part, "// end of fp8")
	if !ok {
		t.Fatal("the harness does not say where its conversions are")
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "fp8.c"), filepath.Join(dir, "fp8")
	if err := os.WriteFile(source, []byte(strings.Replace(fp8Main, "PART", "//"+part, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command(gcc, "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	formats := []struct {
		name         string
		digits, bias int
		infinite     bool
		largest, one float64
		values       []float64
	}{
		{name: "e4m3", digits: 3, bias: 7, largest: 448, one: 0x38},
		{name: "e5m2", digits: 2, bias: 15, infinite: true, largest: 57344, one: 0x3c},
	}
	// Every finite value, the middle between it and the next, and what is beside these.
	random := rand.New(rand.NewSource(1))
	in := []float64{
		0, math.Copysign(0, -1), math.NaN(), -math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64,
		math.SmallestNonzeroFloat64, -0x1p-1022, 0x1p-10, 0x1p-11, 0x1p-17, 0x1p-18, 464, 480, 61440, 65536, 1e9,
	}
	for i := range formats {
		f := &formats[i]
		for code := range 256 {
			f.values = append(f.values, fp8Value(code, f.digits, f.bias, f.infinite))
		}
		if f.values[int(f.one)] != 1 || slices.Max(slices.DeleteFunc(slices.Clone(f.values), func(v float64) bool { return v != v || math.IsInf(v, 0) })) != f.largest {
			t.Fatalf("%s: the table is wrong: %v", f.name, f.values)
		}
		for code := range 127 {
			for _, v := range []float64{f.values[code], (f.values[code] + f.values[code+1]) / 2} {
				in = append(in, v, -v, math.Nextafter(v, math.Inf(1)), math.Nextafter(v, 0), -math.Nextafter(v, math.Inf(1)), -math.Nextafter(v, 0))
			}
		}
	}
	for range 5000 {
		in = append(in, random.NormFloat64()*math.Ldexp(1, random.Intn(50)-25))
	}
	var raw bytes.Buffer
	if err := binary.Write(&raw, binary.LittleEndian, in); err != nil {
		t.Fatal(err)
	}
	run := exec.Command(program)
	run.Stdin = &raw
	out, err := run.Output()
	if err != nil || len(out) != 2*len(in)+2*256*8 {
		t.Fatalf("%v, %d bytes", err, len(out))
	}
	for i, f := range formats {
		dtype := kernels.DType(f.name)
		for k, x := range in {
			got := int(out[2*k+i])
			want := nearestFP8(x, f.values)
			if math.IsNaN(x) {
				if got&0x7f != 0x7f {
					t.Errorf("%s: NaN is %#x", f.name, got)
				}
			} else if math.Abs(x) <= f.largest && f.values[got] != dtype.Round(x) {
				t.Errorf("%s: %g is %g, and where data are made %g", f.name, x, f.values[got], dtype.Round(x))
			} else if got != want {
				t.Errorf("%s: %g (%x) is %#x, want %#x, which is %g", f.name, x, math.Float64bits(x), got, want, f.values[want])
			}
		}
		for code, want := range f.values {
			got := math.Float64frombits(binary.LittleEndian.Uint64(out[2*len(in)+8*(256*i+code):]))
			if math.Float64bits(got) != math.Float64bits(want) && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Errorf("%s: %#x is %g, want %g", f.name, code, got, want)
			}
		}
	}
}

// nearestFP8 looks for the finite code nearest to a number, of two as near the even one.
func nearestFP8(x float64, values []float64) int {
	best, distance := -1, math.Inf(1)
	for code, v := range values {
		if v != v || math.IsInf(v, 0) || math.Signbit(v) != math.Signbit(x) {
			continue
		}
		// Differences of doubles this far apart round; the middle is exact in half of each.
		d := math.Abs(x/2 - v/2)
		if math.IsInf(x, 0) {
			d = math.Abs(math.Copysign(math.MaxFloat64, x)/2 - v/2)
		}
		if d < distance || d == distance && (code&1 == 0 || math.Abs(v) > math.Abs(values[best]) && math.Abs(x) > 1e6) {
			best, distance = code, d
		}
	}
	return best
}
