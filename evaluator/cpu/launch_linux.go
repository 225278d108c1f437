package cpu

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/plain"
	programs "github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/kernels"
)

// Sanitizers implements [evaluator.Lab].
func (h *lab) Sanitizers() []string {
	var names []string
	for _, f := range h.flavours {
		names = append(names, f.name)
	}
	return names
}

// Launch implements [evaluator.Lab]: the artifact is compiled again for the
// sanitizer and run at a sanitize shape, with buffers of its own that end
// where they end; between guard pages it is run as it is, in the search at every shape.
// The outputs are compared with the reference as well.
func (h *lab) Launch(ctx context.Context, artifact evaluator.Artifact, tool string, s kernels.Shape) (found evaluator.Findings, err error) {
	c, err := labs.Handle[*candidate](artifact)
	if err != nil {
		return found, err
	}
	d, err := h.problem.at(s)
	if err != nil {
		return found, err
	}
	i := slices.IndexFunc(h.flavours, func(f flavour) bool { return f.name == tool })
	if i < 0 {
		return found, fmt.Errorf("there is no sanitizer %q here", tool)
	}
	f := &h.flavours[i]
	if tool == tsanName && c.src.Threads <= 1 {
		return evaluator.Findings{NotRun: "the definition declares one thread"}, nil
	}
	if tool == memcheckName && c.src.Threads > 1 && h.sandbox && (h.tool.jail == nil || !programs.ConfinesSignals()) {
		return evaluator.Findings{NotRun: "several threads under valgrind could signal evotune on this kernel (Landlock 6, Linux 6.12, confines them)"}, nil
	}
	ctx, done, err := h.work(ctx, c.src.Threads)
	if err != nil {
		return found, err
	}
	defer done()
	if f.guards {
		begin := time.Now()
		found.Ran = "three launches of the timed object at each of its shapes, one with unaligned buffers"
		shapes := slices.DeleteFunc(h.problem.shapes(), func(d *shapeData) bool { return artifact.Unsupported[d.shape.Name] != "" })
		if d != h.problem.Sanitize {
			found.Ran = fmt.Sprintf("three launches of the timed object at shape %s, one with unaligned buffers", s.Name)
			shapes = []*shapeData{d}
		}
		found.Outputs, err = h.guardedRuns(ctx, f, c, shapes, artifact.Allowed)
		found.Elapsed = time.Since(begin)
		return found, err
	}
	unit := f.compilation(&c.src, c.glue)
	unit.candidate = h.isCandidate(&c.src)
	if tool == tsanName {
		used, unknown, err := openMP(c.clean.Object)
		switch {
		case err != nil:
			return found, fmt.Errorf("reading the compiler's output: %w", err)
		case unknown != "":
			return evaluator.Findings{NotRun: "OpenMP's library is not built for it, and it cannot be told what " + unknown + " orders"}, nil
		case used:
			unit.annotateOpenMP()
		}
	}
	object, err := h.tool.compile(ctx, unit)
	var refused *labs.Refusal
	switch {
	case errors.As(err, &refused) && tool == memcheckName:
		// Code for instructions that valgrind does not know is no fault.
		return evaluator.Findings{NotRun: "it does not compile for a machine that valgrind knows: " + refused.Summary}, nil
	case errors.As(err, &refused):
		return evaluator.Findings{By: tool, Found: "it does not compile with the sanitizer: " + refused.Summary, Log: refused.Log}, nil
	case err != nil:
		return found, err
	}
	a, err := newArena(d.layout.stride)
	if err != nil {
		return found, err
	}
	defer a.close()
	begin := time.Now()
	found.Outputs, found.Log, err = h.sanitizedRuns(ctx, f, object.Object, a, d, c.src.Threads, artifact.Allowed)
	found.Elapsed = time.Since(begin)
	var own *evaluator.Fault
	if errors.As(err, &own) {
		found.Log = own.Log
	}
	if err == nil || own != nil {
		found.By, found.Found = finding(tool, found.Log)
		if found.Found != "" {
			err = nil
		}
	}
	if tool == asanName {
		found.Also = []string{"ubsan"}
	}
	return found, err
}

// sanitizedRuns launches on every contents and ends the process, whose exit
// status is the sanitizer's last word.
func (h *lab) sanitizedRuns(ctx context.Context, f *flavour, object []byte, a *arena, d *shapeData, threads int, allowed *evaluator.Allowance) (outputs []evaluator.Output, log string, err error) {
	p, err := h.start(ctx, f, object, a, nil, threads)
	if err != nil {
		return nil, "", err
	}
	defer p.kill()
	p.together = allowed
	if err := p.setShape(d, span{}); err != nil {
		return nil, "", err
	}
	contents := variants
	if f.wrapper != nil {
		contents = 1 // valgrind is slow, and other numbers take the same ways
	}
	for v := range contents {
		d.load(a, v)
		if _, err := p.ask(command{kind: commandRun, launches: []uint32{0}, junk: -1}, answerDone, h.options.Timeout); err != nil {
			return outputs, "", err
		}
		outputs = worse(outputs, h.problem.outputs(d, a, span{}, 0, d.expected[v]))
	}
	err = p.quit(h.options.Timeout)
	return outputs, p.log.Text(), err
}

// guardedRuns launches at some shapes between guard pages, with every [placing].
func (h *lab) guardedRuns(ctx context.Context, f *flavour, c *candidate, at []*shapeData, allowed *evaluator.Allowance) (outputs []evaluator.Output, err error) {
	var shapes []*shapeData
	var places []placing
	var size span
	for _, d := range at {
		for _, where := range []placing{atEnd, atBegin, unaligned} {
			placed := *d
			placed.layout = newGuardedLayout(d.layout.buffers, where)
			shapes = append(shapes, &placed)
			places = append(places, where)
			size = size.max(placed.layout.stride)
		}
	}
	a, err := newArena(size)
	if err != nil {
		return nil, err
	}
	defer a.close()
	p, err := h.start(ctx, f, c.clean.Object, a, nil, c.src.Threads)
	if err != nil {
		return nil, err
	}
	defer p.kill()
	p.together = allowed
	for i, d := range shapes {
		d.load(a, 0)
		if err := p.setShape(d, span{}); err != nil {
			return outputs, err
		}
		if _, err := p.ask(command{kind: commandRun, launches: []uint32{0}, junk: -1}, answerDone, h.options.Timeout); err != nil {
			var own *evaluator.Fault
			if errors.As(err, &own) {
				own.Reason = fmt.Sprintf("%s, at shape %s: %s", places[i], d.shape.Name, own.Reason)
			}
			return outputs, err
		}
		outputs = worse(outputs, h.problem.outputs(d, a, span{}, 0, d.expected[0]))
	}
	return outputs, p.quit(h.options.Timeout)
}

var (
	asanFinding     = regexp.MustCompile(`ERROR: AddressSanitizer: (.*)`)
	ubsanFinding    = regexp.MustCompile(`(\S+:\d+:\d+|<unknown>): runtime error: (.*)`)
	tsanFinding     = regexp.MustCompile(`(?:WARNING|ERROR|FATAL): ThreadSanitizer: (.*)`)
	valgrindFinding = regexp.MustCompile(`(?m)^==\d+== (.*(?:uninitialised|Invalid|overlap|jump|points to|free|Process terminating).*)$`)
	address         = regexp.MustCompile(`\s*\(pid=\d+\)|\s+(?:on|at|with) (?:unknown )?(?:address|pc) 0x[0-9a-f]+.*`)
)

// finding picks the line of a sanitizer's report that says what was found, and
// the name of the sanitizer that found it.
func finding(flavour, log string) (name, line string) {
	pick := func(re *regexp.Regexp, group int) string {
		if m := re.FindStringSubmatch(log); m != nil {
			s := strings.TrimSpace(m[group])
			if short := address.ReplaceAllString(s, ""); short != "" {
				s = short
			}
			return plain.Line(s)
		}
		return ""
	}
	switch flavour {
	case asanName:
		if s := pick(ubsanFinding, 0); s != "" {
			return "ubsan", s
		}
		return asanName, pick(asanFinding, 1)
	case tsanName:
		return tsanName, pick(tsanFinding, 1)
	case memcheckName:
		return memcheckName, pick(valgrindFinding, 1)
	}
	return flavour, ""
}
