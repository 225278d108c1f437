package kernels

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/evotune/evotune/genome"
)

// An Oracle says what candidates are compared with.
type Oracle string

// The oracles.
const (
	// Independent: a reference that shares no code with the candidates.
	Independent Oracle = "reference"
	// OwnBaseline: the reference is the kernel itself with its baseline's values, which
	// shows that all candidates agree, and not that they are right.
	OwnBaseline Oracle = "baseline"
)

// cudaOnCPU runs kernels in CUDA on a CPU.
//
//go:embed oracle/cuda-on-cpu.c
var cudaOnCPU string

// sizeInC are the expressions that mean the same in C, over integers.
var sizeInC = regexp.MustCompile(`^[\w\s*+()-]+$`)

// ownReference writes a reference that calls the kernel itself with the genome of its
// baseline. A kernel in CUDA runs on the CPU, a thread after the other.
func (s *source) ownReference(im *Implementation, base genome.Genome) (string, error) {
	g := s.given
	r, err := im.Render(base)
	if err != nil {
		return "", err
	}
	const advice = "give a reference of its own"
	text := strings.Replace(r.Source, `extern "C" __global__ void `+im.Entry+"(", "void "+im.Entry+"(", 1)
	text = strings.ReplaceAll(text, `extern "C"`, "")
	text = strings.Replace(text, "void "+im.Entry+"(", "static void "+im.Entry+"(", 1)
	var b strings.Builder
	fmt.Fprintf(&b, "/* No independent reference: this is %s itself, with the values of its baseline, %s. */\n", s.entry.id, base)
	if s.cuda {
		b.WriteString(cudaOnCPU)
	} else {
		b.WriteString("#include <stdint.h>\n#include <stdlib.h>\n")
	}
	b.WriteString("\n" + text + "\n")
	var params, call, before, after, begin []string
	for _, d := range g.Dims {
		params, call = append(params, "int64_t "+d), append(call, d)
	}
	for _, x := range g.Buffers {
		ctype := x.DType.C()
		if x.DType == F16 || x.DType == BF16 || x.DType.FP8() {
			return "", s.fault(-1, "%s has the type %s, which the kernel itself cannot be a reference for: %s", x.Name, x.DType, advice)
		}
		var factors []string
		for _, axis := range x.Shape {
			if !sizeInC.MatchString(axis) {
				return "", s.fault(-1, "the axis %q of %s is none that the kernel itself as a reference can have: %s", axis, x.Name, advice)
			}
			factors = append(factors, "("+axis+")")
		}
		own := "own_" + x.Name
		n := "n_" + x.Name
		pointer := "double *"
		if x.Role == In {
			pointer = "const double *"
		}
		params, call = append(params, pointer+x.Name), append(call, own)
		before = append(before, fmt.Sprintf("\tint64_t %s = %s;\n\t%s *%s = calloc(%s, sizeof *%s);\n\tif (!%s)\n\t\tabort();\n", n, strings.Join(factors, "*"), ctype, own, n, own, own))
		if x.Role != Out {
			before = append(before, fmt.Sprintf("\tfor (int64_t i = 0; i < %s; i++)\n\t\t%s[i] = (%s)%s[i];\n", n, own, ctype, x.Name))
		}
		if x.Role != In {
			after = append(after, fmt.Sprintf("\tfor (int64_t i = 0; i < %s; i++)\n\t\t%s[i] = %s[i];\n", n, x.Name, own))
		}
		after = append(after, "\tfree("+own+");\n")
	}
	for _, sc := range g.Scalars {
		params, call = append(params, "double "+sc.Name), append(call, "("+sc.DType.C()+")"+sc.Name)
	}
	run := fmt.Sprintf("%s(%s)", im.Entry, strings.Join(call, ", "))
	if s.cuda {
		// What a thread is called with.
		var pass []string
		for i, d := range g.Dims {
			b.WriteString("static _Thread_local int64_t evotune_" + d + ";\n")
			begin, pass = append(begin, fmt.Sprintf("\tevotune_%s = %s;\n", d, call[i])), append(pass, "evotune_"+d)
		}
		for i, x := range g.Buffers {
			fmt.Fprintf(&b, "static _Thread_local %s *evotune_%s;\n", x.DType.C(), x.Name)
			begin, pass = append(begin, fmt.Sprintf("\tevotune_%s = %s;\n", x.Name, call[len(g.Dims)+i])), append(pass, "evotune_"+x.Name)
		}
		for i, sc := range g.Scalars {
			fmt.Fprintf(&b, "static _Thread_local %s evotune_%s;\n", sc.DType.C(), sc.Name)
			begin, pass = append(begin, fmt.Sprintf("\tevotune_%s = %s;\n", sc.Name, call[len(g.Dims)+len(g.Buffers)+i])), append(pass, "evotune_"+sc.Name)
		}
		fmt.Fprintf(&b, "static void evotune_thread(void) { %s(%s); }\n\n", im.Entry, strings.Join(pass, ", "))
		barriers := 0
		if strings.Contains(s.bare, "__syncthreads") {
			barriers = 1
		}
		three := func(list []string) string {
			for len(list) < 3 {
				list = append(list, "1")
			}
			return "(struct evotune_dim3){" + strings.Join(list, ", ") + "}"
		}
		run = fmt.Sprintf("evotune_launch(%s, %s, %d)", three(g.Reference.Grid), three(g.Reference.Block), barriers)
	}
	fmt.Fprintf(&b, "void reference(%s)\n{\n%s%s\t%s;\n%s}\n", strings.Join(params, ", "), strings.Join(before, ""), strings.Join(begin, ""), run, strings.Join(after, ""))
	return b.String(), nil
}
