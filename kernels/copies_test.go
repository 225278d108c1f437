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
	if read("attention/vector.h") != read("softmax/vector.h") {
		t.Error("attention/vector.h and softmax/vector.h differ: mend both")
	}
}
