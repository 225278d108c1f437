package python

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/plain"
	"github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/kernels"
)

//go:embed driver.py
var driver string

// Options say how a program runs.
type Options struct {
	// Interpreter is its name or path; "" is python3.
	Interpreter string
	// Timeout bounds each thing that is asked of it.
	Timeout time.Duration
	// Memory bounds what it may allocate, in bytes; 0 is half of the machine's.
	Memory uint64
}

// Patience is how many times as long as a candidate, for a stage, a program may take for one
// thing that is asked of it.
const Patience = 10

// threads is the most that the libraries compute with.
const threads = 16

// An Error is the fault of the user's Python.
type Error struct {
	File string
	Line int // 0 where it has none
	Msg  string
}

// Error gives one line, FILE:LINE: what is wrong.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Msg
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
}

// Blame makes an error of a reference of one that is its file's, which is at a place
// besides; others stay.
func Blame(err, reference error, where string) error {
	if fault := (*Error)(nil); errors.As(err, &fault) {
		return fmt.Errorf("%w: %s: %w", reference, where, err)
	}
	return err
}

// A Program is the Python file of a definition. Its process starts when it is first asked
// for something. It is safe for concurrent use.
type Program struct {
	// Key identifies the file, and all that its results depend on besides what it is asked.
	Key string

	base             *labs.Base
	spec             *kernels.Problem
	file             string // in its kernel's folder, for messages: a service tells no more of its paths
	options          Options
	interpreter      Interpreter
	library, version string
	turn             *semaphore.Weighted
	child            *process.Child
	answers          *bufio.Reader
	spent            atomic.Int64
}

// New finds what the Python file of a problem runs with, and tells the base; it is nil where
// there is no such file. The error is an *Error where something is missing.
func New(ctx context.Context, base *labs.Base, spec *kernels.Problem, o Options) (*Program, error) {
	r := spec.Reference
	if !r.Python {
		return nil, nil
	}
	p := &Program{base: base, spec: spec, options: o, turn: semaphore.NewWeighted(1), file: filepath.Join(filepath.Base(base.Plan.Definition.Dir), r.File)}
	var err error
	if p.interpreter, err = Find(ctx, base.Launcher, o.Interpreter); err == nil {
		p.library, p.version, err = p.interpreter.Library(r.Library)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, &Error{File: p.file, Msg: err.Error()}
	}
	p.Key = cache.Key("python 1", driver, r.Text, r.Entry, p.interpreter.Version, p.library, p.version)
	base.Found(evaluator.Tool{Name: "python", Path: p.interpreter.Path, Version: p.interpreter.Version + ", " + p.library + " " + p.version})
	return p, nil
}

// Spent is the time that was waited for it.
func (p *Program) Spent() time.Duration { return time.Duration(p.spent.Load()) }

// Close ends the process; p may be nil.
func (p *Program) Close() {
	if p != nil {
		p.drop()
		p.base.Log.Info("what Python computed", "file", p.file, "took", p.Spent())
	}
}

// A request is what driver.py reads.
type request struct {
	Do       string         `json:"do"`
	Library  string         `json:"library,omitempty"`
	Text     string         `json:"text,omitempty"`
	Function string         `json:"function,omitempty"`
	Values   map[string]any `json:"values,omitempty"`
	Arrays   []array        `json:"arrays,omitempty"`
	Outputs  []array        `json:"outputs,omitempty"`
	Twice    bool           `json:"twice"`
	// Sets is how many contents of the arrays follow; the outputs of each come back.
	Sets int `json:"sets"`
	// Seeds are a value of that name, another for each set.
	Seeds []uint64 `json:"seeds,omitempty"`

	contents [][]byte // of the arrays, by set
}

// An array of doubles, which the function sees as integers if asked.
type array struct {
	Name    string  `json:"name"`
	Shape   []int64 `json:"shape"`
	Integer bool    `json:"integer"`
	// Finite refuses other elements in an output.
	Finite bool `json:"finite"`
}

// Outputs calls the reference at a shape on several sets of inputs, by buffer, that are
// little-endian doubles, and gives for each set the outputs, one behind the other. Checked
// says that the inputs are those of the definition itself: then the outputs must be finite.
// Twice compares with a second run of the file. The error is an *Error where it is the
// file's fault.
func (p *Program) Outputs(ctx context.Context, z labs.Size, sets [][][]byte, checked, twice bool) ([][]byte, error) {
	q, s := p.request(p.spec.Reference.Entry, z)
	q.Twice, q.Sets = twice, len(sets)
	for _, b := range p.spec.Buffers {
		axes, err := p.spec.Axes(b, s)
		if err != nil {
			return nil, err
		}
		a := array{Name: b.Name, Shape: axes, Integer: !b.DType.Float(), Finite: checked && !b.Unwritten}
		if b.Role != kernels.Out {
			q.Arrays = append(q.Arrays, a)
		}
		if b.Role != kernels.In {
			q.Outputs = append(q.Outputs, a)
		}
	}
	for _, inputs := range sets {
		for i, b := range p.spec.Buffers {
			if b.Role != kernels.Out {
				q.contents = append(q.contents, inputs[i])
			}
		}
	}
	raw, err := p.call(ctx, q)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(sets))
	for k := range out {
		n := len(raw) / (len(sets) - k)
		out[k], raw = raw[:n:n], raw[n:]
	}
	return out, nil
}

// Made gives the elements of a buffer whose data are made as a whole, at a shape, for a seed. Only
// those that are made by a function in Python need a program, which may be nil for others.
func (p *Program) Made(ctx context.Context, spec *kernels.Problem, s kernels.Shape, z labs.Size, buffer int, seed uint64) ([]float64, error) {
	if b := spec.Buffers[buffer]; b.Data.Distribution != kernels.Python {
		return spec.Made(b, s, seed)
	}
	return p.inputs(ctx, z, buffer, seed)
}

// Fresh gives the elements of a buffer that a function in Python makes, at a shape, for each of
// some seeds. They are not kept, and not held against a second run.
func (p *Program) Fresh(ctx context.Context, z labs.Size, buffer int, seeds []uint64) ([][]float64, error) {
	q, err := p.requestInputs(z, buffer, seeds)
	if err != nil {
		return nil, err
	}
	raw, err := p.call(ctx, q)
	if err != nil {
		return nil, err
	}
	out := make([][]float64, len(seeds))
	for k, n := 0, 8*int(z.Elements[buffer]); k < len(out); k++ {
		if out[k], err = p.elements(q, buffer, raw[k*n:(k+1)*n]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// inputs makes the elements of a buffer at a shape by the function that its data name, as
// its type holds them, for a seed. Those of one seed are the same again. The error is an
// *Error where it is the file's fault.
func (p *Program) inputs(ctx context.Context, z labs.Size, buffer int, seed uint64) ([]float64, error) {
	b := p.spec.Buffers[buffer]
	q, err := p.requestInputs(z, buffer, []uint64{seed})
	if err != nil {
		return nil, err
	}
	q.Twice = true
	key := cache.Key("python inputs 2", p.Key, b.Name, string(b.DType), b.Data.String(), fmt.Sprint(q.Values), fmt.Sprint(seed), fmt.Sprint(q.Outputs[0].Shape))
	raw, known := p.base.Cache.Get("references", key, nil)
	if !known || int64(len(raw)) != 8*z.Elements[buffer] {
		if raw, err = p.call(ctx, q); err != nil {
			return nil, err
		}
		p.base.KeepAnswer(key, raw, nil)
	}
	return p.elements(q, buffer, raw)
}

// requestInputs asks for what a buffer's function makes for each of some seeds.
func (p *Program) requestInputs(z labs.Size, buffer int, seeds []uint64) (request, error) {
	b := p.spec.Buffers[buffer]
	q, s := p.request(b.Data.Function, z)
	axes, err := p.spec.Axes(b, s)
	q.Outputs = []array{{Name: b.Name, Shape: axes, Finite: true}}
	q.Seeds, q.Sets = seeds, len(seeds)
	return q, err
}

// elements are what a function has made of a buffer, as the buffer's type holds them.
func (p *Program) elements(q request, buffer int, raw []byte) ([]float64, error) {
	b := p.spec.Buffers[buffer]
	list := make([]float64, len(raw)/8)
	for i := range list {
		x := math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
		list[i] = b.DType.Round(x)
		why := ""
		switch {
		case !b.DType.Holds(x):
			why = fmt.Sprintf("which %s cannot hold", b.DType)
		case !b.Kept() && !b.Domain.Holds(list[i]):
			why = "outside of its domain " + b.Domain.String()
		}
		if why != "" {
			return nil, &Error{File: p.file, Line: p.defined(q), Msg: fmt.Sprintf("%s makes %v as element %d of %s, %s", b.Data.Function, x, i, b.Name, why)}
		}
	}
	return list, nil
}

// request asks for a function, with the numbers of a shape.
func (p *Program) request(function string, z labs.Size) (request, kernels.Shape) {
	q := request{Do: "call", Function: function, Values: map[string]any{}}
	s := kernels.Shape{Dims: map[string]int64{}}
	for i, name := range p.spec.Dims {
		q.Values[name], s.Dims[name] = z.Dims[i], z.Dims[i]
	}
	for i, sc := range p.spec.Scalars {
		if sc.DType.Float() { // Python makes a float of a number with an exponent
			q.Values[sc.Name] = json.Number(strconv.FormatFloat(z.Scalars[i], 'e', -1, 64))
		} else {
			q.Values[sc.Name] = int64(z.Scalars[i])
		}
	}
	return q, s
}

// call asks for a function when nothing is timed, of a process that stands still again
// afterwards: threads of libraries may go on for a while when they have nothing to do.
func (p *Program) call(ctx context.Context, q request) ([]byte, error) {
	ctx, leave, err := process.ShareHost(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := p.turn.Acquire(ctx, 1); err != nil { // whoever has the turn has a share
		return nil, err
	}
	defer p.turn.Release(1)
	begun := time.Now()
	defer func() { p.spent.Add(int64(time.Since(begun))) }()
	if p.child == nil {
		if err := p.start(ctx); err != nil {
			return nil, err
		}
	}
	_ = unix.Kill(-p.child.PID, unix.SIGCONT)
	out, err := p.ask(ctx, q)
	if p.child != nil {
		_ = unix.Kill(-p.child.PID, unix.SIGSTOP)
	}
	return out, err
}

// start starts the process, imports the library and runs the file.
func (p *Program) start(ctx context.Context) (err error) {
	dir := filepath.Join(p.base.Scratch, "python")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cmd := exec.Command(p.interpreter.Path, "-c", driver)
	cmd.Dir = dir
	n := strconv.Itoa(min(runtime.NumCPU(), threads))
	cmd.Env = append(process.Made(Variables...), "HOME="+dir, "TMPDIR="+dir, "PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=0", "CUDA_VISIBLE_DEVICES=",
		"OMP_NUM_THREADS="+n, "MKL_NUM_THREADS="+n, "OPENBLAS_NUM_THREADS="+n, "MKL_CBWR=AUTO")
	var jail *process.Jail
	if process.Landlock() > 0 {
		jail = p.interpreter.Jail().With(nil, []string{dir})
	}
	if p.child, err = p.base.Launcher.Talk(cmd, jail, 64<<10); err != nil {
		return fmt.Errorf("starting %s: %w", p.interpreter.Path, err)
	}
	p.answers = bufio.NewReaderSize(p.child.Out, 1<<16)
	for resource, most := range map[int]uint64{unix.RLIMIT_DATA: p.memory(), unix.RLIMIT_CORE: 0} {
		_ = unix.Prlimit(p.child.PID, resource, &unix.Rlimit{Cur: most, Max: most}, nil)
	}
	// Where the machine has no memory left, it is the one to go.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.child.PID), []byte("1000"), 0)
	_, err = p.ask(ctx, request{Do: "use", Library: p.library})
	var e *Error
	if errors.As(err, &e) {
		e.Line = 0
		e.Msg = fmt.Sprintf("%s cannot import %s %s in evotune's jail (%s): repair it, or name another Python with EVOTUNE_PYTHON", p.interpreter.Path, p.library, p.version, e.Msg)
	}
	if err == nil {
		_, err = p.ask(ctx, request{Do: "open", Text: p.spec.Reference.Text})
	}
	if err != nil {
		p.drop()
	}
	return err
}

func (p *Program) memory() uint64 {
	var info unix.Sysinfo_t
	if p.options.Memory == 0 && unix.Sysinfo(&info) == nil {
		return info.Totalram * uint64(info.Unit) / 2
	}
	return cmp.Or(p.options.Memory, unix.RLIM_INFINITY)
}

// drop ends the process.
func (p *Program) drop() {
	if p.child == nil {
		return
	}
	process.KillGroup(p.child.PID)
	<-p.child.Exited
	process.ReapGroup(p.child.PID)
	p.child.Close()
	p.child = nil
}

// ask writes one request and reads its answer. After any error but the file's own, the
// process has ended.
func (p *Program) ask(ctx context.Context, q request) ([]byte, error) {
	child := p.child
	child.Stderr.Forget()
	var late atomic.Bool
	timer := time.AfterFunc(p.options.Timeout, func() {
		late.Store(true)
		_ = unix.Kill(child.PID, unix.SIGUSR1) // to say where it is
		select {
		case <-child.Exited:
		case <-time.After(500 * time.Millisecond):
			process.KillGroup(child.PID)
		}
	})
	defer timer.Stop()
	defer context.AfterFunc(ctx, func() { process.KillGroup(child.PID) })()
	out, refused, err := p.exchange(q)
	if late.Load() {
		err = os.ErrDeadlineExceeded // an answer that comes while it is killed counts no more
	}
	if err == nil {
		if refused != nil {
			return nil, refused
		}
		return out, nil
	}
	select {
	case <-child.Exited:
	case <-time.After(2 * time.Second):
		process.KillGroup(child.PID)
		<-child.Exited
	}
	time.Sleep(20 * time.Millisecond) // for the last of what it says
	text, state := child.Stderr.Text(), child.State
	p.drop()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	e := &Error{File: p.file, Line: p.place(q, text)}
	switch {
	case late.Load():
		e.Msg = fmt.Sprintf("no answer within %v: it hangs, or is too slow for this shape", p.options.Timeout)
	default:
		e.Msg = p.ended(state, text)
	}
	return nil, e
}

// exchange writes the request and reads the answer.
func (p *Program) exchange(q request) (out []byte, refused *Error, err error) {
	line, err := json.Marshal(q)
	if err != nil {
		return nil, nil, err
	}
	if _, err := p.child.In.Write(append(line, '\n')); err != nil {
		return nil, nil, err
	}
	for _, c := range q.contents {
		if _, err := p.child.In.Write(c); err != nil {
			return nil, nil, err
		}
	}
	var answer struct {
		Error string `json:"error"`
		Line  int    `json:"line"`
	}
	if line, err = p.answers.ReadBytes('\n'); err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return nil, nil, err
	}
	if answer.Error != "" {
		return nil, &Error{File: p.file, Line: cmp.Or(answer.Line, p.defined(q)), Msg: plain.Line(firstLine(answer.Error))}, nil
	}
	total := int64(0)
	for _, o := range q.Outputs {
		n := int64(8)
		for _, extent := range o.Shape {
			n *= extent
		}
		total += n
	}
	out = make([]byte, total*int64(max(q.Sets, 1)))
	_, err = io.ReadFull(p.answers, out)
	return out, nil, err
}

func firstLine(s string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return first
}

// defined is the line of the function that was asked for.
func (p *Program) defined(q request) int { return p.spec.Reference.Function(q.Function) }

// frame is one of the user's file, in what the interpreter's faulthandler writes.
var frame = regexp.MustCompile(`(?m)^\s*File "evotune-reference", line (\d+) in `)

// place is where the user's code was when the process ended.
func (p *Program) place(q request, text string) int {
	if m := frame.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1])
		return n
	}
	return p.defined(q)
}

// ended says how the process ended.
func (p *Program) ended(state *os.ProcessState, text string) string {
	if state != nil {
		if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			if status.Signal() == syscall.SIGKILL {
				return "the system killed it, as it does where no memory is left: compute in smaller parts"
			}
			return "it crashed the interpreter (" + unix.SignalName(status.Signal()) + ")"
		} else if ok && frame.FindString(text) == "" && strings.TrimSpace(text) != "" {
			return fmt.Sprintf("it ended the interpreter (status %d): %s", status.ExitStatus(), plain.First(text))
		} else if ok {
			return fmt.Sprintf("it ended the interpreter (status %d)", status.ExitStatus())
		}
	}
	return "it ended the interpreter"
}
