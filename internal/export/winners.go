package export

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/report"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/kernels"
)

// A Winner is a stored candidate that may leave.
type Winner struct {
	// Evidence is what the store holds of it.
	Evidence *report.Evidence
	// Rendered is its source, rendered again; its hash is the recorded one.
	Rendered kernels.Rendered
	// Limits are those of the device that it was tuned on, as its campaign
	// recorded them.
	Limits map[string]any
}

// final is its part in the finals of its campaign, or nil.
func (w *Winner) final() *report.FinalistView {
	if w.Evidence.Finals == nil {
		return nil
	}
	entries := w.Evidence.Finals.Entries
	i := slices.IndexFunc(entries, func(f report.FinalistView) bool { return f.Candidate == w.Evidence.Candidate })
	if i < 0 {
		return nil
	}
	return &entries[i]
}

// NotFaster says in one line for people that it won the finals of its campaign against other
// candidates, and not against the baseline; it is "" of others.
func (w *Winner) NotFaster() string {
	s := w.Evidence.Summary
	var than string
	switch {
	case !s.Winner || s.Speedup <= 0 || record.Faster(s.Significant, s.Speedup):
		return ""
	case s.Speedup <= 1:
		than = "faster"
	case s.Tested:
		than = "significantly faster"
	default:
		return ""
	}
	return fmt.Sprintf("%s at %s: the winner of its campaign was not %s than the baseline (%.3fx)", w.Evidence.Kernel, strings.Join(w.Evidence.Shapes, ", "), than, s.Speedup)
}

// A Level says how much must be proven of a candidate before it leaves. Each
// includes those before it.
type Level string

// The levels.
const (
	// Parity: equal to the reference at every shape that was checked.
	Parity Level = "parity"
	// Sanitized: every sanitizer of the backend ran and found nothing.
	Sanitized Level = "sanitized"
	// Finals: it won the finals of its campaign, and no negative control passes there.
	Finals Level = "finals"
)

// Levels lists the levels, the weakest first.
func Levels() []Level { return []Level{Parity, Sanitized, Finals} }

// Lacks says what a winner lacks for a level, or nothing.
func (w *Winner) Lacks(level Level) []string {
	e := w.Evidence
	var missing []string
	at := slices.Index(Levels(), level)
	if e.Result.Verdict != evaluator.Correct || e.Summary.Verdict != string(evaluator.Correct) {
		missing = append(missing, fmt.Sprintf("its verdict is %q", e.Summary.Verdict))
	}
	if s, ok := e.Result.Step(evaluator.StageParity); !ok || s.Outcome != evaluator.Passed {
		missing = append(missing, "parity was not shown")
	}
	if at >= slices.Index(Levels(), Sanitized) {
		if s, ok := e.Result.Step(evaluator.StageSanitize); !ok || s.Outcome != evaluator.Passed {
			missing = append(missing, "no sanitizer cleared it")
		}
		for _, v := range e.Sanitizers {
			// A program of one thread has no races; and what no tool can see is told, not asked for.
			if v.Check == "tsan" && w.Rendered.Threads <= 1 || evaluator.Unseen(v.Check) {
				continue
			}
			covered := slices.ContainsFunc(e.Sanitizers, func(by evaluator.Evidence) bool {
				return by.Check == evaluator.CoveredBy(v) && by.Outcome == evaluator.Passed && !strings.HasPrefix(by.Detail, "not needed")
			})
			if v.Outcome != evaluator.Passed && !covered {
				missing = append(missing, strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", v.Check, v.Outcome, words.FirstLine(v.Detail)), ": "))
			}
		}
	}
	if at >= slices.Index(Levels(), Finals) {
		if !e.Summary.Winner {
			missing = append(missing, "it won no finals")
		}
		for _, u := range e.Description.Unproven {
			missing = append(missing, u.String())
		}
	}
	return missing
}
