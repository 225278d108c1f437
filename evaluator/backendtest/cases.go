package backendtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/evotune/evotune/evaluator"
)

// A Case is one dishonest or faulty kernel of the zoo and what the ordeal must
// say of it.
type Case struct {
	// Kernel names the kernel.
	Kernel string `toml:"kernel"`
	// Group is the heading under which reports list it.
	Group string `toml:"group"`
	// Does says in a few words what the kernel does wrong.
	Does string `toml:"does"`
	// Verdict and Stage are what a Result must hold.
	Verdict evaluator.Verdict `toml:"verdict"`
	Stage   evaluator.Stage   `toml:"stage"`
	// Check is text that must occur in the reason or in a failed piece of
	// evidence: it shows that the kernel was stopped by the check that is meant
	// to stop it and not by chance. Case is ignored; empty asks for nothing.
	Check string `toml:"check"`
	// Or lists other outcomes that are as good, for faults of which one check
	// or another may be the first to speak.
	Or []Outcome `toml:"or"`
	// Needs names the tool, as Description.Tools does, without which the
	// verdict cannot be given; the case is then skipped. Empty: none.
	Needs string `toml:"needs"`
	// Slower is for cheats that gain nothing rather than being refused: the
	// least ratio to the baseline that a correct verdict may come with.
	Slower float64 `toml:"slower"`
	// Honest marks a good neighbour: it must pass, and be refused by no check.
	Honest bool `toml:"honest"`
	// Seen says where such a kernel was seen; empty when it is our own idea.
	Seen string `toml:"seen"`
}

// An Outcome is one way in which a case may end.
type Outcome struct {
	Verdict evaluator.Verdict `toml:"verdict"`
	Stage   evaluator.Stage   `toml:"stage"`
	Check   string            `toml:"check"`
}

// Outcomes lists all ways in which the case may end, the expected one first.
func (c Case) Outcomes() []Outcome {
	return append([]Outcome{{c.Verdict, c.Stage, c.Check}}, c.Or...)
}

// LoadCases reads the table of verdicts from a TOML file. Unknown keys,
// verdicts and stages are errors, as are two cases for one kernel.
func LoadCases(path string) ([]Case, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("zoo: %w", err)
	}
	var file struct {
		Case []Case `toml:"case"`
	}
	dec := toml.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		var strict *toml.StrictMissingError
		if errors.As(err, &strict) {
			return nil, fmt.Errorf("zoo: %s: %s", path, strict.String())
		}
		return nil, fmt.Errorf("zoo: %s: %w", path, err)
	}
	seen := map[string]bool{}
	for _, c := range file.Case {
		switch {
		case c.Kernel == "" || c.Does == "" || c.Group == "":
			return nil, fmt.Errorf("zoo: %s: case %q: kernel, group and does are required", path, c.Kernel)
		case seen[c.Kernel]:
			return nil, fmt.Errorf("zoo: %s: case %q: listed twice", path, c.Kernel)
		case c.Honest && (c.Verdict != evaluator.Correct || c.Slower != 0 || len(c.Or) > 0):
			return nil, fmt.Errorf("zoo: %s: case %q: an honest neighbor is correct, and nothing else", path, c.Kernel)
		case c.Verdict == evaluator.Correct && c.Slower <= 0 && !c.Honest:
			return nil, fmt.Errorf("zoo: %s: case %q: a cheat that passes must show that it gains nothing: set slower", path, c.Kernel)
		}
		for n, o := range c.Outcomes() {
			switch {
			case !slices.Contains(evaluator.Verdicts(), o.Verdict):
				return nil, fmt.Errorf("zoo: %s: case %q: no verdict is called %q", path, c.Kernel, o.Verdict)
			case !slices.Contains(evaluator.Stages(), o.Stage):
				return nil, fmt.Errorf("zoo: %s: case %q: no stage is called %q", path, c.Kernel, o.Stage)
			case n > 0 && o.Verdict == evaluator.Correct:
				return nil, fmt.Errorf("zoo: %s: case %q: correct is no other outcome of a fault", path, c.Kernel)
			}
		}
		seen[c.Kernel] = true
	}
	if len(file.Case) == 0 {
		return nil, fmt.Errorf("zoo: %s: no cases: %w", path, fs.ErrInvalid)
	}
	return file.Case, nil
}

// Judge returns what is wrong with a result for the case, or "". Of several
// outcomes that are as good, the complaint is about the expected one.
func (c Case) Judge(r evaluator.Result) string {
	var complaint string
	for n, o := range c.Outcomes() {
		alternative := c
		alternative.Verdict, alternative.Stage, alternative.Check = o.Verdict, o.Stage, o.Check
		wrong := alternative.judgeOne(r)
		if wrong == "" {
			return ""
		}
		if n == 0 || r.Verdict == o.Verdict && r.Stage == o.Stage {
			complaint = wrong
		}
	}
	return complaint
}

// judgeOne is judge for the expected outcome alone.
func (c Case) judgeOne(r evaluator.Result) string {
	if r.Verdict != c.Verdict || r.Stage != c.Stage {
		return fmt.Sprintf("got %s at %s (%s), want %s at %s", r.Verdict, r.Stage, r.Reason, c.Verdict, c.Stage)
	}
	if c.Verdict == evaluator.Correct {
		for _, tm := range r.Timings {
			if tm.Ratio < c.Slower {
				return fmt.Sprintf("ratio %.3g to the baseline at shape %s: the cheat gained; its true ratio is above %g", tm.Ratio, tm.Shape, c.Slower)
			}
		}
		return ""
	}
	if r.Reason == "" {
		return "the result gives no reason"
	}
	if r.Fitness != 0 {
		return fmt.Sprintf("fitness %g with verdict %s, want 0", r.Fitness, r.Verdict)
	}
	step, ok := r.Step(c.Stage)
	if !ok {
		return fmt.Sprintf("no step for stage %s, which gave the verdict", c.Stage)
	}
	if step.Outcome != evaluator.Failed {
		return fmt.Sprintf("step %s says %q, want %q", c.Stage, step.Outcome, evaluator.Failed)
	}
	if !strings.Contains(strings.ToLower(shown(r)), strings.ToLower(c.Check)) {
		return fmt.Sprintf("the right verdict by another check: %q occurs neither in the reason (%s) nor in failed evidence: %s", c.Check, r.Reason, shown(r))
	}
	return ""
}

// shown collects the reason and every failed piece of evidence of a result.
func shown(r evaluator.Result) string {
	text := []string{r.Reason}
	for _, s := range r.Steps {
		for _, e := range s.Evidence {
			if e.Outcome == evaluator.Failed {
				text = append(text, e.Check, e.Detail)
			}
		}
	}
	return strings.Join(text, "\n")
}
