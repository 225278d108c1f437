package kernels

import "slices"

// The tables of kernel.toml, with their keys in the order in which messages list them.
// See document.decode for the tags.

type kernelTable struct {
	Table          *node `what:"kernel.toml"`
	Format         *node `is:"integer" need:"1"`
	Name           *node `need:"\"my-kernel\""`
	Description    *node `need:"\"what it computes\""`
	License        *node
	Problem        *problemTable          `need:"a table [problem]"`
	Implementation []*implementationTable `need:"a table [[implementation]]"`
	Torch          *torchTable
}

// A formTable has the form's words, too, which stand for what differs.
type formTable struct {
	Table       *node `what:"[[form]]"`
	Name        *node `need:"\"my-kernel-f16\""`
	Description *node `need:"\"what it computes\""`
	Words       *node `is:"table"`
}

type torchTable struct {
	Table             *node `what:"[torch]"`
	Source            *node `need:"\"torch.py\""`
	Forward, Backward *node
}

type problemTable struct {
	Table      *node           `what:"[problem]"`
	Dims       []*node         `need:"[\"N\"]"`
	Operations *node           `full:"\"2*N\""`
	Bytes      *node           `need:"\"8*N\""`
	Pipe       *node           `of:"pipe"`
	Cache      *node           `of:"cache"`
	Reference  *referenceTable `need:"a table [problem.reference] with source or python, and entry"`
	Shape      []*shapeTable   `need:"a table [[problem.shape]]"`
	Buffer     []*bufferTable  `need:"a table [[problem.buffer]]"`
	Scalar     []*scalarTable
	Tolerance  *node           `is:"table"`
	Control    []*controlTable `need:"a table [[problem.control]]"`
	Variant    []*variantTable
	Oracle     *node `of:"oracle"`
}

type referenceTable struct {
	Table   *node `what:"[problem.reference]"`
	Source  *node `full:"\"reference.c\""`
	Python  *node `full:"\"reference.py\""`
	Entry   *node
	Library *node `of:"library"`
	Cuda    *deviceReferenceTable
}

type deviceReferenceTable struct {
	Table       *node `what:"[problem.reference.cuda]"`
	Source      *node `need:"\"reference.cu\""`
	Entry       *node
	Grid, Block []*node
}

type shapeTable struct {
	Table *node `what:"[[problem.shape]]"`
	Name  *node `need:"\"1024\""`
	Dims  *node `is:"table"`
	Use   *node `need:"\"tune\"" of:"use"`
}

type bufferTable struct {
	Table        *node   `what:"[[problem.buffer]]"`
	Name         *node   `need:"\"A\""`
	DType        *node   `need:"\"f32\"" of:"dtype"`
	Shape        []*node `need:"[\"N\"]"`
	Role         *node   `need:"\"in\"" of:"role"`
	Data, Domain *node
	Denormals    *node `is:"boolean"`
	Tolerance    *node `is:"number"`
	Repeat       *node `is:"number"`
	Unwritten    *node `of:"unwritten"`
}

type scalarTable struct {
	Table *node `what:"[[problem.scalar]]"`
	Name  *node `need:"\"alpha\""`
	DType *node `need:"\"f32\"" of:"dtype of a scalar"`
	Value *node `need:"\"1.0\""`
	Also  *node `is:"array"`
}

type controlTable struct {
	Table   *node `what:"[[problem.control]]"`
	Kind    *node `need:"\"zeros\"" of:"control"`
	Buffers []*node
}

type variantTable struct {
	Table             *node `what:"[[problem.variant]]"`
	Backend           *node `need:"\"cuda\"" of:"backend"`
	DType, Domain     *node `is:"table"`
	Operations, Bytes *node
	Pipe              *node `of:"pipe"`
	Cache             *node `of:"cache"`
	Shape             []*shapeTable
	Tolerance         *node `is:"table"`
}

type implementationTable struct {
	Table             *node `what:"[[implementation]]"`
	Name              *node `need:"\"plain\""`
	Language          *node `of:"language"`
	Like              *node `full:"\"common.toml\""`
	Backend           *node `need:"\"cpu\"" of:"backend"`
	Target            *node `need:"\"native\""`
	Template          *node `need:"\"kernel.c.tmpl\""`
	Entry             *node
	Flags             []*node
	Threads           *node
	Include, Blocking []*node
	Start             []*node
	Parameter         []*parameterTable `need:"a table [[implementation.parameter]]"`
	Constraint        []*constraintTable
	Baseline          *baselineTable
	Args              *node             `is:"table"`
	Launch            []*launchTable    `is:"tables"`
	TensorMap         []*tensorMapTable `key:"tensor_map"`
	Sanitize          *sanitizeTable
	Binary            *binaryTable
	Profile           []*boundTable
}

type parameterTable struct {
	Table         *node `what:"[[implementation.parameter]]"`
	Name          *node `need:"\"TILE\""`
	Values, Range *node `is:"array"`
	Step          *node `is:"integer"`
	Pow2          *node `is:"array"`
	Bool          *node `is:"boolean"`
	When          *node
}

type constraintTable struct {
	Table  *node `what:"[[implementation.constraint]]"`
	Expr   *node `need:"\"TILE <= 64\""`
	Why    *node `need:"\"what would go wrong\""`
	Search *node `is:"boolean"`
}

type baselineTable struct {
	Table   *node `what:"[implementation.baseline]"`
	Genome  *node `is:"table"`
	Source  *node `full:"\"baseline.c\""`
	Entry   *node
	Flags   []*node
	Library *node `full:"\"libname.so.1:symbol\""`
}

type launchTable struct {
	Table                  *node `what:"[implementation.launch]"`
	Entry                  *node
	Grid, Block            []*node
	Shared, Workspace      *node
	Cluster                []*node
	Cooperative, Dependent *node
}

type tensorMapTable struct {
	Table              *node   `what:"[[implementation.tensor_map]]"`
	Name               *node   `need:"\"A_map\""`
	Buffer             *node   `need:"\"A\""`
	DType              *node   `of:"dtype"`
	Dims               []*node `need:"[\"K\", \"M\"]"`
	Strides            []*node
	Box                []*node `need:"[\"64\", \"128\"]"`
	Swizzle, Promotion *node
	Fill               *node `of:"fill"`
}

type sanitizeTable struct {
	Table  *node `what:"[implementation.sanitize]"`
	Dims   *node `is:"table"`
	Blocks *node `is:"integer"`
}

type binaryTable struct {
	Table        *node `what:"[implementation.binary]"`
	Require      *node `is:"array"`
	Forbid       []*node
	MaxStack     *node `key:"max_stack" is:"integer"`
	MaxRegisters *node `key:"max_registers" is:"integer"`
	MaxSpill     *node `key:"max_spill" is:"integer"`
}

type requirementTable struct {
	Table   *node `what:"a requirement"`
	Pattern *node `need:"'^HMMA'"`
	When    *node `need:"\"TENSOR_CORES\""`
}

type boundTable struct {
	Table    *node `what:"[[implementation.profile]]"`
	Counter  *node `need:"\"tensor pipe active\"" of:"counter"`
	Min, Max *node `is:"number"`
	When     *node
}

// A fileTable has the directives of a finished kernel; doc is for FileKeys.
type fileTable struct {
	Table        *node             `what:"the file"`
	Entry        *node             `doc:"the function to call, where it has another name than the definition's"`
	Flags        []*node           `doc:"how to compile it"`
	Threads      *node             `is:"integer" doc:"how many threads it uses, the caller's included"`
	Target       *node             `doc:"CUDA: the least architecture, \"sm_80\", or the only one, \"sm_90a\""`
	Grid         []*node           `doc:"CUDA: blocks along each axis, expressions over the dimensions"`
	Block        []*node           `doc:"CUDA: threads of a block along each axis"`
	Shared       *node             `doc:"CUDA: bytes of dynamic shared memory"`
	Workspace    *node             `doc:"CUDA: bytes of scratch memory, which the kernel gets as its last argument"`
	Cluster      []*node           `doc:"CUDA: blocks of a cluster along each axis, for sm_90 and later"`
	Cooperative  *node             `doc:"CUDA: a condition: whether all blocks have to be resident at once"`
	Launch       []*launchTable    `what:"a kernel of launch" doc:"CUDA: several kernels in sequence, instead of grid to cooperative: [{ grid = [...], block = [...] }, { entry = \"second\", grid = [...], block = [...] }]"`
	TensorMap    []*tensorMapTable `key:"tensor_map" what:"a tensor map" doc:"CUDA: tensor maps, which the kernels get before the workspace: [{ name = \"A_map\", buffer = \"A\", dims = [...], box = [...] }]"`
	Where        []*node           `doc:"conditions over the dimensions that a shape must meet"`
	Require      []*node           `doc:"patterns of instructions that the compiled code must have"`
	MaxStack     *node             `key:"max_stack" is:"integer" doc:"the largest stack frame, in bytes"`
	MaxRegisters *node             `key:"max_registers" is:"integer" doc:"CUDA: the most registers of a thread"`
	MaxSpill     *node             `key:"max_spill" is:"integer" doc:"CUDA: the most bytes that a thread spills"`
}

// words are the closed sets of strings, by the name that messages use for one of them.
var words = map[string][]string{
	"pipe":              append(slices.DeleteFunc(plain(DTypes()), func(t string) bool { return DType(t).FP8() }), "tensor-f64", "tensor-tf32", "tensor-f16", "tensor-bf16", "tensor-f8", "tensor-i8"),
	"cache":             plain([]Cache{Warm, Cold}),
	"library":           {"torch", "numpy"},
	"language":          {Triton},
	"use":               plain([]Use{Tune, Verify, Sanitize}),
	"dtype":             plain(DTypes()),
	"dtype of a scalar": plain([]DType{F64, F32, I64, I32}),
	"role":              plain([]Role{In, Out, InOut}),
	"control":           plain([]ControlKind{Zeros, Mean, Swapped}),
	"backend":           Backends(),
	"counter":           Counters(),
	"fill":              {"zeros", "nan"},
	"unwritten":         {"nan"},
	"oracle":            plain([]Oracle{Independent, OwnBaseline}),
}

func plain[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return out
}
