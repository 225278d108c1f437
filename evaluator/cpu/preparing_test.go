//go:build linux

package cpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// inC is the kernel "scale" with another reference in C, unless that is "", and with text before
// its template.
func inC(t *testing.T, reference, before string) *kernels.Definition {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"kernel.toml", "reference.c", "scale.c.tmpl"} {
		b, err := os.ReadFile(filepath.Join("testdata", "scale", name))
		text := string(b)
		switch {
		case name == "reference.c" && reference != "":
			text = reference
		case name == "scale.c.tmpl":
			text = before + text
		}
		if err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	d, err := kernels.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestCancelPreparation: preparation says what takes long, and ends at once when its context does.
func TestCancelPreparation(t *testing.T) {
	d := inC(t, "void reference(int64_t N, const double *x, double *y, double factor)\n{\n\tfor (volatile int i = 0;; i++)\n\t\t;\n}\n", "")
	cancelAt(t, d, quick(), "reference at shape small, on the CPU")
}

// The same in a reference in Python, and in the compiler of the baseline.
func TestCancelPreparationLong(t *testing.T) {
	longtest.Long(t, "Python and a slow compilation begin")
	t.Run("Python", func(t *testing.T) {
		d := inPython(t, "import time\n\ndef reference(x, factor):\n    time.sleep(600)\n")
		cancelAt(t, d, pythonOptions(t, "numpy"), "reference at shape small, on the CPU")
	})
	t.Run("compiler", func(t *testing.T) {
		// The preprocessor has 2^28 tokens to write: it takes minutes.
		text := "#define P0 ;\n"
		for i := range 28 {
			text += fmt.Sprintf("#define P%d P%[2]d P%[2]d\n", i+1, i)
		}
		cancelAt(t, inC(t, "", text+"void slow(void) { P28 }\n"), quick(), "compiling the baseline of shape small")
	})
}

// cancelAt opens a kernel, and cancels that in a step of its preparation.
func cancelAt(t *testing.T, d *kernels.Definition, o Options, step string) {
	t.Helper()
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var p evaluator.Preparation
	ctx, cancel := context.WithCancel(evaluator.WithPreparation(t.Context(), &p))
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := evaluator.Open(ctx, b, planOf(d))
		ended <- err
	}()
	if !wait(time.Minute, func() bool {
		what, took := p.Now()
		return what == step && took > 50*time.Millisecond || len(ended) > 0
	}) {
		what, _ := p.Now()
		t.Errorf("it never said %q, but %q", step, what)
	}
	at := time.Now()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if took := time.Since(at); took > 10*time.Second {
		t.Errorf("it ended after %v", took)
	}
}
