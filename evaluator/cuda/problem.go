package cuda

import (
	"fmt"
	"maps"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/kernels"
)

// variants is the least number of contents of the inputs that comparisons may
// ask for; what is timed sees others.
const variants = 3

// A shapeData is one shape with everything that a run at it needs.
type shapeData struct {
	shape kernels.Shape
	wire  wire.Shape
	tuned bool
}

// A problem is a plan's problem in the worker's terms.
type problem struct {
	name     string
	spec     *kernels.Problem
	open     wire.OpenRequest // without the cubins
	seed     uint64
	tune     []*shapeData
	verify   []*shapeData
	sanitize *shapeData
	placed   []*shapeData // each once
}

func newProblem(plan evaluator.Plan) (*problem, error) {
	name := plan.Definition.Name
	spec := plan.Definition.ProblemOn("cuda")
	if len(plan.Tune) == 0 {
		return nil, fmt.Errorf("kernel %s: no shape to tune for", name)
	}
	q := &problem{name: name, spec: spec, seed: plan.Seed}
	if spec.DeviceReference != nil {
		q.open.ReferenceEntry = spec.DeviceReference.Entry
	}
	for _, b := range spec.Buffers {
		w := wire.Buffer{
			Name: b.Name, DType: string(b.DType), Role: string(b.Role),
			Distribution: string(b.Data.Distribution), A: b.Data.A, B: b.Data.B,
		}
		if b.Role != kernels.In {
			tolerance, ok := spec.Tolerance[b.DType]
			if !ok && b.DType.Float() {
				return nil, fmt.Errorf("kernel %s: output %s has no tolerance for %s: set problem.tolerance.%s", name, b.Name, b.DType, b.DType)
			}
			w.Tolerance = tolerance
		}
		q.open.Buffers = append(q.open.Buffers, w)
	}
	for _, s := range spec.Scalars {
		q.open.Scalars = append(q.open.Scalars, string(s.DType))
	}
	for _, s := range plan.Tune {
		d, err := q.place(s)
		if err != nil {
			return nil, err
		}
		d.tuned = true
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
	d := &shapeData{shape: s, wire: wire.Shape{Name: s.Name}}
	for _, name := range q.spec.Dims {
		n, ok := s.Dims[name]
		if !ok {
			return nil, fmt.Errorf("kernel %s: shape %q does not set %s", q.name, s.Name, name)
		}
		d.wire.Dims = append(d.wire.Dims, n)
	}
	for _, b := range q.spec.Buffers {
		n, err := q.spec.Elements(b, s)
		if err != nil {
			return nil, err
		}
		d.wire.Elements = append(d.wire.Elements, n)
	}
	var err error
	if d.wire.Scalars, err = q.spec.ScalarValues(s); err != nil {
		return nil, err
	}
	q.roundScalars(d.wire.Scalars)
	// The judge needs both.
	if _, err := q.spec.Operations(s); err != nil {
		return nil, err
	}
	if _, err := q.spec.Bytes(s); err != nil {
		return nil, err
	}
	if q.spec.DeviceReference != nil {
		reference, err := q.spec.ReferenceGeometry(s)
		if err != nil {
			return nil, fmt.Errorf("kernel %s: %w", q.name, err)
		}
		d.wire.Reference = geometry(reference)
	}
	q.placed = append(q.placed, d)
	return d, nil
}

// roundScalars gives the reference what the kernel gets.
func (q *problem) roundScalars(values []float64) {
	for i, sc := range q.spec.Scalars {
		if sc.DType == kernels.F32 {
			values[i] = float64(float32(values[i]))
		}
	}
}

func geometry(g kernels.Geometry) wire.Geometry {
	return wire.Geometry{Grid: g.Grid, Block: g.Block, Shared: g.SharedBytes, Workspace: g.WorkspaceBytes}
}

// shapes lists every shape once.
func (q *problem) shapes() []*shapeData { return q.placed }

// seedOf is the seed of the contents of the inputs.
func (q *problem) seedOf(variant int) uint64 { return q.seed*1000003 + uint64(variant) + 1 }
