package evotune

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/fleet"
)

// TestPlaceCarries: all that lies in a folder of definitions reaches a worker, also what kernels share, what
// a reference in Python needs, and what a link leads to; and each file by its SHA-256.
func TestPlaceCarries(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	want := map[string]string{"one/kernel.toml": "toml", "one/reference.py": "import table", "one/data/table.bin": "\x00\x01", "include/step.h": "#define X"}
	for name, text := range want {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(elsewhere, "linked"), []byte("linked"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(elsewhere, "linked"), filepath.Join(dir, "one/linked.h")); err != nil {
		t.Fatal(err)
	}
	want["one/linked.h"] = "linked"
	place, paths, err := (&Target{}).place(Job{ID: "c", Kernel: "one", Definitions: []string{dir}})
	if err != nil || len(place.Files) != len(want) {
		t.Fatal(place, err)
	}
	to := t.TempDir()
	fetch := func(_ context.Context, f fleet.File, w io.Writer) error {
		b, err := os.ReadFile(paths[f.SHA256])
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	}
	for _, f := range place.Files {
		if err := fetchFile(t.Context(), f, filepath.Join(to, filepath.FromSlash(f.Path)), fetch); err != nil {
			t.Error(err)
		}
	}
	for name, text := range want {
		if b, err := os.ReadFile(filepath.Join(to, definitionsAt, "0", name)); err != nil || string(b) != text {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	_, err = (&Machine{}).OpenPlace(t.Context(), place, to, fetch)
	if err == nil || !strings.Contains(err.Error(), "kernel.toml") || strings.Contains(err.Error(), "\n") {
		t.Errorf("a definition that is none: %v", err)
	}
}

// conditioned is an evaluator of a GPU with conditions.
type conditioned struct {
	evaluator.Evaluator
	now evaluator.Conditions
}

func (conditioned) Describe() evaluator.Description {
	return evaluator.Description{Device: evaluator.Device{Kind: CUDA}}
}

func (c conditioned) Conditions(context.Context) (evaluator.Conditions, bool) { return c.now, true }

// TestTroubleOfOthers: a worker whose own candidates leave no time to look at its GPU is not troubled: it would
// leave the campaign, and open another.
func TestTroubleOfOthers(t *testing.T) {
	other := evaluator.Conditions{Disturbed: "another process uses the GPU: python3 (pid 812), 97% of the GPU"}
	if got := (&FleetPlace{evaluator: conditioned{now: other}}).Trouble(t.Context()); got != other.Disturbed {
		t.Errorf("another process is the trouble %q", got)
	}
	own := evaluator.Conditions{Disturbed: "the state of the GPU could not be read: candidates take all of its workers for 5s", Unknown: true}
	if got := (&FleetPlace{evaluator: conditioned{now: own}}).Trouble(t.Context()); got != "" {
		t.Errorf("its own candidates are the trouble %q", got)
	}
}
