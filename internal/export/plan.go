package export

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/kernels"
)

// This file translates launches of GPU kernels that are more than a grid over the
// dimensions: over what the device has, in clusters, of several kernels, with tensor maps.

// What gpu.h has room for.
const (
	maxSteps = 16
	maxMaps  = 16
)

// deviceLimits are what a library asks of its device when it runs, with their places in
// gpu.h. The other limits are those of the device that a kernel was tuned on.
var deviceLimits = [][2]string{
	{"device_cores", "EVO_CORES"},
	{"device_l2_bytes", "EVO_L2_BYTES"},
	{"device_capability", "EVO_CAPABILITY"},
	{"device_warp", "EVO_WARP"},
	{"device_max_threads", "EVO_MAX_THREADS"},
	{"device_max_shared_bytes", "EVO_MAX_SHARED_BYTES"},
	{"device_registers", "EVO_REGISTERS"},
}

// A plan is such a launch in C.
type plan struct {
	// Text fills an evo_plan.
	Text string
	// Steps has for each kernel of the sequence what its name has behind that of the
	// first, which has nothing.
	Steps []string
	Maps  int
	// Later says that it needs what older drivers lack.
	Later bool
	// further are the kernels besides the first, as the source calls them, in the order
	// of Further.
	further []string
}

// launches are the kernels of a launch in their order.
func launches(l *kernels.Launch) []*kernels.Launch { return append([]*kernels.Launch{l}, l.Then...) }

// expressions are all that a launch and tensor maps consist of.
func expressions(im *kernels.Implementation) []string {
	var list []string
	for _, l := range launches(im.Launch) {
		list = slices.Concat(list, l.Grid, l.Block, l.Cluster, []string{l.Shared, l.Workspace, l.Cooperative, l.Dependent})
	}
	for _, m := range im.TensorMaps {
		list = slices.Concat(list, m.Dims, m.Strides, m.Box, []string{m.Swizzle, m.Promotion})
	}
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

// newPlan translates the launch of what is rendered; nil where a grid over the
// dimensions is all of it.
func (p *problem) newPlan(r kernels.Rendered, limits map[string]any) (*plan, error) {
	im := r.Implementation
	steps := launches(im.Launch)
	t := p.translator(r, limits)
	t.saturating, t.limits = true, map[string]bool{}
	for _, l := range deviceLimits {
		t.limits[l[0]] = false
		delete(t.constants, l[0])
	}
	pl := &plan{Maps: len(im.TensorMaps)}
	asks := false
	for _, src := range expressions(im) {
		e, err := t.compile(src)
		if err != nil {
			return nil, fmt.Errorf("the launch: %w", err)
		}
		for _, n := range e.Names() {
			_, limit := t.limits[n]
			asks = asks || limit
		}
	}
	for _, l := range steps {
		pl.Later = pl.Later || l.Cluster != nil || l.Cooperative != "" || l.Dependent != ""
	}
	pl.Later = pl.Later || pl.Maps > 0
	switch {
	case !asks && !pl.Later && len(steps) == 1:
		return nil, nil
	case len(steps) > maxSteps:
		return nil, fmt.Errorf("the implementation %s has %d kernels in sequence, and libraries launch %d at most", im.Name, len(steps), maxSteps)
	case pl.Maps > maxMaps:
		return nil, fmt.Errorf("the implementation %s has %d tensor maps, and libraries make %d at most", im.Name, pl.Maps, maxMaps)
	}
	var b strings.Builder
	for i, l := range steps {
		if err := pl.step(&b, i, l, im, t); err != nil {
			return nil, fmt.Errorf("the launch: %w", err)
		}
	}
	for i, m := range im.TensorMaps {
		if err := p.tensorMap(&b, i, m, t); err != nil {
			return nil, fmt.Errorf("tensor map %s: %w", m.Name, err)
		}
	}
	var asked strings.Builder
	for _, l := range deviceLimits {
		if t.limits[l[0]] {
			fmt.Fprintf(&asked, "\tconst int64_t %s = evo_limits[%s];\n", l[0], l[1])
		}
	}
	if asked.Len() == 0 {
		asked.WriteString("\t(void)evo_limits;\n")
	}
	pl.Text = strings.TrimRight(asked.String()+b.String(), "\n")
	return pl, nil
}

// step writes one kernel.
func (pl *plan) step(b *strings.Builder, i int, l *kernels.Launch, im *kernels.Implementation, t *translator) error {
	geometry, err := geometryC(l, t)
	if err != nil {
		return err
	}
	cluster := []string{"1", "1", "1"}
	for j, src := range l.Cluster {
		if cluster[j], err = t.integer(src); err != nil {
			return err
		}
	}
	suffix := ""
	if l.Entry != "" && l.Entry != im.Entry {
		at := slices.Index(pl.further, l.Entry)
		if at < 0 {
			at = len(pl.further)
			pl.further = append(pl.further, l.Entry)
		}
		suffix = "_" + strconv.Itoa(at+2)
	}
	pl.Steps = append(pl.Steps, suffix)
	fmt.Fprintf(b, "\tevo_plan->steps[%d] = (struct evo_step){\n\t\t.geometry = {%s},\n\t\t.cluster = {%s},\n", i, strings.Join(geometry, ", "), strings.Join(cluster, ", "))
	for _, c := range []struct{ field, src string }{{"cooperative", l.Cooperative}, {"dependent", l.Dependent}} {
		if c.src == "" {
			continue
		}
		text, err := t.held(c.src)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "\t\t.%s = %s,\n", c.field, text)
	}
	b.WriteString("\t};\n")
	return nil
}

// held is condition, for one that does not hold where it names a gene that is not there.
func (t *translator) held(src string) (string, error) {
	e, err := t.compile(src)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(e.Names(), func(n string) bool { _, absent := t.absent[n]; return absent }) {
		return "0", nil
	}
	return t.condition(src)
}

// mapTypes are the types of elements as cuTensorMapEncodeTiled has them. Those that it
// lacks are read as their bits.
var mapTypes = map[kernels.DType]int{
	kernels.U8: 0, kernels.I8: 0, kernels.E4M3: 0, kernels.E5M2: 0, kernels.I16: 1, kernels.U16: 1, kernels.U32: 2, kernels.I32: 3, kernels.I64: 5,
	kernels.F16: 6, kernels.F32: 7, kernels.F64: 8, kernels.BF16: 9,
}

// tensorMap writes a tensor map.
func (p *problem) tensorMap(b *strings.Builder, i int, m kernels.TensorMap, t *translator) error {
	at := slices.IndexFunc(p.Problem.Buffers, func(x kernels.Buffer) bool { return x.Name == m.Buffer })
	of := p.Buffers()[at]
	dtype := of.DType
	if m.DType != "" {
		dtype = m.DType
	}
	code, ok := mapTypes[dtype]
	if !ok {
		return fmt.Errorf("it reads elements as %s, which the driver does not have", dtype)
	}
	axes, err := of.AxesC()
	if err != nil {
		return err
	}
	bytes := strconv.FormatInt(of.DType.Size(), 10)
	for _, a := range axes {
		bytes = fmt.Sprintf("evo_mul(%s, %s)", bytes, a)
	}
	fmt.Fprintf(b, "\tevo_plan->maps[%d] = (struct evo_map){\n\t\t.bytes = %s,\n", i, bytes)
	for _, list := range []struct {
		field string
		srcs  []string
	}{{"dims", m.Dims}, {"strides", m.Strides}, {"box", m.Box}} {
		var texts []string
		for _, src := range list.srcs {
			text, err := t.integer(src)
			if err != nil {
				return fmt.Errorf("%s: %w", list.field, err)
			}
			texts = append(texts, text)
		}
		if texts != nil {
			fmt.Fprintf(b, "\t\t.%s = {%s},\n", list.field, strings.Join(texts, ", "))
		}
	}
	for _, one := range []struct{ field, src string }{{"swizzle", m.Swizzle}, {"promotion", m.Promotion}} {
		if one.src == "" {
			continue
		}
		text, err := t.integer(one.src)
		if err != nil {
			return fmt.Errorf("%s: %w", one.field, err)
		}
		fmt.Fprintf(b, "\t\t.%s = %s,\n", one.field, text)
	}
	flag := map[bool]int{true: 1}
	fmt.Fprintf(b, "\t\t.buffer = %d, .type = %d, .element = %d, .axes = %d, .packed = %d, .nan = %d,\n\t};\n",
		at, code, dtype.Size(), len(m.Dims), flag[m.Strides == nil], flag[m.Fill == "nan"])
	return nil
}

// Planned says that the launch is more than a grid over the dimensions.
func (v *variant) Planned() bool { return v.plan != nil }

// Further are the names in C of the kernels besides the first.
func (v *variant) Further() []string {
	var list []string
	if v.plan != nil {
		for i := range v.further {
			list = append(list, v.Symbol+"_"+strconv.Itoa(i+2))
		}
	}
	return list
}

// entries are the kernels as the source calls them, each with its name in a library in
// which the first is called so.
func (v *variant) entries(first string) [][2]string {
	list := [][2]string{{v.Rendered.Entry, first}}
	if v.plan != nil {
		for i, entry := range v.further {
			list = append(list, [2]string{entry, first + "_" + strconv.Itoa(i+2)})
		}
	}
	return list
}

// KernelArgCount is how many arguments a kernel gets, the workspace included and tensor
// maps not.
func (p *problem) KernelArgCount() int { return len(kernels.Params(p.Problem)) + 1 }

// Planned says that some variant is launched by launch.c.
func (x *export) Planned() bool { return x.some((*variant).Planned) }

// Later says that some variant needs what older drivers lack.
func (x *export) Later() bool {
	return x.some(func(v *variant) bool { return v.plan != nil && v.Later })
}

// Exact says that some variant runs on one compute capability alone.
func (x *export) Exact() bool { return x.some(func(v *variant) bool { return v.Exact }) }

func (x *export) some(is func(v *variant) bool) bool {
	return slices.ContainsFunc(x.Kernels, func(p *problem) bool { return slices.ContainsFunc(p.Variants, is) })
}
