package labs

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
)

// A Size is what the numbers of a problem are at one shape.
type Size struct {
	Dims     []int64
	Elements []int64 // by buffer
	// Scalars are as a kernel gets them, so that the reference gets the same.
	Scalars []float64
}

// SizeOf computes the numbers of a kernel's problem at a shape, and refuses shapes of
// which the judge could not compute the operations and the bytes.
func SizeOf(kernel string, p *kernels.Problem, s kernels.Shape) (z Size, err error) {
	for _, name := range p.Dims {
		n, ok := s.Dims[name]
		if !ok {
			return z, fmt.Errorf("kernel %s: shape %q does not set %s", kernel, s.Name, name)
		}
		z.Dims = append(z.Dims, n)
	}
	for _, b := range p.Buffers {
		n, err := p.Elements(b, s)
		if err != nil {
			return z, err
		}
		z.Elements = append(z.Elements, n)
	}
	if z.Scalars, err = p.ScalarValues(s); err != nil {
		return z, err
	}
	roundScalars(p, z.Scalars)
	if _, err := p.Operations(s); err != nil {
		return z, err
	}
	_, err = p.Bytes(s)
	return z, err
}

func roundScalars(p *kernels.Problem, values []float64) {
	for i, sc := range p.Scalars {
		if sc.DType == kernels.F32 {
			values[i] = float64(float32(values[i]))
		}
	}
}

// Further makes edge-case inputs, at a shape: the scalars, and by buffer the
// elements of the inputs, and two times more as they are elsewhere by some roundings.
// Made are declared contents, by buffer, of buffers that are made as a whole; nil for others.
func (z Size) Further(p *kernels.Problem, c kernels.Further, s kernels.Shape, seed uint64, made [][]float64) (scalars []float64, values [3][][]float64, err error) {
	if scalars, values[0], err = z.Edge(p, c, s, seed, made); err != nil {
		return nil, values, err
	}
	var g errgroup.Group // large buffers take seconds
	g.SetLimit(runtime.GOMAXPROCS(0))
	for way := range 2 {
		values[1+way] = make([][]float64, len(p.Buffers))
		for i, b := range p.Buffers {
			if b.Role != kernels.Out {
				g.Go(func() error {
					values[1+way][i] = b.Nearby(values[0][i], way, seed)
					return nil
				})
			}
		}
	}
	return scalars, values, g.Wait()
}

// Edge is the first part of Further: the scalars, and by buffer the elements of the inputs.
func (z Size) Edge(p *kernels.Problem, c kernels.Further, s kernels.Shape, seed uint64, made [][]float64) (scalars []float64, values [][]float64, err error) {
	if scalars, err = c.Scalars(p, s); err != nil {
		return nil, nil, err
	}
	roundScalars(p, scalars)
	values = make([][]float64, len(p.Buffers))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, b := range p.Buffers {
		if b.Role == kernels.Out {
			continue
		}
		axes, err := p.Axes(b, s)
		if err != nil {
			return nil, nil, err
		}
		var own []float64
		if made != nil {
			own = made[i]
		}
		g.Go(func() error {
			values[i] = c.Make(i, z.Elements[i], axes[len(axes)-1], seed, own)
			return nil
		})
	}
	return scalars, values, g.Wait()
}

// Handle is what a lab has put into an artifact.
func Handle[T any](a evaluator.Artifact) (T, error) {
	h, ok := a.Handle.(T)
	if !ok {
		return h, errors.New("the artifact was not made by this lab")
	}
	return h, nil
}

// A Placed is what a lab computes of the shapes of a plan, by what they are for.
type Placed[T any] struct {
	Tune, Verify []T
	Sanitize     T
	SanitizeAlso []T
}

// Place computes what a lab needs of a plan's shapes, and refuses plans without a
// tuned shape and outputs without a tolerance.
func Place[T any](plan evaluator.Plan, p *kernels.Problem, place func(kernels.Shape) (T, error)) (all Placed[T], err error) {
	name := plan.Definition.Name
	if len(plan.Tune) == 0 {
		return all, fmt.Errorf("kernel %s: no shape to tune for", name)
	}
	for _, b := range p.Buffers {
		if _, ok := p.ToleranceOf(b); !ok && b.Role != kernels.In && b.DType.Float() {
			return all, fmt.Errorf("kernel %s: output %s has no tolerance for %s: set problem.tolerance.%s", name, b.Name, b.DType, b.DType)
		}
	}
	for _, part := range []struct {
		to   *[]T
		from []kernels.Shape
	}{{&all.Tune, plan.Tune}, {&all.Verify, plan.Verify}} {
		for _, s := range part.from {
			d, err := place(s)
			if err != nil {
				return all, err
			}
			*part.to = append(*part.to, d)
		}
	}
	if all.Sanitize, err = place(plan.Sanitize); err != nil {
		return all, err
	}
	for _, s := range plan.SanitizeAlso {
		d, err := place(s)
		if err != nil {
			return all, err
		}
		all.SanitizeAlso = append(all.SanitizeAlso, d)
	}
	return all, nil
}
