package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/kernels"
)

const (
	// edgeSettled is how many times as long as a first timing of the baseline at a shape the reference may take
	// to decide about edge-case inputs: it computes from three of them.
	edgeSettled = 4
	// edgeUpload is how long a worker may take to read a byte of edge-case inputs.
	edgeUpload = 20 * time.Nanosecond
)

// An edge is edge-case inputs at a shape. The lab's furtherMu guards its fields but filling.
type edge struct {
	labs.EdgeCase
	filling sync.Mutex // held while its inputs are made
	taken   bool       // they have been drawn before, so they are kept or being made
	file    string     // of the inputs; "" while there is none
	content int        // with which of the contents that are made as a whole
	// silent says that there is no right answer to compare with.
	silent bool
}

// edgesAt lists those of a shape. The caller holds furtherMu.
func (h *lab) edgesAt(d *shapeData) []*edge {
	if _, ok := h.edges[d]; !ok {
		var list []*edge
		for _, e := range labs.EdgeCases(h.problem.spec) {
			list = append(list, &edge{EdgeCase: e})
		}
		h.edges[d] = list
	}
	return h.edges[d]
}

// comparable drops those that show nothing and, where inputs take so many bytes that there is no room for more, those
// that are not kept.
func comparable(list []*edge, bytes int) []*edge {
	list = slices.DeleteFunc(slices.Clone(list), func(e *edge) bool { return e.silent })
	kept := slices.DeleteFunc(slices.Clone(list), func(e *edge) bool { return !e.taken })
	if len(kept) > 0 && (len(kept)+1)*bytes > labs.EdgeBudget {
		return kept
	}
	return list
}

// anyEdge draws edge-case inputs for a measurement at a shape, if there are any.
func (h *lab) anyEdge(d *shapeData) ([]*edge, error) {
	h.furtherMu.Lock()
	var due []*edge
	if h.edgeless(d) == "" {
		due = labs.AnyEdge(comparable(h.edgesAt(d), h.problem.inputBytes(d)), rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	}
	for _, e := range due {
		e.taken = true
	}
	made := d.wire.Made
	h.furtherMu.Unlock()
	return due, h.fillEdges(d, due, made)
}

// edgeless says why there are no edge-case inputs among timed launches at a shape where there could be some; "" otherwise.
// The caller holds furtherMu.
func (h *lab) edgeless(d *shapeData) string {
	if n := h.problem.inputBytes(d); n > labs.EdgeBudget && len(h.edgesAt(d)) > 0 {
		return fmt.Sprintf("no launch like the timed ones has edge-case inputs: as numbers on the host they take %d MB, and at most %d are made", n>>20, labs.EdgeBudget>>20)
	}
	return ""
}

// fillEdges writes the inputs of those that have none to files: a few at a time, since large ones take a second and
// memory. Comparisons go on meanwhile: the caller does not hold furtherMu.
func (h *lab) fillEdges(d *shapeData, list []*edge, made string) error {
	var g errgroup.Group
	g.SetLimit(4)
	for _, e := range list {
		g.Go(func() error { return h.fillEdge(d, e, made) })
	}
	return g.Wait()
}

// fillEdge is fillEdges for one. What has a few contents in timed launches is one of these, and all else like what no
// launch has had: others would tell.
func (h *lab) fillEdge(d *shapeData, e *edge, made string) error {
	e.filling.Lock()
	defer e.filling.Unlock()
	h.furtherMu.Lock()
	there := e.file != ""
	h.furtherMu.Unlock()
	if there {
		return nil
	}
	content := int(e.Seed % wire.MadeContents)
	inputs, err := h.problem.readMade(d, made, content)
	if err != nil {
		return err
	}
	for i, b := range h.problem.spec.Buffers {
		switch {
		case b.Role == kernels.Out:
		case b.Data.Keyed():
			if inputs[i], err = h.problem.spec.Made(b, d.shape, e.Seed+uint64(i)); err != nil {
				return err
			}
		case inputs[i] == nil:
			inputs[i] = drawn(b, d.Elements[i], e.Seed+uint64(i))
		}
	}
	_, file, err := h.writeInputs(d, e.Further, e.Seed, inputs)
	h.furtherMu.Lock()
	e.file, e.content = file, content
	h.furtherMu.Unlock()
	return err
}

// inputBytes is what a file with the inputs of a shape takes.
func (q *problem) inputBytes(d *shapeData) (sum int) {
	for i, b := range q.spec.Buffers {
		if q.open.Buffers[i].Role != "out" {
			sum += int(wire.ElementBytes(string(b.DType)) * d.wire.Elements[i])
		}
	}
	return sum
}

// askEdges asks for those of the edge-case inputs that are due with a request: with the last one all, with others
// half of the time one. In finals those of the session's set of processes are due, each once, with inputs that
// no other session has.
func (s *session) askEdges(q *wire.TimeRequest, d *shapeData, r evaluator.SampleRequest) error {
	h := s.h
	h.furtherMu.Lock()
	_, begun := s.due[d]
	fresh := !begun && s.purpose == evaluator.ForFinals
	if fresh {
		s.due[d] = []*edge{}
	}
	why := h.edgeless(d)
	if why != "" && d.tuned {
		s.note(evaluator.Evidence{Check: "edge cases " + d.shape.Name, Outcome: evaluator.NotRun, Detail: why})
	}
	if fresh && why == "" {
		for _, e := range labs.EdgesOf(h.edgesAt(d), r.Set, h.problem.inputBytes(d)) {
			if !e.silent {
				s.due[d] = append(s.due[d], &edge{EdgeCase: labs.EdgeCase{Further: e.Further, Seed: rand.Uint64()}})
			}
		}
	}
	h.furtherMu.Unlock()
	if err := h.fillEdges(d, s.due[d], s.made[d]); err != nil {
		return err
	}
	h.furtherMu.Lock()
	defer h.furtherMu.Unlock()
	s.asked = nil
	switch due := s.due[d]; {
	case r.Last:
		s.asked = due
	case len(due) > 0 && rand.IntN(2) == 0:
		s.asked = due[:1]
	}
	for _, e := range s.asked {
		q.Edges = append(q.Edges, wire.Edge{
			Name: e.Name, Inputs: e.file, Content: uint64(e.content), Beyond: labs.Gross, Left: filepath.Join(h.Scratch, fmt.Sprintf("left-%d", h.serial.Add(1))),
		})
	}
	return nil
}

// addEdges judges what a request's edge-case inputs showed, and adds it to what was left.
func (s *session) addEdges(ctx context.Context, d *shapeData, a wire.TimeAnswer, here []int, out *evaluator.Sampled) error {
	for n, i := range here {
		for _, seen := range a.Contenders[n+1].Edges {
			k := slices.IndexFunc(s.asked, func(e *edge) bool { return e.file == seen.Inputs })
			if k < 0 {
				return fmt.Errorf("the worker answers for edge-case inputs in %q, which were not asked for", seen.Inputs)
			}
			if err := s.addEdge(ctx, d, s.asked[k], seen, &out.Series[i].After); err != nil {
				return err
			}
		}
	}
	s.h.furtherMu.Lock()
	defer s.h.furtherMu.Unlock()
	s.due[d] = s.due[d][min(len(s.asked), len(s.due[d])):]
	if s.purpose == evaluator.ForFinals {
		for _, e := range s.asked {
			remove(e.file)
		}
	}
	s.asked = nil
	return nil
}

// addEdge judges what a launch on edge-case inputs left: as the CPU's lab does, by the reference where it is far
// from the baseline's answer. Where the baseline is wrong itself, nobody is compared.
func (s *session) addEdge(ctx context.Context, d *shapeData, e *edge, seen wire.Edged, after *evaluator.Observation) (err error) {
	if seen.Left != "" {
		defer remove(seen.Left)
	}
	if after.Wrong != "" {
		return nil
	}
	if seen.Silent == "" && s.far(seen.Outputs) == "" {
		after.Edges = append(after.Edges, e.Name)
		return nil
	}
	if seen.Left != "" {
		if err := s.h.settleEdge(ctx, s.w, d, e, &seen); err != nil {
			return err
		}
	}
	if seen.Silent != "" || s.far(seen.Baseline) != "" {
		s.h.furtherMu.Lock()
		e.silent = true
		s.h.furtherMu.Unlock()
		return nil
	}
	after.Edges = append(after.Edges, e.Name)
	if why := s.far(seen.Reference); why != "" {
		after.Wrong = fmt.Sprintf("edge-case contents %q in a pass like those that are timed: %s", e.Name, why)
	}
	return nil
}

func (s *session) far(list []wire.Output) string {
	return labs.Far(outputs(list), func(name string) float64 { return s.h.problem.open.Buffers[s.h.problem.index(name)].Tolerance })
}

// settleEdge has the reference on the CPU decide about what a worker wrote down.
func (h *lab) settleEdge(ctx context.Context, w *worker, d *shapeData, e *edge, seen *wire.Edged) error {
	shape := d.wire
	shape.Inputs = e.file
	file, err := h.expect(ctx, w, shape, 0, nil)
	if errors.Is(err, ErrReference) {
		seen.Silent = err.Error()
		return nil
	} else if err != nil {
		return err
	}
	answers, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	left, err := os.ReadFile(seen.Left)
	if err != nil {
		return err
	}
	n := h.problem.outputBytes(shape)
	if int64(len(left)) != 2*n || int64(len(answers)) != 3*n {
		return fmt.Errorf("edge-case inputs %q at shape %s: files of %d and %d bytes, want %d and %d", e.Name, d.shape.Name, len(left), len(answers), 2*n, 3*n)
	}
	var truth [3][]float64
	for k := range truth {
		truth[k] = wire.Doubles(answers[int64(k)*n : int64(k+1)*n])
	}
	if slices.ContainsFunc(truth[0], func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		seen.Silent = fmt.Sprintf("the reference at shape %s is not finite", d.shape.Name)
		return nil
	}
	seen.Reference = h.problem.beside(d, wire.Doubles(left[:n]), truth)
	seen.Baseline = h.problem.beside(d, wire.Doubles(left[n:]), truth)
	return nil
}

// beside compares all outputs with the reference's answer, which is finite. Its answers to inputs nearby give the
// slack, as in [wire.Output].
func (q *problem) beside(d *shapeData, got []float64, truth [3][]float64) (list []wire.Output) {
	at := 0
	for i, b := range q.open.Buffers {
		if b.Role == "in" {
			continue
		}
		o := wire.Output{Name: b.Name, Limit: b.Tolerance, Elements: d.wire.Elements[i]}
		squares, slack, largest, most := 0.0, 0.0, 0.0, -1.0
		for k := range int(o.Elements) {
			x, want := got[at+k], truth[0][at+k]
			squares, largest = squares+want*want, math.Max(largest, math.Abs(want))
			slack = math.Max(slack, math.Max(math.Abs(truth[1][at+k]-want), math.Abs(truth[2][at+k]-want)))
			diff := math.Abs(x - want)
			if math.IsNaN(x) || math.IsInf(x, 0) {
				o.NotFinite++
				diff = math.Inf(1)
			}
			if diff > most {
				most, o.Worst, o.Got, o.Want = diff, int64(k), wire.Number(x), wire.Number(want)
			}
		}
		at += int(o.Elements)
		if slack += q.spec.Buffers[i].DType.Step() * largest; b.Tolerance == 0 {
			slack = 0
		}
		rms := math.Sqrt(squares / math.Max(float64(o.Elements), 1))
		if o.RMS = wire.Number(rms); most > slack {
			o.Error = wire.Number((most - slack) / rms) // without end beside zeros
		}
		list = append(list, o)
	}
	return list
}
