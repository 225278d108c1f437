package export

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/kernels"
)

// This file writes the package for PyTorch.

// torchCalls say what PyTorch itself computes a built-in kernel with, in C++: {NAME} is
// a tensor, or a dimension as an int64_t. They are of the built-in kernels' own
// definition, and here so that a definition is not another one for them.
var torchCalls = map[string]string{
	"attention":      "attention({Q}, {K}, {V}, {CAUSAL} != 0)",
	"conv2d":         "at::conv2d({X}.unsqueeze(0), {K}, {}, {1, 1}, {1, 1}).squeeze(0)",
	"gemm":           "at::matmul({A}, {B})",
	"gemm-batched":   "at::matmul({A}, {B})",
	"gemm-bf16":      "at::matmul({A}, {B})",
	"gemm-bias-gelu": `at::gelu(at::matmul({A}, {B}) + {bias}, "tanh")`,
	"gemm-fp8":       "at::matmul({A}.to(at::kFloat), {B}.to(at::kFloat).transpose(0, 1)).to(at::kBFloat16)",
	"gemm-residual":  "at::matmul({A}, {B}) + {R}",
	"layernorm":      "at::layer_norm({X}, {{COLS}}, {G}, {B}, 1e-5)",
	"linear":         "at::matmul({X}, {W}.transpose(0, 1))",
	"reduce":         "{X}.sum(-1)",
	"rmsnorm":        "rmsnorm({X}, {W})",
	"sgemm":          "at::matmul({A}, {B})",
	"softmax":        "at::softmax({X}, -1)",
	"transpose":      "{X}.transpose(0, 1).clone(at::MemoryFormat::Contiguous)",
}

// torchTypes are PyTorch's names for the types of elements.
var torchTypes = map[kernels.DType][2]string{
	kernels.F64: {"at::kDouble", "float64"}, kernels.F32: {"at::kFloat", "float32"}, kernels.F16: {"at::kHalf", "float16"},
	kernels.BF16: {"at::kBFloat16", "bfloat16"}, kernels.I64: {"at::kLong", "int64"}, kernels.I32: {"at::kInt", "int32"},
	kernels.I8: {"at::kChar", "int8"}, kernels.U8: {"at::kByte", "uint8"},
	kernels.E4M3: {"at::kFloat8_e4m3fn", "float8_e4m3fn"}, kernels.E5M2: {"at::kFloat8_e5m2", "float8_e5m2"}, // since PyTorch 2.1
}

// A torchOp is a problem as an operator.
type torchOp struct {
	*problem
	In, Out []torchTensor
	// Args are the dimensions that no input tells, in their order.
	Args []torchArg
	// Leading is the dimension that may be any number of axes; -1 for none.
	Leading int
	// Uniform says that all tensors are of one type.
	Uniform bool
	// Call is PyTorch's own computation in C++; "" when there is none.
	Call string
}

// A torchTensor is a buffer of an operator.
type torchTensor struct {
	buffer
	Arg string // its name in the operator's signature
	// Axes are positions among the dimensions, or -1 less a constant.
	Axes []int
}

// Type and PyType are the type in C++ and in Python.
func (t torchTensor) Type() string { return torchTypes[t.DType][0] }

// PyType is the type in Python.
func (t torchTensor) PyType() string { return torchTypes[t.DType][1] }

// AxesList are the axes as a list of numbers.
func (t torchTensor) AxesList() string { return commas(t.Axes, strconv.Itoa) }

// A torchArg is a dimension that callers give.
type torchArg struct {
	Dim, Arg string
	Index    int
	Flag     bool
}

// Type and CType are its type in a schema and in C++.
func (a torchArg) Type() string {
	if a.Flag {
		return "bool"
	}
	return "int"
}

// CType is its type in C++.
func (a torchArg) CType() string {
	if a.Flag {
		return "bool"
	}
	return "int64_t"
}

// newTorchOp makes an operator of a problem. The error says in a few words why
// there is none.
func newTorchOp(p *problem) (*torchOp, error) {
	op := &torchOp{problem: p, Leading: -1, Uniform: true}
	if p.PyFunc() != p.Name {
		return nil, fmt.Errorf("its name cannot be one in Python")
	}
	var in []string
	told := map[string]bool{}
	for _, b := range p.Buffers() {
		t := torchTensor{buffer: b}
		for _, a := range b.Shape {
			i := slices.Index(p.Dims, a)
			if i < 0 {
				n, err := strconv.Atoi(a)
				if err != nil || n < 0 {
					return nil, fmt.Errorf("the axis %q of %s is no dimension", a, b.Name)
				}
				i = -1 - n
			}
			t.Axes = append(t.Axes, i)
		}
		op.Uniform = op.Uniform && b.DType == p.Problem.Buffers[0].DType
		switch b.Role {
		case kernels.In:
			for _, a := range b.Shape {
				told[a] = true
			}
			in = append(in, b.Name)
			op.In = append(op.In, t)
		case kernels.Out:
			op.Out = append(op.Out, t)
		default:
			return nil, fmt.Errorf("it changes %s in place", b.Name)
		}
	}
	if len(op.In) == 0 || len(op.Out) == 0 {
		return nil, fmt.Errorf("it has no input, or no output")
	}
	for i, d := range p.Dims {
		if !told[d] {
			op.Args = append(op.Args, torchArg{Dim: d, Index: i, Flag: slices.Contains(p.Flags, d)})
			in = append(in, d)
		}
	}
	names := local(in, pythonWords)
	for i := range op.In {
		op.In[i].Arg = names[i]
	}
	for i := range op.Args {
		op.Args[i].Arg = names[len(op.In)+i]
	}
	op.Leading = op.leading()
	if text, ok := torchCalls[p.Kernel]; ok && len(op.Out) == 1 {
		op.Call = torchCall(text, op)
	}
	return op, nil
}

// leading finds a dimension that is the first axis of the first input and of all
// outputs, and of no tensor another axis: several axes are as good as one there.
func (op *torchOp) leading() int {
	if len(op.In[0].Axes) == 0 || op.In[0].Axes[0] < 0 {
		return -1
	}
	d := op.In[0].Axes[0]
	for _, t := range slices.Concat(op.In, op.Out) {
		for i, a := range t.Axes {
			if a == d && i > 0 {
				return -1
			}
		}
	}
	for _, t := range op.Out {
		if len(t.Axes) == 0 || t.Axes[0] != d {
			return -1
		}
	}
	return d
}

var placeholder = regexp.MustCompile(`\{([A-Za-z_]\w*)\}`)

// torchCall puts variables into a call; "" when it names what the problem has not.
func torchCall(text string, op *torchOp) string {
	known := true
	text = placeholder.ReplaceAllStringFunc(text, func(s string) string {
		name := s[1 : len(s)-1]
		if i := slices.Index(op.Dims, name); i >= 0 {
			return fmt.Sprintf("dims[%d]", i)
		}
		if slices.ContainsFunc(op.In, func(t torchTensor) bool { return t.Name == name }) {
			return "in_" + name
		}
		known = false
		return s
	})
	if !known {
		return ""
	}
	return text
}

// params writes the parameters: tensors, then the dimensions that no tensor tells.
func (op *torchOp) params(tensor func(torchTensor) string, arg func(torchArg) string) string {
	list := make([]string, 0, len(op.In)+len(op.Args))
	for _, t := range op.In {
		list = append(list, tensor(t))
	}
	for _, a := range op.Args {
		list = append(list, arg(a))
	}
	return strings.Join(list, ", ")
}

// returns is the type of the result, which is of tensors.
func (op *torchOp) returns(tensor, open, end string) string {
	if len(op.Out) == 1 {
		return tensor
	}
	return open + commas(op.Out, func(torchTensor) string { return tensor }) + end
}

// Schema is the signature of the operator.
func (op *torchOp) Schema() string {
	return op.Name + "(" + op.params(
		func(t torchTensor) string { return "Tensor " + t.Arg },
		func(a torchArg) string { return a.Type() + " " + a.Arg },
	) + ") -> " + op.returns("Tensor", "(", ")")
}

// Returns is the type of the result in C++.
func (op *torchOp) Returns() string { return op.returns("at::Tensor", "std::tuple<", ">") }

// Params declares the parameters in C++, ParamTypes are their types, Values their names.
func (op *torchOp) Params() string {
	return op.params(
		func(t torchTensor) string { return "const at::Tensor &in_" + t.Name },
		func(a torchArg) string { return a.CType() + " arg_" + a.Dim },
	)
}

// ParamTypes are the types of the parameters.
func (op *torchOp) ParamTypes() string {
	return op.params(func(torchTensor) string { return "const at::Tensor &" }, torchArg.CType)
}

// Values passes the parameters on.
func (op *torchOp) Values() string {
	return op.params(
		func(t torchTensor) string { return "in_" + t.Name },
		func(a torchArg) string { return "arg_" + a.Dim },
	)
}

// Pointers passes the arrays to the library, in the problem's order.
func (op *torchOp) Pointers() string {
	var list []string
	in, out := 0, 0
	for _, b := range op.Buffers() {
		if b.IsWritten() {
			list = append(list, fmt.Sprintf("static_cast<%s *>(out[%d].data_ptr())", b.CType(), out))
			out++
			continue
		}
		list = append(list, fmt.Sprintf("static_cast<const %s *>(in[%d].data_ptr())", b.CType(), in))
		in++
	}
	return strings.Join(list, ", ")
}

// DimValues passes the dimensions to the library.
func (op *torchOp) DimValues() string {
	var list []string
	for i := range op.Dims {
		list = append(list, fmt.Sprintf("dims[%d]", i))
	}
	return strings.Join(list, ", ")
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
	for _, p := range x.Kernels {
		op, err := newTorchOp(p)
		if err != nil {
			t.LeftOut = append(t.LeftOut, fmt.Sprintf("`%s`: %v", p.Kernel, err))
			continue
		}
		t.Ops = append(t.Ops, op)
	}
	from := map[string]string{
		"torch/evotune_torch/ops.cpp": "torch/ops.cpp.tmpl", "torch/evotune_torch/__init__.py": "torch/init.py.tmpl", "torch/README.md": "torch/README.md.tmpl",
	}
	for _, name := range []string{"evotune_torch/build.py", "setup.py", "pyproject.toml", "theirs.py", "test_ops.py", "bench.py"} {
		from["torch/"+name] = "torch/" + path.Base(name)
	}
	return x.add(t, from)
}
