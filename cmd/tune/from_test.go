package main

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// A filling is a recorded answer to what is left to fill in: lines "FILE:LINE: TEXT",
// where TEXT takes the line's place; more than one for a line stand one after the other.
type filling struct {
	places []string // FILE:LINE, each once
	texts  map[string][]string
}

func readFilling(t *testing.T, file string) filling {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f := filling{texts: map[string][]string{}}
	for line := range strings.Lines(string(text)) {
		place, with, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !ok {
			t.Fatalf("%s: %q", file, line)
		}
		if f.texts[place] == nil {
			f.places = append(f.places, place)
		}
		f.texts[place] = append(f.texts[place], with)
	}
	return f
}

// apply fills in a folder.
func (f filling) apply(t *testing.T, dir string) {
	t.Helper()
	files := map[string][]string{}
	for _, place := range f.places {
		name, number, _ := strings.Cut(place, ":")
		if files[name] == nil {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			files[name] = strings.SplitAfter(string(text), "\n")
		}
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		files[name][n-1] = strings.Join(f.texts[place], "\n") + "\n"
	}
	for name, lines := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

var place = regexp.MustCompile(`(?m)^ *\S*?([a-z.]+:\d+)(?::\d+)?: fill in`)

func places(text string) (list []string) {
	for _, m := range place.FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	return list
}

// Kernels as people write them become folders that lint refuses at the lines that are
// left to fill in, and nowhere else.
func TestFromSource(t *testing.T) {
	for _, c := range []struct {
		file, line string
		entry      int
	}{
		{"blocked.c", "matmul", 27},
		{"transpose.cu", "transpose", 10},
		{"rowsum.cu", "rowsum", 13},
	} {
		t.Run(c.file, func(t *testing.T) {
			name, _, _ := strings.Cut(c.file, ".")
			dir := filepath.Join(t.TempDir(), name)
			source := filepath.Join("testdata", "from", c.file)
			fill := readFilling(t, filepath.Join("testdata", "from", name+".fill"))

			out := tune(t, exitOK, "kernels", "new", dir, "--from", source)
			if want := fmt.Sprintf("made %s from %s:%d: %s\n", dir, source, c.entry, c.line); !strings.HasPrefix(out, want) {
				t.Errorf("it begins with %q, want %q", out[:min(len(out), len(want))], want)
			}
			if got := places(out); !slices.Equal(got, fill.places) {
				t.Fatalf("left to fill in: %q, want %q", got, fill.places)
			}
			var findings, stderr bytes.Buffer
			if code := run(t.Context(), []string{"kernels", "lint", dir}, nil, &findings, &stderr); code != exitFindings {
				t.Errorf("lint ends with %d: %s", code, stderr.String())
			}
			if got := places(findings.String()); !slices.Equal(got, fill.places) {
				t.Errorf("lint refuses %q, want %q", got, fill.places)
			}
			tune(t, exitBadInput, "run", name, "--kernels", dir)
			tune(t, exitBadInput, "kernels", "new", dir, "--from", source) // nothing is overwritten

			fill.apply(t, dir)
			tune(t, exitOK, "kernels", "lint", dir, "--static")
		})
	}
}

// filledIn makes a folder from a kernel in testdata/from, and fills it in.
func filledIn(t *testing.T, file string) (dir string) {
	t.Helper()
	name, _, _ := strings.Cut(file, ".")
	dir = filepath.Join(t.TempDir(), name)
	tune(t, exitOK, "kernels", "new", dir, "--from", filepath.Join("testdata", "from", file))
	readFilling(t, filepath.Join("testdata", "from", name+".fill")).apply(t, dir)
	return dir
}

// TestFromSourceLong: filled in, a kernel in C lints and is tuned.
func TestFromSourceLong(t *testing.T) {
	longtest.Long(t, "it measures")
	needGCC(t)
	dir := filledIn(t, "blocked.c")
	tune(t, exitOK, "kernels", "lint", dir)
	store := filepath.Join(t.TempDir(), "evotune.db")
	out := tune(t, exitOK, "run", "blocked", "--kernels", dir, "--store", store, "--evaluations", "2", "--finalists", "0", "--sanitizers", "none")
	if !strings.Contains(out, "2 evaluations") || !strings.Contains(out, "correct 2") {
		t.Errorf("the campaign:\n%s", out)
	}
}

// TestFromCUDALong: filled in, kernels in CUDA compile, and run where there is a GPU.
func TestFromCUDALong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	for _, file := range []string{"transpose.cu", "rowsum.cu"} {
		t.Run(file, func(t *testing.T) {
			dir := filledIn(t, file)
			runCUDA(t, dir)
			compileCUDA(t, dir)
		})
	}
}

// A new kernel for GPUs lints.
func TestNewCUDA(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fresh")
	tune(t, exitOK, "kernels", "new", dir, "--cuda")
	tune(t, exitOK, "kernels", "lint", dir, "--static")
}

// TestNewCUDALong: it compiles, its reference too, and runs where there is a GPU.
func TestNewCUDALong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	dir := filepath.Join(t.TempDir(), "fresh")
	tune(t, exitOK, "kernels", "new", dir, "--cuda")
	runCUDA(t, dir)
	compileCUDA(t, dir)
}

// runCUDA lints a kernel on a GPU and runs a campaign there, where there is a worker:
// EVOTUNE_CUDA_WORKER names it to the tests as to tune.
func runCUDA(t *testing.T, dir string) {
	t.Helper()
	if os.Getenv("EVOTUNE_CUDA_WORKER") == "" {
		t.Log("EVOTUNE_CUDA_WORKER does not name a worker: nothing is run on a GPU")
		return
	}
	t.Log(tune(t, exitOK, "kernels", "lint", dir))
	store := filepath.Join(t.TempDir(), "evotune.db")
	out := tune(t, exitOK, "run", filepath.Base(dir), "--kernels", dir, "--store", store, "--backend", "cuda", "--evaluations", "4", "--finalists", "2")
	t.Log(out)
	if !strings.Contains(out, "correct 4") {
		t.Error("not all candidates are correct")
	}
}

// compileCUDA compiles the baseline and a few genomes of a kernel with nvcc.
func compileCUDA(t *testing.T, dir string) {
	t.Helper()
	nvcc, err := exec.LookPath("nvcc")
	if err != nil {
		t.Skip("nvcc is not installed: nothing was compiled (see scripts/setup-cuda-debian.sh)")
	}
	d, err := kernels.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	im := d.Implementations[0]
	shape := im.Problem().ShapesFor(kernels.Tune)[0]
	space, err := d.Space([]*kernels.Implementation{im}, []kernels.Shape{shape}, nil)
	if err != nil {
		t.Fatal(err)
	}
	base, err := im.RenderBaseline(shape)
	if err != nil {
		t.Fatal(err)
	}
	list := []kernels.Rendered{base}
	rng := rand.New(rand.NewSource(1))
	for range 2 {
		r, err := im.Render(space.Random(rng))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	for _, r := range list {
		temp := t.TempDir()
		for name, text := range r.Files {
			if err := os.WriteFile(filepath.Join(temp, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(temp, kernels.HeaderFile), []byte(r.Header), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(temp, "kernel.cu"), []byte("#include \""+kernels.HeaderFile+"\"\n"+r.Source), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), nvcc, slices.Concat(r.Flags, []string{"-std=c++17", "-arch=sm_80", "-cubin", "-o", "kernel.cubin", "kernel.cu"})...)
		cmd.Dir = temp
		if log, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s\n%s", r.Genome, err, log, r.Source)
		}
		cubin, err := os.ReadFile(filepath.Join(temp, "kernel.cubin"))
		if err == nil && !bytes.Contains(cubin, []byte(im.Entry)) {
			t.Errorf("%v: the cubin has no %s", r.Genome, im.Entry)
		}
	}
}
