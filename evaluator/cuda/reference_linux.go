package cuda

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/plain"
	"github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/evaluator/internal/python"
	"github.com/evotune/evotune/kernels"
)

// referenceDeadline bounds one run of the reference on the CPU where it takes the place
// of one in CUDA, at shapes of any size.
const referenceDeadline = 30 * time.Minute

// noCompiler is what keeps the reference from running on the CPU.
const noCompiler = "there is no C compiler for it (apt-get install gcc libc6-dev)"

// needHostReference builds the program that runs the reference in C, once.
func (h *lab) needHostReference(ctx context.Context) (err error) {
	if h.hostReference == "" {
		h.hostReference, err = h.buildHostReference(ctx)
	}
	return err
}

// buildHostReference compiles a program that runs the reference in C; it has no path
// where there is no compiler.
func (h *lab) buildHostReference(ctx context.Context) (path string, err error) {
	cc := labs.Find("cc")
	for _, name := range []string{"gcc", "clang"} {
		if cc == "" {
			cc = labs.Find(name)
		}
	}
	if cc == "" {
		return "", nil
	}
	ctx, done := evaluator.Preparing(ctx, "compiling the reference for the CPU")
	defer done()
	var jail *process.Jail // nil locks it into nothing
	if process.Landlock() > 0 {
		jail = process.NewJail(process.CompilerFolders(ctx, h.Launcher, cc)...)
	}
	spec := h.problem.spec
	program, _, err := labs.Compilation{
		Command: process.Command{
			Path: cc, Jail: jail, Timeout: time.Minute, Output: compilerLog,
			Args: append(labs.ReferenceFlags(spec), "-O2", "-pthread", "-ffp-contract=off", "-include", "evotune_reference.h", "main.c", "reference.c", "-lm", "-o", "reference"),
		},
		Files:   map[string]string{"reference.c": spec.Reference.Text, "evotune_reference.h": kernels.ReferenceHeader(spec), "main.c": referenceMain(spec)},
		Product: "reference", Marks: errorMarks,
	}.Run(ctx, h.Launcher, h.Cache)
	var refused *labs.Refusal
	if errors.As(err, &refused) {
		return "", fmt.Errorf("%w to compile for the CPU: kernel %s: %s", ErrReference, h.problem.name, labs.ReferenceRefused(spec, refused.Summary))
	} else if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(h.Scratch, "reference-")
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "reference")
	return path, os.WriteFile(path, program, 0o700)
}

// referenceMain is a program that reads all buffers from a file, calls the reference,
// and writes the outputs to another. Its further arguments are the dimensions, the
// elements of the buffers, and the scalars.
func referenceMain(spec *kernels.Problem) string {
	var s strings.Builder
	s.WriteString("#include <stdio.h>\n#include <stdlib.h>\n#include <math.h>\n" +
		"static double *get(FILE *f, size_t n, int poison)\n{\n\tdouble *p = malloc((n ? n : 1) * sizeof *p);\n" +
		"\tif (!p || fread(p, sizeof *p, n, f) != n)\n\t\texit(1);\n" +
		"\tfor (size_t i = 0; poison && i < n; i++)\n\t\tp[i] = NAN;\n\treturn p;\n}\n" +
		"int main(int argc, char **argv)\n{\n")
	fmt.Fprintf(&s, "\tif (argc != %d)\n\t\treturn 2;\n", 3+len(spec.Dims)+len(spec.Buffers)+len(spec.Scalars))
	s.WriteString("\tFILE *in = fopen(argv[1], \"rb\"), *out = fopen(argv[2], \"wb\");\n\tif (!in || !out)\n\t\treturn 2;\n")
	var args []string
	at := 3
	for range spec.Dims {
		args = append(args, fmt.Sprintf("strtoll(argv[%d], 0, 10)", at))
		at++
	}
	for i, b := range spec.Buffers {
		poison := 0
		if b.Role == kernels.Out {
			poison = 1
		}
		fmt.Fprintf(&s, "\tconst size_t n%d = strtoull(argv[%d], 0, 10);\n\tdouble *b%d = get(in, n%d, %d);\n", i, at, i, i, poison)
		args = append(args, fmt.Sprintf("b%d", i))
		at++
	}
	for range spec.Scalars {
		args = append(args, fmt.Sprintf("strtod(argv[%d], 0)", at))
		at++
	}
	fmt.Fprintf(&s, "\t%s(%s);\n", spec.Reference.Entry, strings.Join(args, ", "))
	for i, b := range spec.Buffers {
		if b.Role != kernels.In {
			fmt.Fprintf(&s, "\tif (fwrite(b%d, sizeof *b%d, n%d, out) != n%d)\n\t\treturn 3;\n", i, i, i, i)
		}
	}
	s.WriteString("\treturn fclose(out) ? 3 : 0;\n}\n")
	return s.String()
}

// tryReference runs the reference on the CPU at the shape for the sanitizers, which is the smallest and often made up, with
// inputs made there: a reference that fails there does so before anything else is compiled or prepared. What comes
// of it is not looked at.
func (h *lab) tryReference(ctx context.Context) (err error) {
	spec, d := h.problem.spec, h.problem.Sanitize
	if !kernels.Computable(h.Plan.Implementations, d.shape) {
		return nil
	}
	key := cache.Key("reference tried 1", spec.Reference.Text, kernels.ReferenceHeader(spec), fmt.Sprint(d.wire.Dims, d.wire.Elements, d.wire.Scalars))
	if h.python != nil {
		key = cache.Key(key, h.python.Key)
	}
	if _, ok := h.Cache.Get("references", key, nil); ok {
		return nil
	}
	if h.python == nil {
		if err := h.needHostReference(ctx); err != nil || h.hostReference == "" {
			return err // prepare says what a missing compiler means
		}
	}
	made, err := h.structured(ctx, d, 0)
	if err != nil {
		return err
	}
	buffers := make([][]byte, len(spec.Buffers))
	for i, b := range spec.Buffers {
		switch {
		case b.Role == kernels.Out:
			buffers[i] = make([]byte, 8*d.wire.Elements[i])
		case made[i] != nil:
			buffers[i] = wire.AppendDoubles(nil, made[i])
		default:
			buffers[i] = wire.AppendDoubles(nil, b.Declared(d.wire.Elements[i], h.problem.seed))
		}
	}
	if _, err = h.computeOnHost(ctx, h.hostReference, d.wire, buffers, referenceDeadline, true, false); err != nil {
		return err
	}
	h.Keep("references", key, nil, nil)
	return nil
}

// computeOnHost has a reference on the CPU compute the outputs from all buffers, as
// doubles, within a time: the program, or Python. On declared contents Python has to be finite;
// twice proves that it gives the same again.
func (h *lab) computeOnHost(ctx context.Context, program string, s wire.Shape, buffers [][]byte, timeout time.Duration, declared, twice bool) (_ []byte, err error) {
	defer func() { err = labs.AtShape(err, ErrReference, h.problem.spec, s.Name, s.Dims) }()
	ctx, done := evaluator.Preparing(ctx, "reference at shape %s, on the CPU", s.Name)
	defer done()
	if h.python != nil {
		z := labs.Size{Dims: s.Dims, Elements: s.Elements, Scalars: s.Scalars}
		out, err := h.python.Outputs(ctx, z, [][][]byte{buffers}, declared, twice)
		if err != nil {
			return nil, python.Blame(err, ErrReference, "kernel "+h.problem.name+", shape "+s.Name)
		}
		return out[0], nil
	}
	dir, err := os.MkdirTemp(h.Scratch, "expect-")
	if err != nil {
		return nil, err
	}
	defer remove(dir)
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	if err := writeBuffers(in, buffers); err != nil {
		return nil, err
	}
	if err := h.runHostReference(ctx, program, s, in, out, timeout); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
}

// runHostReference runs the program on a file with all buffers, and has it write the
// outputs to another, within a time. It reaches no other files: an upload brings it.
func (h *lab) runHostReference(ctx context.Context, program string, s wire.Shape, in, out string, timeout time.Duration) error {
	args := []string{in, out}
	for _, n := range slices.Concat(s.Dims, s.Elements) {
		args = append(args, strconv.FormatInt(n, 10))
	}
	for _, v := range s.Scalars {
		args = append(args, strconv.FormatFloat(v, 'x', -1, 64))
	}
	var jail *process.Jail
	if process.Landlock() > 0 {
		jail = process.NewJail().With([]string{program, in}, []string{filepath.Dir(out)})
	}
	text, err := h.Launcher.Run(ctx, process.Command{Path: program, Args: args, Dir: filepath.Dir(program), Jail: jail, Timeout: timeout, Output: 4096})
	if err != nil {
		return fmt.Errorf("%w: kernel %s, shape %s, on the CPU: %w %s", ErrReference, h.problem.name, s.Name, err, plain.Line(string(text)))
	}
	return nil
}

// expect computes with the reference on the CPU what must come of the contents of a shape,
// where there is none in CUDA, and gives the file that the worker reads; else "". With a control
// of exchanged or replaced inputs it is what comes of these. The contents are the worker's
// own, made from the seed, or those of the shape's file and those nearby.
func (h *lab) expect(ctx context.Context, w *worker, s wire.Shape, seed uint64, c *wire.ControlRequest) (string, error) {
	if h.hostKey == "" {
		return "", nil
	}
	// Whoever else comes meanwhile most likely wants the same.
	if err := h.expecting.Acquire(ctx, 1); err != nil {
		return "", err
	}
	defer h.expecting.Release(1)
	if c == nil {
		c = &wire.ControlRequest{}
	}
	key := fmt.Sprint(s.Name, " ", s.Dims, seed, s.Inputs, c.Kind, c.Buffers, c.Last, c.Inner)
	if file, ok := h.expected[key]; ok {
		return file, nil
	}
	dump := ""
	if s.Inputs == "" {
		dir, err := os.MkdirTemp(h.Scratch, "inputs-")
		if err != nil {
			return "", err
		}
		defer remove(dir)
		dump = filepath.Join(dir, "in")
		ctx, done := evaluator.Preparing(ctx, "inputs of shape %s", s.Name)
		defer done()
		r := wire.ReferenceRequest{Shape: s, Seed: seed, File: dump, InputsOnly: true}
		if err := w.call(ctx, prepareTimeout, wire.Reference, r, &wire.ReferenceAnswer{}); err != nil {
			return "", fmt.Errorf("the inputs of shape %s: %w", s.Name, notOurs(err))
		}
	}
	sets, err := h.problem.contents(s, dump)
	if err != nil {
		return "", err
	}
	// Replaced inputs need not have a finite answer.
	declared := s.Inputs == "" && c.Last == nil
	twice := s.Inputs == "" && seed == h.problem.seedOf(0) && c.Kind == ""
	var answers []byte
	for _, buffers := range sets {
		if c.Kind == string(kernels.Swapped) {
			i, j := h.problem.index(c.Buffers[0]), h.problem.index(c.Buffers[1])
			if i < 0 || j < 0 {
				return "", fmt.Errorf("the control swap: there are no two buffers %q", c.Buffers)
			}
			buffers[i], buffers[j] = buffers[j], buffers[i]
		}
		for i, n := range c.Last {
			if n > 0 {
				labs.LeaveOut(buffers[i], 8*int(c.Inner[i]), int(n))
			}
		}
		sum := sha256.New()
		for _, b := range buffers {
			sum.Write(b)
		}
		known := cache.Key("host reference 2", h.hostKey, fmt.Sprint(s.Dims, s.Elements, s.Scalars), string(sum.Sum(nil)))
		answer, ok := h.Cache.Get("references", known, nil)
		if !ok || int64(len(answer)) != h.problem.outputBytes(s) {
			if answer, err = h.computeOnHost(ctx, h.hostReference, s, buffers, referenceDeadline, declared, twice); err != nil {
				return "", err
			}
			h.KeepAnswer(known, answer, nil)
		}
		answers = append(answers, answer...)
	}
	file := filepath.Join(h.Scratch, fmt.Sprintf("outputs-%d", len(h.expected)))
	if err := os.WriteFile(file, answers, 0o600); err != nil {
		return "", err
	}
	h.expected[key] = file
	return file, nil
}

// writeBuffers writes buffers to a file, one behind the other.
func writeBuffers(file string, buffers [][]byte) (err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, b := range buffers {
		if _, err := f.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// contents reads the buffers that the reference gets: those that a worker wrote to a
// file, or those of the shape's own file, in which there are inputs alone, and these
// elsewhere by some roundings, in two ways. Outputs of the latter are zero.
func (q *problem) contents(s wire.Shape, dump string) ([][][]byte, error) {
	raw, err := os.ReadFile(cmp.Or(s.Inputs, dump))
	if err != nil {
		return nil, err
	}
	sets := make([][][]byte, 1)
	if s.Inputs != "" {
		sets = make([][][]byte, 3)
		for i, b := range q.open.Buffers {
			if b.Role == string(kernels.Out) {
				for k := range sets {
					sets[k] = append(sets[k], make([]byte, 8*s.Elements[i]))
				}
				continue
			}
			n := wire.ElementBytes(b.DType) * s.Elements[i]
			if int64(len(raw)) < n {
				return nil, fmt.Errorf("the inputs of shape %s: the file ends within buffer %s", s.Name, b.Name)
			}
			values := wire.Elements(raw[:n], b.DType)
			raw = raw[n:]
			sets[0] = append(sets[0], wire.AppendDoubles(nil, values))
			for way := range 2 {
				sets[1+way] = append(sets[1+way], wire.AppendDoubles(nil, q.spec.Buffers[i].Nearby(values, way, q.seed)))
			}
		}
	} else if sets[0], raw, err = q.split(s, raw); err != nil {
		return nil, err
	}
	if len(raw) > 0 {
		return nil, fmt.Errorf("the inputs of shape %s: %d bytes are left over", s.Name, len(raw))
	}
	return sets, nil
}

// split takes all buffers, as doubles, from the start of what is raw.
func (q *problem) split(s wire.Shape, raw []byte) (buffers [][]byte, rest []byte, err error) {
	for i, b := range q.open.Buffers {
		n := int(8 * s.Elements[i])
		if len(raw) < n {
			return nil, nil, fmt.Errorf("the inputs of shape %s: the file ends within buffer %s", s.Name, b.Name)
		}
		buffers, raw = append(buffers, raw[:n:n]), raw[n:]
	}
	return buffers, raw, nil
}

// index is where a buffer stands; -1 if there is none of the name.
func (q *problem) index(name string) int {
	return slices.IndexFunc(q.open.Buffers, func(b wire.Buffer) bool { return b.Name == name })
}

// outputBytes is what the outputs of a shape take as doubles.
func (q *problem) outputBytes(s wire.Shape) int64 {
	sum := int64(0)
	for i, b := range q.open.Buffers {
		if b.Role != string(kernels.In) {
			sum += 8 * s.Elements[i]
		}
	}
	return sum
}
