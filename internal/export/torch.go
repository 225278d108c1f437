package export

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/expr"
	"github.com/evotune/evotune/kernels"
)

// This file writes the package for PyTorch: an operator for every kernel, from its definition.

// torchTypes are PyTorch's names for the types of elements, in C++ and in Python.
var torchTypes = map[kernels.DType][2]string{
	kernels.F64: {"at::kDouble", "float64"}, kernels.F32: {"at::kFloat", "float32"}, kernels.F16: {"at::kHalf", "float16"},
	kernels.BF16: {"at::kBFloat16", "bfloat16"}, kernels.I64: {"at::kLong", "int64"}, kernels.I32: {"at::kInt", "int32"},
	kernels.I16: {"at::kShort", "int16"}, kernels.I8: {"at::kChar", "int8"}, kernels.U8: {"at::kByte", "uint8"},
	kernels.U32: {"at::kUInt32", "uint32"}, kernels.U16: {"at::kUInt16", "uint16"}, // since PyTorch 2.3
	kernels.E4M3: {"at::kFloat8_e4m3fn", "float8_e4m3fn"}, kernels.E5M2: {"at::kFloat8_e5m2", "float8_e5m2"}, // since PyTorch 2.1
}

// A torchOp is a problem as an operator.
type torchOp struct {
	*problem
	// Op is its name: the kernel's, as a name in Python.
	Op string
	// In are the inputs, with those that are changed in place; Out are the results, with these
	// again.
	In, Out []torchTensor
	// Sources say for each dimension where it comes from.
	Sources []torchSource
	// Options are the scalars that are no matter of the dimensions.
	Options []torchOption
	// Leading is the dimension that may be any number of axes; -1 for none.
	Leading int
	// Uniform says that all tensors are of one type.
	Uniform bool
	// Builtin says that the problem is that of the built-in kernel of its name.
	Builtin bool
	// Own is the Python file of functions that the definition brings, "" for none.
	Own               string
	Forward, Backward string
	// Reference says that Own is the formula because it is the reference. Makes says that it is
	// the reference's file, which has the functions that make inputs.
	Reference, Makes bool
}

// A torchTensor is a buffer of an operator.
type torchTensor struct {
	buffer
	Arg string // its name in the operator's signature
	// Changes is the input that a result is a changed copy of, or -1.
	Changes int
}

// Type is the type in C++.
func (t torchTensor) Type() string { return torchTypes[t.DType][0] }

// PyType is the type in Python.
func (t torchTensor) PyType() string { return torchTypes[t.DType][1] }

// PyAxes are the axes in Python, of the dimensions d.
func (t torchTensor) PyAxes() (string, error) {
	var list []string
	for _, a := range t.Shape {
		text, err := inPython(a, t.of.Dims)
		if err != nil {
			return "", fmt.Errorf("the shape of %s: %w", t.Name, err)
		}
		list = append(list, text+",")
	}
	return "(" + strings.Join(list, " ") + ")", nil
}

// PyEnds are the ends of the data in Python, of the dimensions d.
func (t torchTensor) PyEnds() (string, error) {
	var list []string
	for _, e := range t.Data.Ends {
		if e == "" {
			break
		}
		text, err := inPython(e, t.of.Dims)
		if err != nil {
			return "", fmt.Errorf("the data of %s: %w", t.Name, err)
		}
		list = append(list, text+",")
	}
	return "(" + strings.Join(list, " ") + ")", nil
}

// A torchSource is where a dimension comes from: the axis of an input, which is
// (Num * dimension + Add) / Den, or an argument.
type torchSource struct {
	Dim string
	// Tensor is the input, -1 for an argument, which is called Arg.
	Tensor, Axis  int
	Num, Add, Den int64
	Arg           string
	Flag          bool
}

// Type is that of the argument in a schema.
func (s torchSource) Type() string {
	if s.Flag {
		return "bool"
	}
	return "int"
}

// A torchOption is a scalar that callers may give another value.
type torchOption struct {
	kernels.Scalar
	Arg string
	// Index is its place among the scalars.
	Index int
}

// Type is its type in a schema.
func (o torchOption) Type() string {
	if o.DType.Float() {
		return "float"
	}
	return "int"
}

// Default is the definition's value.
func (o torchOption) Default() (string, error) {
	e, err := expr.Compile(o.Value, nil)
	if err != nil {
		return "", err
	}
	x, err := e.Float(nil)
	text := number(x)
	if o.DType.Float() && !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text, err
}

// What the package has besides operators.
var torchNames = strings.Fields("CUDA OPS explain main math measure prepare torch use")

// newTorchOp makes an operator of a problem. The error says in a few words why
// there is none.
func newTorchOp(p *problem) (*torchOp, error) {
	op := &torchOp{problem: p, Leading: -1, Uniform: true}
	op.Op = local([]string{startsWord(p.Name)}, slices.Concat(pythonWords, torchNames))[0]
	for _, b := range p.Buffers() {
		op.Uniform = op.Uniform && b.DType == p.Problem.Buffers[0].DType
		t := torchTensor{buffer: b, Changes: -1}
		if b.Read() {
			if b.IsWritten() {
				t.Changes = len(op.In)
			}
			op.In = append(op.In, t)
		}
		if b.IsWritten() {
			op.Out = append(op.Out, t)
		}
	}
	if len(op.In) == 0 {
		return nil, errors.New("no tensor goes into it")
	}
	for _, d := range p.Dims {
		op.Sources = append(op.Sources, op.source(d))
	}
	for i, s := range p.Scalars {
		if e, err := expr.Compile(s.Value, nil); err == nil && len(e.Names()) == 0 {
			op.Options = append(op.Options, torchOption{Scalar: s, Index: i})
		}
	}
	op.name()
	op.Leading = op.leading()
	for _, t := range slices.Concat(op.In, op.Out) {
		if _, err := t.PyAxes(); err != nil {
			return nil, err
		}
	}
	return op, nil
}

// name names the arguments: lower-case, all different.
func (op *torchOp) name() {
	var names []string
	for _, t := range op.In {
		names = append(names, t.Name)
	}
	for _, s := range op.Args() {
		names = append(names, s.Dim)
	}
	for _, o := range op.Options {
		names = append(names, o.Name)
	}
	names = local(names, slices.Concat(pythonWords, []string{"self"}))
	take := func() string {
		n := names[0]
		names = names[1:]
		return n
	}
	for i := range op.In {
		op.In[i].Arg = take()
	}
	for i := range op.Sources {
		if op.Sources[i].Tensor < 0 {
			op.Sources[i].Arg = take()
		}
	}
	for i := range op.Options {
		op.Options[i].Arg = take()
	}
}

// source finds where a dimension comes from: the first axis that is it, else the first
// that is linear in it and names no other, else the caller.
func (op *torchOp) source(dim string) torchSource {
	s := torchSource{Dim: dim, Tensor: -1, Flag: slices.Contains(op.Flags, dim)}
	for i, t := range op.In {
		if j := slices.Index(t.Shape, dim); j >= 0 {
			s.Tensor, s.Axis, s.Num, s.Den = i, j, 1, 1
			return s
		}
	}
	for i, t := range op.In {
		for j, a := range t.Shape {
			e, err := expr.Compile(a, map[string]any{dim: 0})
			if err != nil {
				continue // it has other names
			}
			if num, add, den, ok := line(e); ok {
				s.Tensor, s.Axis, s.Num, s.Add, s.Den = i, j, num, add, den
				return s
			}
		}
	}
	return s
}

// leading finds a dimension that is the first axis of the first input and of all
// results, and in no other axis of any tensor: several axes are as good as one there.
func (op *torchOp) leading() int {
	d := slices.Index(op.Dims, op.In[0].Shape[0])
	if d < 0 {
		return -1
	}
	for _, t := range slices.Concat(op.In, op.Out) {
		for i, a := range t.Shape {
			e, err := (&translator{dims: op.Dims}).compile(a)
			if err != nil || slices.Contains(e.Names(), op.Dims[d]) && (i > 0 || a != op.Dims[d]) {
				return -1
			}
		}
	}
	for _, t := range op.Out {
		if t.Shape[0] != op.Dims[d] {
			return -1
		}
	}
	return d
}

// Leads says that the first axis of a tensor may be any number of axes.
func (op *torchOp) Leads(t torchTensor) bool {
	return op.Leading >= 0 && t.Shape[0] == op.Dims[op.Leading]
}

// Inner says that the last axis of a tensor depends on a dimension.
func (op *torchOp) Inner(dim string) bool {
	return slices.ContainsFunc(slices.Concat(op.In, op.Out), func(t torchTensor) bool {
		e, err := (&translator{dims: op.Dims}).compile(t.Shape[len(t.Shape)-1])
		return err != nil || slices.Contains(e.Names(), dim)
	})
}

// Args are the dimensions that callers give.
func (op *torchOp) Args() []torchSource {
	return slices.DeleteFunc(slices.Clone(op.Sources), func(s torchSource) bool { return s.Tensor >= 0 })
}

// Schema is the signature of the operator.
func (op *torchOp) Schema() (string, error) {
	var list []string
	for _, t := range op.In {
		list = append(list, "Tensor "+t.Arg)
	}
	for _, a := range op.Args() {
		list = append(list, a.Type()+" "+a.Arg)
	}
	for i, o := range op.Options {
		if i == 0 {
			list = append(list, "*")
		}
		value, err := o.Default()
		if err != nil {
			return "", err
		}
		list = append(list, o.Type()+" "+o.Arg+"="+value)
	}
	returns := "Tensor"
	if len(op.Out) > 1 {
		returns = "(" + commas(op.Out, func(torchTensor) string { return "Tensor" }) + ")"
	}
	return op.Op + "(" + strings.Join(list, ", ") + ") -> " + returns, nil
}

// Pointers passes the arrays to the library, in the problem's order, which they are in.
func (op *torchOp) Pointers() string {
	var list []string
	for i, b := range op.Buffers() {
		constant := "const "
		if b.IsWritten() {
			constant = ""
		}
		list = append(list, fmt.Sprintf("static_cast<%s%s *>(a[%d])", constant, b.CType(), i))
	}
	return strings.Join(list, ", ")
}

// Order says where each array of the problem is: among the inputs, or 1 + that among the
// results, negated.
func (op *torchOp) Order() string {
	return commas(op.Buffers(), func(b buffer) string {
		is := func(t torchTensor) bool { return t.Name == b.Name }
		if i := slices.IndexFunc(op.Out, is); i >= 0 {
			return strconv.Itoa(-1 - i)
		}
		return strconv.Itoa(slices.IndexFunc(op.In, is))
	})
}

// DimValues passes the dimensions to the library.
func (op *torchOp) DimValues() string {
	var list []string
	for i := range op.Dims {
		list = append(list, fmt.Sprintf("d[%d]", i))
	}
	return strings.Join(list, ", ")
}

// Axes computes the axes of all inputs and then those of all results, in C++.
func (op *torchOp) Axes() ([]string, error) {
	var list []string
	for _, t := range slices.Concat(op.In, op.Out) {
		axes, err := t.axes(&translator{dims: op.Dims, saturating: true, array: "d"})
		if err != nil {
			return nil, err
		}
		list = append(list, axes...)
	}
	return list, nil
}

// ScalarC computes the scalars, in C++.
func (op *torchOp) ScalarC() ([]string, error) {
	var list []string
	for _, s := range op.Scalars {
		value, err := (&translator{dims: op.Dims, array: "d"}).float(s.Value)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}

// A torchFinal is what finals measured at a shape that was tuned for.
type torchFinal struct {
	Device, Candidate, Against, Dims string
	NS, BaselineNS                   float64
	// Library says that it was against a vendor's library.
	Library bool
	// Faster says that the difference is more than noise, and more than 2%.
	Faster bool
}

// Finals lists what is known of the operator's speed.
func (op *torchOp) Finals() []torchFinal {
	var list []torchFinal
	for _, v := range op.Variants {
		b := v.Rendered.Implementation.Baseline()
		for _, w := range v.winners() {
			e := w.Evidence
			for _, t := range w.timings() {
				s, err := op.Shape(t.Shape)
				if err != nil || t.BaselineMedianNS <= 0 {
					continue
				}
				list = append(list, torchFinal{
					NS: t.MedianNS, BaselineNS: t.BaselineMedianNS, Device: v.Device, Candidate: v.Candidate, Against: comment(cmp.Or(e.Description.Baseline, "its baseline")),
					Dims: newShape(s, op.Dims).Dims(), Library: b != nil && b.Kind == kernels.BaselineLibrary && (b.Genome == nil || w.besideRoutine(t.Shape) != ""),
					Faster: e.Summary.Significant && t.MedianNS <= torchMargin*t.BaselineMedianNS,
				})
			}
		}
	}
	return list
}

// torchMargin is by how much a kernel must be faster to be called; measure.py has the same.
const torchMargin = 0.98

// Uses are the shapes of the definition for a use.
func (op *torchOp) Uses(use string) []shape {
	var list []shape
	for _, s := range op.ShapesFor(kernels.Use(use)) {
		list = append(list, newShape(s, op.Dims))
	}
	return list
}

// sameProblem tells whether a problem is that of the built-in kernel of its name: of the same
// reference, over the same arrays.
func sameProblem(p *problem) bool {
	c, err := kernels.Open()
	if err != nil {
		return false
	}
	d, err := c.Get(p.Kernel)
	return err == nil && d.Problem.Reference.Text == p.Reference.Text && slices.Equal(d.Problem.Dims, p.Dims) &&
		slices.EqualFunc(d.Problem.Buffers, p.Problem.Buffers, func(a, b kernels.Buffer) bool {
			return a.Name == b.Name && a.Role == b.Role && slices.Equal(a.Shape, b.Shape)
		})
}

// torchOwn gives the Python file that a definition brings for its operator, and the
// functions of it; nil for none.
//
// A reference in PyTorch is such a function itself, and reference says that it is. One that
// names no library is for PyTorch unless it imports NumPy alone.
func torchOwn(d *kernels.Definition) (own *kernels.Torch, reference bool) {
	if r := d.Problem.Reference; d.Torch == nil && r.Python && (r.Library == "torch" || r.Library == "" && (imports(r.Text, "torch") || !imports(r.Text, "numpy"))) {
		return &kernels.Torch{File: r.File, Text: r.Text, Forward: r.Entry}, true
	}
	return d.Torch, false
}

// imports tells whether a line of a Python file imports a module, or something of it.
func imports(text, module string) bool {
	return regexp.MustCompile(`(?m)^[ \t]*(?:from[ \t]+|import[ \t]+(?:[\w. \t]+,[ \t]*)*)` + module + `\b`).MatchString(text)
}

// torchPackage is what its templates are filled with.
type torchPackage struct {
	*export
	Ops []*torchOp
	// LeftOut has a line for every kernel without an operator.
	LeftOut []string
}

// torch writes the package for PyTorch.
func (x *export) torch() error {
	t := &torchPackage{export: x}
	taken := map[string]string{}
	for _, p := range x.Kernels {
		op, err := newTorchOp(p)
		if err == nil && taken[op.Op] != "" {
			err = fmt.Errorf("its operator would be called %s, as that of %s: export them apart", op.Op, taken[op.Op])
		}
		if err != nil {
			t.LeftOut = append(t.LeftOut, fmt.Sprintf("`%s`: %v", p.Kernel, err))
			continue
		}
		taken[op.Op] = p.Kernel
		op.Builtin = sameProblem(p)
		if own, reference := torchOwn(p.Variants[0].Rendered.Implementation.Definition()); own != nil {
			op.Own, op.Forward, op.Backward, op.Reference = "own_"+op.Op, own.Forward, own.Backward, reference
			op.Makes = own.Text == p.Reference.Text
			x.files["torch/_evotune_torch/"+op.Own+".py"] = []byte(own.Text)
		}
		t.Ops = append(t.Ops, op)
	}
	from := map[string]string{
		"torch/_evotune_torch/ops.cpp": "torch/ops.cpp.tmpl", "torch/evotune_torch.py": "torch/evotune_torch.py.tmpl", "torch/README.md": "torch/README.md.tmpl",
	}
	from["torch/_evotune_torch/__init__.py"] = "torch/init.py"
	for _, name := range []string{"_evotune_torch/build.py", "_evotune_torch/operators.py", "_evotune_torch/formulas.py", "_evotune_torch/measure.py", "setup.py", "pyproject.toml", "test_ops.py", "bench.py"} {
		from["torch/"+name] = "torch/" + path.Base(name)
	}
	return x.add(t, from)
}

// A pythonic writes expressions in Python, over dimensions that are d[0], d[1] and so on.
type pythonic struct{ dims []string }

func (p pythonic) Name(name string) string {
	return fmt.Sprintf("d[%d]", slices.Index(p.dims, name))
}

func (pythonic) Value(v genome.Value) string {
	switch v := v.Any().(type) {
	case bool:
		return map[bool]string{false: "False", true: "True"}[v]
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return "(" + number(v) + ")"
	}
	return ""
}

// pythonForms are the operations in Python, where it has them in other forms than C, or
// under other names.
var pythonForms = map[string]string{
	"and": "(%s and %s)", "or": "(%s or %s)", "not": "(not %s)", "?:": "(%[2]s if %[1]s else %[3]s)", "**": "(%s ** %s)",
	"%": "(%s %% %s)", "..": "(%[2]s <= %[1]s <= %[3]s)", "ceil": "math.ceil(%s)", "floor": "math.floor(%s)", "round": "math.floor(%s + 0.5)",
	"int": "int(%s)", "float": "float(%s)", "abs": "abs(%s)", "bitshl": "(%s << %s)", "bitshr": "(%s >> %s)",
}

func (pythonic) Operation(name string, xs []expr.Written) string {
	var args []any
	for _, x := range xs {
		args = append(args, x.Text)
	}
	switch form := cmp.Or(pythonForms[name], cForms[name]); {
	case name == "min" || name == "max":
		return name + "(" + commas(xs, func(x expr.Written) string { return x.Text }) + ")"
	case name == "in":
		return "(" + xs[0].Text + " in (" + strings.Join(func() (list []string) {
			for _, x := range xs[1:] {
				list = append(list, x.Text+",")
			}
			return list
		}(), " ") + "))"
	case name == "-" && len(xs) == 1:
		return "(-" + xs[0].Text + ")"
	case form != "" && name != "bitushr" && name != "bitnand":
		return fmt.Sprintf(form, args...)
	}
	return ""
}

// inPython writes an expression whose value is a whole number.
func inPython(src string, dims []string) (string, error) {
	e, err := (&translator{dims: dims}).compile(src)
	if err != nil {
		return "", err
	}
	if num, add, den, ok := line(e); ok && den > 1 { // sizes that are symbols stay integers
		return fmt.Sprintf("(%d * d[%d] + %d) // %d", num, slices.Index(dims, e.Names()[0]), add, den), nil
	}
	w, err := e.Write(pythonic{dims}, nil)
	if err != nil {
		return "", fmt.Errorf("%q cannot be written in Python: %w", src, err)
	}
	if w.Kind == genome.KindFloat {
		return "int(" + w.Text + ")", nil
	}
	return w.Text, nil
}

// line tells whether an expression is (num * x + add) / den for the one name x in it, with
// num and den positive.
func line(e *expr.Expr) (num, add, den int64, ok bool) {
	if len(e.Names()) != 1 {
		return 0, 0, 0, false
	}
	w, err := e.Write(linear{}, nil)
	if err != nil {
		return 0, 0, 0, false
	}
	f, ok := parseForm(w.Text)
	if !ok || f.x.Sign() <= 0 {
		return 0, 0, 0, false
	}
	d := new(big.Int).Mul(f.x.Denom(), f.c.Denom())
	scale := new(big.Rat).SetInt(d)
	x, c := new(big.Rat).Mul(f.x, scale), new(big.Rat).Mul(f.c, scale)
	g := new(big.Int).GCD(nil, nil, new(big.Int).GCD(nil, nil, x.Num(), d), new(big.Int).Abs(c.Num()))
	for _, n := range []*big.Int{d, x.Num(), c.Num()} {
		if n.Quo(n, g); !n.IsInt64() || n.BitLen() > 40 {
			return 0, 0, 0, false
		}
	}
	return x.Num().Int64(), c.Num().Int64(), d.Int64(), true
}

// A linear writes an expression as a multiple of its one name, and a constant: "2/3 -1".
type linear struct{}

type linearForm struct{ x, c *big.Rat }

func parseForm(text string) (f linearForm, ok bool) {
	x, c, _ := strings.Cut(text, " ")
	f.x, ok = new(big.Rat).SetString(x)
	if !ok {
		return f, false
	}
	f.c, ok = new(big.Rat).SetString(c)
	return f, ok
}

func (f linearForm) String() string { return f.x.RatString() + " " + f.c.RatString() }

func (linear) Name(string) string { return "1 0" }

func (linear) Value(v genome.Value) string {
	switch v := v.Any().(type) {
	case int64:
		return "0 " + strconv.FormatInt(v, 10)
	case float64:
		if c := new(big.Rat).SetFloat64(v); c != nil {
			return "0 " + c.RatString()
		}
	}
	return ""
}

func (linear) Operation(name string, xs []expr.Written) string {
	var fs []linearForm
	for _, x := range xs {
		f, ok := parseForm(x.Text)
		if !ok {
			return ""
		}
		fs = append(fs, f)
	}
	out := linearForm{new(big.Rat), new(big.Rat)}
	both := func(f func(z, a, b *big.Rat) *big.Rat) string {
		f(out.x, fs[0].x, fs[1].x)
		f(out.c, fs[0].c, fs[1].c)
		return out.String()
	}
	times := func(f linearForm, by *big.Rat) string {
		out.x.Mul(f.x, by)
		out.c.Mul(f.c, by)
		return out.String()
	}
	switch {
	case name == "+":
		return both((*big.Rat).Add)
	case name == "-" && len(fs) == 1:
		return times(fs[0], big.NewRat(-1, 1))
	case name == "-":
		return both((*big.Rat).Sub)
	case name == "*" && fs[0].x.Sign() == 0:
		return times(fs[1], fs[0].c)
	case name == "*" && fs[1].x.Sign() == 0:
		return times(fs[0], fs[1].c)
	case name == "/" && fs[1].x.Sign() == 0 && fs[1].c.Sign() != 0:
		return times(fs[0], new(big.Rat).Inv(fs[1].c))
	case name == "float":
		return fs[0].String()
	}
	return ""
}
