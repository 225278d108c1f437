package draft

import (
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/sources"
	"github.com/evotune/evotune/kernels"
)

// cudaOnCPU runs kernels in CUDA on a CPU.
//
//go:embed oracle/cuda-on-cpu.c
var cudaOnCPU string

// narrow matches what a kernel must not contain if defining float as double is to make it compute
// in double precision: the bits of floats, types and functions that exist for float only, and
// headers, whose declarations would change.
var narrow = regexp.MustCompile(`#\s*include|\basm\b|\bunion\b|\breinterpret_cast\b|_as_|_half|_bfloat|\bhalf|__nv_|\b__shfl|\btex|\bsurf|\bwmma\b|cooperative_groups|\(\s*(const\s+)?(unsigned|int|uint\w*|char)\s*\*`)

// inDouble are the functions whose float versions have names of their own.
var inDouble = []string{
	"sqrt", "exp", "exp2", "exp10", "log", "log2", "log10", "pow", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "atan2", "erf", "erfc", "fabs", "fma", "fmax",
	"fmin", "floor", "ceil", "round", "trunc", "rint", "fmod", "cbrt", "hypot", "copysign",
}

// widened returns macros that make the code after them compute in double precision.
func widened(device bool) string {
	var b strings.Builder
	b.WriteString("/* In double precision. */\n#define float double\n")
	for _, n := range []string{"2", "3", "4"} {
		fmt.Fprintf(&b, "#define float%s double%s\n", n, n)
		if device {
			fmt.Fprintf(&b, "#define make_float%s make_double%s\n", n, n)
		}
	}
	for _, f := range inDouble {
		fmt.Fprintf(&b, "#define %sf %s\n", f, f)
	}
	if device {
		for _, f := range []string{"exp", "log", "log2", "log10", "pow", "sin", "cos", "tan"} {
			fmt.Fprintf(&b, "#define __%sf %s\n", f, f)
		}
		b.WriteString("#define rsqrtf rsqrt\n#define __fmaf_rn fma\n#define __fdividef(x, y) ((x) / (y))\n")
	}
	return b.String()
}

// onlyCUDA matches what a compiler of C does not know, and CUDA's kernels may have.
var onlyCUDA = regexp.MustCompile(`\b(template|namespace|using|auto|class|constexpr|decltype|nullptr|static_cast|reinterpret_cast|const_cast|operator|asm)\b|\w*::\w*|` +
	`\b__(shfl|ballot|any|all|activemask|syncwarp|match|reduce|half|nv_)\w*|\bextern\s+__shared__|\batomic(CAS|Exch|Sub|And|Or|Xor|Inc|Dec)\b|<<<`)

// ownAdvice is what to do where the kernel itself cannot be the reference.
const ownAdvice = "give a reference of its own, a function in Python or C that computes the outputs in double precision"

// inC checks that the source can be compiled as C for the CPU, as far as words tell. The error names the
// line of the source.
func (s *source) inC() error {
	check := func(file, text, code string) error {
		at := onlyCUDA.FindStringIndex(code)
		for _, m := range hostInclude.FindAllStringSubmatchIndex(text, -1) {
			if name := text[m[2]:m[3]]; !hostFile.MatchString(name) && (at == nil || m[0] < at[0]) {
				at = []int{m[2] - 1, m[3] + 1}
			}
		}
		if at == nil {
			return nil
		}
		return &kernels.Error{
			File: file, Line: 1 + strings.Count(text[:at[0]], "\n"), Err: kernels.ErrDefinition,
			Msg: fmt.Sprintf("%s is for a compiler of CUDA: without a reference the kernel itself is one, and runs on the CPU as C: %s", text[at[0]:at[1]], ownAdvice),
		}
	}
	code := s.bare
	for _, f := range s.functions { // those that are left out
		if s.leaves(f) {
			code = code[:f.head] + strings.Repeat(" ", f.stop-f.head) + code[f.stop:]
		}
	}
	if err := check(s.file, s.text, code); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.included)) {
		if err := check(name, s.included[name], sources.Bare(s.included[name])); err != nil {
			return err
		}
	}
	return nil
}

// byBlock refuses an output with one element for each block where a parameter changes their number: what genomes compute
// differs then.
func (s *source) byBlock() error {
	body := s.bare[s.entry.body:s.entry.stop]
	for _, a := range s.arguments {
		if !a.pointer || a.input {
			continue
		}
		for _, m := range regexp.MustCompile(`\b`+a.source+`\s*\[\s*(\w+(?:\.\w)?)\s*\]\s*`).FindAllStringSubmatchIndex(body, -1) {
			index := body[m[2]:m[3]]
			if set := regexp.MustCompile(`\b` + regexp.QuoteMeta(index) + `\s*=\s*(blockIdx\.[xyz])\s*[;,]`).FindStringSubmatch(body); set != nil {
				index = set[1]
			}
			axis, ok := strings.CutPrefix(index, "blockIdx.")
			i := strings.Index("xyz", axis)
			if !ok || i < 0 || i >= len(s.given.Grid) || !assigning.MatchString(body[m[1]:]) {
				continue
			}
			for _, p := range s.params {
				if len(p.values) > 1 && regexp.MustCompile(`\b`+p.name+`\b`).MatchString(s.given.Grid[i]) {
					return s.fault(s.entry.body+m[0], "%s has an element for each block, and their number, %s, depends on %s: genomes differ in what they compute, and the kernel itself cannot be the reference: make the number of blocks an argument, or let the kernel add up what the blocks have",
						a.name, s.given.Grid[i], p.name)
				}
			}
		}
	}
	return nil
}

// sizeInC matches expressions over integers that mean the same in C.
var sizeInC = regexp.MustCompile(`^[\w\s*+()-]+$`)

// ownReference writes a reference that calls the kernel itself with the genome of its
// baseline. A kernel in CUDA runs on the CPU: blocks in parallel, and the threads of each block one
// after the other. It computes in double precision if that is possible, and otherwise unchanged.
func (s *source) ownReference(im *kernels.Implementation, base genome.Genome) (string, error) {
	g := s.given
	r, err := im.Render(base)
	if err != nil {
		return "", err
	}
	if s.cuda {
		for _, check := range []func() error{s.byBlock, s.inC} {
			if err := check(); err != nil {
				return "", err
			}
		}
	}
	const advice = ownAdvice
	wide := s.inDouble()
	var b strings.Builder
	fmt.Fprintf(&b, "/* No independent reference: this is %s itself, with the values of its baseline, %s. */\n", s.entry.id, base)
	if s.cuda {
		b.WriteString(cudaOnCPU)
	} else {
		b.WriteString("#include <stdint.h>\n#include <stdlib.h>\n")
	}
	if wide {
		b.WriteString(widened(false))
	}
	text := s.withOrigins(strings.TrimPrefix(r.SelfContained(), r.Header+"\n"), "reference.c", 2+strings.Count(b.String(), "\n"))
	text = strings.Replace(text, `extern "C" __global__ void `+im.Entry+"(", "void "+im.Entry+"(", 1)
	text = strings.ReplaceAll(text, `extern "C"`, "")
	text = strings.Replace(text, "void "+im.Entry+"(", "static void "+im.Entry+"(", 1)
	b.WriteString("\n" + text + "\n")
	var params, call, before, after, values []string
	for _, d := range g.Dims {
		params, call = append(params, "int64_t "+d), append(call, d)
	}
	for _, x := range g.Buffers {
		ctype := x.DType.C()
		if x.DType == kernels.F16 || x.DType == kernels.BF16 || x.DType.FP8() {
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
		if x.Role == kernels.In {
			pointer = "const double *"
		}
		if wide {
			params, call = append(params, pointer+x.Name), append(call, "(double *)"+x.Name)
			continue
		}
		params, call = append(params, pointer+x.Name), append(call, own)
		before = append(before, fmt.Sprintf("\tint64_t %s = %s;\n\t%s *%s = calloc(%s, sizeof *%s);\n\tif (!%s)\n\t\tabort();\n", n, strings.Join(factors, "*"), ctype, own, n, own, own))
		if x.Role != kernels.Out {
			before = append(before, fmt.Sprintf("\tfor (int64_t i = 0; i < %s; i++)\n\t\t%s[i] = (%s)%s[i];\n", n, own, ctype, x.Name))
		}
		if x.Role != kernels.In {
			after = append(after, fmt.Sprintf("\tfor (int64_t i = 0; i < %s; i++)\n\t\t%s[i] = %s[i];\n", n, x.Name, own))
		}
		after = append(after, "\tfree("+own+");\n")
	}
	for _, sc := range g.Scalars {
		params, call = append(params, "double "+sc.Name), append(call, "("+sc.DType.C()+")"+sc.Name)
	}
	run := fmt.Sprintf("%s(%s)", im.Entry, strings.Join(call, ", "))
	if s.cuda {
		// The arguments of every thread.
		var fields, pass []string
		field := func(ctype, name, value string) {
			fields = append(fields, ctype+name+";")
			values, pass = append(values, value), append(pass, "evotune_with->"+name)
		}
		for i, d := range g.Dims {
			field("int64_t ", d, call[i])
		}
		for i, x := range g.Buffers {
			field(x.DType.C()+" *", x.Name, call[len(g.Dims)+i])
		}
		for i, sc := range g.Scalars {
			field(sc.DType.C()+" ", sc.Name, call[len(g.Dims)+len(g.Buffers)+i])
		}
		fmt.Fprintf(&b, "struct evotune_arguments {\n\t%s\n};\nstatic void evotune_thread(void) { %s(%s); }\n\n", strings.Join(fields, "\n\t"), im.Entry, strings.Join(pass, ", "))
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
		alone := 0
		if strings.Contains(s.bare, "atomic") || strings.Contains(s.bare, "volatile") || strings.Contains(s.bare, "__threadfence") {
			alone = 1 // blocks that share memory run one at a time
		}
		before = append(before, fmt.Sprintf("\tconst struct evotune_arguments evotune_given = {%s};\n", strings.Join(values, ", ")))
		run = fmt.Sprintf("evotune_launch(%s, %s, %d, %d, &evotune_given)", three(g.Reference.Grid), three(g.Reference.Block), barriers, alone)
	}
	fmt.Fprintf(&b, "void reference(%s)\n{\n%s\t%s;\n%s}\n", strings.Join(params, ", "), strings.Join(before, ""), run, strings.Join(after, ""))
	return b.String(), nil
}

// inDouble says whether the kernel itself, as a reference, can compute in double precision.
func (s *source) inDouble() bool {
	return s.cuda && !narrow.MatchString(s.bare) && !narrow.MatchString(s.text) &&
		!slices.ContainsFunc(s.given.Buffers, func(b GivenBuffer) bool { return b.DType != kernels.F32 && b.DType != kernels.F64 })
}

// ownDeviceReference writes the same reference for a GPU, with its launch over the dimensions alone. It is nil
// if the kernel cannot compute in double precision, or its launch needs more than that.
func (s *source) ownDeviceReference(p *kernels.Problem, im *kernels.Implementation, base genome.Genome) (text string, launch *kernels.Launch, err error) {
	if !s.inDouble() || strings.Contains(s.bare, "atomic") || im.Launch == nil || im.Launch.Shared != "" || len(im.Launch.Then) > 0 {
		return "", nil, nil
	}
	launch = &kernels.Launch{}
	values := base.Map()
	for from, to := range map[*[]string]*[]string{&im.Launch.Grid: &launch.Grid, &im.Launch.Block: &launch.Block} {
		for _, expr := range *from {
			for name, v := range values {
				word := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
				if !word.MatchString(expr) {
					continue
				}
				if _, whole := v.(int64); !whole {
					return "", nil, nil
				}
				expr = word.ReplaceAllString(expr, fmt.Sprint(v))
			}
			if strings.Contains(expr, "device_") {
				return "", nil, nil
			}
			*to = append(*to, expr)
		}
	}
	r, err := im.Render(base)
	if err != nil {
		return "", nil, err
	}
	source := withoutMarks(r.Source)
	kernel := strings.Replace(source, `extern "C" __global__ void `+im.Entry+"(", "static __device__ void "+im.Entry+"(", 1)
	if kernel == source {
		return "", nil, nil
	}
	call := slices.Clone(p.Dims)
	for _, x := range p.Buffers {
		call = append(call, "(double *)"+x.Name)
	}
	for _, x := range p.Scalars {
		call = append(call, x.Name)
	}
	return fmt.Sprintf("/* No independent reference: this is %s itself, with the values of its baseline, %s. */\n%s\n%s\nextern \"C\" __global__ void reference(%s)\n{\n\t%s(%s);\n}\n",
		s.entry.id, base, widened(true), kernel, strings.Join(kernels.ReferenceParams(p), ", "), im.Entry, strings.Join(call, ", ")), launch, nil
}
