package export

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/kernels"
)

// A Lang is what a library is written in.
type Lang string

// The languages.
const (
	C    Lang = "c"    // kernels for processors
	CUDA Lang = "cuda" // kernels for NVIDIA's GPUs
)

// Langs lists the languages.
func Langs() []Lang { return []Lang{C, CUDA} }

// Backend is the backend whose winners can leave in the language.
func (l Lang) Backend() string {
	for _, f := range backend.All() {
		if f.Library == string(l) {
			return f.Name
		}
	}
	return ""
}

// Environment lists the variables of the environment that exported libraries
// read. They begin as evotune's own do, and are no settings of evotune.
func Environment() []string {
	return []string{"EVOTUNE_LIBRARY", "EVOTUNE_TORCH_CACHE", "EVOTUNE_TORCH_MEASURED", "EVOTUNE_TORCH_USE", "EVOTUNE_WISDOM"}
}

// Options say how winners leave.
type Options struct {
	Lang Lang
	// Min is what must be proven of each; the zero value is [Finals].
	Min Level
	// By names the evotune that exports.
	By string
	// Embed puts machine code into a library for GPUs instead of sources, compiled
	// by NVCC; empty finds one.
	Embed bool
	NVCC  string
	// Compile runs NVCC on a source with some arguments, and gives the fat binary: kernels
	// are compiled as candidates were, where they reach no files of others.
	Compile func(nvcc, source string, args []string) ([]byte, error)
	// Tell, if it is not nil, gets one line for people for every winner that was not faster than
	// the baseline: whether the library calls the baseline there.
	Tell func(line string)
	// Triton compiles what is in Triton for one compute capability, such as 90.
	Triton func(src kernels.Rendered, capability int) (TritonCode, error)
}

// A TritonCode is what Triton compiles.
type TritonCode struct {
	Code []byte // a cubin
	// Threads and Shared, dynamic memory in bytes, are what a block is launched with.
	Threads, Shared int64
	// Name is what evidence calls it ([evaluator.MachineCode]).
	Name string
	// Compiler names Triton with its version, Capability what it is for.
	Compiler   string
	Capability int
}

// ErrUnproven is wrapped by the error of Export for a winner that lacks proof.
var ErrUnproven = errors.New("not proven")

// Export makes the files of a library, by slash-separated path. They depend on
// the winners and options alone. All winners must be of the language's backend;
// there is at least one.
func Export(winners []*Winner, o Options) (map[string][]byte, error) {
	o.Min = cmp.Or(o.Min, Finals)
	if len(winners) == 0 {
		return nil, errors.New("no winner was given")
	}
	if !slices.Contains(Langs(), o.Lang) {
		return nil, fmt.Errorf("no library can be written in %q: choose one of %q", o.Lang, Langs())
	}
	for _, w := range winners {
		im := w.Rendered.Implementation
		if im.Backend != o.Lang.Backend() {
			return nil, fmt.Errorf("candidate %s of %s is for the %s backend, not for a library in %s", w.Evidence.Candidate, im.Definition().Name, im.Backend, o.Lang)
		}
		if lacks := w.Lacks(o.Min); len(lacks) > 0 {
			return nil, fmt.Errorf("candidate %s of %s is %w: %s", w.Evidence.Candidate, im.Definition().Name, ErrUnproven, strings.Join(lacks, "; "))
		}
	}
	x := &export{Options: o, files: map[string][]byte{}, codes: map[string]TritonCode{}}
	winners, err := x.inTriton(winners)
	if err != nil {
		return nil, err
	}
	if x.Kernels, err = newProblems(winners); err != nil {
		return nil, err
	}
	for _, p := range x.Kernels {
		if err := x.addBaseline(p); err != nil {
			return nil, fmt.Errorf("kernel %s: %w", p.Kernel, err)
		}
	}
	slices.Sort(x.NotFaster)
	lang := string(x.Lang) + "/"
	own := x.c
	if x.CUDA() {
		own = x.cuda
	}
	if err := own(); err != nil {
		return nil, err
	}
	if err := x.add(x, map[string]string{
		"include/evotune.h": "common/evotune.h.tmpl", "src/kernels.c": "common/kernels.c.tmpl",
		"src/dispatch.h": "common/dispatch.h", "src/dispatch.c": "common/dispatch.c", "test/check.c": lang + "check.c.tmpl",
		"CMakeLists.txt": lang + "CMakeLists.txt.tmpl", "cmake/evotuneConfig.cmake.in": "common/evotuneConfig.cmake.in.tmpl",
		"cmake/evotune.pc.in": "common/evotune.pc.in", "manifest.schema.json": "common/manifest.schema.json", "README.md": "common/README.md.tmpl",
	}); err != nil {
		return nil, err
	}
	if err := x.torch(); err != nil {
		return nil, err
	}
	x.files["wisdom.txt"] = x.wisdom()
	if x.files["manifest.json"], err = x.manifest(); err != nil {
		return nil, err
	}
	for _, line := range x.NotFaster {
		if o.Tell != nil {
			o.Tell(line)
		}
	}
	return x.files, nil
}

// An export is what the templates of a library are filled with.
type export struct {
	Options
	Kernels []*problem
	// NotFaster has a line for every winner that was not faster than the baseline: which of the two
	// the library calls.
	NotFaster []string
	files     map[string][]byte
	compiler  string                // of machine code in the library
	codes     map[string]TritonCode // by the hash of what was rendered
}

// CUDA says that the library is for GPUs.
func (x *export) CUDA() bool { return x.Lang == CUDA }

//go:embed files
var sources embed.FS

// A feature is an instruction set, with its name as a word of C.
type feature struct {
	evaluator.Feature
	ID string
}

// Features lists the instruction sets that exported libraries tell apart.
func (x *export) Features() []feature {
	var list []feature
	for _, f := range evaluator.Features() {
		list = append(list, feature{f, strings.ToUpper(word(f.Name))})
	}
	return list
}

// DTypes has each type of elements that an interface mentions.
func (x *export) has(t kernels.DType) bool {
	return slices.ContainsFunc(x.Kernels, func(p *problem) bool {
		return slices.ContainsFunc(p.Problem.Buffers, func(b kernels.Buffer) bool { return b.DType == t })
	})
}

// Has says whether arrays of a type are in the interface.
func (x *export) Has(dtype string) bool { return x.has(kernels.DType(dtype)) }

// Loose says that some output need not be written in full, or need not be the same twice.
func (x *export) Loose() bool {
	return slices.ContainsFunc(x.Kernels, func(p *problem) bool {
		return slices.ContainsFunc(p.Problem.Buffers, func(b kernels.Buffer) bool { return b.Unwritten || b.Repeat > 0 })
	})
}

// Half and Brain say whether arrays of these types are in the interface.
func (x *export) Half() bool { return x.has(kernels.F16) }

// Brain says whether arrays of bfloat16 are in the interface.
func (x *export) Brain() bool { return x.has(kernels.BF16) }

// Conversions are functions in C for the types of elements that it lacks.
func (x *export) Conversions() string {
	var s string
	for _, t := range kernels.DTypes() {
		if x.has(t) {
			s += kernels.Conversions(t)
		}
	}
	return s
}

var functions = template.FuncMap{
	"join":  strings.Join,
	"quote": quoteC,
	"cmake": func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, `;`, `\;`).Replace(s) + `"`
	},
	"json": func(v any) (string, error) { b, err := json.Marshal(v); return string(b), err },
	"word": word,
}

// quoteC makes a text one of C.
func quoteC(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\' || c == '?':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			b.WriteString(`\` + fmt.Sprintf("%03o", c))
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// add writes files, each from its source below files. Templates, which end in .tmpl, are
// filled with data; they may use those of the folder common and of the library's language
// by the names of their files. Others are copied.
func (x *export) add(data any, from map[string]string) error {
	for name, source := range from {
		text, err := fs.ReadFile(sources, path.Join("files", source))
		if err == nil && strings.HasSuffix(source, ".tmpl") {
			text, err = x.fill(source, data)
		}
		if err == nil && strings.HasSuffix(name, ".go") {
			text, err = format.Source(text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		x.files[name] = text
	}
	return nil
}

// fill fills a template.
func (x *export) fill(source string, data any) ([]byte, error) {
	t, err := template.New(path.Base(source)).Funcs(functions).Option("missingkey=error").
		ParseFS(sources, "files/common/*.tmpl", "files/"+string(x.Lang)+"/*.tmpl", "files/"+source)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, data)
	return b.Bytes(), err
}

// c adds what a library for processors has: its kernels, how a processor is known, and
// callers in Python and Go.
func (x *export) c() error {
	for _, p := range x.Kernels {
		for _, v := range p.Variants {
			v.native()
			v.File = "src/kernels/" + v.Symbol + ".c"
			x.files[v.File] = []byte(x.kernelC(p, v))
		}
		if !p.InPython() {
			x.files["src/reference_"+p.Name+".c"] = []byte(x.referenceC(p))
		}
	}
	x.files["go/go.mod"] = []byte("module evotune\n\ngo 1.21\n")
	return x.add(x, map[string]string{
		"src/cpu.h": "c/cpu.h.tmpl", "src/cpu.c": "c/cpu.c.tmpl", "test/bench.c": "c/bench.c.tmpl",
		"python/evotune.py": "python/evotune.py.tmpl", "python/example.py": "python/example.py.tmpl",
		"go/evotune.go": "go/evotune.go.tmpl", "go/example/main.go": "go/example.go.tmpl",
	})
}

// addBaseline adds the kernel's own baseline, for any device, to the variants, and on processors
// for those devices too where a winner was not faster than it. When it is a routine of another
// library, there is none but what vendorOf gives.
func (x *export) addBaseline(p *problem) error {
	im := p.Variants[0].Rendered.Implementation
	r, err := im.RenderBaseline(p.ShapesFor(kernels.Tune)[0])
	if errors.Is(err, errors.ErrUnsupported) {
		x.beat(p, "")
		return nil
	}
	if err != nil {
		return err
	}
	x.beat(p, r.Hash)
	if first := p.Variants[0].Rendered; r.Triton != nil && first.Triton == nil {
		return nil // for the devices of winners in CUDA it could not be compiled
	} else if r.Triton != nil {
		if r, err = x.assembled(r, x.codes[first.Hash].Capability); err != nil {
			return fmt.Errorf("the baseline: %w", err)
		}
	}
	v, err := p.variant(r, nil)
	if err != nil {
		return err
	}
	v.Candidate, v.Symbol, v.limits = "baseline", p.Name+"_baseline", p.Variants[0].limits
	if !x.CUDA() {
		p.Variants = append(p.Variants, v.ownOf(p)...)
	}
	p.Variants = append(p.Variants, v)
	return nil
}

// ownOf is a baseline compiled for the devices on which it is called instead of winners, which were
// timed beside it there. It comes before that for any device.
func (v *variant) ownOf(p *problem) (list []*variant) {
	v.native()
	have := [][]string{v.Flags}
	for _, t := range p.Variants {
		if len(t.beaten) == 0 {
			continue
		}
		own := *v
		own.Symbol, own.on = v.Symbol+"_"+t.Candidate, t.on
		own.native()
		if slices.ContainsFunc(have, func(flags []string) bool { return slices.Equal(flags, own.Flags) }) {
			continue
		}
		have, list = append(have, own.Flags), append(list, &own)
	}
	return list
}

// beat finds the tuned shapes at which nothing faster than the baseline was found. The library calls the
// baseline there, where it has it, or the vendor's routine: hash is that of its baseline, or empty without one.
func (x *export) beat(p *problem, hash string) {
	for _, v := range p.Variants {
		for _, w := range v.winners() {
			line := w.NotFaster()
			if line == "" {
				continue
			}
			b, lacks, calls := v.Rendered.Implementation.Baseline(), "", ""
			for _, name := range w.Evidence.Shapes {
				s, err := p.Shape(name)
				if err != nil {
					continue // of another definition
				}
				r, err := v.Rendered.Implementation.RenderBaseline(s)
				switch {
				case b.Kind == kernels.BaselineLibrary && (b.Genome == nil || w.besideRoutine(name) != ""):
					routine := x.vendorOf(p, b, s)
					if routine == nil {
						lacks = b.String()
						continue
					}
					routine.found(w, s)
					v.beaten[name], calls = vendorRoutine, routine.Library
				case err != nil || r.Hash != hash:
					lacks = "the baseline of that shape"
				default:
					v.beaten[name] = ownBaseline
				}
			}
			switch {
			case lacks != "":
				line += ": the library calls the winner there, since it does not contain " + lacks
			case calls != "":
				line += fmt.Sprintf(": the library calls %s there, and the winner where that is not installed", calls)
			default:
				line += ": the library calls the baseline there"
			}
			x.NotFaster = append(x.NotFaster, line)
		}
	}
}

// native replaces what means "this machine" to a compiler: by the instruction sets
// of the device that the variant was tuned on, or, for a baseline, by nothing. Where
// the campaign did not record them it stays, and means the machine that builds.
func (v *variant) native() {
	var explicit []string
	keep := false
	if d := v.on; d != nil {
		explicit, keep = d.Native, len(d.Native) == 0
		switch d.Device.Facts["architecture"] {
		case "amd64":
			v.Machine = "x86_64|AMD64|amd64"
		case "arm64":
			v.Machine = "aarch64|arm64"
		}
	}
	var flags []string
	for _, f := range v.Rendered.Flags {
		switch {
		case strings.HasPrefix(f, "-W") && !strings.HasPrefix(f, "-Wno-") && !strings.Contains(f, ","):
			// Warnings were for whoever wrote the kernel; -Wl,... are no warnings.
		case keep:
			flags = append(flags, f)
		case f == "-march=native":
			flags = append(flags, explicit...)
		case f == "-mtune=native" || f == "-mcpu=native":
		default:
			flags = append(flags, f)
		}
	}
	v.Flags = flags
}

// about is the comment at the head of a kernel's file, in which it is called entry.
func (x *export) about(p *problem, v *variant, entry string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "/* %s, %s\n", p.Kernel, v.Candidate)
	if !v.Rendered.Genome.IsZero() {
		fmt.Fprintf(&b, " * %s\n", strings.ReplaceAll(v.Rendered.Genome.String(), "*/", "* /"))
	}
	if p.License != "" {
		fmt.Fprintf(&b, " * SPDX-License-Identifier: %s\n", p.License)
	}
	fmt.Fprintf(&b, " * Generated by %s. */\n", x.By)
	return b.String() + v.Rendered.Directives(entry)
}

// abi is the version of the exported C interface; it grows when a library that was
// built with the older one would not work.
const abi = 1

// kernelC is the file of one kernel.
func (x *export) kernelC(p *problem, v *variant) string {
	var b strings.Builder
	b.WriteString(x.about(p, v, "evotune_"+v.Symbol))
	fmt.Fprintf(&b, "#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n#define %s evotune_%s\n", v.Rendered.Entry, v.Symbol)
	b.WriteString(strings.TrimRight(v.Rendered.SelfContained(), "\n"))
	// Whoever compiles the kernel alone, such as tune judge, has no cpu.h.
	fmt.Fprintf(&b, "\n#undef %s\n\n#if __has_include(\"cpu.h\")\n#include \"cpu.h\"\n\n", v.Rendered.Entry)
	fmt.Fprintf(&b, "extern const uint64_t evotune_%[1]s_needs;\nconst uint64_t evotune_%[1]s_needs = EVO_CPU_NEEDS;\n", v.Symbol)
	if v.Tuned {
		// Macros of the source are still in force here: no name of the problem may appear.
		fmt.Fprintf(&b, `
#ifdef EVOTUNE_PLUGIN
#define EVO_EXPORT extern __attribute__((visibility("default")))
EVO_EXPORT const int evotune_plugin_abi;
const int evotune_plugin_abi = %d;
EVO_EXPORT const char *const evotune_plugin_kernel;
const char *const evotune_plugin_kernel = %s;
EVO_EXPORT const uint64_t evotune_plugin_needs;
const uint64_t evotune_plugin_needs = EVO_CPU_NEEDS;
EVO_EXPORT __typeof__(evotune_%s) evotune_plugin_%s __attribute__((alias("evotune_%[3]s")));
#endif
`, abi, quoteC(p.Kernel), v.Symbol, v.Candidate)
	}
	b.WriteString("#endif\n")
	return b.String()
}

// referenceC is the file of a reference.
func (x *export) referenceC(p *problem) string {
	r := p.Reference
	return fmt.Sprintf("/* %s: the reference, in double precision.\n * Generated by %s. */\n#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n#define %s %s\n%s\n%s",
		p.Kernel, x.By, r.Entry, p.ReferenceSymbol(), kernels.ReferenceHeader(p.Problem), strings.TrimLeft(r.Text, "\n"))
}

// wisdom has a line for every problem that a variant was tuned for; of several
// variants for one device and shape, the fastest.
func (x *export) wisdom() []byte {
	var b strings.Builder
	b.WriteString("evotune-wisdom 1\n# kernel\tdimensions\tcandidate\tdevice\tnanoseconds\tlaunch\t.\n")
	for _, p := range x.Kernels {
		best := map[string]string{}
		fastest := map[string]float64{}
		var order []string
		for _, v := range p.Variants {
			if !v.Tuned {
				continue
			}
			for _, t := range v.timings() {
				s, err := p.Shape(t.Shape)
				if err != nil || v.beaten[t.Shape] != theWinner {
					continue
				}
				var dims []string
				for _, d := range p.Dims {
					dims = append(dims, d+"="+strconv.FormatInt(s.Dims[d], 10))
				}
				of := strings.Join(dims, ",") + "\t" + v.Device
				if ns, ok := fastest[of]; ok && ns <= t.MedianNS {
					continue
				} else if !ok {
					order = append(order, of)
				}
				launch, err := v.launchAt(s)
				if err != nil {
					continue // a shape that it computes no longer
				}
				fastest[of] = t.MedianNS
				best[of] = fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t.\n", p.Kernel, strings.Join(dims, ","), v.Candidate, v.Device, strconv.FormatFloat(t.MedianNS, 'f', 1, 64), launch)
			}
		}
		for _, of := range order {
			b.WriteString(best[of])
		}
	}
	return []byte(b.String())
}

func tabless(s string) string { return strings.Join(strings.Fields(s), " ") }

// ABI is the version that the header names.
func (x *export) ABI() int { return abi }
