package cuda

import (
	"fmt"
	"math"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/kernels"
)

// variants is how many different contents every input has in parity, at shapes
// that are not timed; what is timed sees others besides.
const variants = 3

// A shapeData is one shape with everything that a run at it needs.
type shapeData struct {
	shape      kernels.Shape
	wire       wire.Shape
	operations float64 // of one launch
	traffic    float64 // compulsory bytes of one launch
	tuned      bool
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
}

func newProblem(plan evaluator.Plan) (*problem, error) {
	name := plan.Definition.Name
	spec := plan.Definition.ProblemOn("cuda")
	if len(plan.Tune) == 0 {
		return nil, fmt.Errorf("kernel %s: no shape to tune for", name)
	}
	if spec.DeviceReference == nil {
		return nil, fmt.Errorf("%w: kernel %s has none in CUDA: add [problem.reference.cuda] with source, entry, grid and block", ErrReference, name)
	}
	q := &problem{name: name, spec: spec, seed: plan.Seed}
	q.open.ReferenceEntry = spec.DeviceReference.Entry
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

// place computes what one shape needs.
func (q *problem) place(s kernels.Shape) (*shapeData, error) {
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
	for i, sc := range q.spec.Scalars {
		if sc.DType == kernels.F32 {
			// The reference gets what the kernel gets.
			d.wire.Scalars[i] = float64(float32(d.wire.Scalars[i]))
		}
	}
	if d.operations, err = q.spec.Operations(s); err != nil {
		return nil, err
	}
	if d.traffic, err = q.spec.Bytes(s); err != nil {
		return nil, err
	}
	reference, err := q.spec.ReferenceGeometry(s)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", q.name, err)
	}
	d.wire.Reference = geometry(reference)
	return d, nil
}

func geometry(g kernels.Geometry) wire.Geometry {
	return wire.Geometry{Grid: g.Grid, Block: g.Block, Shared: g.SharedBytes, Workspace: g.WorkspaceBytes}
}

// shapes lists every shape once, in the order in which parity sees them: those
// that are cheap come first.
func (q *problem) shapes() []*shapeData {
	return append(append([]*shapeData{q.sanitize}, q.verify...), q.tune...)
}

// seedOf is the seed of the contents of the inputs.
func (q *problem) seedOf(variant int) uint64 { return q.seed*1000003 + uint64(variant) + 1 }

// seeds is how many contents parity compares at a shape.
func (d *shapeData) seeds() int {
	if d.tuned {
		return 1 // the timing compares others
	}
	return variants
}

// The measured peaks are what the device reached while it may have been
// disturbed; a candidate must be faster than this much more to be called
// impossible.
const (
	computeHeadroom = 1.10
	memoryHeadroom  = 1.15
)

// floor is the time in nanoseconds below which no launch at a shape can be: its
// operations at the peak rate, or its bytes at the rates of the caches and the
// memory that they can come from, whichever takes longer.
func (q *problem) floor(d *shapeData, peaks map[string]float64, cache int64) float64 {
	ns := 0.0
	if p := peaks[q.spec.Pipe]; p > 0 {
		ns = d.operations / (p * computeHeadroom) * 1e9
	}
	memory := math.Max(peaks["read"], math.Max(peaks["write"], peaks["copy"]))
	l2 := math.Max(peaks["l2"], memory)
	if l2 > 0 {
		ns = math.Max(ns, d.traffic/(l2*memoryHeadroom)*1e9)
	}
	if memory > 0 {
		// What the last-level cache holds may be there from the launch before,
		// and what is written may stay in it.
		outside := math.Max(0, d.traffic-1.25*float64(cache))
		ns = math.Max(ns, outside/(memory*memoryHeadroom)*1e9)
	}
	return ns
}

// controls lists the wrong answers that the tolerance must refuse.
func (q *problem) controls() []wire.ControlRequest {
	var list []wire.ControlRequest
	for _, c := range q.spec.Controls {
		list = append(list, wire.ControlRequest{Kind: string(c.Kind), Buffers: c.Buffers})
	}
	return list
}

func controlName(c wire.ControlRequest) string {
	if len(c.Buffers) == 0 {
		return c.Kind
	}
	return c.Kind + " of " + strings.Join(c.Buffers, " and ")
}

// compare judges one output as the worker saw it; empty when it is right.
func compare(o wire.Output) string {
	switch {
	case o.Unwritten > 0:
		return fmt.Sprintf("output %s: %d of %d elements were never written, the first wrong one is %d", o.Name, o.Unwritten, o.Elements, o.Worst)
	case o.NotFinite > 0:
		return fmt.Sprintf("output %s: %d of %d elements are not finite, such as element %d: %v where %v is right", o.Name, o.NotFinite, o.Elements, o.Worst, float64(o.Got), float64(o.Want))
	case !(float64(o.Error) <= o.Limit):
		return fmt.Sprintf("output %s: error %.3g of the reference's scale at element %d (%.6g where %.6g is right), allowed is %.3g",
			o.Name, float64(o.Error), o.Worst, float64(o.Got), float64(o.Want), o.Limit)
	}
	return ""
}

// worst is the output that comes nearest to its limit, or goes farthest beyond.
func worst(outputs []wire.Output) wire.Output {
	var w wire.Output
	most := math.Inf(-1)
	for _, o := range outputs {
		share := float64(o.Error) / math.Max(o.Limit, 1e-300)
		if o.NotFinite > 0 || o.Unwritten > 0 || math.IsNaN(share) {
			share = math.Inf(1)
		}
		if share > most {
			w, most = o, share
		}
	}
	return w
}

// finite makes a value fit for JSON.
func finite(x float64) float64 {
	if x > 1e300 || x != x {
		return 1e300
	}
	return x
}
