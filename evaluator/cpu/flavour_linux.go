package cpu

import (
	"bytes"
	"context"
	"debug/elf"
	_ "embed" // for the harness's source
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/kernels"
)

//go:embed native/harness.c
var harnessSource string

//go:embed native/jail.h
var jailSource string

//go:embed native/openmp.c
var openMPSource string

// A flavour is one way to build and run a candidate.
type flavour struct {
	name string
	// args are added to the candidate's own flags; harness to the harness's.
	args, harness []string
	// flags changes the candidate's own flags; nil keeps them.
	flags func([]string) []string
	// wrapper is a command line that runs the harness, and unread what it would read for nothing.
	wrapper, unread []string
	env             []string
	// heap gives every launch buffers of their own, of exactly their size.
	heap bool
	// sandbox and limits are those of the harness's options.
	sandbox, limits bool
	// guards lets buffers end, or begin, where pages end that can be accessed.
	guards bool
	// fixedMaps switches off address space randomisation.
	fixedMaps bool
	// exit is the status by which the tool tells that it found something.
	exit int
}

// findingStatus is the exit status of every sanitizer that found something.
const findingStatus = 86

func cleanFlavour() flavour {
	return flavour{name: "clean", sandbox: true, limits: true}
}

// guardsFlavour runs the very object that is timed, at every shape, between pages
// that nobody can access: sanitizers see another build at one small shape.
func guardsFlavour() flavour {
	return flavour{name: guardsName, sandbox: true, limits: true, guards: true}
}

// parityEnv makes memory that malloc gives out hold junk in glibc.
var parityEnv = []string{"GLIBC_TUNABLES=glibc.malloc.perturb=1:glibc.malloc.tcache_count=0"}

// asanFlavour is AddressSanitizer with UndefinedBehaviorSanitizer. Its substitute for the
// stack, which newer compilers switch on, is aligned to less than a wide
// vector needs: an honest kernel crashes there.
func asanFlavour() flavour {
	options := fmt.Sprintf("exitcode=%d:halt_on_error=1:detect_leaks=0:external_symbolizer_path=:allocator_may_return_null=1:"+
		"malloc_fill_byte=255:detect_stack_use_after_return=0:max_malloc_fill_size=1073741824:handle_abort=0:print_stacktrace=1:print_summary=1:color=never", findingStatus)
	return flavour{
		name: asanName,
		args: []string{
			"-O1", "-g", "-fno-omit-frame-pointer", "-ftrivial-auto-var-init=pattern",
			"-fsanitize=address,undefined", "-fno-sanitize-recover=all",
		},
		harness: []string{"-O1", "-fsanitize=address,undefined"}, // more takes seconds, and is of no use
		flags:   sanitizableFlags,
		env:     []string{"ASAN_OPTIONS=" + options, "UBSAN_OPTIONS=" + options},
		heap:    true, sandbox: true, exit: findingStatus,
	}
}

func tsanFlavour() flavour {
	return flavour{
		name:    tsanName,
		args:    []string{"-O1", "-g", "-fsanitize=thread"},
		harness: []string{"-fsanitize=thread"},
		flags:   sanitizableFlags,
		env: []string{fmt.Sprintf("TSAN_OPTIONS=exitcode=%d:halt_on_error=1:external_symbolizer_path=:"+
			"report_signal_unsafe=0:report_thread_leaks=0:color=never", findingStatus)},
		heap: true, sandbox: true, fixedMaps: true, exit: findingStatus,
	}
}

// quickCode has gcc spend half as long on a sanitizer's build. These passes work on machine code, behind those that put the
// checks in and that decide which blocks there are: the checks are the same, in code that is slower. No report says where
// variables are, which the first of them tracks.
var quickCode = []string{
	"-fno-var-tracking", "-fira-region=one", "-fira-algorithm=priority", "-fno-unroll-loops", "-fno-forward-propagate",
	"-fno-move-loop-invariants", "-fno-split-wide-types", "-fno-cprop-registers", "-fno-compare-elim", "-fno-combine-stack-adjustments",
	"-fno-reorder-blocks", "-fno-shrink-wrap",
}

func memcheckFlavour(valgrind string) flavour {
	return flavour{
		name: memcheckName,
		args: []string{"-O1", "-g"},
		// valgrind does not know the newest instructions of its machine.
		flags: func(flags []string) []string { return plainMachine(sanitizableFlags(flags)) },
		wrapper: []string{
			valgrind, "--tool=memcheck", "--quiet", fmt.Sprintf("--error-exitcode=%d", findingStatus),
			"--track-origins=no", "--leak-check=no", "--num-callers=8", "--vgdb=no",
			"--malloc-fill=0xff", "--free-fill=0xfe", "--max-threads=1100",
			// A fifth of a run would go into which functions were inlined in the C library.
			"--read-inline-info=no",
			// It takes a frame of more than 2 MB for another stack, whose memory nobody allocated.
			// The stack is limited to 8 MiB.
			fmt.Sprintf("--max-stackframe=%d", 8<<20),
		},
		heap: true, sandbox: true, exit: findingStatus,
	}
}

// sanitizableFlags leaves out what does not go with a sanitizer.
func sanitizableFlags(flags []string) []string {
	var kept []string
	for _, f := range flags {
		switch {
		case strings.HasPrefix(f, "-flto"), f == "-fwhole-program", f == "-s", f == "-static",
			strings.HasPrefix(f, "-fprofile"), f == "-fomit-frame-pointer":
			continue
		}
		kept = append(kept, f)
	}
	return kept
}

// plainMachine replaces the machine's own instruction set by one that valgrind
// knows.
func plainMachine(flags []string) []string {
	if runtime.GOARCH != "amd64" {
		return flags
	}
	var kept []string
	for _, f := range flags {
		switch {
		case strings.HasPrefix(f, "-march="):
			f = "-march=x86-64-v3"
		case strings.HasPrefix(f, "-mtune="), strings.HasPrefix(f, "-mavx512"), strings.HasPrefix(f, "-mprefer-vector-width"):
			continue
		}
		kept = append(kept, f)
	}
	return kept
}

// compilation is what compiles of a candidate in this flavour.
func (f *flavour) compilation(src *kernels.Rendered, glueText string) compilation {
	files := map[string]string{}
	for name, text := range src.Files {
		files[name] = text
	}
	files["kernel.c"] = src.Source
	files["evotune_kernel.h"] = src.Header
	files["evotune_glue.c"] = glueText
	flags := src.Flags
	if f.flags != nil {
		flags = f.flags(flags)
	}
	var args, libraries []string
	for _, a := range flags {
		if strings.HasPrefix(a, "-l") || strings.HasPrefix(a, "-L") {
			libraries = append(libraries, a)
		} else {
			args = append(args, a)
		}
	}
	args = append(args, f.args...)
	// Headers come in before the source, and a source that asks for the GNU
	// extensions on its first line would ask too late.
	// What depends on the date is another binary whenever it is built.
	args = append(args, "-Werror=date-time", "-D_GNU_SOURCE=", "-shared", "-fPIC", "-I.", "-include", "evotune_kernel.h", "kernel.c", "evotune_glue.c")
	args = append(args, libraries...)
	args = append(args, "-lm", "-pthread", "-Wl,--build-id=none")
	if f.name == "clean" {
		// A sanitizer's own functions are in the harness.
		args = append(args, "-Wl,--no-undefined")
	}
	return compilation{files: files, args: args, frames: f.name == "clean"}
}

// orderedByOpenMP are the functions of libgomp that native/openmp.c annotates for the
// thread sanitizer, and withoutOrder matches those that order nothing.
var (
	orderedByOpenMP = []string{
		"GOMP_parallel", "GOMP_parallel_loop_dynamic", "GOMP_parallel_loop_guided",
		"GOMP_parallel_loop_nonmonotonic_dynamic", "GOMP_parallel_loop_nonmonotonic_guided",
		"GOMP_barrier", "GOMP_loop_end", "GOMP_critical_start", "GOMP_critical_end",
		"GOMP_critical_name_start", "GOMP_critical_name_end", "GOMP_atomic_start", "GOMP_atomic_end",
	}
	withoutOrder = regexp.MustCompile(`^(GOMP_(single_start|loop_end_nowait|loop_(nonmonotonic_)?(dynamic|guided)_(start|next))|` +
		`omp_(get_\w+|in_parallel))$`)
	runtimeOfOpenMP = regexp.MustCompile(`^(GOMP_|GOACC_|__kmpc_|omp_)`)
)

// openMP says whether an object uses OpenMP, and names a function of its runtime of
// whose order the thread sanitizer cannot be told, if it needs one.
func openMP(object []byte) (used bool, unknown string, err error) {
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		return false, "", err
	}
	symbols, err := f.DynamicSymbols()
	if errors.Is(err, elf.ErrNoSymbols) {
		err = nil
	}
	for _, s := range symbols {
		if runtimeOfOpenMP.MatchString(s.Name) {
			used = true
			if !slices.Contains(orderedByOpenMP, s.Name) && !withoutOrder.MatchString(s.Name) {
				unknown = s.Name
			}
		}
	}
	return used, unknown, err
}

// annotateOpenMP puts native/openmp.c between a candidate and libgomp.
func (c *compilation) annotateOpenMP() {
	c.files["evotune_openmp.c"] = openMPSource
	c.args = append(c.args, "evotune_openmp.c")
	for _, name := range orderedByOpenMP {
		c.args = append(c.args, "-Wl,--wrap="+name)
	}
}

// symbolsOf is the file with the symbols of a library that has none itself, where a distribution puts it; "" if there is
// none.
func symbolsOf(library string) string {
	f, err := elf.Open(library)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // it was only read
	section := f.Section(".note.gnu.build-id")
	if section == nil {
		return ""
	}
	note, err := section.Data()
	const header = 16 // three sizes, and the name "GNU"
	if err != nil || len(note) < header+2 {
		return ""
	}
	id := hex.EncodeToString(note[header:])
	path := filepath.Join("/usr/lib/debug/.build-id", id[:2], id[2:]+".debug")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// buildHarness compiles the harness for a flavour into dir and returns its
// path.
func (t *toolchain) buildHarness(ctx context.Context, f *flavour, dir string) (string, error) {
	args := append([]string{"-O2", "-g0", "-Wl,-z,now"}, f.harness...)
	args = append(args, "harness.c", "-ldl", "-pthread")
	out, err := t.compile(ctx, compilation{files: map[string]string{"harness.c": harnessSource, "jail.h": jailSource}, args: args})
	if err != nil {
		return "", fmt.Errorf("building the harness (%s): %w", f.name, err)
	}
	path := filepath.Join(dir, "harness-"+f.name)
	if err := os.WriteFile(path, out.Object, 0o755); err != nil {
		return "", fmt.Errorf("building the harness: %w", err)
	}
	return path, nil
}

// objectFile puts a shared object where only the process that gets its
// descriptor finds it, and where nobody can change it.
func objectFile(object []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("evotune-candidate", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "candidate")
	if _, err := f.Write(object); err != nil {
		discard(f)
		return nil, fmt.Errorf("holding a binary in memory: %w", err)
	}
	seals := unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		discard(f)
		return nil, fmt.Errorf("sealing a binary: %w", err)
	}
	// With a descriptor for reading an attempt to write to it is refused, and not
	// punished by the limit on files.
	return forReading(f)
}
