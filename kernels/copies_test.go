package kernels

import (
	"io/fs"
	"testing"
)

// TestCopies: folders of kernels stand alone, so what two of them share is a
// copy. A copy that is mended in one place only would be found here.
func TestCopies(t *testing.T) {
	read := func(name string) string {
		b, err := fs.ReadFile(Builtin(), name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, files := range [][]string{
		{"attention/vector.h", "softmax/vector.h"},
		{"softmax/rows.cuh", "layernorm/rows.cuh", "rmsnorm/rows.cuh"},
	} {
		for _, f := range files[1:] {
			if read(files[0]) != read(f) {
				t.Errorf("%s and %s differ: mend both", files[0], f)
			}
		}
	}
}
