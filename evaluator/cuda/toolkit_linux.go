package cuda

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/process"
)

// A toolkit is what was found of CUDA on this machine. Empty paths were not
// found.
type toolkit struct {
	nvcc, ptxas         string
	cuobjdump, nvdisasm string
	sanitizer, ncu      string
	// libraries are where libnvrtc.so may be, the best first.
	libraries []string
	// includes are the folders with cuda_fp16.h, the best first.
	includes []string
	// jail is what compilers may reach; nil where they are not locked in, and
	// unjailed says why.
	jail     *process.Jail
	unjailed string
}

// lockIn makes the jail: the folders of what was found, those of the compiler
// that nvcc runs on the host, and what definitions name in their flags.
func (t *toolkit) lockIn(ctx context.Context, l *process.Launcher, named []string) {
	if process.Landlock() == 0 {
		t.unjailed = process.NoLandlock
		return
	}
	tools := foldersOf(append([]string{t.nvcc, t.ptxas, t.cuobjdump, t.nvdisasm}, t.libraries...))
	folders := slices.Concat(t.includes, tools)
	if t.nvcc != "" {
		folders = append(folders, rootsOf(tools)...)
		if host := labs.Find("gcc"); host != "" {
			folders = append(folders, process.CompilerFolders(ctx, l, host)...)
		}
	}
	t.jail = process.NewJail(slices.Concat(folders, named, []string{"/etc/nvcc.profile"})...)
}

// foldersOf lists the folders of files, and of what they link to.
func foldersOf(files []string) (folders []string) {
	for _, path := range files {
		if path == "" {
			continue
		}
		folders = append(folders, filepath.Dir(path))
		if real, err := filepath.EvalSymlinks(path); err == nil {
			folders = append(folders, filepath.Dir(real))
		}
	}
	return folders
}

// rootsOf lists what holds the folders of programs.
func rootsOf(folders []string) (roots []string) {
	for _, dir := range folders {
		if root := filepath.Dir(dir); filepath.Base(dir) == "bin" && root != "/usr" {
			roots = append(roots, root)
		}
	}
	return roots
}

// locked says whether compilers are locked in, as the tool "landlock".
func (t *toolkit) locked() evaluator.Tool {
	if t.jail == nil {
		return evaluator.Tool{Name: "landlock", Missing: t.unjailed}
	}
	return evaluator.Tool{Name: "landlock", Version: "version " + strconv.Itoa(process.Landlock())}
}

// findToolkit looks where toolkits are installed: beside nvcc, in the usual
// folders, in Python's packages, and where the linker looks. Named are further paths that
// compilers may read.
func findToolkit(ctx context.Context, o Options, l *process.Launcher, named ...string) *toolkit {
	t := &toolkit{}
	if o.programs != "" {
		t.sanitizer, _ = exec.LookPath(filepath.Join(o.programs, "compute-sanitizer"))
		t.ncu, _ = exec.LookPath(filepath.Join(o.programs, "ncu"))
		t.lockIn(ctx, l, named)
		return t
	}
	roots := toolkitRoots(o)
	bins := make([]string, 0, len(roots))
	for _, r := range roots {
		bins = append(bins, filepath.Join(r, "bin"), filepath.Join(r, "compute-sanitizer"))
	}
	if t.nvcc = o.NVCC; t.nvcc == "" {
		t.nvcc = labs.Find("nvcc", bins...)
	}
	t.ptxas = labs.Find("ptxas", bins...)
	t.cuobjdump, t.nvdisasm = labs.Find("cuobjdump", bins...), labs.Find("nvdisasm", bins...)
	t.sanitizer, t.ncu = labs.Find("compute-sanitizer", bins...), labs.Find("ncu", bins...)
	if t.ncu == "" {
		if found, _ := filepath.Glob("/opt/nvidia/nsight-compute/*/ncu"); len(found) > 0 {
			t.ncu = slices.Max(found)
		}
	}

	if o.NVRTC != "" {
		t.libraries = []string{o.NVRTC}
	} else {
		for _, r := range roots {
			t.libraries = appendLibraries(t.libraries, filepath.Join(r, "lib64"), filepath.Join(r, "lib"))
		}
		for _, d := range pythonPackages() {
			t.libraries = appendLibraries(t.libraries, filepath.Join(d, "lib"))
		}
		t.libraries = append(t.libraries, linkerLibraries(ctx, l, "libnvrtc")...)
	}
	var dirs []string
	for _, lib := range t.libraries {
		dirs = append(dirs, filepath.Join(filepath.Dir(lib), "..", "include"))
	}
	for _, r := range roots {
		dirs = append(dirs, filepath.Join(r, "include"))
	}
	for _, d := range pythonPackages() {
		dirs = append(dirs, filepath.Join(d, "include"))
	}
	for _, d := range append(dirs, "/usr/include") {
		d = filepath.Clean(d)
		if _, err := os.Stat(filepath.Join(d, "cuda_fp16.h")); err == nil && !slices.Contains(t.includes, d) {
			t.includes = append(t.includes, d)
			// From CUDA 13 on those of C++ for devices (cuda/std, cub) have a folder of their own, which nvcc knows.
			if cccl := filepath.Join(d, "cccl"); folder(cccl) {
				t.includes = append(t.includes, cccl)
			}
		}
	}
	t.lockIn(ctx, l, named)
	return t
}

func folder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// toolkitRoots lists the folders that may hold a toolkit.
func toolkitRoots(o Options) []string {
	var roots []string
	add := func(dir string) {
		if real, err := filepath.EvalSymlinks(dir); err == nil && !slices.Contains(roots, real) {
			roots = append(roots, real)
		}
	}
	if o.NVCC != "" {
		add(filepath.Join(filepath.Dir(o.NVCC), ".."))
	} else if path, err := exec.LookPath("nvcc"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		add(filepath.Join(filepath.Dir(path), ".."))
	}
	for _, v := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if d := os.Getenv(v); d != "" {
			add(d)
		}
	}
	add("/usr/local/cuda")
	more, _ := filepath.Glob("/usr/local/cuda-*")
	slices.Reverse(more)
	for _, d := range more {
		add(d)
	}
	return roots
}

// pythonPrefix is where the python3 on the PATH is installed. That of an environment of its own is a link to
// another's.
func pythonPrefix() []string {
	path, err := exec.LookPath("python3")
	if err != nil {
		return nil
	}
	return []string{filepath.Dir(filepath.Dir(path))}
}

// pythonPackages lists the folders of NVIDIA's Python packages at the usual prefixes, and at more.
func pythonPackages(more ...string) []string {
	var sites []string
	prefixes := append([]string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX"), "/usr/local", "/usr", "/opt/conda"}, more...)
	if home, err := os.UserHomeDir(); err == nil {
		prefixes = append(prefixes, filepath.Join(home, ".local"))
	}
	for _, p := range prefixes {
		if p == "" {
			continue
		}
		for _, pattern := range []string{"lib/python3*/site-packages", "lib/python3*/dist-packages", "lib/python3/dist-packages"} {
			found, _ := filepath.Glob(filepath.Join(p, pattern, "nvidia", "cu*"))
			slices.Reverse(found)
			sites = append(sites, found...)
		}
	}
	return sites
}

func appendLibraries(list []string, dirs ...string) []string {
	for _, d := range dirs {
		found, _ := filepath.Glob(filepath.Join(d, "libnvrtc.so*"))
		found = slices.DeleteFunc(found, func(f string) bool { return strings.Contains(filepath.Base(f), "alt") })
		if len(found) > 0 {
			list = append(list, found[0])
		}
	}
	return list
}

// linkerLibraries asks the linker's cache for libraries of a name, which is a
// regular expression.
func linkerLibraries(ctx context.Context, l *process.Launcher, names string) []string {
	line := regexp.MustCompile(`(?m)^\s*` + names + `\.so[.\d]* .*=> (\S+)$`)
	text, err := l.Run(ctx, process.Command{Path: labs.Find("ldconfig", "/sbin", "/usr/sbin"), Args: []string{"-p"}, Timeout: 10 * time.Second, Output: 1 << 20})
	if err != nil {
		return nil
	}
	var list []string
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		list = append(list, m[1])
	}
	return list
}
