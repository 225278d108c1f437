package export

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evotune/evotune/kernels"
)

// This file has the parts of callers in other languages.

// Words that a parameter cannot be called in Python, or that the generated code
// needs for itself.
var pythonWords = strings.Fields("False None True and as assert async await break class continue def del elif else except " +
	"finally for from global if import in is lambda nonlocal not or pass raise return try while with yield")

// Words of Go, and names that the generated code uses.
var goWords = strings.Fields("break case chan const continue default defer else fallthrough for func go goto if import interface map " +
	"package range return select struct switch type var c n err len unsafe status room choice sizes error make int64 float32 float64 uint16 uint32 int32 int16 int8 uint8 nil fmt i")

// local makes names usable as lower-case variables, all different.
func local(names, taken []string) []string {
	var out []string
	for _, n := range names {
		n = strings.ToLower(n)
		for slices.Contains(taken, n) || slices.Contains(out, n) {
			n += "_"
		}
		out = append(out, n)
	}
	return out
}

// What functions may not be called in Python besides: what the generated code uses.
var pythonNames = strings.Fields("ctypes isinstance list map memoryview os print zip")

// PyFunc is the function in Python.
func (p *problem) PyFunc() string {
	return local([]string{startsWord(p.Name)}, slices.Concat(pythonWords, pythonNames))[0]
}

// startsWord makes a word begin with a letter.
func startsWord(name string) string {
	if name[0] >= '0' && name[0] <= '9' {
		return "k" + name
	}
	return name
}

// symbols are what the library has in C and in Go for the problem.
func (p *problem) symbols() []string {
	var list []string
	for _, s := range []string{"", "_choice", "_sizes", "_reference", "_workspace"} {
		list = append(list, p.Func+s)
	}
	for _, s := range []string{"", "Choice", "Sizes", "Reference"} {
		list = append(list, p.GoName()+s)
	}
	return list
}

// librarySymbols are those of every library.
var librarySymbols = strings.Fields("evotune_device_name evotune_status_text evotune_rule_text evotune_wisdom_load evotune_prefer evotune_prepare StatusError Choice WisdomLoad")

// names are the dimensions and then the buffers.
func (p *problem) names() []string {
	all := slices.Clone(p.Dims)
	for _, b := range p.Problem.Buffers {
		all = append(all, b.Name)
	}
	return all
}

func (b buffer) index() int {
	return slices.IndexFunc(b.of.Problem.Buffers, func(x kernels.Buffer) bool { return x.Name == b.Name })
}

// PyDims are the dimensions as parameters in Python.
func (p *problem) PyDims() []string { return local(p.names(), pythonWords)[:len(p.Dims)] }

// PyName is the array as a parameter in Python.
func (b buffer) PyName() string {
	return local(b.of.names(), pythonWords)[len(b.of.Dims)+b.index()]
}

// GoName is the function in Go.
func (p *problem) GoName() string {
	var s strings.Builder
	for _, part := range strings.Split(startsWord(p.Name), "_") {
		if part != "" {
			s.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return s.String()
}

// GoDims are the dimensions as parameters in Go.
func (p *problem) GoDims() []string { return local(p.names(), goWords)[:len(p.Dims)] }

// GoName is the array as a parameter in Go.
func (b buffer) GoName() string { return local(b.of.names(), goWords)[len(b.of.Dims)+b.index()] }

// GoType is the type of its elements in Go; that of halves is their bits.
func (b buffer) GoType() string {
	switch b.DType {
	case kernels.F64:
		return "float64"
	case kernels.F32:
		return "float32"
	case kernels.F16, kernels.BF16:
		return "uint16"
	case kernels.I64:
		return "int64"
	case kernels.I32:
		return "int32"
	case kernels.I16:
		return "int16"
	case kernels.I8:
		return "int8"
	case kernels.U32:
		return "uint32"
	case kernels.U16:
		return "uint16"
	}
	return "uint8"
}

// Comparable says that its elements are numbers in every language.
func (b buffer) Comparable() bool { return b.DType != kernels.F16 && b.DType != kernels.BF16 }

// GoParams declares the parameters in Go.
func (p *problem) GoParams() string {
	return strings.Join(p.GoDims(), ", ") + " int64, " + commas(p.Buffers(), func(b buffer) string { return b.GoName() + " []" + b.GoType() })
}

// GoArgs passes them on.
func (p *problem) GoArgs() string {
	return strings.Join(local(p.names(), goWords), ", ")
}

// GoCDims passes the dimensions to C.
func (p *problem) GoCDims() string {
	return commas(p.GoDims(), func(d string) string { return "C.int64_t(" + d + ")" })
}

// GoCArgs passes everything to C.
func (p *problem) GoCArgs() string {
	return p.GoCDims() + ", " + commas(p.Buffers(), func(b buffer) string {
		return fmt.Sprintf("(*C.%s)(unsafe.Pointer(unsafe.SliceData(%s)))", b.DType.C(), b.GoName())
	})
}
