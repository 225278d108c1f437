package cpu

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
)

// variants is how many different contents every input has. Parity sees all of
// them at the small shapes; timing rotates through them.
const variants = 3

// A shapeData is one shape with everything that a run at it needs.
type shapeData struct {
	shape      kernels.Shape
	dims       []int64
	scalars    []float64
	layout     layout
	operations float64 // of one launch
	traffic    float64 // compulsory bytes of one launch
	inBytes    int     // of the buffers that are only read
	outBytes   int     // of those that are written
	// inputs, by variant and buffer: what a launch finds; nil for outputs.
	inputs [variants][][]byte
	// expected, by variant and buffer: what the reference says; empty for
	// inputs.
	expected [variants][]expected
	// poison, by buffer: what an output holds before a launch.
	poison [][]byte
}

// A problem is a plan's problem in the backend's own terms.
type problem struct {
	definition *kernels.Definition
	buffers    []kernels.Buffer
	dtypes     []dtype
	tolerance  []float64 // by buffer; zero for inputs
	data       []distribution
	roles      []uint64
	seed       uint64
	tune       []*shapeData
	verify     []*shapeData
	sanitize   *shapeData
}

func newProblem(plan evaluator.Plan) (*problem, error) {
	p := plan.Definition.Problem
	if len(plan.Tune) == 0 {
		return nil, fmt.Errorf("kernel %s: no shape to tune for", plan.Definition.Name)
	}
	if len(p.Dims) > maxDims || len(p.Scalars) > maxScalars || len(p.Buffers) > maxBuffers {
		return nil, fmt.Errorf("kernel %s: more than %d dimensions, scalars or buffers", plan.Definition.Name, maxBuffers)
	}
	q := &problem{definition: plan.Definition, buffers: p.Buffers, seed: plan.Seed}
	for _, b := range p.Buffers {
		t, err := parseDType(string(b.DType))
		if err != nil {
			return nil, fmt.Errorf("kernel %s: buffer %s: %w", plan.Definition.Name, b.Name, err)
		}
		role := map[kernels.Role]uint64{kernels.In: roleIn, kernels.Out: roleOut, kernels.InOut: roleInOut}[b.Role]
		q.dtypes = append(q.dtypes, t)
		q.roles = append(q.roles, role)
		q.data = append(q.data, distribution{string(b.Data.Distribution), b.Data.A, b.Data.B})
		tolerance := 0.0
		if role != roleIn {
			var ok bool
			if tolerance, ok = p.Tolerance[b.DType]; !ok && b.DType.Float() {
				return nil, fmt.Errorf("kernel %s: output %s has no tolerance for %s: set problem.tolerance.%s", plan.Definition.Name, b.Name, b.DType, b.DType)
			}
		}
		q.tolerance = append(q.tolerance, tolerance)
	}
	for _, s := range plan.Tune {
		d, err := q.place(s)
		if err != nil {
			return nil, err
		}
		q.tune = append(q.tune, d)
	}
	for _, s := range plan.Verify {
		d, err := q.place(s)
		if err != nil {
			return nil, err
		}
		q.verify = append(q.verify, d)
	}
	var err error
	q.sanitize, err = q.place(plan.Sanitize)
	return q, err
}

// place computes sizes and places at one shape.
func (q *problem) place(s kernels.Shape) (*shapeData, error) {
	p := &q.definition.Problem
	d := &shapeData{shape: s}
	for _, name := range p.Dims {
		n, ok := s.Dims[name]
		if !ok {
			return nil, fmt.Errorf("kernel %s: shape %q does not set %s", q.definition.Name, s.Name, name)
		}
		d.dims = append(d.dims, n)
	}
	var err error
	if d.scalars, err = p.ScalarValues(s); err != nil {
		return nil, err
	}
	for i, sc := range p.Scalars {
		if sc.DType == kernels.F32 {
			// The reference gets what the kernel gets.
			d.scalars[i] = float64(float32(d.scalars[i]))
		}
	}
	if d.operations, err = p.Operations(s); err != nil {
		return nil, err
	}
	if d.traffic, err = p.Bytes(s); err != nil {
		return nil, err
	}
	var placed []placedBuffer
	for i, b := range q.buffers {
		n, err := p.Elements(b, s)
		if err != nil {
			return nil, err
		}
		size := n * int64(q.dtypes[i].size())
		if size > math.MaxInt32*8 {
			return nil, fmt.Errorf("kernel %s: buffer %s has %d bytes at shape %s, which is more than this backend handles", q.definition.Name, b.Name, size, s.Name)
		}
		placed = append(placed, placedBuffer{
			name: b.Name, dtype: q.dtypes[i], elements: int(n), bytes: int(size), role: q.roles[i],
		})
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

// shapes lists every shape once, the smallest first.
func (q *problem) shapes() []*shapeData {
	return append(append([]*shapeData{q.sanitize}, q.verify...), q.tune...)
}

// makeInputs fills in the contents of the inputs.
func (q *problem) makeInputs(d *shapeData) {
	for v := range variants {
		d.inputs[v] = make([][]byte, len(q.buffers))
		for b := range q.buffers {
			if q.roles[b] == roleOut {
				continue
			}
			contents := make([]byte, d.layout.buffers[b].bytes)
			q.data[b].fill(contents, q.dtypes[b], newStream(q.seed, v, b))
			d.inputs[v][b] = contents
		}
	}
}

// load puts a variant's contents and the poison into a set.
func (d *shapeData) load(a *arena, base, set, variant int) {
	for b := range d.layout.buffers {
		if in := d.inputs[variant][b]; in != nil {
			copy(a.buffer(&d.layout, base, set, b), in)
		} else {
			copy(a.buffer(&d.layout, base, set, b), d.poison[b])
		}
	}
}

// reset prepares the outputs of a set for another launch; inputs stay.
func (d *shapeData) reset(a *arena, base, set, variant int) {
	for b := range d.layout.buffers {
		switch d.layout.buffers[b].role {
		case roleOut:
			copy(a.buffer(&d.layout, base, set, b), d.poison[b])
		case roleInOut:
			copy(a.buffer(&d.layout, base, set, b), d.inputs[variant][b])
		}
	}
}

// inputChanged names an input of the set that no longer holds what it was
// given; empty when all do.
func (d *shapeData) inputChanged(a *arena, base, set, variant int) string {
	for b := range d.layout.buffers {
		p := &d.layout.buffers[b]
		if p.role != roleIn {
			continue
		}
		got, want := a.buffer(&d.layout, base, set, b), d.inputs[variant][b]
		if bytes.Equal(got, want) {
			continue
		}
		i := 0
		for got[i] == want[i] {
			i++
		}
		return fmt.Sprintf("input %s was changed at element %d", p.name, i/p.dtype.size())
	}
	return ""
}

// An outputCheck is what the outputs of one set look like.
type outputCheck struct {
	err    float64 // the largest, as a multiple of nothing: see limit
	limit  float64
	reason string // empty when all is well
}

// checkOutputs compares the outputs of a set with the reference. Poisoned says
// whether outputs held the poison before.
func (q *problem) checkOutputs(d *shapeData, a *arena, base, set, variant int, poisoned bool) outputCheck {
	var worst outputCheck
	for b := range d.layout.buffers {
		p := &d.layout.buffers[b]
		if p.role == roleIn {
			continue
		}
		poison := d.poison[b]
		if !poisoned {
			poison = nil
		}
		j := d.expected[variant][b].judge(a.buffer(&d.layout, base, set, b), p.dtype, poison)
		limit := q.tolerance[b]
		c := outputCheck{err: j.err, limit: limit}
		switch {
		case j.fault != "":
			c.reason = fmt.Sprintf("output %s: %s", p.name, j.fault)
		case j.err > limit:
			c.reason = fmt.Sprintf("output %s: error %.3g of the reference's scale at element %d, allowed is %.3g", p.name, j.err, j.index, limit)
		}
		if c.reason != "" {
			return c
		}
		if worst.limit == 0 || c.err/max(c.limit, 1e-300) > worst.err/max(worst.limit, 1e-300) {
			worst = c
		}
	}
	return worst
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

// checkControls proves the tolerance: what is wrong on purpose must fail it.
// Shapes at which two swapped inputs differ in size are left out, and those at
// which the control happens to be right.
func (q *problem) checkControls(swapped func(d *shapeData, a, b int) ([]expected, error)) error {
	for _, c := range q.definition.Problem.Controls {
		looked := false
		for _, d := range append([]*shapeData{q.sanitize}, q.verify...) {
			wrong := make([][]float64, len(q.buffers))
			switch c.Kind {
			case kernels.Zeros:
				for b := range q.buffers {
					wrong[b] = make([]float64, d.layout.buffers[b].elements)
				}
			case kernels.Mean:
				for b := range q.buffers {
					wrong[b] = constantLike(d.expected[0][b].values)
				}
			case kernels.Swapped:
				i, j := q.index(c.Buffers[0]), q.index(c.Buffers[1])
				if i < 0 || j < 0 || d.layout.buffers[i].elements != d.layout.buffers[j].elements {
					continue
				}
				out, err := swapped(d, i, j)
				if err != nil {
					return err
				}
				for b := range out {
					wrong[b] = out[b].values
				}
			default:
				return fmt.Errorf("the CPU backend has no negative control %q", c.Kind)
			}
			told, err := q.mustFail(d, c, wrong)
			if err != nil {
				return err
			}
			looked = looked || told
		}
		if !looked {
			return fmt.Errorf("%w: kernel %s: the control %q says nothing at any shape: it gives the right answer everywhere, or its inputs differ in size everywhere; change the sanitize shape or a verify shape",
				ErrControl, q.definition.Name, controlName(c))
		}
	}
	return nil
}

// sameAnswer is the relative error up to which a control is taken to be the
// right answer in other words: the constant at a shape with one element, say.
const sameAnswer = 1e-12

// mustFail holds a control's outputs against the reference at one shape. It
// says whether they told anything: where the control gives the right answer it
// does not.
func (q *problem) mustFail(d *shapeData, c kernels.Control, wrong [][]float64) (bool, error) {
	least, most := math.Inf(1), 0.0
	for b, p := range d.layout.buffers {
		if p.role == roleIn {
			continue
		}
		e := d.expected[0][b]
		worst := 0.0
		for i, v := range wrong[b] {
			if i < len(e.values) {
				worst = math.Max(worst, math.Abs(v-e.values[i]))
			}
		}
		if e.rms > 0 {
			worst /= e.rms
		}
		if worst > q.tolerance[b] {
			return true, nil // one output that fails is enough
		}
		least, most = math.Min(least, worst), math.Max(most, worst)
	}
	if most <= sameAnswer {
		return false, nil
	}
	return true, fmt.Errorf("%w: kernel %s: the control %q passes at shape %s with an error of %.3g: the tolerance is too wide, or the data hides the difference",
		ErrControl, q.definition.Name, controlName(c), d.shape.Name, least)
}

func controlName(c kernels.Control) string {
	if len(c.Buffers) == 0 {
		return string(c.Kind)
	}
	return string(c.Kind) + " of " + strings.Join(c.Buffers, " and ")
}

func (q *problem) index(buffer string) int {
	for i, b := range q.buffers {
		if b.Name == buffer {
			return i
		}
	}
	return -1
}

func constantLike(values []float64) []float64 {
	if len(values) == 0 {
		return nil
	}
	mean := 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	out := make([]float64, len(values))
	for i := range out {
		out[i] = mean
	}
	return out
}
