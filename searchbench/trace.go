package searchbench

import (
	"math"
	"strconv"
	"strings"

	"github.com/evotune/evotune/genome"
)

// A Trace is the input of other scorers of the methodology: the configurations of
// runs in the order of their evaluation.
type Trace struct {
	Space    string     `json:"space"` // a file, or a name
	Strategy string     `json:"strategy"`
	Runs     []TraceRun `json:"runs"`
}

// A TraceRun is one run.
type TraceRun struct {
	// Evals are configurations: the values of all parameters, in the table's
	// order, as Python's str writes them, joined by commas.
	Evals []string `json:"evals"`
	// OverheadS is the search's own time in seconds, if it counts.
	OverheadS float64 `json:"overhead_s,omitempty"`
}

// Trace returns the trace of runs.
func (s *Space) Trace(space, strategy string, runs []Run) Trace {
	t := Trace{Space: space, Strategy: strategy, Runs: make([]TraceRun, len(runs))}
	for i, r := range runs {
		evals := make([]string, len(r.Genomes))
		for k, g := range r.Genomes {
			evals[k] = s.key(g)
		}
		t.Runs[i].Evals = evals
		if r.Counted {
			t.Runs[i].OverheadS = r.Own.Seconds()
		}
	}
	return t
}

func (s *Space) key(g genome.Genome) string {
	var parts []string
	for _, gene := range s.space.Genes() {
		v, _ := g.Get(gene.Name)
		parts = append(parts, pythonText(v))
	}
	return strings.Join(parts, ",")
}

// pythonText writes a value as Python's str does.
func pythonText(v genome.Value) string {
	switch x := v.Any().(type) {
	case string:
		return x
	case bool:
		if x {
			return "True"
		}
		return "False"
	case float64:
		// Python writes an exponent below 1e-4 and from 1e16 on.
		if a := math.Abs(x); x != 0 && (a < 1e-4 || a >= 1e16) {
			return strconv.FormatFloat(x, 'e', -1, 64)
		}
		s := strconv.FormatFloat(x, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	return v.String()
}
