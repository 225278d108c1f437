package kernels_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evotune/evotune/kernels"
)

// base is a definition with at least one of everything that the CPU backend
// knows; tests change a line of it.
const base = `format = 1
name = "product"
description = "C = alpha A B"
license = "Apache-2.0"

[problem]
dims = ["M", "N", "K"]
operations = "2*M*N*K"
bytes = "4*(M*K + K*N + M*N)"
pipe = "f32"

[problem.reference]
source = "reference.c"
entry = "reference"

[[problem.shape]]
name = "64"
dims = { M = 64, N = 64, K = 32 }
use = "tune"

[[problem.shape]]
name = "wide"
dims = { M = 16, N = 256, K = 32 }
use = "tune"

[[problem.shape]]
name = "odd"
dims = { M = 7, N = 9, K = 5 }
use = "verify"

[[problem.shape]]
name = "small"
dims = { M = 8, N = 8, K = 8 }
use = "sanitize"

[[problem.buffer]]
name = "A"
dtype = "f32"
shape = ["M", "K"]
role = "in"
data = "uniform(-1,1)"

[[problem.buffer]]
name = "B"
dtype = "f32"
shape = ["K", "N"]
role = "in"
data = "normal(0, 0.5)"

[[problem.buffer]]
name = "mask"
dtype = "i8"
shape = ["M"]
role = "in"
data = "integers(0,1)"

[[problem.buffer]]
name = "C"
dtype = "f32"
shape = ["M", "N"]
role = "inout"
data = "constant(0.25)"

[[problem.scalar]]
name = "alpha"
dtype = "f32"
value = "1/K"

[problem.tolerance]
f32 = 1e-5

[[problem.control]]
kind = "zeros"

[[problem.control]]
kind = "constant"

[[problem.control]]
kind = "swap"
buffers = ["A", "B"]

[[implementation]]
name = "tiled"
backend = "cpu"
target = "native"
template = "tiled.c.tmpl"
entry = "product"
flags = ["{{.OPTIMIZE}}", "{{if .FAST}}-ffast-math{{end}}", "-DSCALE={{.SCALE}}"]
threads = "THREADS"
include = ["tile.h"]
blocking = ['\[-Wuninitialized\]']

[[implementation.parameter]]
name = "TILE"
pow2 = [4, 64]

[[implementation.parameter]]
name = "ROWS"
range = [2, 8]
step = 2

[[implementation.parameter]]
name = "OPTIMIZE"
values = ["-O2", "-O3"]

[[implementation.parameter]]
name = "FAST"
bool = true

[[implementation.parameter]]
name = "SCALE"
values = [0.5, 1, 2]

[[implementation.parameter]]
name = "THREADS"
values = [1, 2]

[[implementation.parameter]]
name = "SPLIT"
values = ["rows", "columns"]
when = "THREADS > 1"

[[implementation.constraint]]
expr = "TILE*ROWS <= M*2"
why = "a tile is not larger than the matrix"

[[implementation.constraint]]
expr = "TILE*ROWS*4 <= device_l1_bytes"
why = "a tile must fit the first cache"

[implementation.baseline]
genome = { TILE = 4, ROWS = 2, OPTIMIZE = "-O2", FAST = false, SCALE = 1, THREADS = 1 }

[implementation.binary]
require = ["mul"]
forbid = ["div"]
max_stack = 4096
`

const baseTemplate = `#include "tile.h"
#define TILE {{.TILE}}
#define ROWS {{.ROWS}}
{{- if gt .THREADS 1}}
/* in {{.SPLIT}} */
{{- end}}
void product(int64_t M, int64_t N, int64_t K, const float *A, const float *B, const int8_t *mask, float *C, float alpha)
{
{{- range $i := until .ROWS}}
	one(M, N, K, A, B, mask, C, alpha, {{$i}});
{{- end}}
}
`

const reference = `void reference(long M) { }
`

// folder is the folder "k" with a definition and the other files of base.
func folder(definition string) fstest.MapFS {
	return fstest.MapFS{
		"k/kernel.toml":  {Data: []byte(definition)},
		"k/tiled.c.tmpl": {Data: []byte(baseTemplate)},
		"k/tile.h":       {Data: []byte("/* one() */\n")},
		"k/reference.c":  {Data: []byte(reference)},
		"k/reference.cu": {Data: []byte("__global__ void reference() {}\n")},
		"k/baseline.c":   {Data: []byte("void plain(void);\n")},
	}
}

// change replaces one piece of base, which must be there exactly once.
func change(tb testing.TB, old, replacement string) string {
	tb.Helper()
	if n := strings.Count(base, old); n != 1 {
		tb.Fatalf("%q is %d times in base, want 1", old, n)
	}
	return strings.Replace(base, old, replacement, 1)
}

func mustLoad(tb testing.TB, fsys fstest.MapFS) *kernels.Definition {
	tb.Helper()
	d, err := kernels.Load(fsys, "k")
	if err != nil {
		tb.Fatal(err)
	}
	return d
}
