package evotune

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
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
		`sanitize is "none"`:       {Kernel: "sgemm", Backend: CPU, Sanitize: "none"},
	} {
		if _, err := m.Target(job); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", job, err)
		}
	}
}
