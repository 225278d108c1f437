package ptx

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A site says where delays go around an instruction at which threads of a kernel, and
// the copies that they have begun, wait for one another.
type site struct {
	// stem is how its mnemonic begins, up to a dot or its end.
	stem          string
	before, after bool
}

// sites has the more special before the general. Nothing is put around the products
// between wgmma.fence and wgmma.commit_group, where ptxas would no longer keep them in one
// queue.
var sites = []site{
	{"mbarrier.pending_count", false, false},
	{"mbarrier", true, true},
	{"cp.async.ca", false, false}, // what waits for them tells
	{"cp.async.cg", false, false},
	{"cp.async", true, true},
	{"cp.reduce.async", true, true},
	{"st.async", true, true},
	{"red.async", true, true},
	{"wgmma.fence.sync", true, false},
	{"wgmma.commit_group", false, true},
	{"wgmma.wait_group", true, true},
	{"barrier", true, true},
	{"bar", true, true},
	{"setmaxnreg", true, true},
	{"fence.proxy", true, true},
	{"fence.mbarrier_init", true, true},
	{"fence.sc", true, true},
	{"fence.acq_rel", true, true},
	{"fence.acquire", true, true},
	{"fence.release", true, true},
	{"membar", true, true},
	{"griddepcontrol", true, true},
	{"elect", false, true}, // roles are chosen
	{"atom", true, true},   // locks and semaphores
	{"red", true, true},
	{"ld.acquire", true, true},
	{"ld.relaxed", true, true},
	{"st.release", true, true},
	{"st.relaxed", true, true},
	{"mapa", false, true}, // another block's shared memory
}

// store is where a result becomes visible to other blocks: nothing but a delay before it
// shows that two of them read, change and write one element.
var store = site{"st.global", true, false}

// siteOf finds the site of a mnemonic; kind is what it is counted as.
func siteOf(mnemonic string) (s site, kind string) {
	for _, s := range sites {
		if Begins(mnemonic, s.stem) {
			kind, _, _ = strings.Cut(mnemonic, ".")
			return s, kind
		}
	}
	return site{}, ""
}

// Begins says whether a mnemonic begins with a stem, up to a dot or its end.
func Begins(mnemonic, stem string) bool {
	rest, ok := strings.CutPrefix(mnemonic, stem)
	return ok && (rest == "" || rest[0] == '.')
}

// A Delayed is PTX with delays in it.
type Delayed struct {
	Text string
	// delays is how many there are; kinds counts the instructions around which they
	// are, of sites in all.
	delays, sites int
	kinds         map[string]int
	// early are the kernels in which the next may begin at once, spoiled is how many bulk copies find
	// something else where they write to.
	early   []string
	spoiled int
	// Mnemonics are those of the whole module.
	Mnemonics map[string]bool
}

// String tells of the delays for people.
func (d Delayed) String() string {
	var list []string
	around := 0
	for _, kind := range slices.Sorted(maps.Keys(d.kinds)) {
		list = append(list, fmt.Sprintf("%s %d", kind, d.kinds[kind]))
		around += d.kinds[kind]
	}
	if d.sites == 0 {
		list = append(list, "where its kernels begin and end")
	}
	s := fmt.Sprintf("delays at %d places (%s)", d.delays, strings.Join(list, ", "))
	if around < d.sites {
		s += fmt.Sprintf(", around %d instructions of %d", around, d.sites)
	}
	if d.spoiled > 0 {
		s += fmt.Sprintf("; what %d bulk copies overwrite is spoiled before", d.spoiled)
	}
	if len(d.early) > 0 {
		s += "; the next kernel may begin at once, and before the work, of " + strings.Join(d.early, ", ")
	}
	return s
}

// ErrNoDelay is returned for PTX in which no delay is where one should be.
var ErrNoDelay = errors.New("there is no delay around any of its barriers, copies and atomics")

// Version identifies what Delay inserts, for keys of caches; stores is Delay's.
func Version(stores bool) string {
	v := fmt.Sprint(delayBlock(0), spoilBlock(aCopy, "cp.async.bulk"), earlyBlock, sites)
	if stores {
		v += fmt.Sprint(store)
	}
	return v
}

// Delay inserts random delays into PTX: where a kernel begins and ends, and before and
// after the instructions of sites, or of those that choose takes of so many. They compute
// nothing that the kernel uses, so that a correct kernel gives what it gave. Stores says
// that they are before what writes to global memory, too. Early names kernels that a dependent one follows: it may
// begin as soon as all of their blocks have, and they begin their work when it has had its time. Where bulk copies
// write to, there is something else before. The error is an *UnawaitedError where a kernel waits for none of them.
func Delay(ptx string, stores bool, early []string, choose func(sites int) []bool) (Delayed, error) {
	at := func(mnemonic string) (site, string) {
		s, kind := siteOf(mnemonic)
		if stores && kind == "" && Begins(mnemonic, store.stem) {
			return store, store.stem
		}
		return s, kind
	}
	statements, err := Statements(ptx)
	if err != nil {
		return Delayed{}, err
	}
	if err := unawaited(statements); err != nil {
		return Delayed{}, err
	}
	d := Delayed{kinds: map[string]int{}, Mnemonics: map[string]bool{}}
	queued := queuedFences(statements)
	for i, s := range statements {
		d.Mnemonics[s.Mnemonic] = true
		if p, _ := at(s.Mnemonic); (p.before || p.after) && !queued[i] {
			d.sites++
		}
	}
	var chosen []bool
	if choose != nil {
		chosen = choose(d.sites)
	}
	var out strings.Builder
	copied := 0
	// fresh says that there is a delay with no instruction after it. Two in a row are
	// as good as one.
	fresh := false
	put := func(at int) {
		if fresh {
			return
		}
		out.WriteString(ptx[copied:at])
		copied = at
		d.delays++
		out.WriteString(delayBlock(d.delays))
		fresh = true
	}
	function, site := 0, 0
	for i, s := range statements {
		p, kind := at(s.Mnemonic)
		if s.function != function {
			function, fresh = s.function, false
			if s.entry && slices.Contains(early, s.name) {
				out.WriteString(ptx[copied:s.start] + earlyBlock)
				copied = s.start
				d.early = append(d.early, s.name)
			}
			if s.entry {
				put(s.start)
			}
		}
		if block := spoilBlock(ptx[s.start:s.end], s.Mnemonic); block != "" {
			out.WriteString(ptx[copied:s.start] + block)
			copied = s.start
			d.spoiled++
		}
		taken := (p.before || p.after) && !queued[i]
		if taken {
			taken = chosen == nil || chosen[site]
			site++
		}
		ends := s.entry && (s.Mnemonic == "ret" || s.Mnemonic == "exit")
		if taken && p.before || ends {
			put(s.start)
		}
		if taken {
			d.kinds[kind]++
		}
		fresh = false
		if taken && p.after {
			put(s.end)
		}
	}
	out.WriteString(ptx[copied:])
	d.Text = out.String()
	if d.sites > 0 && len(d.kinds) == 0 {
		return Delayed{}, ErrNoDelay
	}
	return d, nil
}

const (
	wgmmaFence  = "wgmma.fence.sync"
	wgmmaCommit = "wgmma.commit_group.sync"
)

// queuedFences finds each wgmma.fence between products of one group: there is one before it
// and a commit after it, with nothing between that threads could wait at or jump to. All
// others get delays, whatever fence stands before them.
func queuedFences(statements []Statement) []bool {
	queued := make([]bool, len(statements))
	fence := false
	for i, s := range statements {
		p, _ := siteOf(s.Mnemonic)
		if i > 0 && s.function != statements[i-1].function || s.label {
			fence = false
		}
		if strings.HasPrefix(s.Mnemonic, wgmmaFence) {
			queued[i], fence = fence, true
		} else if p.before || p.after || jumps(s.Mnemonic) {
			fence = false
		}
	}
	commit := false
	for i, s := range slices.Backward(statements) {
		p, _ := siteOf(s.Mnemonic)
		if i+1 < len(statements) && s.function != statements[i+1].function {
			commit = false
		}
		switch {
		case strings.HasPrefix(s.Mnemonic, wgmmaFence):
			queued[i] = queued[i] && commit
		case strings.HasPrefix(s.Mnemonic, wgmmaCommit):
			commit = true
		case p.before || p.after || jumps(s.Mnemonic):
			commit = false
		}
		commit = commit && !s.label
	}
	return queued
}

// jumps says whether control may leave the order of the text at an instruction.
func jumps(mnemonic string) bool {
	stem, _, _ := strings.Cut(mnemonic, ".")
	return slices.Contains([]string{"bra", "brx", "call", "ret", "exit", "trap"}, stem)
}

// An UnawaitedError names a kernel that never waits for copies that it begins.
type UnawaitedError struct{ kernel, copies, wait string }

func (e *UnawaitedError) Error() string {
	return fmt.Sprintf("nothing in %s waits for its bulk copies (%s): there is no %s", e.kernel, e.copies, e.wait)
}

// completions are the ways to be told that bulk copies have ended: what the mnemonic of a copy has, and
// instructions of which a kernel needs one of each.
var completions = []struct {
	copies string
	waits  [][]string
}{
	{"mbarrier::complete_tx", [][]string{{"mbarrier.try_wait", "mbarrier.test_wait"}}},
	{"bulk_group", [][]string{{"cp.async.bulk.commit_group"}, {"cp.async.bulk.wait_group"}}},
}

// unawaited looks for a kernel that begins bulk copies and waits for none, whatever else it does: neither
// itself nor, if it calls any, in another function.
func unawaited(statements []Statement) error {
	type function struct {
		entry, calls bool
		name         string
		mnemonics    []string
	}
	var all []*function
	var called []string // what functions have that kernels may call
	last := -1
	for _, s := range statements {
		if s.function != last {
			all, last = append(all, &function{entry: s.entry, name: s.name}), s.function
		}
		f := all[len(all)-1]
		f.mnemonics = append(f.mnemonics, s.Mnemonic)
		f.calls = f.calls || Begins(s.Mnemonic, "call")
		if !s.entry {
			called = append(called, s.Mnemonic)
		}
	}
	for _, f := range all {
		if !f.entry {
			continue
		}
		has := f.mnemonics
		if f.calls {
			has = slices.Concat(has, called)
		}
		for _, c := range completions {
			copies := slices.IndexFunc(has, func(m string) bool {
				return strings.Contains(m, "async") && strings.Contains(m, c.copies)
			})
			for _, stems := range c.waits {
				if copies >= 0 && !slices.ContainsFunc(has, func(m string) bool {
					return slices.ContainsFunc(stems, func(stem string) bool { return Begins(m, stem) })
				}) {
					return &UnawaitedError{f.name, has[copies], strings.Join(stems, " or ")}
				}
			}
		}
	}
	return nil
}

// loading matches bulk copies to shared memory with their destination and, of those that no tensor map describes,
// their size.
var loading = regexp.MustCompile(`^(?:@(!?[\w$%]+)\s+)?cp\.async\.bulk(?:\.tensor\.\dd)?\.shared::(?:cluster|cta)\.\S*\s*\[\s*([\w$%]+(?:\s*\+\s*\d+)?)\s*\]\s*,\s*\[[^\[\]]*\]\s*,\s*([\w$%]+)?`)

// aCopy is a copy that spoilBlock takes.
const aCopy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16, [%r2];"

// spoilBlock writes NaN to the first 16 bytes that a bulk copy to shared memory will overwrite, "" for another
// statement. The copy may write there at once: whoever reads before it has, without waiting for it, must not find
// what was right in the launch before.
func spoilBlock(statement, mnemonic string) string {
	if !Begins(mnemonic, "cp.async.bulk") {
		return ""
	}
	m := loading.FindStringSubmatch(statement)
	if m == nil {
		return ""
	}
	guard, to, size := m[1], m[2], m[3]
	if Begins(mnemonic, "cp.async.bulk.tensor") {
		size = "1"
	}
	if size == "" {
		return ""
	}
	condition := "setp.ne.u32 evotune_copies, evotune_size, 0;"
	if guard != "" {
		condition = fmt.Sprintf("setp.ne.and.u32 evotune_copies, evotune_size, 0, %s;", guard)
	}
	return fmt.Sprintf(`
{ // spoiled
.reg .pred evotune_copies;
.reg .b32 evotune_size, evotune_nan;
mov.b32 evotune_size, %s;
mov.b32 evotune_nan, 0x7fffffff;
%s
@evotune_copies st.shared::cluster.v4.b32 [%s], {evotune_nan, evotune_nan, evotune_nan, evotune_nan};
@evotune_copies fence.proxy.async;
}
`, size, condition, to)
}

// earlyBlock lets the next kernel begin when all blocks of this one are here, and waits for some 30 us: one that does
// not wait for this kernel's end has computed from what was there before.
const earlyBlock = `
{ // the next may begin
.reg .pred evotune_wait;
.reg .b32 evotune_a, evotune_b;
griddepcontrol.launch_dependents;
mov.u32 evotune_a, %clock;
evotune_again:
nanosleep.u32 1000;
mov.u32 evotune_b, %clock;
sub.u32 evotune_b, evotune_b, evotune_a;
setp.lt.u32 evotune_wait, evotune_b, 60000;
@evotune_wait bra evotune_again;
}
`

// delayBlock is one delay: none in seven cases of eight, otherwise 0.1 to 16 us, of which
// nanosleep makes up to twice as much. The clock makes every launch another schedule.
// All threads of a warp that are here together wait alike: what follows may want a
// converged warp, so the length depends on nothing of the thread's own.
func delayBlock(number int) string {
	return fmt.Sprintf(`
{ // a delay
.reg .pred evotune_wait;
.reg .b32 evotune_a, evotune_b;
mov.u32 evotune_a, %%clock;
mov.u32 evotune_b, %%warpid;
mad.lo.u32 evotune_a, evotune_b, 0x9e3779b1, evotune_a;
xor.b32 evotune_a, evotune_a, 0x%08x;
mul.lo.u32 evotune_a, evotune_a, 0x85ebca6b;
shr.u32 evotune_b, evotune_a, 15;
xor.b32 evotune_a, evotune_a, evotune_b;
mul.lo.u32 evotune_a, evotune_a, 0xc2b2ae35;
shr.u32 evotune_b, evotune_a, 29;
setp.eq.u32 evotune_wait, evotune_b, 0;
bfe.u32 evotune_a, evotune_a, 24, 3;
shl.b32 evotune_a, 128, evotune_a;
@evotune_wait nanosleep.u32 evotune_a;
}
`, uint32(number)*0x27d4eb2f)
}
