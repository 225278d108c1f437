package kernels

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/expr"
	"github.com/evotune/evotune/internal/naming"
	"github.com/evotune/evotune/internal/sources"
)

// Triton is the language of implementations whose template is a Python file with a
// Triton function.
const Triton = "triton"

// TritonKernel is the kernel's name in the machine code of a Triton function.
const TritonKernel = "evotune_kernel"

// A TritonCall says how a Triton function is compiled, and what arguments it gets.
type TritonCall struct {
	Entry     string           `json:"entry"`
	Arguments []TritonArgument `json:"arguments"` // in the function's order
	// Options are those of Triton's compiler, such as num_warps.
	Options map[string]any `json:"options"`
	// Params are the PTX types of the arguments with which evotune launches the kernel:
	// dimensions, buffers, scalars, in the problem's order.
	Params []string `json:"params"`
}

// A TritonArgument is one argument of a Triton function.
type TritonArgument struct {
	Name string `json:"name"`
	// Type is in Triton's notation: "*fp16", "i32", or "constexpr".
	Type string `json:"type"`
	// Of is the index in TritonCall.Params of its run-time argument.
	Of int `json:"of"`
	// Value is the value of a constexpr; nil is the function's own default.
	Value any `json:"value"`
	// Divisible says that it is a multiple of 16.
	Divisible bool `json:"divisible,omitempty"`
}

// tritonOptions are the parameters that Triton's compiler reads, with their defaults; nil
// is none.
var tritonOptions = map[string]any{"num_warps": int64(4), "num_stages": int64(3), "maxnreg": nil}

// tritonTypes are Triton's names of types.
var tritonTypes = map[DType]string{
	F64: "fp64", F32: "fp32", F16: "fp16", BF16: "bf16", E4M3: "fp8e4nv", E5M2: "fp8e5", I64: "i64", I32: "i32", I16: "i16", I8: "i8", U32: "u32", U16: "u16", U8: "u8",
}

// A tritonSource is what only an implementation in Triton has.
type tritonSource struct {
	line int // of the function
	args []tritonArg
}

// A tritonArg is a parameter of the function: it has a run-time argument, or an expression
// over the genes, or neither for the function's own default.
type tritonArg struct {
	name string
	of   string // a buffer, dimension or scalar
	expr *expression
	gene string
}

var multipleOf = regexp.MustCompile(`^\s*\(?\s*([A-Za-z_]\w*)\s*%\s*(\d+)\s*\)?\s*==\s*0\s*$`)

// foreign refuses keys of an implementation that Triton does not use.
func (l *loader) foreign(t *implementationTable) {
	if !backend.Of(t.Backend.str).Has(backend.Triton) {
		l.d.fail(t.Language.at, "an implementation in Triton is for GPUs: write backend = \"cuda\"")
	}
	for _, key := range []string{"flags", "threads", "include", "blocking", "tensor_map"} {
		if n := t.Table.children[key]; n != nil {
			l.d.fail(n.key, "%s means nothing to Triton: remove it", key)
		}
	}
	for _, launch := range t.Launch[min(1, len(t.Launch)):] {
		l.d.fail(launch.Table.key, "an implementation in Triton has one kernel: remove this launch")
	}
	for _, launch := range t.Launch {
		for _, key := range []string{"block", "shared", "workspace", "cluster", "cooperative"} {
			if n := launch.Table.children[key]; n != nil {
				l.d.fail(n.key, "%s is for Triton to say, from num_warps and what it compiles: remove it", key)
			}
		}
	}
}

// triton reads the arguments of the function of an implementation in Triton. Names are
// the parameters, for expressions.
func (l *loader) triton(t *implementationTable, im *Implementation, names map[string]any) {
	file := l.path(im.Template)
	bad := func(line int, format string, args ...any) {
		panic(&Error{File: file, Line: line, Msg: fmt.Sprintf(format, args...), Err: ErrDefinition})
	}
	line, params, err := sources.PythonFunction(im.main.text, im.Entry)
	switch {
	case line == 0:
		l.d.fail(t.Entry.at, "%s does not define %s with def at its top level: correct the entry", im.Template, im.Entry)
	case err != nil:
		bad(line, "%v", err)
	case !sources.Triton(im.main.text, line):
		bad(line, "%s has no @triton.jit on the line above: add it", im.Entry)
	}
	im.triton = &tritonSource{line: line}
	read := map[string]bool{}
	p := im.Problem()
	runtime := func(name string) bool {
		return slices.Contains(p.Dims, name) || slices.ContainsFunc(p.Buffers, func(b Buffer) bool { return b.Name == name }) ||
			slices.ContainsFunc(p.Scalars, func(s Scalar) bool { return s.Name == name })
	}
	given := map[string]*node{}
	if t.Args != nil {
		given = t.Args.children
		for _, name := range t.Args.names {
			if !slices.ContainsFunc(params, func(p sources.PythonParam) bool { return p.Name == name }) {
				l.d.fail(given[name].key, "%s has no parameter %s: %s", im.Entry, name, naming.Suggest(name, paramNames(params)))
			}
		}
	}
	for _, q := range params {
		a := tritonArg{name: q.Name}
		constant := strings.Contains(q.Annotation, "constexpr")
		n := given[q.Name]
		_, gene := im.params[q.Name]
		short := strings.TrimSuffix(q.Name, "_ptr")
		switch {
		case n != nil && n.kind == stringNode && runtime(n.str):
			a.of = n.str
		case n != nil:
			a.expr = l.tritonValue(n, q.Name, names)
		case gene:
			a.gene = q.Name
		case runtime(q.Name):
			a.of = q.Name
		case runtime(short):
			a.of = short
		case !q.Initial:
			bad(q.Line, "nothing has the name of %s, a parameter of %s: name it so, or say what it is in [implementation.args]", q.Name, im.Entry)
		case !constant:
			bad(q.Line, "%s of %s has a default and no tl.constexpr: add the annotation, or say what it is in [implementation.args]", q.Name, im.Entry)
		}
		if _, option := tritonOptions[q.Name]; option {
			bad(q.Line, "%s of %s has the name of an option of Triton's: rename it", q.Name, im.Entry)
		}
		if a.of != "" && constant {
			bad(q.Line, "%s of %s is a tl.constexpr, and %s is known at the launch only: remove the annotation, or make it a parameter of the implementation", q.Name, im.Entry, a.of)
		}
		if a.gene != "" {
			read[a.gene] = true
		} else if a.expr != nil {
			for _, name := range a.expr.prog.Names() {
				read[name] = true
			}
		}
		im.triton.args = append(im.triton.args, a)
	}
	for _, e := range slices.Concat(im.checks, im.Launch.grid) {
		for _, name := range e.prog.Names() {
			read[name] = true
		}
	}
	for _, g := range im.Parameters {
		if _, option := tritonOptions[g.Name]; !option && !read[g.Name] {
			l.d.fail(im.params[g.Name].at, "nothing reads the parameter %s: %s has no such parameter, and Triton's options are num_warps, num_stages and maxnreg", g.Name, im.Entry)
		} else if option && g.When != "" {
			l.d.fail(im.params[g.Name].at, "%s is an option of Triton's, which always has a value: remove when", g.Name)
		} else if option {
			l.tritonOption(im, g)
		}
	}
	l.narrow(im)
}

func paramNames(params []sources.PythonParam) []string {
	var list []string
	for _, p := range params {
		list = append(list, p.Name)
	}
	return list
}

// tritonOption checks the values of one of Triton's options.
func (l *loader) tritonOption(im *Implementation, g genome.Gene) {
	for _, v := range g.Values {
		n, whole := v.Any().(int64)
		switch {
		case !whole || n < 1:
			l.d.fail(im.params[g.Name].at, "%s has the value %s: give integers of at least 1", g.Name, v)
		case g.Name == "num_warps" && (n > 32 || bits.OnesCount64(uint64(n)) != 1):
			l.d.fail(im.params[g.Name].at, "num_warps has the value %s: give powers of two, up to 32", v)
		}
	}
}

// tritonValue reads an argument that is not a name: a number, a boolean, or
// an expression over the genes.
func (l *loader) tritonValue(n *node, name string, names map[string]any) *expression {
	src := n.str
	switch n.kind {
	case stringNode:
	case integerNode, floatNode, boolNode:
		src = fmt.Sprint(n.value)
	default:
		l.d.fail(n.at, "%s is %s: give the name of a buffer, a dimension or a scalar, or an expression over the parameters", name, n.kind)
	}
	for _, dim := range l.def.Problem.Dims {
		if regexp.MustCompile(`\b` + dim + `\b`).MatchString(src) {
			l.d.fail(n.at, "%s is %q, and %s is known at the launch only: declare a [[problem.scalar]] with this value, and name it here", name, src, dim)
		}
	}
	return l.compile(&node{kind: stringNode, str: src, at: n.at, key: n.key}, names)
}

// narrow adds the constraints on dimensions that are passed as 32 bits.
func (l *loader) narrow(im *Implementation) {
	for _, a := range im.triton.args {
		if !slices.Contains(im.Problem().Dims, a.of) {
			continue
		}
		c := genome.Constraint{Expr: a.of + " <= 2147483647", Why: "Triton passes it as 32 bits"}
		if slices.Contains(im.Constraints, c) {
			continue
		}
		at := im.in.Table
		im.Constraints = append(im.Constraints, c)
		im.checks = append(im.checks, l.compile(&node{kind: stringNode, str: c.Expr, at: at.key, key: at.key}, l.env))
		im.sparing = append(im.sparing, false)
	}
}

// tritonBlock is the expression of a block's threads, over the parameters.
func tritonBlock(im *Implementation) string {
	if slices.ContainsFunc(im.Parameters, func(g genome.Gene) bool { return g.Name == "num_warps" }) {
		return "32*num_warps"
	}
	return strconv.FormatInt(32*tritonOptions["num_warps"].(int64), 10)
}

// Launched returns the implementation with the launch that a compiler chose for one genome:
// its number of threads and bytes of dynamic shared memory. The grid stays the same.
func (im *Implementation) Launched(threads, shared int64) *Implementation {
	constant := func(n int64) (string, *expression) {
		src := strconv.FormatInt(n, 10)
		prog, err := expr.Compile(src, nil)
		if err != nil {
			panic(err) // src is a number
		}
		return src, &expression{src: src, at: im.in.Table, prog: prog}
	}
	c, l := *im, *im.Launch
	block, blockExpr := constant(threads)
	l.Block, l.block = []string{block}, []*expression{blockExpr}
	l.Shared, l.shared = constant(shared)
	c.Launch = &l
	return &c
}

// tritonCall says how a genome is compiled.
func (im *Implementation) tritonCall(g genome.Genome) (*TritonCall, error) {
	p := im.Problem()
	c := &TritonCall{Entry: im.Entry, Options: map[string]any{}}
	place, types := map[string]int{}, map[string]string{}
	add := func(name, ptx, triton string) {
		place[name], types[name] = len(c.Params), triton
		c.Params = append(c.Params, ptx)
	}
	for _, d := range p.Dims {
		add(d, ".u64", "i32")
	}
	for _, b := range p.Buffers {
		add(b.Name, ".u64", "*"+tritonTypes[b.DType])
	}
	for _, s := range p.Scalars {
		add(s.Name, map[DType]string{F64: ".f64", F32: ".f32", I64: ".u64", I32: ".u32"}[s.DType], tritonTypes[s.DType])
	}
	genes := g.Map()
	for name, value := range tritonOptions {
		if v, ok := genes[name]; ok {
			value = v
		}
		if value != nil {
			c.Options[name] = value
		}
	}
	multiples := im.multiples(g)
	for _, a := range im.triton.args {
		arg := TritonArgument{Name: a.name, Type: "constexpr", Of: -1}
		switch {
		case a.of != "":
			arg.Type, arg.Of = types[a.of], place[a.of]
			arg.Divisible = arg.Type[0] == '*' || multiples[a.of]
		case a.gene != "":
			v, ok := genes[a.gene]
			if !ok {
				return nil, im.fail(im.params[a.gene], "%s does not exist in the genome %s, and %s always has it: remove when", a.gene, g, im.Entry)
			}
			arg.Value = v
		case a.expr != nil:
			v, err := a.expr.prog.Any(genes)
			if err != nil {
				return nil, im.fail(a.expr.at, "%s: %v", a.name, err)
			}
			arg.Value = v
		}
		c.Arguments = append(c.Arguments, arg)
	}
	return c, nil
}

// multiples are the dimensions that, by the constraints, are multiples of 16 wherever a
// genome is launched. Triton uses this.
func (im *Implementation) multiples(g genome.Genome) map[string]bool {
	found := map[string]bool{}
	for i, c := range im.Constraints {
		m := multipleOf.FindStringSubmatch(im.over(c.Expr, g))
		if m == nil || im.sparing[i] {
			continue
		}
		if n, err := strconv.ParseInt(m[2], 10, 64); err == nil && n > 0 && n%16 == 0 {
			found[m[1]] = true
		}
	}
	return found
}

// comment is the call as the first line of a file in Python.
func (c *TritonCall) comment() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // numbers and texts always encode
	}
	return "# evotune calls it so: " + string(text) + "\n"
}

// describe returns the arguments as kernel.toml has them.
func (s *tritonSource) describe() map[string]string {
	all := map[string]string{}
	for _, a := range s.args {
		switch {
		case a.expr != nil:
			all[a.name] = a.expr.src
		case a.of+a.gene != "":
			all[a.name] = a.of + a.gene
		}
	}
	return maps.Clone(all)
}
