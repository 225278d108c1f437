package kernels

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/naming"
	"github.com/evotune/evotune/internal/tomltext"
)

// What cuTensorMapEncodeTiled requires of a tensor map (cuda.h of CUDA 12.4).
const (
	maxMapAxes   = 5
	maxMapDim    = 1 << 32 // elements along an axis
	maxMapStride = 1 << 40 // bytes; a stride is below
	maxMapBox    = 256     // elements along an axis
	mapAlignment = 16      // bytes, of strides and of the innermost row of a box
)

var (
	swizzles   = []int64{0, 32, 64, 128}
	promotions = []int64{0, 64, 128, 256}
)

// tensorMaps reads the tensor maps of an implementation, with expressions over some
// names.
func (l *loader) tensorMaps(list []*tensorMapTable, im *Implementation, names map[string]any) {
	taken := map[string]*node{}
	for i, t := range list {
		switch {
		case i == MaxMaps:
			l.d.fail(t.Table.key, "a candidate has at most %d tensor maps: remove this one", MaxMaps)
		case !im.on().Has(backend.TensorMap):
			l.d.fail(t.Table.key, "the %s backend has no tensor maps: remove this one", im.Backend)
		case capability(im.Target) < hopper:
			l.d.fail(t.Table.key, "tensor maps need a target of sm_90 or above, and this is %s: raise the target, or remove the map", im.Target)
		}
		l.name(t.Name, "tensor map")
		if what := im.parameterNamed(t.Name.str); what != "" {
			l.d.fail(t.Name.at, "tensor map %s: %s has the name already: choose another", t.Name.str, what)
		}
		l.fresh(taken, t.Name, "tensor map")
		im.TensorMaps = append(im.TensorMaps, l.tensorMap(t, im.Problem(), names))
	}
}

// parameterNamed says which other parameter of the entry has a name.
func (im *Implementation) parameterNamed(name string) string {
	p := im.Problem()
	_, buffer := p.Buffer(name)
	switch {
	case slices.Contains(p.Dims, name):
		return "a dimension"
	case buffer:
		return "a buffer"
	case slices.ContainsFunc(p.Scalars, func(s Scalar) bool { return s.Name == name }):
		return "a scalar"
	case name == workspaceName:
		return "the workspace"
	}
	return ""
}

func (l *loader) tensorMap(t *tensorMapTable, p *Problem, names map[string]any) TensorMap {
	m := TensorMap{
		Name: t.Name.str, Buffer: t.Buffer.str, DType: DType(t.DType.text()), Fill: t.Fill.text(),
		Dims: strs(t.Dims), Box: strs(t.Box), Swizzle: t.Swizzle.text(), Promotion: t.Promotion.text(),
	}
	b, ok := p.Buffer(m.Buffer)
	if !ok {
		all := make([]string, len(p.Buffers))
		for i, b := range p.Buffers {
			all[i] = b.Name
		}
		l.d.fail(t.Buffer.at, "tensor map %s: no buffer is called %q: %s", m.Name, m.Buffer, naming.Suggest(m.Buffer, all))
	}
	axes := len(t.Dims)
	if axes < 1 || axes > maxMapAxes {
		l.d.fail(t.Table.children["dims"].at, "tensor map %s has %d axes, expected one to %d, the innermost first", m.Name, axes, maxMapAxes)
	}
	if len(t.Box) != axes {
		l.d.fail(t.Table.children["box"].at, "tensor map %s has %d axes and a box of %d: give the box one size for each axis", m.Name, axes, len(t.Box))
	}
	if n := t.Table.children["strides"]; n != nil {
		if len(t.Strides) != axes-1 {
			l.d.fail(n.at, "tensor map %s has %d axes and %d strides: give one for each axis but the innermost, or none where the array is packed", m.Name, axes, len(t.Strides))
		}
		m.Strides = strs(t.Strides)
	}
	if as := cmp.Or(m.DType, b.DType); m.Fill == "nan" && !slices.Contains([]DType{F64, F32, F16, BF16}, as) {
		l.d.fail(t.Fill.at, "tensor map %s: %s cannot be filled with NaN, only f64, f32, f16 and bf16 can: write zeros, or remove fill", m.Name, as)
	}
	compile := func(list []*node) (out []*expression) {
		for _, n := range list {
			out = append(out, l.compile(n, names))
		}
		return out
	}
	m.dims, m.strides, m.box = compile(t.Dims), compile(t.Strides), compile(t.Box)
	m.swizzle, m.promotion = l.compile(t.Swizzle, names), l.compile(t.Promotion, names)
	return m
}

// An advised error of a launch says what to do about it.
type advised struct {
	error
	advice string
}

func (a advised) Unwrap() error { return a.error }

// constrain is the advice if the error depends on the shape.
const constrain = "add a constraint over the dimensions"

// maps evaluates the tensor maps at a shape. With an error it returns the expression
// that failed.
func (im *Implementation) maps(env map[string]any, s Shape) ([]MapGeometry, *expression, error) {
	var all []MapGeometry
	for i := range im.TensorMaps {
		m := &im.TensorMaps[i]
		geo, failed, err := m.at(im.Problem(), env, s)
		if err != nil {
			var a advised
			if errors.As(err, &a) {
				return nil, failed, advised{fmt.Errorf("tensor map %s: %w", m.Name, a.error), a.advice}
			}
			return nil, failed, fmt.Errorf("tensor map %s: %w", m.Name, err)
		}
		all = append(all, geo)
	}
	return all, nil, nil
}

func (m *TensorMap) at(p *Problem, env map[string]any, s Shape) (geo MapGeometry, failed *expression, err error) {
	geo.Buffer = slices.IndexFunc(p.Buffers, func(b Buffer) bool { return b.Name == m.Buffer })
	b := p.Buffers[geo.Buffer]
	geo.DType, geo.NaN = cmp.Or(m.DType, b.DType), m.Fill == "nan"
	size := geo.DType.Size()
	number := func(what string, e *expression, least, most int64) (int64, error) {
		n, err := e.prog.Int(env)
		if err == nil && (n < least || n > most) {
			err = advised{fmt.Errorf("%s: %q gives %d, expected %d to %d", what, e.src, n, least, most), constrain}
		} else if err != nil {
			err = fmt.Errorf("%s: %w", what, err)
		}
		return n, err
	}
	for _, e := range m.dims {
		n, err := number("dims", e, 1, maxMapDim)
		if err != nil {
			return geo, e, err
		}
		geo.Dims = append(geo.Dims, n)
	}
	packed := size * geo.Dims[0] // below 2^36
	for i := range geo.Dims[1:] {
		what, e, bytes := "strides", m.dims[i], packed
		if m.strides != nil {
			e = m.strides[i]
			n, err := number(what, e, 0, maxMapStride/size)
			if err != nil {
				return geo, e, err
			}
			bytes = n * size
		} else {
			what = "dims, packed"
		}
		switch {
		case bytes%mapAlignment != 0:
			return geo, e, advised{fmt.Errorf("%s: axis %d has a stride of %d bytes, which is not a multiple of %d", what, i+1, bytes, mapAlignment), constrain}
		case bytes >= maxMapStride:
			return geo, e, advised{fmt.Errorf("%s: axis %d has a stride of 2^40 bytes or more", what, i+1), constrain}
		}
		geo.Strides = append(geo.Strides, bytes)
		if m.strides == nil { // a product that is too large stays so, and does not overflow
			packed = bytes * min(geo.Dims[i+1], maxMapStride/bytes+1)
		}
	}
	for _, e := range m.box {
		n, err := number("box", e, 1, maxMapBox)
		if err != nil {
			return geo, e, err
		}
		geo.Box = append(geo.Box, n)
	}
	for _, f := range []struct {
		what string
		e    *expression
		set  []int64
		to   *int64
	}{{"swizzle", m.swizzle, swizzles, &geo.Swizzle}, {"promotion", m.promotion, promotions, &geo.Promotion}} {
		if f.e == nil {
			continue
		}
		if *f.to, err = f.e.prog.Int(env); err != nil {
			return geo, f.e, fmt.Errorf("%s: %w", f.what, err)
		}
		if !slices.Contains(f.set, *f.to) {
			return geo, f.e, fmt.Errorf("%s: %q gives %d, expected one of %s bytes", f.what, f.e.src, *f.to, strings.Trim(fmt.Sprint(f.set), "[]"))
		}
	}
	switch inner := geo.Box[0] * size; {
	case inner%mapAlignment != 0:
		return geo, m.box[0], advised{fmt.Errorf("box: the innermost row has %d bytes, which is not a multiple of %d", inner, mapAlignment), "give it another size"}
	case geo.Swizzle > 0 && inner > geo.Swizzle:
		return geo, m.box[0], advised{fmt.Errorf("box: the innermost row has %d bytes, more than the swizzle of %d", inner, geo.Swizzle), "make the box narrower, or the swizzle wider"}
	}
	elements, err := p.Elements(b, s)
	if err != nil {
		return geo, m.dims[0], err
	}
	// The end of the last element. Buffers are below 2^40 bytes, so a float is exact
	// enough and does not overflow.
	end := float64(geo.Dims[0] * size)
	for i, stride := range geo.Strides {
		end += float64(geo.Dims[i+1]-1) * float64(stride)
	}
	if have := float64(elements * b.DType.Size()); end > have {
		return geo, m.dims[len(m.dims)-1], advised{fmt.Errorf("dims and strides reach %.0f bytes into the buffer %s, which has %.0f", end, b.Name, have), "correct them"}
	}
	return geo, nil, nil
}

// mapKeys are the keys of a tensor map with a genome's values, and the values in TOML.
func (im *Implementation) mapKeys(m *TensorMap, g genome.Genome) [][2]string {
	all := func(src []string) string { return tomltext.List(im.overAll(src, g)) }
	keys := [][2]string{{"name", tomltext.Quote(m.Name)}, {"buffer", tomltext.Quote(m.Buffer)}}
	if m.DType != "" {
		keys = append(keys, [2]string{"dtype", tomltext.Quote(string(m.DType))})
	}
	keys = append(keys, [2]string{"dims", all(m.Dims)})
	if m.Strides != nil {
		keys = append(keys, [2]string{"strides", all(m.Strides)})
	}
	keys = append(keys, [2]string{"box", all(m.Box)})
	for _, one := range [][2]string{{"swizzle", m.Swizzle}, {"promotion", m.Promotion}} {
		if one[1] != "" {
			keys = append(keys, [2]string{one[0], tomltext.Quote(im.over(one[1], g))})
		}
	}
	if m.Fill != "" {
		keys = append(keys, [2]string{"fill", tomltext.Quote(m.Fill)})
	}
	return keys
}
