package cpu

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/evotune/evotune/evaluator"
)

// Sanitize implements [evaluator.Bench]: the candidate is compiled again for
// each sanitizer and run at the sanitize shape, with buffers of its own that
// end where they end. The outputs are compared with the reference as well.
func (h *bench) Sanitize(ctx context.Context, bin evaluator.Binary) (evaluator.Outcome, error) {
	ctx, leave, err := h.enter(ctx)
	if err != nil {
		return evaluator.Outcome{}, err
	}
	defer leave()
	c, err := handle(bin)
	if err != nil {
		return evaluator.Outcome{}, err
	}
	return h.sanitizeAll(ctx, c)
}

func (h *bench) sanitizeAll(ctx context.Context, c *candidate) (evaluator.Outcome, error) {
	outcomes := make([]evaluator.Outcome, len(h.flavours))
	g, gctx := errgroup.WithContext(ctx)
	for i := range h.flavours {
		f := &h.flavours[i]
		if f.name == tsanName && c.src.Threads <= 1 {
			outcomes[i].Evidence = []evaluator.Evidence{{Check: tsanName, Outcome: evaluator.NotRun, Detail: "the definition declares one thread"}}
			continue
		}
		g.Go(func() error {
			release, err := h.share(gctx)
			if err != nil {
				return err
			}
			defer release()
			outcomes[i], err = h.sanitizeOne(gctx, f, c)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return evaluator.Outcome{}, err
	}
	var all evaluator.Outcome
	for _, o := range outcomes {
		all.Evidence = append(all.Evidence, o.Evidence...)
		if all.Verdict == "" {
			all.Verdict, all.Reason = o.Verdict, o.Reason
		}
	}
	for _, t := range h.tools {
		if t.Missing != "" && isSanitizer(t.Name) {
			all.Evidence = append(all.Evidence, evaluator.Evidence{Check: t.Name, Outcome: evaluator.NotRun, Detail: t.Missing})
		}
	}
	return all, nil
}

func isSanitizer(name string) bool {
	return name == asanName || name == tsanName || name == memcheckName
}

func (h *bench) sanitizeOne(ctx context.Context, f *flavour, c *candidate) (evaluator.Outcome, error) {
	passed := []evaluator.Evidence{{Check: f.name, Outcome: evaluator.Passed}}
	if f.name == asanName {
		passed = append(passed, evaluator.Evidence{Check: "ubsan", Outcome: evaluator.Passed})
	}
	object, err := h.tool.compile(ctx, f.compilation(&c.src, c.glue))
	var refused *errCompile
	switch {
	case errors.As(err, &refused) && f.name == memcheckName:
		// Code for instructions that valgrind does not know is no fault.
		return evaluator.Outcome{Evidence: []evaluator.Evidence{{
			Check: f.name, Outcome: evaluator.NotRun,
			Detail: "it does not compile for a machine that valgrind knows: " + refused.summary,
		}}}, nil
	case errors.As(err, &refused):
		return failedCheck(f.name, "it does not compile with the sanitizer: "+refused.summary, refused.log), nil
	case err != nil:
		return evaluator.Outcome{}, err
	}
	d := h.problem.sanitize
	a, err := newArena(d.layout.stride)
	if err != nil {
		return evaluator.Outcome{}, err
	}
	defer a.close()
	worst, log, err := h.sanitizedRuns(ctx, f, object.Object, d, a, c.src.Threads)
	if err != nil {
		var failed *failure
		if !errors.As(err, &failed) {
			return evaluator.Outcome{}, err
		}
		if name, line := finding(f.name, failed.log); line != "" {
			return failedCheck(name, line, failed.log), nil
		}
		o := failedCheck(f.name, failed.reason, failed.log)
		if failed.verdict == evaluator.Timeout {
			o.Verdict = evaluator.Timeout
		}
		return o, nil
	}
	if name, line := finding(f.name, log); line != "" {
		return failedCheck(name, line, log), nil
	}
	if worst.reason != "" {
		return failedCheck(f.name, "in this build, where memory that was not written holds junk, "+worst.reason, ""), nil
	}
	passed[0].Value, passed[0].Limit = worst.err, worst.limit
	return evaluator.Outcome{Evidence: passed}, nil
}

// sanitizedRuns launches on every variant and ends the process, whose exit
// status is the sanitizer's last word.
func (h *bench) sanitizedRuns(ctx context.Context, f *flavour, object []byte, d *shapeData, a *arena, threads int) (outputCheck, string, error) {
	p, err := h.start(ctx, f, object, a, nil, threads)
	if err != nil {
		return outputCheck{}, "", err
	}
	defer p.kill()
	if err := p.setShape(d, 0); err != nil {
		return outputCheck{}, "", err
	}
	contents := variants
	if f.wrapper != nil {
		contents = 1 // valgrind is slow, and other numbers take the same ways
	}
	var worst outputCheck
	for v := range contents {
		d.load(a, 0, 0, v)
		if _, err := p.ask(command{kind: commandRun, launches: []uint32{0}, junk: -1}, answerDone, h.options.Timeout); err != nil {
			return worst, "", err
		}
		c := h.problem.checkOutputs(d, a, 0, 0, v, true)
		if c.reason != "" || c.err >= worst.err {
			worst = c
		}
		if c.reason != "" {
			break
		}
	}
	status, err := p.quit(h.options.Timeout)
	log := p.log.Text()
	if err == nil && status != 0 {
		err = &failure{evaluator.Sanitizer, fmt.Sprintf("ended with status %d", status), log}
	}
	return worst, log, err
}

func failedCheck(check, reason, log string) evaluator.Outcome {
	detail := reason
	if log != "" {
		detail += "\n" + log
	}
	return evaluator.Outcome{
		Verdict: evaluator.Sanitizer, Reason: check + ": " + reason,
		Evidence: []evaluator.Evidence{{Check: check, Outcome: evaluator.Failed, Detail: detail}},
	}
}

var (
	asanFinding     = regexp.MustCompile(`ERROR: AddressSanitizer: (.*)`)
	ubsanFinding    = regexp.MustCompile(`(\S+:\d+:\d+: )?runtime error: (.*)`)
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
			return printable(s)
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
