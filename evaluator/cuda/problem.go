package cuda

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/kernels"
)

// variants is the least number of contents of the inputs that comparisons may
// ask for; what is timed sees others.
const variants = 3

// A shapeData is one shape with everything that a run at it needs.
type shapeData struct {
	shape kernels.Shape
	labs.Size
	wire  wire.Shape
	tuned bool
}

// A problem is a plan's problem in the worker's terms.
type problem struct {
	name string
	spec *kernels.Problem
	open wire.OpenRequest // without the cubins
	seed uint64
	labs.Placed[*shapeData]
	placed []*shapeData // each once
}

func newProblem(plan evaluator.Plan) (*problem, error) {
	name := plan.Definition.Name
	spec := plan.Definition.ProblemOn("cuda")
	q := &problem{name: name, spec: spec, seed: plan.Seed}
	if spec.DeviceReference != nil {
		q.open.ReferenceEntry = spec.DeviceReference.Entry
	}
	for _, b := range spec.Buffers {
		w := wire.Buffer{
			Name: b.Name, DType: string(b.DType), Role: string(b.Role),
			Distribution: string(b.Data.Distribution), A: b.Data.A, B: b.Data.B,
		}
		if b.Data.Made() {
			w.Distribution = wire.Made
		}
		if b.Role != kernels.In {
			w.Tolerance, _ = spec.ToleranceOf(b)
			w.Units = spec.UnitsOf(b)
			w.Repeat, w.UnwrittenNaN = b.Repeat, b.Unwritten
		}
		if w.UnwrittenNaN && spec.DeviceReference == nil {
			// Timed launches are compared with the baseline's. Where that wrote and the
			// candidate did not, only the reference can say who had to.
			return nil, fmt.Errorf("%w: kernel %s: output %s may stay unwritten in part, and where is known on the GPU only from a reference there: add [problem.reference.cuda], or remove unwritten",
				ErrReference, name, b.Name)
		}
		q.open.Buffers = append(q.open.Buffers, w)
	}
	for _, s := range spec.Scalars {
		q.open.Scalars = append(q.open.Scalars, string(s.DType))
	}
	var err error
	if q.Placed, err = labs.Place(plan, spec, q.place); err != nil {
		return q, err
	}
	for _, d := range q.Tune {
		d.tuned = true
	}
	return q, nil
}

// stored names the inputs that no device makes: timed launches go through a few contents of them.
func (q *problem) stored() string {
	var names []string
	for _, b := range q.spec.Buffers {
		if b.Data.Made() && !b.Data.Keyed() {
			names = append(names, b.Name)
		}
	}
	return strings.Join(names, ", ")
}

// withoutDeviceReference leaves the one in C.
func (q *problem) withoutDeviceReference() {
	spec := *q.spec
	spec.DeviceReference = nil
	q.spec, q.open.Reference, q.open.ReferenceEntry = &spec, "", ""
	for _, d := range q.placed {
		d.wire.Reference = wire.Geometry{}
	}
}

// find gives what was computed of a shape.
func (q *problem) find(s kernels.Shape) (*shapeData, error) {
	for _, d := range q.placed {
		if d.shape.Name == s.Name && maps.Equal(d.shape.Dims, s.Dims) {
			return d, nil
		}
	}
	return nil, fmt.Errorf("kernel %s: the plan has no shape %q", q.name, s.Name)
}

// place computes what one shape needs.
func (q *problem) place(s kernels.Shape) (*shapeData, error) {
	if d, err := q.find(s); err == nil {
		return d, nil // it serves two purposes
	}
	d, err := q.sized(s)
	if err != nil {
		return nil, err
	}
	if q.spec.DeviceReference != nil {
		reference, err := q.spec.ReferenceGeometry(s)
		if err != nil {
			return nil, fmt.Errorf("kernel %s: %w", q.name, err)
		}
		d.wire.Reference = geometry(reference, "")
	}
	q.placed = append(q.placed, d)
	return d, nil
}

// sized computes what a launch under a tool needs of a shape, which is not a reference.
func (q *problem) sized(s kernels.Shape) (d *shapeData, err error) {
	d = &shapeData{shape: s}
	if d.Size, err = labs.SizeOf(q.name, q.spec, s); err != nil {
		return nil, err
	}
	d.wire = wire.Shape{Name: s.Name, Dims: d.Dims, Elements: d.Elements, Scalars: d.Scalars}
	for i, b := range q.spec.Buffers {
		if !b.Data.Keyed() {
			continue
		}
		ends, err := q.spec.EndsAt(b, s)
		if err != nil {
			return nil, err
		}
		if d.wire.Keyed == nil {
			d.wire.Keyed = make([]wire.Keyed, len(q.spec.Buffers))
		}
		k := wire.Keyed{Distribution: string(b.Data.Distribution), A: ends[0], B: ends[len(ends)-1]}
		if b.Data.Distribution != kernels.Between {
			k.A = 0
		}
		d.wire.Keyed[i] = k
	}
	return d, nil
}

// geometry gives a launch in the worker's terms, whose own kernel is the entry.
func geometry(g kernels.Geometry, entry string) wire.Geometry {
	w := wire.Geometry{
		Grid: g.Grid, Block: g.Block, Shared: g.SharedBytes, Workspace: g.WorkspaceBytes,
		Cluster: g.Cluster, Cooperative: g.Cooperative, Dependent: g.Dependent,
	}
	if g.Entry != entry {
		w.Entry = g.Entry
	}
	for _, m := range g.Maps {
		w.Maps = append(w.Maps, wire.TensorMap{
			Buffer: m.Buffer, DType: string(m.DType), Dims: m.Dims, Strides: m.Strides, Box: m.Box,
			Swizzle: m.Swizzle, Promotion: m.Promotion, NaN: m.NaN,
		})
	}
	for _, k := range g.Then {
		next := geometry(k, entry)
		next.Workspace, next.Maps = 0, nil // the first's
		w.Then = append(w.Then, next)
	}
	return w
}

// shapes lists every shape once that a candidate meets in the search, but for one of its
// own: those that results depend on.
func (q *problem) shapes() (list []*shapeData) {
	for _, d := range slices.Concat(q.Tune, q.Verify, []*shapeData{q.Sanitize}) {
		if !slices.Contains(list, d) {
			list = append(list, d)
		}
	}
	return list
}

// seedOf is the seed of the contents of the inputs.
func (q *problem) seedOf(variant int) uint64 { return q.seed*1000003 + uint64(variant) + 1 }
