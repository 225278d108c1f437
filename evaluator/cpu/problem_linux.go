package cpu

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/python"
	"github.com/evotune/evotune/kernels"
)

// variants is how many different contents every input has in parity; at tuned shapes
// one is compared.
const variants = 3

// A shapeData is one shape with everything that a run at it needs.
type shapeData struct {
	shape kernels.Shape
	labs.Size
	layout   layout
	inBytes  int // of the buffers that are only read
	outBytes int // of those that are written
	// inputs, by variant and buffer: what a launch finds; nil for outputs.
	inputs [variants][][]byte
	// expected, by variant and buffer: what the reference says; empty for
	// inputs.
	expected [variants][]expected
	// poison, by buffer: what an output holds before a launch.
	poison [][]byte
	// further holds the edge-case inputs, by name, of shapes that are not timed:
	// each as its first contents, with scalars of its own. Silent says why one of
	// them cannot be compared.
	further map[string]*shapeData
	silent  string
}

// A problem is a plan's problem in the backend's own terms.
type problem struct {
	labs.Placed[*shapeData]
	name    string
	spec    *kernels.Problem
	buffers []kernels.Buffer
	dtypes  []dtype
	data    []distribution
	roles   []uint64
	seed    uint64
}

func newProblem(plan evaluator.Plan) (*problem, error) {
	p := plan.Definition.ProblemOn("cpu")
	if len(p.Dims) > maxDims || len(p.Scalars) > maxScalars || len(p.Buffers) > maxBuffers {
		return nil, fmt.Errorf("kernel %s: more than %d dimensions, scalars or buffers", plan.Definition.Name, maxBuffers)
	}
	q := &problem{name: plan.Definition.Name, spec: p, buffers: p.Buffers, seed: plan.Seed}
	for _, b := range p.Buffers {
		t, err := parseDType(string(b.DType))
		if err != nil {
			return nil, fmt.Errorf("kernel %s: buffer %s: %w", plan.Definition.Name, b.Name, err)
		}
		role := map[kernels.Role]uint64{kernels.In: roleIn, kernels.Out: roleOut, kernels.InOut: roleInOut}[b.Role]
		q.dtypes = append(q.dtypes, t)
		q.roles = append(q.roles, role)
		q.data = append(q.data, distribution{string(b.Data.Distribution), b.Data.A, b.Data.B})
	}
	var err error
	q.Placed, err = labs.Place(plan, p, q.place)
	return q, err
}

// place computes sizes and places at one shape.
func (q *problem) place(s kernels.Shape) (*shapeData, error) {
	d := &shapeData{shape: s}
	var err error
	if d.Size, err = labs.SizeOf(q.name, q.spec, s); err != nil {
		return nil, err
	}
	var placed []placedBuffer
	for i, b := range q.buffers {
		n := d.Elements[i]
		size := n * int64(q.dtypes[i].size())
		if size > math.MaxInt32*8 {
			return nil, fmt.Errorf("kernel %s: buffer %s has %d bytes at shape %s, which is more than this backend handles", q.name, b.Name, size, s.Name)
		}
		placed = append(placed, placedBuffer{
			name: b.Name, dtype: q.dtypes[i], elements: int(n), bytes: int(size), role: q.roles[i],
		})
		if q.roles[i] == roleIn && !q.made(i) && b.Data.Distribution != kernels.Constant {
			placed[i].windows = windows
		}
		if q.roles[i] == roleIn {
			d.inBytes += int(size)
		} else {
			d.outBytes += int(size)
		}
		poison := []byte(nil)
		if q.roles[i] == roleOut {
			poison = poisonBytes(q.dtypes[i], int(size))
		}
		d.poison = append(d.poison, poison)
	}
	d.layout = newLayout(placed)
	return d, nil
}

// shapes lists every shape of the search once, the smallest first.
func (q *problem) shapes() []*shapeData {
	return slices.Concat([]*shapeData{q.Sanitize}, q.Verify, q.Tune)
}

// makeInputs fills in the contents of the inputs, once.
func (h *lab) makeInputs(ctx context.Context, d *shapeData) error {
	if d.inputs[variants-1] != nil {
		return nil
	}
	ctx, done := evaluator.Preparing(ctx, "inputs of shape %s", d.shape.Name)
	defer done()
	q := h.problem
	for v := range variants {
		d.inputs[v] = make([][]byte, len(q.buffers))
		for b := range q.buffers {
			if q.roles[b] == roleOut {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			contents := make([]byte, d.layout.buffers[b].bytes)
			if d.inputs[v][b] = contents; !q.made(b) {
				q.data[b].fill(contents, q.dtypes[b], newStream(q.seed, v, b))
				continue
			}
			made, err := h.python.Made(ctx, q.spec, d.shape, d.Size, b, uint64(*newStream(q.seed, v, b))>>1)
			if err != nil {
				err = python.Blame(err, ErrReference, "kernel "+q.name+", shape "+d.shape.Name)
				return labs.AtShape(err, ErrReference, q.spec, d.shape.Name, d.Dims)
			}
			q.dtypes[b].putAll(contents, made)
		}
	}
	return nil
}

// made says that what a buffer holds is made for the whole of it.
func (q *problem) made(buffer int) bool { return q.buffers[buffer].Data.Made() }

// anyMade says whether any buffer is made as a whole.
func (q *problem) anyMade() bool {
	return slices.ContainsFunc(q.buffers, func(b kernels.Buffer) bool { return b.Data.Made() })
}

// allMade gives the first contents of the buffers that are made as a whole; nil for others.
func (q *problem) allMade(d *shapeData) [][]float64 {
	all := make([][]float64, len(q.buffers))
	for b := range q.buffers {
		if q.made(b) {
			all[b] = make([]float64, d.layout.buffers[b].elements)
			for i := range all[b] {
				all[b][i] = q.dtypes[b].get(d.inputs[0][b], i)
			}
		}
	}
	return all
}

// likeTimed gives declared contents that are drawn as timed ones are: a candidate could tell another generator
// by a few numbers near zero. What has one value is nil.
func (q *problem) likeTimed(d *shapeData, seed uint64) [][]float64 {
	all := q.allMade(d)
	for b, p := range d.layout.buffers {
		if all[b] != nil || p.role == roleOut || q.buffers[b].Data.Distribution == kernels.Constant {
			continue
		}
		drawn := make([]byte, p.bytes)
		q.data[b].quick(drawn, p.dtype, newSecret(seed, b))
		all[b] = make([]float64, p.elements)
		for i := range all[b] {
			all[b][i] = p.dtype.get(drawn, i)
		}
	}
	return all
}

// load puts a variant's contents and the poison into an arena's first set.
func (d *shapeData) load(a *arena, variant int) {
	for b := range d.layout.buffers {
		if in := d.inputs[variant][b]; in != nil {
			copy(a.buffer(&d.layout, span{}, 0, b), in)
		} else {
			copy(a.buffer(&d.layout, span{}, 0, b), d.poison[b])
		}
	}
}

// usual is the root mean square of an output, over all declared contents of parity.
func (d *shapeData) usual(buffer int) float64 {
	sum := 0.0
	for _, e := range d.expected {
		if buffer < len(e) {
			sum += e[buffer].rms * e[buffer].rms / variants
		}
	}
	return math.Sqrt(sum)
}

// outputs compares the outputs of a set with what is expected of each buffer.
func (q *problem) outputs(d *shapeData, a *arena, base span, set int, want []expected) []evaluator.Output {
	var list []evaluator.Output
	for b := range d.layout.buffers {
		p := &d.layout.buffers[b]
		if p.role == roleIn {
			continue
		}
		o := want[b].compare(a.buffer(&d.layout, base, set, b), p.dtype, q.spec.UnitsOf(q.buffers[b]), d.poison[b])
		o.Name = p.name
		list = append(list, o)
	}
	return list
}

// worse keeps, output by output, what is further from right.
func worse(all, more []evaluator.Output) []evaluator.Output {
	for _, o := range more {
		i := slices.IndexFunc(all, func(have evaluator.Output) bool { return have.Name == o.Name })
		switch {
		case i < 0:
			all = append(all, o)
		case !(o.Error <= all[i].Error):
			all[i] = o
		}
	}
	return all
}

// glue is the C source that hands the harness's tables to the entry point.
// The prototype comes from a header that is included before it.
func glue(p *kernels.Problem, entry string, scalarType func(kernels.Scalar) string) string {
	var s strings.Builder
	s.WriteString("__attribute__((visibility(\"default\"))) void evotune_call(const int64_t *evotune_dims, void *const *evotune_buffers, const double *evotune_scalars)\n{\n")
	s.WriteString("\t(void)evotune_dims, (void)evotune_buffers, (void)evotune_scalars;\n")
	var args []string
	for i := range p.Dims {
		args = append(args, fmt.Sprintf("evotune_dims[%d]", i))
	}
	for i := range p.Buffers {
		args = append(args, fmt.Sprintf("evotune_buffers[%d]", i))
	}
	for i, sc := range p.Scalars {
		args = append(args, fmt.Sprintf("(%s)evotune_scalars[%d]", scalarType(sc), i))
	}
	fmt.Fprintf(&s, "\t%s(%s);\n}\n", entry, strings.Join(args, ", "))
	return s.String()
}

// at finds the data of a shape.
func (q *problem) at(s kernels.Shape) (*shapeData, error) {
	for _, d := range slices.Concat(q.shapes(), q.SanitizeAlso) {
		if d.shape.Name == s.Name {
			return d, nil
		}
	}
	return nil, fmt.Errorf("kernel %s: the plan has no shape %q", q.name, s.Name)
}

func (q *problem) index(buffer string) int {
	for i, b := range q.buffers {
		if b.Name == buffer {
			return i
		}
	}
	return -1
}
