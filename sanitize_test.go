package evotune

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evotune/evotune/kernels"
)

// TestSanitize: which candidates are sanitized is part of the job, of what is judged, and of what a worker on
// another machine is given. Where every verdict is wanted, or there is none to give, contenders are refused.
func TestSanitize(t *testing.T) {
	m := new(Machine)
	for mode, contenders := range map[Sanitize]bool{"": false, SanitizeAll: false, SanitizeContenders: true} {
		target, err := m.Target(Job{Kernel: "sgemm", Backend: CPU, Sanitize: mode})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := target.plan()
		if err != nil || plan.Contenders != contenders {
			t.Errorf("%q: the plan has only contenders sanitized: %t, %v", mode, plan.Contenders, err)
		}
		place, _, err := target.place(target.Job)
		if err != nil {
			t.Fatal(err)
		}
		var there Job
		if err := json.Unmarshal(place.Job, &there); err != nil || there.Sanitize != mode {
			t.Errorf("%q: a worker is given %q, %v", mode, there.Sanitize, err)
		}
	}
	for want, job := range map[string]Job{
		"not for a sweep":          {Kernel: "sgemm", Backend: CPU, Sweep: true, Sanitize: SanitizeContenders},
		"not for a recorded table": {Table: "internal/tables/testdata/synthetic.json", Sanitize: SanitizeContenders},
		"strict is not for":        {Table: "internal/tables/testdata/synthetic.json", Strict: true},
		`sanitize is "none"`:       {Kernel: "sgemm", Backend: CPU, Sanitize: "none"},
	} {
		if _, err := m.Target(job); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", job, err)
		}
	}
}

// TestStrict: whether an unproven problem is refused is part of what is judged, of a campaign and of a file, and of
// what a worker on another machine is given.
func TestStrict(t *testing.T) {
	m := new(Machine)
	target, err := m.Target(Job{Kernel: "sgemm", Backend: CPU, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	place, _, err := target.place(target.Job)
	if err != nil {
		t.Fatal(err)
	}
	var there Job
	if err := json.Unmarshal(place.Job, &there); err != nil || !there.Strict {
		t.Errorf("a worker is given %s, %v", place.Job, err)
	}
	file := filepath.Join(t.TempDir(), "kernel.c")
	if err := os.WriteFile(file, []byte("// nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	judged, err := m.FileTarget(Job{Kernel: "sgemm", Strict: true}, kernels.File{Path: file}, "")
	if err != nil {
		t.Fatal(err)
	}
	for what, of := range map[string]*Target{"a campaign": target, "a file": judged} {
		if plan, err := of.plan(); err != nil || !plan.Strict {
			t.Errorf("%s: %+v, %v", what, plan, err)
		}
	}
}
