package record

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/store"
)

// maxFailures is how many kinds of failures of one campaign are told apart.
const maxFailures = 1000

// Outcomes sum up what became of candidates, from the payloads of their results. A second
// measurement takes the place of the first. The zero Outcomes have none.
type Outcomes struct {
	// Cost is what all evaluations took, first and second ones.
	Cost time.Duration

	sums
	// aside are the results of which no second measurement came yet and may come: those that the
	// machine failed or disturbed. By proposal.
	aside map[int]outcome
}

// sums are those of results.
type sums struct {
	stages   map[evaluator.Stage]StageSum
	failures map[Failure]Failure // by verdict, stage and what is alike
}

// An outcome is of one result what is summed up.
type outcome struct {
	Stage      evaluator.Stage `json:"stage"`
	Reason     string          `json:"reason"`
	Disturbed  string          `json:"disturbed"`
	SharedWith string          `json:"shared_with"`
	Cost       time.Duration   `json:"cost_ns"`
	Steps      []struct {
		Stage   evaluator.Stage `json:"stage"`
		Outcome evaluator.Check `json:"outcome"`
		Elapsed time.Duration   `json:"elapsed_ns"`
	} `json:"steps"`
	told *store.Told
}

// A StageSum counts how candidates left a stage. Those that share the binary of another are not
// counted from inspection on.
type StageSum struct {
	Passed  int           `json:"passed"`
	Failed  int           `json:"failed"`
	NotRun  int           `json:"not_run"`
	Elapsed time.Duration `json:"-"`
}

// OwnStep says whether a step is of a result itself, and not of the one that it shares a binary with, if any.
func OwnStep(sharedWith string, stage evaluator.Stage) bool {
	return sharedWith == "" || stage == evaluator.StageRender || stage == evaluator.StageCompile
}

// A Failure counts results with one verdict other than correct, at one stage and for one reason,
// numbers in it set aside.
type Failure struct {
	Verdict evaluator.Verdict `json:"verdict"`
	Stage   evaluator.Stage   `json:"stage"`
	Count   int               `json:"count"`
	// Alike is what the reasons have in common. Beyond the first 1000 kinds of failures it is empty, as is Reason.
	Alike string `json:"-"`
	// Reason and Candidate are those of the first proposal.
	Reason    string `json:"reason"`
	Candidate string `json:"candidate"`
	index     int
}

// A failure's numbers differ from candidate to candidate.
var numbers = regexp.MustCompile(`-?\b(0x[0-9a-fA-F]+|[0-9a-f]{12,}|[0-9][0-9.,]*([eE][-+]?[0-9]+)?)`)

// Alike is what a reason has in common with those of other candidates.
func Alike(reason string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(reason), "\n")
	return numbers.ReplaceAllString(strings.TrimSuffix(first, "\r"), "#")
}

// add takes a result, a second one in place of the first.
func (o *Outcomes) add(e *store.Event, t *store.Told) error {
	one, err := readPart[outcome](t)
	if err != nil {
		return err
	}
	bare := *t
	bare.Detail = nil
	one.told = &bare
	if e.Measured != nil {
		if _, ok := o.aside[t.Index]; !ok {
			return fault(e, "candidate %s was measured again, and nothing had disturbed its result", t.Candidate)
		}
		delete(o.aside, t.Index)
	}
	o.Cost += one.Cost
	switch {
	case e.Told != nil && t.Verdict != string(evaluator.Correct) && (one.Disturbed != "" || t.Verdict == string(evaluator.Infrastructure)):
		if o.aside == nil {
			o.aside = map[int]outcome{}
		}
		o.aside[t.Index] = one
	default:
		o.count(one)
	}
	return nil
}

// all are the sums with what is set aside.
func (o *Outcomes) all() sums {
	s := sums{maps.Clone(o.stages), maps.Clone(o.failures)}
	for _, i := range slices.Sorted(maps.Keys(o.aside)) {
		s.count(o.aside[i])
	}
	return s
}

// Stages are the sums of the stages that candidates have reached.
func (o *Outcomes) Stages() map[evaluator.Stage]StageSum { return o.all().stages }

// Failures are all kinds, the most frequent first.
func (o *Outcomes) Failures() []Failure {
	return slices.SortedFunc(maps.Values(o.all().failures), func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Verdict, b.Verdict), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Alike, b.Alike))
	})
}

func (s *sums) count(o outcome) {
	if s.stages == nil {
		s.stages = map[evaluator.Stage]StageSum{}
	}
	if s.failures == nil {
		s.failures = map[Failure]Failure{}
	}
	for _, step := range o.Steps {
		if !OwnStep(o.SharedWith, step.Stage) {
			continue
		}
		sum := s.stages[step.Stage]
		switch step.Outcome {
		case evaluator.Passed:
			sum.Passed++
		case evaluator.Failed:
			sum.Failed++
		default:
			sum.NotRun++
		}
		sum.Elapsed += step.Elapsed
		s.stages[step.Stage] = sum
	}
	v := evaluator.Verdict(o.told.Verdict)
	if v == evaluator.Correct {
		return
	}
	k, reason := Failure{Verdict: v, Stage: o.Stage, Alike: Alike(o.Reason)}, o.Reason
	f, known := s.failures[k]
	if !known && len(s.failures) >= maxFailures {
		k.Alike, reason = "", ""
		f, known = s.failures[k]
	}
	if !known || o.told.Index < f.index {
		n := f.Count
		f = k
		f.Count, f.Reason, f.Candidate, f.index = n, reason, o.told.Candidate, o.told.Index
	}
	f.Count++
	s.failures[k] = f
}
