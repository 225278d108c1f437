package evotune

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/evotune/evotune/store"
)

// Nobody who sets nothing gets one worker on many cores.
func TestWorkers(t *testing.T) {
	cores := runtime.NumCPU()
	for _, c := range []struct {
		asked, window int
		backend       string
		want          int
	}{
		{0, 0, CPU, min(cores, 8)},
		{0, 1, CPU, 1},
		{3, 0, CPU, 3},
		{9, 4, CPU, 4},
		{0, 32, CUDA, 32},
		{2, 32, CUDA, 2},
	} {
		if got := workersFor(c.asked, c.window, c.backend); got != c.want {
			t.Errorf("%d asked for, window %d on %s: %d workers, want %d", c.asked, c.window, c.backend, got, c.want)
		}
	}
}

// A target that is there to render, to verify or to judge starts no campaign.
func TestRunRefuses(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "evotune.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing is kept
	m := new(Machine)
	done, err := m.Run(t.Context(), s, Job{Table: "internal/tables/testdata/synthetic.json", Budget: Budget{Evaluations: 5}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Campaign(done.Campaign)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := m.Recorded(c)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(c.Started.Config, &config); err != nil {
		t.Fatal(err)
	}
	config["hash"] = "abc"
	if c.Started.Config, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	changed, err := m.Recorded(c)
	if changed == nil || !errors.Is(err, ErrInput) {
		t.Fatalf("of a kernel that has changed: %v, %v", changed, err)
	}
	for name, x := range map[string]struct {
		target *Target
		want   string
	}{
		"recorded": {recorded, "is recorded"},
		"changed":  {changed, "is recorded"},
		"file":     {&Target{machine: m, file: &judged{path: "mine.c"}}, "mine.c is a finished kernel"},
	} {
		if sum, err := x.target.Run(t.Context(), s, Options{}); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), x.want) || sum.Campaign != "" {
			t.Errorf("%s: %+v, %v", name, sum, err)
		}
	}
	if all, err := s.Campaigns(); err != nil || len(all) != 1 || all[0].Evaluated != 5 {
		t.Errorf("the store has %+v (%v)", all, err)
	}
}
