package cpu

import (
	"bytes"
	"cmp"
	"context"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/plain"
)

// reachFlavour is optimised as the sanitizers' builds are, and tells which of its blocks run.
func reachFlavour() flavour {
	return flavour{
		name: "reach", args: []string{"-O1", "-g", "-fsanitize-coverage=trace-pc"}, harness: []string{"-DREACH", "-rdynamic"},
		flags: sanitizableFlags, sandbox: true, limits: true,
	}
}

// Profile implements [evaluator.Profiler]. It says which code of a candidate no
// sanitizer has seen, since only other shapes than the sanitizers' reach it.
func (h *lab) Profile(ctx context.Context, artifact evaluator.Artifact) ([]evaluator.Evidence, error) {
	c, err := labs.Handle[*candidate](artifact)
	if err != nil {
		return nil, err
	}
	built := slices.ContainsFunc(h.flavours, func(f flavour) bool { return !f.guards })
	if !built || artifact.Unsupported[h.problem.Sanitize.shape.Name] != "" {
		return nil, nil // they are "not run" all the same
	}
	ctx, done, err := h.work(ctx, c.src.Threads)
	if err != nil {
		return nil, err
	}
	defer done()
	e, err := h.reach(ctx, c, artifact.Unsupported, artifact.Allowed)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		h.Log.Warn("what sanitizers reached is not known", "error", err)
		e.Outcome, e.Detail = evaluator.NotRun, plain.Line(err.Error())
	}
	e.Check = evaluator.Reach
	return []evaluator.Evidence{e}, nil
}

// reach launches at every shape and compares the blocks that ran.
func (h *lab) reach(ctx context.Context, c *candidate, unsupported map[string]string, allowed *evaluator.Allowance) (e evaluator.Evidence, err error) {
	f := reachFlavour()
	if h.reachless != nil {
		return e, h.reachless
	}
	unit := f.compilation(&c.src, c.glue)
	unit.candidate = h.isCandidate(&c.src)
	out, err := h.tool.compile(ctx, unit)
	if err != nil {
		return e, err
	}
	object, err := elf.NewFile(bytes.NewReader(out.Object))
	if err != nil {
		return e, err
	}
	code, size := 0, span{}
	for _, p := range object.Progs {
		if p.Type == elf.PT_LOAD {
			code = max(code, int(p.Vaddr+p.Memsz))
		}
	}
	watched := slices.Concat([]*shapeData{h.problem.Sanitize}, h.problem.SanitizeAlso)
	all := slices.Concat(watched, h.problem.Verify, h.problem.Tune)
	for _, d := range all {
		size = size.max(d.layout.stride)
	}
	size[writable] += code
	a, err := newArena(size)
	if err != nil {
		return e, err
	}
	defer a.close()
	p, err := h.start(ctx, &f, out.Object, a, nil, c.src.Threads)
	if err != nil {
		return e, err
	}
	defer p.kill()
	p.together = allowed
	seen, unseen := map[int]bool{}, map[int]bool{}
	var shapes, sanitized []string
	for _, d := range all {
		if unsupported[d.shape.Name] != "" {
			continue
		}
		ran := a.mem[writable][len(a.mem[writable])-code:] // the last byte is for address 0
		clear(ran)
		if err := p.setShape(d, span{}); err != nil {
			return e, err
		}
		contents := variants
		if slices.Contains(h.problem.Tune, d) {
			contents = 1
		}
		for v := range contents {
			d.load(a, v)
			if _, err := p.ask(command{kind: commandRun, launches: []uint32{0}, junk: -1}, answerDone, h.options.Timeout); err != nil {
				return e, fmt.Errorf("at shape %s: %w", d.shape.Name, err)
			}
		}
		more, sanitizes := false, slices.Contains(watched, d)
		if sanitizes {
			sanitized = append(sanitized, d.shape.Name)
		}
		for i, byte := range ran {
			at := code - 1 - i
			switch {
			case byte == 0 || seen[at]:
			case sanitizes:
				seen[at] = true
			default:
				more = more || !unseen[at]
				unseen[at] = true
			}
		}
		if more {
			shapes = append(shapes, d.shape.Name)
		}
	}
	if err := p.quit(h.options.Timeout); err != nil {
		return e, err
	}
	small := strings.Join(sanitized, ", ")
	if len(seen) == 0 {
		return e, errors.New("the build does not tell which of its blocks run")
	}
	if len(unseen) == 0 {
		e.Outcome, e.Detail = evaluator.Passed, fmt.Sprintf("whatever of its %d blocks runs at another shape runs at shape %s", len(seen), small)
		return e, nil
	}
	lines, err := linesOf(object, unseen)
	e.Outcome = evaluator.NotRun
	e.Detail = fmt.Sprintf("%d of %d blocks run at shape %s and not at shape %s: %s",
		len(unseen), len(seen)+len(unseen), strings.Join(shapes, ", "), small, lines)
	return e, err
}

// mostLines bounds how many places linesOf names.
const mostLines = 12

// linesOf names the lines of code addresses behind calls, as in "kernel.c:12-15,40".
func linesOf(object *elf.File, calls map[int]bool) (string, error) {
	info, err := object.DWARF()
	if err != nil {
		return "", err
	}
	type row struct {
		address uint64
		file    string
		line    int
	}
	var table []row
	for r := info.Reader(); ; r.SkipChildren() {
		unit, err := r.Next()
		if err != nil || unit == nil {
			if err != nil {
				return "", err
			}
			break
		}
		lines, err := info.LineReader(unit)
		if err != nil {
			return "", err
		}
		for lines != nil {
			var l dwarf.LineEntry
			if err := lines.Next(&l); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return "", err
			}
			if !l.EndSequence && l.File != nil {
				table = append(table, row{l.Address, path.Base(l.File.Name), l.Line})
			}
		}
	}
	slices.SortStableFunc(table, func(a, b row) int { return cmp.Compare(a.address, b.address) })
	byFile := map[string][]int{}
	for at := range calls {
		i, _ := slices.BinarySearchFunc(table, uint64(at), func(r row, at uint64) int { return cmp.Compare(r.address, at) })
		if i--; i >= 0 {
			byFile[table[i].file] = append(byFile[table[i].file], table[i].line)
		}
	}
	var places []string
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		lines := byFile[file]
		slices.Sort(lines)
		lines = slices.Compact(lines)
		for i, first := 0, 0; i < len(lines); i++ {
			if i+1 < len(lines) && lines[i+1] == lines[i]+1 {
				continue
			}
			place := fmt.Sprint(lines[first])
			if first < i {
				place += fmt.Sprintf("-%d", lines[i])
			}
			if first == 0 {
				place = file + ":" + place
			}
			places = append(places, place)
			first = i + 1
		}
	}
	if more := len(places) - mostLines; more > 0 {
		places = append(places[:mostLines], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(places, ", "), nil
}
