package cuda

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/pelletier/go-toml/v2"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/ptx"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// A hopperCompiler knows sm_90a, and is of a toolkit.
type hopperCompiler struct {
	compiler
	kit *toolkit
}

// hopperCompilers gives the first nvcc and the first NVRTC here that know sm_90a: the ones
// that evotune finds may be older than others beside them.
func hopperCompilers(t *testing.T) map[string]hopperCompiler {
	t.Helper()
	bins := []string{""}
	for _, pattern := range []string{"/usr/local/cuda*/bin", "/opt/cuda*/bin"} {
		more, _ := filepath.Glob(pattern)
		bins = append(bins, more...)
	}
	path, known := os.Getenv("PATH"), map[string]hopperCompiler{}
	for _, bin := range bins {
		if len(known) == 2 {
			break
		}
		if bin != "" {
			t.Setenv("PATH", bin+":"+path)
		}
		_, kit, found := compilers(t)
		for name, c := range found {
			if _, ok := known[name]; ok {
				continue
			}
			if _, err := c.compile(t.Context(), unit{source: "__global__ void k() { asm volatile(\"wgmma.fence.sync.aligned;\"); }\n", arch: "sm_90a"}); err == nil {
				known[name] = hopperCompiler{c, kit}
			}
		}
	}
	if len(known) == 0 {
		t.Fatal("no compiler here knows sm_90a: scripts/setup-cuda-debian.sh installs one")
	}
	return known
}

// hopperLab compiles, and takes a compiler's code apart, for a device that there need not
// be.
func hopperLab(t *testing.T, kit *toolkit, c compiler) *lab {
	t.Helper()
	base := &labs.Base{Scratch: t.TempDir()}
	h := newLab(base, Options{CompileWorkers: 2})
	var err error
	if h.Cache, err = cache.New(t.TempDir(), 0); err != nil {
		t.Fatal(err)
	}
	h.Launcher = process.NewLauncher()
	t.Cleanup(h.Launcher.Close)
	h.compiler, h.toolkit = c, kit
	h.gpus = []*gpu{{device: wire.Device{Capability: 90, SMs: 132, ThreadsSM: 2048, RegistersSM: 65536, SharedOptin: 227 << 10, L2Bytes: 50 << 20, DriverString: "none"}}}
	h.disasm = kit.disassembler(func(path string) string { return path })
	h.delayer = h.assemblers(t.Context())[0]
	if _, ok := h.delayer.(driver); ok {
		t.Fatalf("%s has no assembler", c.version())
	}
	return h
}

const hopperZoo = "../testdata/zoo-hopper"

// hopperSource is a kernel of the zoo for Hopper, with the header that it gets.
func hopperSource(t *testing.T, name string) kernels.Rendered {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(hopperZoo, "pipeline.cu.tmpl"))
	if err != nil {
		t.Fatal(err)
	}
	var s strings.Builder
	if err := template.Must(template.New("").Parse(string(text))).Execute(&s, map[string]any{"KERNEL": name, "SALT": 7}); err != nil {
		t.Fatal(err)
	}
	return kernels.Rendered{
		Source: s.String(), Entry: "product",
		Header: "#include <cuda_fp16.h>\n#ifdef __CUDACC_RTC__\ntypedef long long int64_t;\ntypedef unsigned long long uint64_t;\n#else\n#include <stdint.h>\n#endif\n" +
			"struct __align__(64) evotune_tensor_map { unsigned char bytes[128]; };\n",
	}
}

// hopperCases are the verdicts of the zoo for Hopper: the kernel, and for one that the
// compiler must be refused for, what it says.
func hopperCases(t *testing.T) (names []string, refused map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(hopperZoo, "verdicts.toml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Case []struct{ Kernel, Verdict, Check string }
	}
	if err := toml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	names, refused = []string{"honest"}, map[string]string{}
	for _, c := range file.Case {
		names = append(names, c.Kernel)
		if c.Verdict == string(evaluator.Compile) {
			refused[c.Kernel] = c.Check
		}
	}
	return names, refused
}

// TestHopperZooCompilesLong: what ptxas cannot do as asked is in the log of each compiler, and in
// no other; all kernels have the instructions by which racecheck's limits are known, and
// with delays in them they assemble, and are still what they were.
func TestHopperZooCompilesLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	names, refused := hopperCases(t)
	if len(refused) < 3 || len(names) < 8 {
		t.Fatalf("cases %q, of which the compiler refuses %q", names, refused)
	}
	for compilerName, c := range hopperCompilers(t) {
		t.Run(compilerName, func(t *testing.T) {
			t.Parallel()
			h := hopperLab(t, c.kit, c.compiler)
			for _, name := range names {
				src := hopperSource(t, name)
				u := h.unit(src, false)
				u.arch = "sm_90a"
				out, err := h.build(t.Context(), u)
				if err != nil {
					t.Errorf("%s: %v", name, logOf(err))
					continue
				}
				// The judge looks for its texts in every line, in lower case.
				if text := refused[name]; text != "" && !strings.Contains(strings.ToLower(out.Log), text) {
					t.Errorf("%s: %q is not in the log:\n%s", name, text, out.Log)
				}
				if loss := strings.Contains(out.Log, "Potential Performance Loss"); loss != (refused[name] != "") {
					t.Errorf("%s: a loss is told: %v\n%s", name, loss, out.Log)
				}
				cand := &candidate{name: name, src: src, out: out, arch: u.arch, hash: cache.Key(name), path: filepath.Join(h.Scratch, name+".cubin")}
				if err := os.WriteFile(cand.path, out.Cubin, 0o600); err != nil {
					t.Fatal(err)
				}
				// NVRTC gives PTX beside the code: the same as alone.
				if delayed := h.delayedUnit(cand); out.PTX != "" {
					if alone, err := c.ptx(t.Context(), delayed); err != nil || !slices.Equal(strings.Fields(alone), strings.Fields(ptx.Unlined(delayed.known))) {
						t.Errorf("%s: PTX of %d bytes alone and of %d beside the code are not the same, %v", name, len(alone), len(delayed.known), err)
					}
				} else if _, both := c.compiler.(*nvrtc); both {
					t.Errorf("%s: no PTX beside the code", name)
				}
				checkDelays(t, h, cand, []string{"UTMALDG", "SYNCS", "HGMMA"})
			}
		})
	}
}

// checkDelays builds a candidate with delays, and looks at its instructions.
func checkDelays(t *testing.T, h *lab, c *candidate, want []string) {
	t.Helper()
	built, err := h.buildDelayed(t.Context(), h.delayedUnit(c), h.delayer, room{})
	if err != nil {
		t.Errorf("%s with delays: %v", c.name, logOf(err))
		return
	}
	if h.disasm == nil {
		t.Logf("%s: %s; the code was not looked at", c.name, built.Delays)
		return
	}
	plain, how, why, err := h.instructions(t.Context(), c, false)
	if err != nil || why != "" {
		t.Errorf("%s: %s %v", c.name, why, err)
		return
	}
	v, err := h.delayedCandidate(c, built)
	if err != nil {
		t.Fatal(err)
	}
	slow, _, why, err := h.instructions(t.Context(), v, false)
	runtime.KeepAlive(v) // and its file
	if err != nil || why != "" {
		t.Errorf("%s with delays: %s %v", c.name, why, err)
		return
	}
	for _, stem := range want {
		if plain.family(stem) == 0 {
			t.Errorf("%s has no %s by %s: %s", c.name, stem, how, plain.code().Top(60))
		}
	}
	if list := plain.hidden(built.Mnemonics); len(list) > 0 {
		t.Errorf("%s: its PTX does not show %s", c.name, list)
	}
	// What definitions require is found by opcodes too, without a disassembler each time.
	code, err := readOpcodes(c.out.Cubin)
	if err != nil {
		t.Fatal(err)
	}
	if counts, ok := h.disasm.names.count(code); !ok {
		t.Errorf("%s has an opcode with several names", c.name)
	} else {
		for _, stem := range want {
			if counts.family(stem) != plain.family(stem) {
				t.Errorf("%s: %d times %s by opcodes, %d in the listing", c.name, counts.family(stem), stem, plain.family(stem))
			}
		}
	}
	for _, pattern := range []string{"^HGMMA", "^UTMALDG"} {
		if n, _ := plain.Mnemonics.Matching(regexp.MustCompile(pattern)); n == 0 || modifiersMatter(regexp.MustCompile(pattern)) {
			t.Errorf("%s: %d instructions match %s", c.name, n, pattern)
		}
	}
	// Delays are neither dropped nor put together.
	if n := slow.family("NANOSLEEP"); n == 0 || plain.family("NANOSLEEP") != 0 {
		t.Errorf("%s: %d delays in the code of %s, %d before", c.name, n, built.Delays, plain.family("NANOSLEEP"))
	}
	// The flavour is still a pipeline: products follow one another.
	if strings.Contains(built.Log, "Potential Performance Loss") && !strings.Contains(c.out.Log, "Potential Performance Loss") {
		t.Errorf("%s with delays: %s", c.name, built.Log)
	}
	seen, err := h.unfollowed(t.Context(), c)
	if err != nil || !seen.copies || !seen.waits {
		t.Errorf("%s: racecheck does not follow %+v, %v", c.name, seen, err)
	}
	text, err := h.unfollowedPTX(t.Context(), c)
	if err != nil || !text.copies || !text.waits {
		t.Errorf("%s: by its PTX racecheck does not follow %+v, %v", c.name, text, err)
	}
}

// TestPlantedDelaysLong: the kernels on which delays are tried compile for every device, with
// delays in both.
func TestPlantedDelaysLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	_, kit, found := compilers(t)
	for name, c := range found {
		h := hopperLab(t, kit, c)
		for _, arch := range []string{"sm_80", "sm_90"} {
			built, err := h.buildDelayed(t.Context(), plantedDelays(arch, delayTrials(wire.Device{Capability: map[string]int{"sm_80": 80, "sm_90": 90}[arch], CUDADriver: 13000})), h.delayer, room{})
			if err != nil {
				t.Errorf("%s, %s: %v", name, arch, logOf(err))
				continue
			}
			for _, entry := range []string{"clean", schedules} {
				var r resources
				if err := r.readCubin(built.Cubin, entry); err != nil {
					t.Errorf("%s, %s: %v", name, arch, err)
				}
			}
			if !strings.Contains(built.Delays, "mbarrier 6") || !strings.Contains(built.Delays, "bar 2") {
				t.Errorf("%s, %s: %s", name, arch, built.Delays)
			}
		}
	}
}

// TestPtxasFlags: what reaches ptxas of a definition's flags.
func TestPtxasFlags(t *testing.T) {
	options, registers := unit{flags: []string{"-O3", "-Xptxas", "-O2,--warn-on-spills", "--ptxas-options=-dlcm=cg", "-maxrregcount", "64", "-DN=3", "-use_fast_math"}}.ptxasFlags()
	if want := []string{"-O2", "--warn-on-spills", "-dlcm=cg"}; !slices.Equal(options, want) || registers != "64" {
		t.Errorf("%q and %q registers, want %q and 64", options, registers, want)
	}
}

// TestDelaysThatDoNotFitLong: where delays take the registers that a block, or blocks that wait
// for one another, need, the candidate is not launched with them.
func TestDelaysThatDoNotFitLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	_, kit, found := compilers(t)
	for _, c := range found {
		h := hopperLab(t, kit, c)
		compile := func(source string, flags ...string) *candidate {
			out, err := c.compile(t.Context(), unit{source: source, arch: "sm_90", flags: flags})
			if err != nil {
				t.Fatal(logOf(err))
			}
			return &candidate{src: kernels.Rendered{Entry: "spills"}, out: out}
		}
		source := strings.ReplaceAll(strings.ReplaceAll(spillingSource, "96", "192"), "95", "191")
		small, large := compile(source, "--maxrregcount=32"), compile(source)
		d := &shapeData{}
		for _, k := range []struct {
			name string
			g    wire.Geometry
			fits bool
		}{
			{"few threads", wire.Geometry{Block: [3]int64{128, 1, 1}}, true},
			{"many threads", wire.Geometry{Block: [3]int64{1024, 1, 1}}, false},
			{"all blocks at once", wire.Geometry{Block: [3]int64{128, 1, 1}, Cooperative: true}, false},
			{"the second kernel", wire.Geometry{Block: [3]int64{128, 1, 1}, Then: []wire.Geometry{{Block: [3]int64{32, 32, 1}, Entry: "spills"}}}, false},
		} {
			small.geometry = map[*shapeData]wire.Geometry{d: k.g}
			short, err := h.tooLarge(small, large, []*shapeData{d})
			if err != nil || (short == nil) != k.fits || short != nil && short.registers != 32 {
				t.Errorf("%s, %s: %+v, %v", c.version(), k.name, short, err)
			}
			if short, err := h.tooLarge(small, small, []*shapeData{d}); err != nil || short != nil {
				t.Errorf("%s, %s, as large as before: %+v, %v", c.version(), k.name, short, err)
			}
		}
	}
}

// TestUnfollowedLong: racecheck is trusted with ordinary kernels, and barriers in shared memory
// are seen, in machine code and in PTX.
func TestUnfollowedLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	_, kit, found := compilers(t)
	for name, c := range found {
		h := hopperLab(t, kit, c)
		for source, want := range map[string]unfollowed{gemmSource: {}, delaySource: {waits: true}} {
			cand := &candidate{name: "unfollowed", src: kernels.Rendered{Source: source}, arch: "sm_90", hash: cache.Key(source), path: filepath.Join(t.TempDir(), "k.cubin")}
			var err error
			if cand.out, err = c.compile(t.Context(), h.delayedUnit(cand)); err != nil {
				t.Fatal(logOf(err))
			}
			if err := os.WriteFile(cand.path, cand.out.Cubin, 0o600); err != nil {
				t.Fatal(err)
			}
			text, why, err := h.disassemble(t.Context(), cand)
			if err != nil || why != "" {
				t.Fatal(why, err)
			}
			inCode := want
			if countInstructions(text).Unnamed > 0 { // an old disassembler, which does not know all
				inCode.waits = true
			}
			got, err := h.unfollowed(t.Context(), cand)
			if err != nil || got != inCode {
				t.Errorf("%s: %+v, %v, want %+v", name, got, err, inCode)
			}
			if got, err = h.unfollowedPTX(t.Context(), cand); err != nil || got != want {
				t.Errorf("%s, PTX: %+v, %v, want %+v", name, got, err, want)
			}
			h.gpus[0].device.Capability = 80
			cand.unfollowed = nil
			if got, err = h.unfollowed(t.Context(), cand); err != nil || got != (unfollowed{}) {
				t.Errorf("%s, an older device: %+v, %v", name, got, err)
			}
			h.gpus[0].device.Capability = 90
		}
	}
}

// hiding is a kernel that exchanges numbers over a barrier in shared memory, with more
// inline assembly at its start and before the barrier is set up.
func hiding(start, before string) string {
	return fmt.Sprintf(`extern "C" __global__ void k(long n, const float *in, float *out)
{
	__shared__ unsigned long long b;
	__shared__ float x[128];
	unsigned at = (unsigned)__cvta_generic_to_shared(&b);
	asm volatile(%q ::: "memory");
	if (threadIdx.x == 0)
		asm volatile(%q "mbarrier.init.shared.b64 [%%0], 128;" ::"r"(at) : "memory");
	__syncthreads();
	x[threadIdx.x] = in[threadIdx.x];
	asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%%0]; }" ::"r"(at) : "memory");
	asm volatile("{ .reg .pred p;\n L: mbarrier.try_wait.parity.shared.b64 p, [%%0], 0;\n @!p bra L; }" ::"r"(at) : "memory");
	out[threadIdx.x] = x[threadIdx.x ^ 127];
}
`, start, before)
}

// TestHidingFromDelaysLong: what inline assembly may hold, and ptxas takes, changes nothing of
// where delays are, or refuses the candidate.
func TestHidingFromDelaysLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	for name, c := range hopperCompilers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hopperLab(t, c.kit, c.compiler)
			launch := func(what, source, code string) (evaluator.Findings, delayedBuild, error) {
				cand := &candidate{name: what, src: kernels.Rendered{Source: source, Entry: "k"}, arch: "sm_90a", hash: cache.Key(what, name), path: filepath.Join(t.TempDir(), "k.cubin")}
				var err error
				u := h.delayedUnit(cand)
				u.source = code
				if cand.out, err = c.compile(t.Context(), u); err != nil {
					t.Fatalf("%s, %s: it does not compile: %v", name, what, logOf(err))
				}
				if what == "other code" {
					cand.out.PTX = "" // as from a cache; else it is that of the other code
				}
				if err := os.WriteFile(cand.path, cand.out.Cubin, 0o600); err != nil {
					t.Fatal(err)
				}
				built, err := h.buildDelayed(t.Context(), h.delayedUnit(cand), h.delayer, room{})
				if err == nil && code == source {
					return evaluator.Findings{}, built, nil
				}
				h.problem.Sanitize = &shapeData{}
				f, err := h.launchDelayed(t.Context(), cand, nil)
				return f, built, err
			}
			const barriers = "(bar 1, mbarrier 3"
			for what, source := range map[string]string{
				"nothing":        hiding("", ""),
				"a line":         hiding("", ".loc 1 5 0  "),
				"a stray fence":  hiding("wgmma.fence.sync.aligned;", ""),
				"other names":    hiding("{\n .reg .b32 evotune_a<3>;\n mov.u32 evotune_a1, 0;\n}", ""),
				"a fence before": hiding("", "wgmma.fence.sync.aligned; "),
				"a section":      hiding("", "/*\n\t.section .debug_a\n{\n*/ "),
				"a label":        hiding("bra $L__tmp7;\n$L__tmp7:\n", ""),
				"a comment":      hiding("", "/*\n.loc 1 2 3 // */ "),
				"a string":       hiding("", ".pragma \"\n.loc 1 2 3 // \"; "),
				"a file":         hiding("", ".pragma \"\n.file 1 \"; "),
			} {
				_, built, err := launch(what, source, source)
				if err != nil || !strings.Contains(built.Delays, barriers) {
					t.Errorf("%s, %s: %s, %v", name, what, built.Delays, err)
				}
			}
			for what, source := range map[string]string{
				"#line":           hiding("", "#line 5 \"x.ptx\"\n\t"),
				"# 5":             hiding("", "# 5 \"x.ptx\"\n\t"),
				"#line by itself": hiding("#line 1 \"k\"\n", ""),
			} {
				f, _, err := launch(what, source, source+" ")
				if err != nil || f.By != schedules || !strings.HasPrefix(f.Found, "its PTX cannot be read: line ") || !strings.Contains(f.Found, "lines must not be numbered") {
					t.Errorf("%s, %s: %+v, %v", name, what, f, err)
				}
			}
			// Machine code with barriers, and PTX without.
			const plain = "extern \"C\" __global__ void k(long n, const float *in, float *out) { out[threadIdx.x] = in[threadIdx.x]; }\n"
			f, _, err := launch("other code", plain, hiding("", ""))
			if err != nil || f.NotRun != "the machine code has SYNCS, and nothing in the PTX explains it" {
				t.Errorf("%s, other code: %+v, %v", name, f, err)
			}
		})
	}
}

// TestDelaysInFewerRegistersLong: delays fit where the kernel does when the assembler may take
// no more registers.
func TestDelaysInFewerRegistersLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	_, kit, found := compilers(t)
	for _, c := range found {
		h := hopperLab(t, kit, c)
		u := unit{source: strings.ReplaceAll(strings.ReplaceAll(spillingSource, "96", "192"), "95", "191"), arch: "sm_90", plain: true, flags: []string{"-O3", "-maxrregcount", "168"}}
		for _, r := range []room{{}, {registers: 40}, {share: 2, registers: 40}} {
			built, err := h.buildDelayed(t.Context(), u, h.delayer, r)
			if err != nil {
				t.Fatal(logOf(err))
			}
			var took resources
			if err := took.readCubin(built.Cubin, "spills"); err != nil {
				t.Fatal(err)
			}
			if few := took.registers <= 40; few != (r.registers > 0) || strings.Contains(built.Delays, "--maxrregcount=40") != few {
				t.Errorf("%s, %+v: %d registers, %s", c.version(), r, took.registers, built.Delays)
			}
		}
	}
}

// TestTrapSeenLong: inspection sees what stops a context.
func TestTrapSeenLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	for name, c := range hopperCompilers(t) {
		h := hopperLab(t, c.kit, c.compiler)
		if h.disasm == nil {
			t.Fatal("nothing disassembles here")
		}
		d := &shapeData{shape: kernels.Shape{Name: "tuned"}}
		h.problem.Tune = []*shapeData{d}
		for code, want := range map[string]bool{"__trap();": true, "asm volatile(\"trap;\");": true, "": false} {
			u := unit{source: "extern \"C\" __global__ void k(int *x) { if (x[0]) { " + code + " } x[1] = 1; }\n", arch: "sm_90a", plain: true}
			out, err := h.build(t.Context(), u)
			if err != nil {
				t.Fatal(err)
			}
			cand := &candidate{
				name: "k", src: kernels.Rendered{Entry: "k"}, out: out, arch: u.arch, hash: cache.Key(name, code), path: filepath.Join(h.Scratch, "k.cubin"),
				geometry: map[*shapeData]wire.Geometry{d: {Grid: [3]int64{1, 1, 1}, Block: [3]int64{32, 1, 1}}},
			}
			if err := os.WriteFile(cand.path, out.Cubin, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := h.inspect(t.Context(), cand, nil); err != nil {
				t.Fatal(err)
			}
			if cand.traps.Load() != want {
				t.Errorf("%s, %q: traps %v", name, code, !want)
			}
		}
	}
}
