package cuda

import (
	"cmp"
	"context"
	_ "embed" // for the planted fault
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/ptx"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/plain"
)

const (
	// delayedLaunches is how many schedules it looks at, at every shape.
	delayedLaunches = 20
	// asynchronous is the first capability with instructions that racecheck does not
	// follow.
	asynchronous = 90
	// rightExchange is the error up to which the planted kernels are right.
	rightExchange = 1e-6
)

// delaySource has a kernel without a fault and one with a fault that only delays show.
//
//go:embed delays.cu
var delaySource string

// Instructions that work beside the threads that begin them: copies of the tensor memory
// accelerator, which racecheck does not see or reports falsely, and the instructions with
// which threads wait for such work, or for other blocks.
var (
	copyInstructions = []string{"UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "UBLKRED"}
	waitInstructions = []string{"SYNCS", "ARRIVES", "STAS", "REDAS", "UCGABAR_ARV", "UCGABAR_WAIT", "HGMMA", "QGMMA", "IGMMA", "BGMMA", "WARPGROUP"}
	// The same in PTX, for where nothing disassembles.
	copyPTX = []string{"cp.async.bulk", "cp.reduce.async.bulk"}
	waitPTX = []string{"mbarrier", "cp.async.mbarrier", "st.async", "red.async", "barrier.cluster", "wgmma"}
	// shownBy says what in PTX each of them comes of.
	shownBy = map[string][]string{
		"UTMALDG": {"cp.async.bulk.tensor"}, "UTMASTG": {"cp.async.bulk.tensor"}, "UTMAREDG": {"cp.reduce.async.bulk.tensor"},
		"UBLKCP": {"cp.async.bulk"}, "UBLKRED": {"cp.reduce.async.bulk"},
		"SYNCS": {"mbarrier", "cp.async.mbarrier"}, "ARRIVES": {"cp.async.mbarrier"}, "STAS": {"st.async"}, "REDAS": {"red.async"},
		"UCGABAR_ARV": {"barrier.cluster"}, "UCGABAR_WAIT": {"barrier.cluster"},
		"HGMMA": {"wgmma"}, "QGMMA": {"wgmma"}, "IGMMA": {"wgmma"}, "BGMMA": {"wgmma"}, "WARPGROUP": {"wgmma"},
	}
)

// hidden lists the instructions of a machine code that nothing of some PTX shows.
func (d disassembly) hidden(mnemonics []string) (list []string) {
	for code, from := range shownBy {
		shown := slices.ContainsFunc(mnemonics, func(m string) bool {
			return slices.ContainsFunc(from, func(stem string) bool { return ptx.Begins(m, stem) })
		})
		if !shown && d.has([]string{code}) {
			list = append(list, code)
		}
	}
	slices.Sort(list)
	return list
}

// unfollowed says which instructions a candidate has that racecheck does not follow.
type unfollowed struct{ copies, waits bool }

// unfollowed looks for them, once for a candidate.
func (h *lab) unfollowed(ctx context.Context, c *candidate) (unfollowed, error) {
	if h.gpus[0].device.Capability < asynchronous || c.routine != "" {
		return unfollowed{}, nil
	}
	c.unfollowedMu.Lock()
	defer c.unfollowedMu.Unlock()
	if c.unfollowed != nil {
		return *c.unfollowed, nil
	}
	counts, _, why, err := h.instructions(ctx, c, false)
	if err != nil {
		return unfollowed{}, err
	}
	u := counts.unfollowed()
	if why != "" {
		if u, err = h.unfollowedPTX(ctx, c); err != nil {
			return unfollowed{}, err
		}
	}
	c.unfollowed = &u
	return u, nil
}

func (d disassembly) unfollowed() unfollowed {
	// What the disassembler knows no name of, racecheck may not know either.
	return unfollowed{d.has(copyInstructions), d.has(waitInstructions) || d.Unnamed > 0}
}

// knows keeps what inspection has found.
func (c *candidate) knows(u unfollowed) {
	c.unfollowedMu.Lock()
	defer c.unfollowedMu.Unlock()
	c.unfollowed = &u
}

// unfollowedPTX looks for the same in PTX, where nothing disassembles.
func (h *lab) unfollowedPTX(ctx context.Context, c *candidate) (unfollowed, error) {
	text, err := h.ptx(ctx, h.delayedUnit(c))
	var no *labs.Refusal
	if errors.As(err, &no) {
		return unfollowed{waits: true}, nil // they are not known
	} else if err != nil {
		return unfollowed{}, err
	}
	statements, err := ptx.Statements(text)
	if err != nil {
		return unfollowed{waits: true}, nil //nolint:nilerr // delays are tried, and say what is wrong
	}
	counts := disassembly{Mnemonics: evaluator.Instructions{}}
	for _, s := range statements {
		counts.Mnemonics[s.Mnemonic]++
	}
	return unfollowed{counts.has(copyPTX), counts.has(waitPTX)}, nil
}

// has says whether one of some instructions occurs.
func (d disassembly) has(stems []string) bool {
	for name := range d.Mnemonics {
		for _, stem := range stems {
			if ptx.Begins(name, stem) {
				return true
			}
		}
	}
	return false
}

// delayedUnit is what the flavour with delays is compiled from: the candidate's unit
// without information on lines, which would have to be taken apart and put together.
func (h *lab) delayedUnit(c *candidate) unit {
	u := h.unit(c.src, h.Plan.Debug)
	u.arch, u.candidate = c.arch, !c.baseline
	u.early = c.followed()
	u.plain = u.triton == nil // which leaves it out of the PTX that is known already
	if u.plain && !u.debug {
		u.known = c.out.PTX
	}
	return u
}

// ptx compiles a unit to PTX, on a core of its own.
func (h *lab) ptx(ctx context.Context, u unit) (string, error) {
	if u.triton != nil {
		out, err := h.build(ctx, u)
		return ptx.Unlined(out.Assembly), err
	}
	if u.known != "" {
		return u.known, nil
	}
	release, err := h.acquireCore(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	return h.compiler.ptx(ctx, u)
}

// A delayedBuild is a unit with delays. Delays says what they are around, for people;
// Mnemonics are those of its PTX.
type delayedBuild struct {
	compiled
	Delays    string   `json:"delays"`
	Mnemonics []string `json:"mnemonics"`
}

// A ptxFault is what is wrong with a text that the compiler accepts and that cannot have
// delays: whoever wrote it so would go unseen.
type ptxFault struct{ reason, log string }

func (e *ptxFault) Error() string { return e.reason }

// room is what makes delays take less of the device.
type room struct {
	share     int   // delays are at one of so many sites, drawn for each build; 0 is at all
	registers int64 // for each thread; 0 sets no bound
}

// draw chooses sites by chance. A kernel cannot know which.
func (r room) draw(sites int) []bool {
	chosen := make([]bool, sites)
	for i, at := range rand.Perm(sites) {
		chosen[at] = i < (sites+r.share-1)/r.share
	}
	return chosen
}

// String is what is told of it.
func (r room) String() string {
	if r.registers == 0 {
		return ""
	}
	return fmt.Sprintf(", assembled with --maxrregcount=%d", r.registers)
}

// buildDelayed compiles a unit with delays, or takes it from the cache. The error is a
// *ptxFault where the text is to blame, and a *[labs.Refusal] where an assembler does not
// take it for another reason.
func (h *lab) buildDelayed(ctx context.Context, u unit, by assembler, r room) (b delayedBuild, err error) {
	if u.known != "" {
		// Where something is wrong with PTX out of which lines were taken, that without them decides.
		if b, err = h.delayUnit(ctx, u, by, r); err == nil || ctx.Err() != nil {
			return b, err
		}
		u.known = ""
	}
	return h.delayUnit(ctx, u, by, r)
}

func (h *lab) delayUnit(ctx context.Context, u unit, by assembler, r room) (b delayedBuild, err error) {
	stores, local := u.triton != nil, u.local()
	key := cache.Key("delayed 5", ptx.Version(stores), fmt.Sprint(u.early), u.key(h.compilerOf(u).identity()), by.identity(), fmt.Sprint(r.registers))
	if r.share == 0 {
		if cubin, ok := h.sharing().Get(ctx, "cubins", key, local, &b); ok {
			b.Cubin = cubin
			return b, nil
		}
	}
	text, err := h.ptx(ctx, u)
	if err != nil {
		return b, err
	}
	var choose func(int) []bool
	if r.share > 0 {
		choose = r.draw
	}
	d, err := ptx.Delay(text, stores, u.early, choose)
	var unawaited *ptx.UnawaitedError
	switch {
	case errors.As(err, &unawaited):
		return b, &ptxFault{reason: err.Error()}
	case errors.Is(err, ptx.ErrNoDelay):
		return b, &labs.Refusal{Summary: err.Error()}
	case err != nil:
		return b, &ptxFault{reason: "its PTX cannot be read: " + err.Error()}
	}
	release, err := h.acquireCore(ctx)
	if err != nil {
		return b, err
	}
	defer release()
	if r.registers > 0 {
		u.flags = slices.DeleteFunc(rtcFlags(u.flags), func(f string) bool { return strings.HasPrefix(strings.TrimLeft(f, "-"), "maxrregcount") })
		u.flags = append(u.flags, fmt.Sprintf("-maxrregcount=%d", r.registers))
	}
	u.plain = true
	b.compiled, err = by.assemble(ctx, d.Text, u)
	var no *labs.Refusal
	if errors.As(err, &no) && !no.Crash && strings.Contains(no.Summary, assemblyFile) {
		// It names a line, which is the text's fault if without delays it is taken.
		if _, plain := by.assemble(ctx, text, u); plain == nil {
			return b, &ptxFault{"its PTX can be assembled, and with delays it cannot: " + no.Summary, no.Log}
		}
	}
	if err != nil {
		return b, err
	}
	b.Delays, b.Mnemonics = d.String()+r.String(), slices.Sorted(maps.Keys(d.Mnemonics))
	if r.share == 0 {
		h.sharing().Put(ctx, "cubins", key, local, b.Cubin, b)
	}
	return b, nil
}

// proveDelays tries each assembler on a kernel without a fault, which must stay right, and
// on one with a fault, which must show.
func (h *lab) proveDelays(ctx context.Context) {
	const lost = "races around copies of the tensor memory accelerator and barriers in shared memory are found only where they change an answer"
	d := h.gpus[0].device
	if d.Capability < asynchronous && h.triton == nil {
		return // it has no instructions that racecheck does not follow, and so no such check
	}
	tool := evaluator.Tool{Name: schedules}
	defer func() { h.Found(tool) }()
	if len(h.options.Sanitizers) > 0 && !slices.Contains(h.options.Sanitizers, schedules) {
		tool.Missing = "switched off by the options"
		return
	}
	arch, err := architecture("sm_80", d.Capability, h.compiler.architectures())
	if err != nil {
		tool.Missing = plain.Line(err.Error())
		return
	}
	var failures []error
	for _, by := range h.assemblers(ctx) {
		trials := delayTrials(d)
		if err = h.tryDelays(ctx, by, plantedDelays(arch, trials), trials); err == nil {
			h.delayer = by
			tool.Version = fmt.Sprintf("%s, assembled by %s", h.compiler.version(), by.name())
			return
		}
		failures = append(failures, fmt.Errorf("%s: %w", by.name(), err))
	}
	err = errors.Join(failures...)
	tool.Missing = fmt.Sprintf("it does not work here (%s): %s", plain.Line(strings.ReplaceAll(err.Error(), "\n", "; ")), lost)
	h.Log.Warn("candidates cannot be run with delays", "error", err)
}

// A delayTrial is a planted kernel that must be right with delays, or one that must not.
type delayTrial struct {
	right    bool
	entry    string
	also     []string
	geometry wire.Geometry
}

// String is what the trial is called in a worker.
func (t delayTrial) String() string {
	name := schedules
	if t.right {
		name = "clean"
	}
	return strings.Join(append([]string{name}, t.also...), "-")
}

// delayTrials are those of delaySource.
func delayTrials(d wire.Device) []delayTrial {
	one := wire.Geometry{Grid: [3]int64{1, 1, 1}, Block: [3]int64{256, 1, 1}}
	list := []delayTrial{{right: true, entry: "clean", geometry: one}, {entry: schedules, geometry: one}}
	if d.Capability < asynchronous || d.CUDADriver < 12030 {
		return list
	}
	for _, second := range []string{"takes_awaited", "takes"} {
		first, next := one, one
		next.Entry, next.Dependent = second, true
		first.Entry, first.Workspace, first.Then = "leaves", 4*256, []wire.Geometry{next}
		list = append(list, delayTrial{right: second != "takes", entry: "leaves", also: []string{second}, geometry: first})
	}
	return list
}

// plantedDelays is the unit of delaySource.
func plantedDelays(arch string, trials []delayTrial) unit {
	u := unit{source: delaySource, arch: arch, plain: true}
	if slices.ContainsFunc(trials, func(t delayTrial) bool { return t.entry == "leaves" }) {
		u.early = []string{"leaves"}
	}
	return u
}

func (h *lab) tryDelays(ctx context.Context, by assembler, u unit, trials []delayTrial) error {
	key := cache.Key("schedules 4", ptx.Version(false), fmt.Sprint(trials), u.key(h.compiler.identity()), by.identity(),
		h.gpus[0].device.Name, h.gpus[0].device.DriverString, HarnessSource, fmt.Sprint(h.options.workerEnv), h.workerPath)
	if _, ok := h.Cache.Get("sanitizers", key, nil); ok {
		return nil
	}
	built, err := h.buildDelayed(ctx, u, by, room{})
	if err != nil {
		return logOf(err)
	}
	path := filepath.Join(h.Scratch, "planted-"+schedules+".cubin")
	if err := os.WriteFile(path, built.Cubin, 0o600); err != nil {
		return err
	}
	open, shape := h.trialProblem()
	var expected []float64
	for i := range shape.Elements[1] {
		expected = append(expected, float64(shape.Elements[1]-1-i))
	}
	shape.Outputs = filepath.Join(h.Scratch, "planted-"+schedules)
	if err := os.WriteFile(shape.Outputs, wire.AppendDoubles(nil, expected), 0o600); err != nil {
		return err
	}
	w, err := h.startWorker(ctx, workerSpec{uuid: h.gpus[0].device.UUID, share: 1}, nil, open)
	if err != nil {
		return err
	}
	defer w.kill()
	for _, t := range trials {
		name := t.String()
		var loaded wire.LoadAnswer
		if err := w.call(ctx, h.options.Timeout, wire.Load, wire.LoadRequest{Name: name, Cubin: path, Entry: t.entry, Also: t.also}, &loaded); err != nil {
			return err
		}
		if loaded.Fault != nil {
			return errors.New(faultText(loaded.Fault))
		}
		r := wire.ParityRequest{
			Binary: name, Shape: shape, Seed: 1, Repeat: delayedLaunches, TimeoutNS: h.options.Timeout.Nanoseconds(), Geometry: t.geometry,
		}
		var a wire.ParityAnswer
		if err := w.call(ctx, h.options.Timeout, wire.Parity, r, &a); err != nil {
			return err
		}
		if a.Fault != nil {
			return fmt.Errorf("the planted kernel %s: %s", name, faultText(a.Fault))
		}
		if len(a.Outputs) != 1 {
			return fmt.Errorf("the planted kernel %s: the worker compared %d outputs of 1", name, len(a.Outputs))
		}
		o := a.Outputs[0]
		right := a.Different == 0 && o.NotFinite == 0 && o.Unwritten == 0 && float64(o.Error) <= rightExchange
		switch {
		case t.right && !right:
			return fmt.Errorf("a kernel without a fault (%s) is wrong with delays: error %.3g, %d elements differ between launches", name, float64(o.Error), a.Different)
		case !t.right && right:
			return fmt.Errorf("delays do not show the fault that was planted for them (%s)", name)
		}
	}
	h.Keep("sanitizers", key, nil, nil)
	return nil
}

// launchDelayed runs a candidate with delays, as often as there are schedules to look at.
// Where they leave no room for its blocks, it tries with fewer registers, and then with
// fewer delays.
func (h *lab) launchDelayed(ctx context.Context, c *candidate, allowed *evaluator.Allowance) (f evaluator.Findings, err error) {
	if c.routine != "" {
		return evaluator.Findings{NotRun: "a routine of a library has no PTX"}, nil
	}
	seen, err := h.unfollowed(ctx, c)
	if err != nil {
		return f, err
	}
	// What Triton compiles is tried in other schedules whatever it has: no tool follows
	// what its programs do to one another in global memory.
	if !seen.copies && !seen.waits && c.src.Triton == nil && len(c.followed()) == 0 {
		const all = "racecheck follows all of its instructions"
		if !slices.ContainsFunc(h.sanitizers, func(s *sanitizer) bool { return s.name == racecheck }) {
			return evaluator.Findings{NotRun: all + ", and does not run here"}, nil
		}
		return evaluator.Findings{NotNeeded: all}, nil
	}
	shapes := h.delayedShapes(c)
	var registers int64
	for i, share := range []int{0, 0, 2, 4} {
		if i == 1 && registers == 0 {
			continue // it would be the same once more
		}
		var short *shortage
		if f, short, err = h.tryDelayed(ctx, c, allowed, room{share, registers}, shapes); short == nil || err != nil {
			return f, err
		}
		registers = short.registers
		f.NotRun = short.why + "; fewer registers and fewer delays do not help"
	}
	return f, nil
}

// A shortage says why a candidate with delays does not fit the device, and with how many
// registers for each thread it would; 0 where that is not known.
type shortage struct {
	why       string
	registers int64
}

// tryDelayed builds a candidate with delays and runs it, unless they leave too little room.
func (h *lab) tryDelayed(ctx context.Context, c *candidate, allowed *evaluator.Allowance, r room, shapes []*shapeData) (f evaluator.Findings, short *shortage, err error) {
	built, err := h.buildDelayed(ctx, h.delayedUnit(c), h.delayerOf(c), r)
	var no *labs.Refusal
	var bad *ptxFault
	switch {
	case errors.As(err, &bad):
		return evaluator.Findings{By: schedules, Found: bad.reason, Log: bad.log}, nil, nil
	case errors.As(err, &no):
		return evaluator.Findings{NotRun: "its code with delays cannot be made: " + no.Summary}, nil, nil
	case err != nil:
		return f, nil, err
	}
	counts, _, unread, err := h.instructions(ctx, c, false)
	if err != nil {
		return f, nil, err
	}
	if list := counts.hidden(built.Mnemonics); unread == "" && len(list) > 0 {
		return evaluator.Findings{NotRun: fmt.Sprintf("the machine code has %s, and nothing in the PTX explains it", strings.Join(list, ", "))}, nil, nil
	}
	v, err := h.delayedCandidate(c, built)
	if err != nil {
		return f, nil, err
	}
	if short, err = h.tooLarge(c, v, shapes); err != nil || short != nil {
		return f, short, err
	}
	g, free := h.place()
	defer free()
	err = g.parity.run(ctx, c.lost.Swap(false), func(w *worker) (err error) {
		f, short, err = h.delayedLaunches(ctx, w, v, allowed, shapes)
		return err
	})
	if err != nil {
		return evaluator.Findings{}, nil, blame(err, c)
	}
	var names []string
	for _, d := range shapes {
		names = append(names, d.shape.Name)
	}
	f.Ran = fmt.Sprintf("%d launches at each of the shapes %s, with random %s", delayedLaunches, strings.Join(names, ", "), built.Delays)
	for line := range strings.Lines(built.Log) {
		if strings.Contains(line, "Potential Performance Loss") {
			f.Ran += "; in this build: " + plain.Line(line)
		}
	}
	return f, short, nil
}

// followed lists the kernels that a dependent one follows at some shape.
func (c *candidate) followed() (list []string) {
	for _, g := range c.geometry {
		for i, k := range g.Then {
			if k.Dependent {
				list = append(list, cmp.Or(g.Kernels()[i].Entry, c.src.Entry))
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// delayerOf assembles a candidate with delays: that of Triton knows the version of its PTX.
func (h *lab) delayerOf(c *candidate) assembler {
	if c.src.Triton != nil {
		return h.triton
	}
	return h.delayer
}

// delayedCandidate is a candidate with delays, for a worker.
func (h *lab) delayedCandidate(c *candidate, built delayedBuild) (*candidate, error) {
	v := &candidate{
		name: c.name + "-delayed", src: c.src, out: built.compiled, hash: cache.Key(schedules, c.hash), arch: c.arch,
		geometry: c.geometry, unsupported: c.unsupported, heap: c.heap,
	}
	v.path = filepath.Join(h.Scratch, fmt.Sprintf("%s-%d.cubin", v.name, h.serial.Add(1)))
	if err := os.WriteFile(v.path, built.Cubin, 0o600); err != nil {
		return nil, err
	}
	runtime.AddCleanup(v, remove, v.path)
	return v, nil
}

// delayedShapes are the sanitize shape, and the largest verify shape that the candidate
// can compute: a small one may end before a pipeline has come round to its first stage.
func (h *lab) delayedShapes(c *candidate) []*shapeData {
	size := func(d *shapeData) (sum int64) {
		for _, n := range d.wire.Elements {
			sum += n
		}
		return sum
	}
	list := []*shapeData{h.problem.Sanitize}
	var large *shapeData
	for _, d := range h.problem.Verify {
		if c.unsupported[d] == "" && (large == nil || size(d) > size(large)) {
			large = d
		}
	}
	if large != nil && size(large) > size(h.problem.Sanitize) {
		list = append(list, large)
	}
	return list
}

// tooLarge says that a block with delays does not fit where one without did, or that
// blocks that wait for one another no longer fit all at once. Neither is a fault of the
// candidate.
func (h *lab) tooLarge(c, v *candidate, shapes []*shapeData) (short *shortage, err error) {
	if _, ok := h.delayerOf(c).(driver); ok {
		return nil, nil // it says so when it is to launch
	}
	dev := h.gpus[0].device
	share := func(of *candidate, entry string, g wire.Geometry) (float64, int64, error) {
		var r resources
		if err := r.readCubin(of.out.Cubin, entry); err != nil {
			return 0, 0, err
		}
		share, _ := occupancy(g.Block[0]*g.Block[1]*g.Block[2], r.registers, r.shared+g.Shared, int64(dev.ThreadsSM), int64(dev.RegistersSM), dev.SharedOptin+1<<10)
		return share, r.registers, nil
	}
	for _, d := range shapes {
		for _, g := range c.geometry[d].Kernels() {
			entry := cmp.Or(g.Entry, c.src.Entry)
			before, took, err := share(c, entry, g)
			if err != nil {
				return nil, err
			}
			after, takes, err := share(v, entry, g)
			if err != nil {
				return nil, err
			}
			if (before > 0 && after == 0 || g.Cooperative && after < before) && (short == nil || took < short.registers) {
				short = &shortage{fmt.Sprintf("with delays %s takes %d registers for each thread, and fewer blocks fit", entry, takes), took}
			}
		}
	}
	return short, nil
}

// noRoom are the driver's words where what parity has launched no longer fits. Delays took
// the room.
var noRoom = []string{"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "CUDA_ERROR_INVALID_CLUSTER_SIZE"}

// delayedLaunches has a worker compare the launches at each shape. The lab's limit bounds
// them, and not the judge's: it knows how long the baseline takes without delays.
func (h *lab) delayedLaunches(ctx context.Context, w *worker, c *candidate, allowed *evaluator.Allowance, shapes []*shapeData) (f evaluator.Findings, short *shortage, err error) {
	loaded, err := h.load(ctx, w, c)
	if err != nil {
		return f, nil, err
	}
	if loaded.Fault != nil {
		f.NotRun = "its code with delays cannot be loaded: " + faultText(loaded.Fault)
		return f, nil, nil
	}
	w.had(c)
	defer h.unload(w, c)
	f.Observed = map[string]evaluator.Observation{}
	for _, d := range shapes {
		a, silent, err := h.compareIn(ctx, w, c, d, wire.ParityRequest{Repeat: delayedLaunches})
		if err != nil || silent != "" {
			return evaluator.Findings{NotRun: silent}, nil, err
		}
		if a.Fault != nil && !a.Fault.Fatal && slices.Contains(noRoom, a.Fault.Name) {
			return evaluator.Findings{}, &shortage{why: "with delays it does not fit: " + faultText(a.Fault)}, nil
		}
		if a.Fault != nil {
			w.dead = w.dead || a.Fault.Fatal
			return f, nil, w.faulted(a.Fault)
		}
		if err := allowed.Spend(time.Duration(a.ElapsedNS)); err != nil {
			return f, nil, err
		}
		f.Observed[d.shape.Name] = h.observedTwice(a)
	}
	return f, nil, nil
}

// compareIn has a worker compare a loaded candidate with the reference on the first contents of a shape, as a request says that
// lacks all of this. Silent says why there is nothing to compare with.
func (h *lab) compareIn(ctx context.Context, w *worker, c *candidate, d *shapeData, r wire.ParityRequest) (a wire.ParityAnswer, silent string, err error) {
	limit, seed := toolPatience*h.options.Timeout, h.problem.seedOf(0)
	r.Binary, r.Geometry, r.Shape, r.Seed, r.TimeoutNS = c.name, c.geometry[d], d.wire, seed, limit.Nanoseconds()
	if r.Shape.Outputs, err = h.expect(ctx, w, r.Shape, seed, nil); err != nil {
		return a, "", err
	}
	if silent, err = h.prepareShape(ctx, w, r.Shape, seed); err != nil || silent != "" {
		return a, silent, err
	}
	return a, "", w.call(ctx, limit, wire.Parity, r, &a)
}
