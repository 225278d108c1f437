package draft_test

import (
	"maps"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evotune/evotune/internal/draft"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// fromCUDA makes a folder from a file of testdata/from-cuda and fills it in: the lines of NAME.fill take the places of
// those that are left to fill in, in order, and what follows "reference.c:" that of the #error line.
func fromCUDA(t *testing.T, name, dir string) {
	t.Helper()
	file := filepath.Join("testdata", "from-cuda", name+".cu")
	draft, err := draft.From(dir, strings.ReplaceAll(name, "_", "-"), file, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	fill, err := os.ReadFile(filepath.Join("testdata", "from-cuda", name+".fill"))
	if err != nil {
		t.Fatal(err)
	}
	answers, reference, _ := strings.Cut(string(fill), "reference.c:\n")
	list := strings.Split(strings.TrimSuffix(strings.ReplaceAll(answers, "\n ", "\x00"), "\n"), "\n") // an answer goes on after a space
	if len(draft.Missing) != len(list)+1 {
		t.Fatalf("%d answers and the reference, for %v", len(list), draft.Missing)
	}
	replace := func(file string, with func(line string) string) {
		path := filepath.Join(dir, file)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(text), "\n")
		for i, line := range lines {
			if strings.Contains(line, "FILL IN: ") {
				lines[i] = with(line)
			}
		}
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace("kernel.toml", func(line string) string {
		key, _, _ := strings.Cut(line, "=")
		answer := list[0]
		if list = list[1:]; !strings.HasPrefix(answer, key+"= ") {
			t.Errorf("the answer %q is for the line %q", answer, line)
		}
		return strings.ReplaceAll(answer, "\x00", "\n") + "\n"
	})
	replace("reference.c", func(string) string { return reference })
}

// cudaFiles lists them.
func cudaFiles(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("testdata/from-cuda/*.cu")
	if err != nil || len(files) != 20 {
		t.Fatalf("%d files, want 20: %v", len(files), err)
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".cu"))
	}
	return names
}

// Plain files in CUDA become kernels without editing, but for the lines that are listed.
// scripts/gpu-records.sh tunes them on a GPU.
func TestFromCUDA(t *testing.T) {
	for _, name := range cudaFiles(t) {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), strings.ReplaceAll(name, "_", "-"))
			fromCUDA(t, name, dir)
			d, err := kernels.LoadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range kernels.Lint(t.Context(), d, 4, rand.New(rand.NewSource(1))) {
				t.Error(f)
			}
		})
	}
}

// TestFromCUDALong: they compile with every nvcc that is here, and their references with gcc.
func TestFromCUDALong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	compilers, _ := filepath.Glob("/usr/local/cuda-*/bin/nvcc")
	if path, err := exec.LookPath("nvcc"); err == nil {
		compilers = append(compilers, path)
	}
	if len(compilers) == 0 {
		t.Fatal("nvcc is not here: scripts/setup-cuda-debian.sh installs it")
	}
	for _, name := range cudaFiles(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), strings.ReplaceAll(name, "_", "-"))
			fromCUDA(t, name, dir)
			d, err := kernels.LoadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			r, err := d.Implementations[0].RenderBaseline(d.Problem.ShapesFor(kernels.Tune)[0])
			if err != nil {
				t.Fatal(err)
			}
			temp := t.TempDir()
			files := map[string]string{
				kernels.HeaderFile: r.Header, "kernel.cu": "#include \"" + kernels.HeaderFile + "\"\n" + r.Source,
				"reference.h": kernels.ReferenceHeader(&d.Problem), "reference.c": d.Problem.Reference.Text,
			}
			maps.Copy(files, r.Files)
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(temp, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			commands := [][]string{{"gcc", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-include", "reference.h", "-c", "reference.c"}}
			for _, nvcc := range compilers {
				commands = append(commands, []string{nvcc, "-std=c++17", "-arch=sm_80", "-cubin", "-I.", "-o", "kernel.cubin", "kernel.cu"})
			}
			for _, c := range commands {
				cmd := exec.CommandContext(t.Context(), c[0], c[1:]...)
				cmd.Dir = temp
				if log, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", c[0], err, log)
				}
			}
		})
	}
}
