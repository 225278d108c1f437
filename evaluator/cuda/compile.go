package cuda

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/kernels"
)

// A unit is what a compiler is given: the source, the files that it may
// include, and flags that nvcc understands.
type unit struct {
	source string
	files  map[string]string
	flags  []string
	arch   string // "sm_90"
	// triton says that source is in Python, and which function of it is compiled how; nil
	// for CUDA.
	triton *kernels.TritonCall
	// plain leaves out the information on lines: NVIDIA's compilers have been
	// seen to crash while they made it.
	plain bool
	// debug keeps asserts and switches optimisation off.
	debug bool
	// early are the kernels that a dependent one follows, of a unit that gets delays.
	early []string
	// known is PTX of the unit without information on lines, where there is some already.
	known string
	// candidate says that other machines may compile it, or use what was compiled here.
	candidate bool
}

// common are the flags of every compilation. The information on lines costs no
// instruction and gives the sanitizers' reports their places; debugging
// information has it, too.
func (u unit) common() []string {
	var flags []string
	if !u.debug {
		flags = append(flags, "-DNDEBUG")
	}
	std := func(f string) bool { return strings.HasPrefix(strings.TrimLeft(f, "-"), "std") }
	if !slices.ContainsFunc(u.flags, std) {
		flags = append(flags, "-std=c++17")
	}
	switch {
	case u.plain:
	case u.debug:
		flags = append(flags, "-G")
	default:
		flags = append(flags, "-lineinfo")
	}
	return flags
}

// own are the unit's own flags: for debugging, without those that optimise
// device code, which ptxas refuses beside -G, or take asserts away.
func (u unit) own() []string {
	if !u.debug {
		return u.flags
	}
	return slices.DeleteFunc(rtcFlags(u.flags), undebuggable.MatchString)
}

var undebuggable = regexp.MustCompile(`^(-DNDEBUG(=.*)?|--ptxas-options=(-O|--opt-level=)\d|-lineinfo|--generate-line-info|-G|--device-debug)$`)

// key identifies what a compiler makes of it.
func (u unit) key(compiler string) string {
	flags := slices.Concat(u.common(), u.own())
	parts := []string{"cubin 3", compiler, u.arch, u.source, strconv.Itoa(len(flags))}
	parts = append(parts, flags...)
	if u.triton != nil {
		call, err := json.Marshal(u.triton)
		if err != nil {
			panic(err) // numbers and texts always encode
		}
		parts = append(parts, "triton", string(call), strconv.FormatBool(u.debug))
	}
	for _, name := range slices.Sorted(maps.Keys(u.files)) {
		parts = append(parts, name, u.files[name])
	}
	return cache.Key(parts...)
}

// compiled is what came out.
type compiled struct {
	Cubin []byte `json:"-"`
	// PTX is what it was made from, without numbers of lines, where the compiler gives both at once and nothing
	// comes from a cache.
	PTX string `json:"-"`
	Log string `json:"log,omitempty"`
	// Assembly is the same of Triton, and Launched what a launch must keep to.
	Assembly string       `json:"assembly,omitempty"`
	Launched *fixedLaunch `json:"launched,omitempty"`
}

// all is every file that a compiler reads of the unit.
func (u unit) all() map[string]string {
	files := maps.Clone(u.files)
	if files == nil {
		files = map[string]string{}
	}
	files[sourceFile] = u.source
	return files
}

// sourceFile is the name of a candidate's source in diagnostics.
const sourceFile = "kernel.cu"

// A compiler makes cubins. It is safe for concurrent use.
type compiler interface {
	// compile makes a cubin. The error is a *[labs.Refusal] when it is the source's
	// fault.
	compile(ctx context.Context, u unit) (compiled, error)
	// ptx gives the assembly language of NVIDIA's compilers that a cubin of the unit
	// would be made from. The error is as of compile.
	ptx(ctx context.Context, u unit) (string, error)
	// version is for people; identity all that the output depends on besides
	// the unit.
	version() string
	identity() string
	// architectures lists what it can compile for, as 90 for sm_90; empty when
	// it does not tell.
	architectures() []int
	close()
}

// errorMarks are in the lines of a compiler's log that say what is wrong, the first
// that occurs before the others.
var errorMarks = []string{"error: ", "error:", "error   :", "fatal", "Unresolved extern"}

// ptxasFlags are those of the unit's own flags that reach ptxas, as nvcc and ptxas alike
// understand them behind --ptxas-options= and --maxrregcount=.
func (u unit) ptxasFlags() (options []string, maxRegisters string) {
	for _, f := range rtcFlags(u.own()) {
		name, value, _ := strings.Cut(f, "=")
		switch strings.TrimLeft(name, "-") {
		case "ptxas-options":
			options = append(options, value)
		case "maxrregcount":
			maxRegisters = value
		}
	}
	return options, maxRegisters
}

// rtcFlags turns flags of nvcc into those of NVRTC: it always optimises, has
// no host compiler, and wants the values of options behind an equals sign.
func rtcFlags(flags []string) []string {
	var out []string
	for i := 0; i < len(flags); i++ {
		f := flags[i]
		name, value, joined := strings.Cut(f, "=")
		takes := func() string {
			if joined {
				return value
			}
			if i+1 < len(flags) {
				i++
				return flags[i]
			}
			return ""
		}
		switch name {
		case "-O0", "-O1", "-O2", "-O3", "-O", "--optimize", "-I.":
		case "-Xcompiler", "--compiler-options":
			takes()
		case "-Xptxas", "--ptxas-options":
			for v := range strings.SplitSeq(takes(), ",") {
				out = append(out, "--ptxas-options="+v)
			}
		case "-maxrregcount", "--maxrregcount", "-std", "--std", "-arch", "--gpu-architecture":
			out = append(out, name+"="+takes())
		case "-D", "-U", "-I", "-include":
			v := takes()
			if name == "-include" {
				out = append(out, "--pre-include="+v)
				continue
			}
			out = append(out, name+v)
		default:
			out = append(out, f)
		}
	}
	return out
}

// architecture chooses what to compile for: the target of an implementation on
// a device. The plain target "sm_80" is a least, and the device's own
// architecture the best that runs on it; "sm_90a" is for one device alone.
func architecture(target string, capability int, known []int) (string, error) {
	number, special := strings.CutPrefix(target, "sm_")
	exact := strings.TrimRight(number, "af")
	least, err := strconv.Atoi(exact)
	if !special || err != nil {
		return "", fmt.Errorf("the target %q is not an architecture of CUDA, such as \"sm_80\" or \"sm_90a\"", target)
	}
	if exact != number {
		if least != capability {
			return "", fmt.Errorf("the target %s runs on devices of capability %d.%d alone, and this one has %d.%d", target, least/10, least%10, capability/10, capability%10)
		}
		return target, nil
	}
	if least > capability {
		return "", fmt.Errorf("the target %s needs a device of capability %d.%d, and this one has %d.%d", target, least/10, least%10, capability/10, capability%10)
	}
	best := 0
	for _, a := range known {
		// A cubin runs on later devices of the same generation alone.
		if a <= capability && a >= least && a/10 == capability/10 {
			best = max(best, a)
		}
	}
	switch {
	case len(known) == 0:
		best = capability
	case best == 0:
		return "", fmt.Errorf("the compiler knows no architecture for a device of capability %d.%d and the target %s: use a newer CUDA toolkit", capability/10, capability%10, target)
	}
	return "sm_" + strconv.Itoa(best), nil
}

// checkDriver refuses a driver that is too old for every genome of every implementation.
// What only some genomes need is for the worker to refuse, with them.
func checkDriver(list []*kernels.Implementation, driver int) error {
	for _, im := range list {
		if since, _ := driverNeeded(im); since <= driver {
			return nil
		}
	}
	since, what := driverNeeded(list[0])
	return fmt.Errorf("implementation %s has %s, and the driver is of CUDA %d.%d: update it to one of CUDA %d.%d or later", list[0].Name, what, driver/1000, driver%1000/10, since/1000, since%1000/10)
}

// driverNeeded gives the oldest driver, as 12040, that can launch any genome of an
// implementation, and what it is needed for; 0 for any driver.
func driverNeeded(im *kernels.Implementation) (since int, what string) {
	l := im.Launch
	if l == nil {
		return 0, ""
	}
	all := append([]*kernels.Launch{l}, l.Then...)
	has := func(do func(*kernels.Launch) bool) bool { return slices.ContainsFunc(all, do) }
	switch {
	case has(func(l *kernels.Launch) bool { return l.Dependent == "true" }):
		return 12030, "dependent launches"
	case len(im.TensorMaps) > 0:
		return 12000, "tensor maps"
	case has(func(l *kernels.Launch) bool { return l.Cooperative == "true" }):
		return 11080, "cooperative launches"
	case has(func(l *kernels.Launch) bool {
		return slices.ContainsFunc(l.Cluster, func(axis string) bool { n, err := strconv.Atoi(axis); return err == nil && n > 1 })
	}):
		return 11080, "clusters"
	}
	return 0, ""
}
