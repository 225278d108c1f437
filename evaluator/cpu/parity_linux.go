package cpu

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/evotune/evotune/evaluator"
)

// threadGrace is how long threads that a launch joined may still be seen.
const threadGrace = 100 * time.Millisecond

// Parity implements [evaluator.Bench]: every shape, several contents of the
// inputs, each twice in one process at the same addresses.
func (h *bench) Parity(ctx context.Context, bin evaluator.Binary) (evaluator.Outcome, error) {
	ctx, leave, err := h.enter(ctx)
	if err != nil {
		return evaluator.Outcome{}, err
	}
	defer leave()
	c, err := handle(bin)
	if err != nil {
		return evaluator.Outcome{}, err
	}
	release, err := h.share(ctx)
	if err != nil {
		return evaluator.Outcome{}, err
	}
	defer release()
	outcome, _, err := h.parity(ctx, c)
	return outcome, err
}

// parity also returns how long a launch took, by shape.
func (h *bench) parity(ctx context.Context, c *candidate) (evaluator.Outcome, map[string]time.Duration, error) {
	size := 0
	for _, d := range h.problem.shapes() {
		size = max(size, d.layout.stride)
	}
	a, err := newArena(size)
	if err != nil {
		return evaluator.Outcome{}, nil, err
	}
	defer a.close()
	f := cleanFlavour()
	p, err := h.start(ctx, &f, c.clean.Object, a, parityEnv, c.src.Threads)
	if err != nil {
		out, err := fault(err, nil, "load")
		return out, nil, err
	}
	defer p.kill()
	var evidence []evaluator.Evidence
	if h.sandbox && !p.sandboxed {
		evidence = append(evidence, evaluator.Evidence{Check: "sandbox", Outcome: evaluator.NotRun, Detail: "this kernel has no seccomp filters: what the candidate leaves is looked for afterwards"})
	}
	took := map[string]time.Duration{}
	tuned := map[*shapeData]bool{}
	for _, d := range h.problem.tune {
		tuned[d] = true
	}
	for _, d := range h.problem.shapes() {
		contents := variants
		if tuned[d] {
			// The timing looks at the others.
			contents = 1
		}
		if err := p.setShape(d, 0); err != nil {
			out, err := fault(err, evidence, "parity "+d.shape.Name)
			return out, nil, err
		}
		for v := range contents {
			check := fmt.Sprintf("parity %s seed %d", d.shape.Name, v+1)
			worst, elapsed, err := h.twice(p, d, a, v, c.src.Threads)
			took[d.shape.Name] = max(took[d.shape.Name], elapsed)
			if err != nil {
				out, err := fault(err, evidence, check)
				if n := len(out.Evidence); n > 0 {
					out.Evidence[n-1].Value, out.Evidence[n-1].Limit = finite(worst.err), worst.limit
				}
				return out, nil, err
			}
			evidence = append(evidence, evaluator.Evidence{Check: check, Outcome: evaluator.Passed, Value: worst.err, Limit: worst.limit})
		}
	}
	if p.noise > 0 {
		evidence = append(evidence, evaluator.Evidence{Check: "channel", Outcome: evaluator.Passed, Value: float64(p.noise), Detail: "packets that the candidate wrote to the harness's socket were passed over"})
	}
	status, err := p.quit(h.options.Timeout)
	if err == nil && status != 0 {
		err = &failure{evaluator.Launch, fmt.Sprintf("ended with status %d", status), p.log.Text()}
	}
	if err != nil {
		out, err := fault(err, evidence, "end of the process")
		return out, nil, err
	}
	return evaluator.Outcome{Evidence: evidence}, took, nil
}

// finite makes a value fit for JSON.
func finite(x float64) float64 {
	if x > 1e300 || x != x {
		return 1e300
	}
	return x
}

// twice launches a candidate two times on one variant: once with poisoned
// outputs, once with outputs that hold stale but ordinary numbers, each time
// with other junk on the stack. Both must give the reference's answer, to the
// last bit the same.
func (h *bench) twice(p *process, d *shapeData, a *arena, v, threads int) (outputCheck, time.Duration, error) {
	q := h.problem
	d.load(a, 0, 0, v)
	a.fence(&d.layout, 0, 0)
	elapsed, err := h.launch(p, d, 0xff)
	if err != nil {
		return outputCheck{}, elapsed, err
	}
	worst := q.checkOutputs(d, a, 0, 0, v, true)
	if err := h.inspectLaunch(p, d, a, v, threads, worst.reason); err != nil {
		return worst, elapsed, err
	}
	first := make([][]byte, len(d.layout.buffers))
	for b := range d.layout.buffers {
		if d.layout.buffers[b].role != roleIn {
			first[b] = bytes.Clone(a.buffer(&d.layout, 0, 0, b))
		}
	}
	d.load(a, 0, 0, v)
	for b := range d.layout.buffers {
		if p := &d.layout.buffers[b]; p.role == roleOut {
			stale := staleBytes(p.dtype, p.bytes, scaleOf(d.expected[v][b]), newStream(q.seed, v+variants, b))
			copy(a.buffer(&d.layout, 0, 0, b), stale)
		}
	}
	again, err := h.launch(p, d, 0x3f)
	if err != nil {
		return worst, elapsed, err
	}
	reason := ""
	for b := range first {
		if first[b] == nil {
			continue
		}
		got := a.buffer(&d.layout, 0, 0, b)
		if bytes.Equal(first[b], got) {
			continue
		}
		i := 0
		for got[i] == first[b][i] {
			i++
		}
		l := &d.layout.buffers[b]
		i /= l.dtype.size()
		reason = fmt.Sprintf("not the same answer twice: output %s, element %d is %v, then %v (where the output held other numbers before)",
			l.name, i, l.dtype.get(first[b], i), l.dtype.get(got, i))
		break
	}
	return worst, min(elapsed, again), h.inspectLaunch(p, d, a, v, threads, reason)
}

// launch makes one launch on set 0 and freezes the process, so that what is
// looked at is what was there when the kernel returned.
func (h *bench) launch(p *process, d *shapeData, junk int) (time.Duration, error) {
	ans, err := p.ask(command{kind: commandRun, launches: []uint32{0}, junk: junk}, answerDone, h.deadline(d, 1))
	if err != nil {
		return 0, err
	}
	if ans.Launches != 1 {
		return 0, p.fail(evaluator.Launch, "the harness's answer is about other launches")
	}
	return ans.Elapsed, p.freeze()
}

// inspectLaunch looks at all that a launch may have done wrong. The reason is
// what was found in the outputs.
func (h *bench) inspectLaunch(p *process, d *shapeData, a *arena, v, threads int, reason string) error {
	if reason == "" {
		reason = a.checkFence(&d.layout, 0, 0)
	}
	if reason == "" {
		reason = d.inputChanged(a, 0, 0, v)
	}
	if reason != "" {
		return p.fail(evaluator.Parity, reason)
	}
	return p.checkThreads(threads)
}

// checkThreads fails a candidate that has more threads than it declared.
func (p *process) checkThreads(declared int) error {
	for deadline := time.Now().Add(threadGrace); ; {
		n := p.threads()
		if n <= max(declared, 1) {
			return nil
		}
		if time.Now().After(deadline) {
			return p.fail(evaluator.Launch, fmt.Sprintf("left threads running: %d where its definition declares %d", n, max(declared, 1)))
		}
		// A thread that was joined may still be on its way out.
		if err := p.thaw(); err != nil {
			return err
		}
		time.Sleep(2 * time.Millisecond)
		if err := p.freeze(); err != nil {
			return err
		}
	}
}
