package evaluator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/evotune/evotune/kernels"
)

// A Lab builds, runs and measures candidates on one kind of device for one
// Plan, and reports what it saw. It never judges: only the [Ordeal] decides which
// observation fails a candidate, in the same way for every lab.
// Methods are safe for concurrent use. An error is a failure of evotune or the machine,
// a [*Fault], with which a candidate ended its own run, or a [*Lost].
type Lab interface {
	Describe() Description
	// Build compiles a rendered source. The report says what the compiler refused. The
	// Artifact is valid until the Lab is closed.
	Build(ctx context.Context, src kernels.Rendered) (Artifact, BuildReport, error)
	// Baseline builds what candidates are compared with at a shape. Baselines
	// with the same hash are one baseline, which is proven at all of its shapes.
	Baseline(ctx context.Context, s kernels.Shape) (Artifact, BuildReport, error)
	// Control compares a wrong answer with the reference, on the first contents
	// of the inputs. It gives no outputs at a shape where the wrong answer cannot
	// be made, such as two swapped inputs of different sizes. Of [kernels.Returned] it gives
	// the one output, and of [kernels.LeftOut] those that differ, or all if none does.
	Control(ctx context.Context, c kernels.Control, s kernels.Shape) ([]Output, error)
	// Inspect reads the machine code. Patterns are those that will be matched against
	// the instructions.
	Inspect(ctx context.Context, a Artifact, patterns []*regexp.Regexp) (Inspection, error)
	// Sanitizers lists the tools that Launch takes: those that work here.
	Sanitizers() []string
	// Launch runs the artifact under a tool, at the shape that a search launches it at (see
	// Artifact) or at another sanitize shape. The findings say if it ran at other shapes:
	// Schedules has shapes of its own, and is requested once.
	Launch(ctx context.Context, a Artifact, tool string, s kernels.Shape) (Findings, error)
	// Open starts the processes that a purpose needs, with the artifacts loaded.
	// A timing session has the device to itself until it is closed.
	Open(ctx context.Context, p Purpose, artifacts ...Artifact) (Session, error)
	// Peaks returns the device's ceilings: the known ones or, with again set, the
	// larger of these and of a new measurement. No session may be open during the call.
	Peaks(ctx context.Context, again bool) (Peaks, error)
	// Conditions says what disturbs measurements on the machine now.
	Conditions(ctx context.Context) Conditions
	// Recall says whether Remember was called with the key, in this process or
	// in an earlier one. A Lab's cache may drop keys.
	Recall(key string) bool
	Remember(key string)
	// Close ends every process. Calls that wait return ErrClosed.
	Close() error
}

// A Purpose says what a session is opened for.
type Purpose int

const (
	// ForParity is for one artifact, beside other sessions and compilers.
	ForParity Purpose = iota
	// ForTiming is for one artifact at the tuned shapes, alone on the device.
	ForTiming
	// ForFinals is for several artifacts at the tuned and the held-out shapes, alone
	// on the device, in processes that have seen nothing else, the baseline's too.
	ForFinals
)

// A Session is a set of processes with loaded artifacts. It is for one
// goroutine.
type Session interface {
	// Compare launches the session's only artifact twice on the same inputs, once with
	// poisoned outputs and once with outputs that hold other numbers. The outputs of
	// the poisoned launch are compared. On edge-case contents there is no other launch.
	Compare(ctx context.Context, r CompareRequest) (Observation, error)
	// Sample times every artifact of the session, and the baseline beside each,
	// round by round in random order. What was prepared for a shape is kept
	// until another shape is requested.
	Sample(ctx context.Context, r SampleRequest) (Sampled, error)
	// Close ends the session. The fault of the only artifact of a session is a
	// *Fault: a process that ends with a status, or leaves others behind.
	Close() ([]Evidence, error)
}

// A CompareRequest asks for one comparison with the reference.
type CompareRequest struct {
	Shape kernels.Shape
	// Contents numbers the declared contents of the inputs: 0, 1, ...
	Contents int
	// Further names edge-case contents instead, of [kernels.Problem.Further]. Labs
	// have them at all shapes that they do not time.
	Further string
	// Limit bounds one launch. Zero leaves it to the lab's own timeout, which
	// is never exceeded.
	Limit time.Duration
}

// A SampleRequest asks for rounds of timing at one shape.
type SampleRequest struct {
	Shape  kernels.Shape
	Rounds int
	// Batch is the minimum duration of one reading.
	Batch time.Duration
	// Limit bounds one batch, as in CompareRequest.
	Limit time.Duration
	// Within is, by output, the error against the baseline's answer up to which an output is right.
	// Above it, a lab that compares with the baseline compares with the reference.
	Within map[string]float64
	// Last asks for a comparison of all outputs of the launches. A lab
	// that needs launches for it takes one round more than Rounds.
	Last bool
	// Latency also asks for single launches by evotune's clock, if the lab takes them:
	// evidence for candidates that may be the best.
	Latency bool
	// Longer asks, with Last, for more launches and another comparison of a contender with few
	// timed launches, in labs where that takes long. It is set for finalists and candidates that
	// may be the best so far.
	Longer bool
	// Pool asks for the contents of an earlier session, as in Sampled. Set is the number of the
	// finals' set of processes. Both are the same in all requests of a session.
	Pool string
	Set  int
}

// An Artifact is a compiled candidate or baseline.
type Artifact struct {
	// Hash is the SHA-256 (hex) of the code that is timed: with equal hashes, two
	// genomes compile to one binary.
	Hash string
	// Key identifies everything that could change the result (SHA-256, hex).
	Key string
	// Source is what it was built from. A baseline from a vendor's library
	// has none: its Implementation is nil.
	Source kernels.Rendered
	// Threads is how many threads it declares; zero on devices that do not
	// count them.
	Threads int
	// Unsupported says, by the name of a shape, why it cannot be run there.
	Unsupported map[string]string
	// Sanitize is the shape at which a search launches it under tools; the zero Shape
	// means the plan's. A shape of its own is smaller, and not one of the plan.
	Sanitize kernels.Shape
	// Allowed bounds all launches of a candidate together. The judge makes it, and the lab tells it how long
	// launches took, and returns the Fault when that is too long; at best it ends the launch in which the time
	// is over.
	Allowed *Allowance
	// Handle is for the lab only.
	Handle any
}

// A BuildReport is what the compiler said.
type BuildReport struct {
	// Refused is one line: why there is no artifact. Log is the whole output.
	Refused string
	Log     string
	// Geometry says why the artifact cannot be launched as its definition wants.
	Geometry string
	// Bytes is the size of the binary.
	Bytes int
}

// A Fault is how a candidate ended its own run. It is an error so that it ends
// the current operation; it is not a failure of the machine.
type Fault struct {
	// Hang says that it did not answer in time; else it crashed, exited, was
	// killed by a limit, or did what candidates may not do.
	Hang bool
	// Wrote says that it wrote to an input, or beside one, where it may only read. That
	// counts as a wrong answer.
	Wrote bool
	// Reason is one line; Log is what it wrote.
	Reason string
	Log    string
}

func (f *Fault) Error() string { return f.Reason }

// Lost is the end of a process whose cause is unknown: the candidate in it, the driver,
// or something that kills processes on this machine.
type Lost struct {
	Reason string
	Log    string
}

func (l *Lost) Error() string { return l.Reason }

// An Output compares what a candidate wrote with what is right.
type Output struct {
	Name string
	// Error is max|output - reference| / RMS(reference); Worst is where, with
	// both values. On edge-case contents it is what exceeds the slack, the distance
	// from the reference that honest answers may have: how far the reference moves when
	// every input moves by some thirty roundings of single precision (see
	// [kernels.Buffer.Nearby]), plus one rounding of the largest output. There is no
	// slack if the tolerance is zero.
	Error     float64
	Worst     int64
	Got, Want float64
	// NotFinite counts elements that are NaN or infinite where the reference
	// is finite; Unwritten those that are wrong and still hold the poison.
	NotFinite, Unwritten int64
	// Elements is how many there are. All are compared except Skipped elements, which
	// the reference leaves unwritten where the definition allows that. Surplus is how
	// many of the skipped ones were written.
	Elements, Skipped, Surplus int64
}

// An Observation is what a lab saw after launches.
type Observation struct {
	// NotCompared says why nothing was compared and the other fields are empty: the
	// reference has no finite answer to edge-case contents.
	NotCompared string
	Outputs     []Output
	// Edges are the edge-case contents that were used among timed launches and compared; Wrong
	// says what is wrong with one of these launches.
	Edges []string
	Wrong string
	// Contents names inputs of which all timed launches had a few contents, and says how many; "" if
	// each launch had its own.
	Contents string
	// AgainstBaseline says that the outputs were compared with the baseline's answer,
	// which has an error of its own, and not with the reference.
	AgainstBaseline bool
	// Guard says where memory outside of the buffers was changed, InputChanged
	// which input was and where: "" when nothing was.
	Guard        string
	InputChanged string
	// Different says how a second launch's answer differs from the first's by more than
	// the definition allows, which is usually nothing.
	Different string
	// Repeats says how far later answers were from the first if the definition allows a
	// difference; "" if it does not.
	Repeats string
	// Threads is how many threads were running when the launches were over.
	Threads int
	// Elapsed is what one launch took; the shorter of two.
	Elapsed time.Duration
}

// An Inspection is what can be read from a binary without running it.
type Inspection struct {
	// Refused says why there is nothing to inspect, such as a missing entry function.
	Refused  string
	Measures []Measure
	// Instructions is nil when NotCounted says why they could not be counted.
	Instructions Instructions
	NotCounted   string
}

// A Measure is one number read from a binary.
type Measure struct {
	Check        string
	Value        float64
	Unit, Detail string
	// Bound names the bound of the definition that the value must keep to.
	Bound Bound
	// NotRead says why there is no value.
	NotRead string
}

// A Bound names a field of [kernels.Binary].
type Bound int

// The bounds. LocalMemory allows none where the definition allows no stack.
const (
	Unbound Bound = iota
	MaxStack
	MaxRegisters
	MaxSpill
	LocalMemory
)

// Instructions counts the instructions of a binary by mnemonic.
type Instructions map[string]int

// Matching counts the instructions whose mnemonic matches; example is the
// alphabetically first of these mnemonics.
func (c Instructions) Matching(re *regexp.Regexp) (n int, example string) {
	for m, count := range c {
		if re.MatchString(m) {
			n += count
			if example == "" || m < example {
				example = m
			}
		}
	}
	return n, example
}

// Top lists the most frequent mnemonics, each with its count; most limits how many.
func (c Instructions) Top(most int) string {
	names := slices.SortedFunc(maps.Keys(c), func(a, b string) int { return cmp.Or(c[b]-c[a], strings.Compare(a, b)) })
	var words []string
	for _, m := range names[:min(most, len(names))] {
		words = append(words, fmt.Sprintf("%s %d", m, c[m]))
	}
	return strings.Join(words, ", ")
}

// Total is the number of instructions.
func (c Instructions) Total() (n int) {
	for _, count := range c {
		n += count
	}
	return n
}

// Findings is what a launch under a sanitizer showed.
type Findings struct {
	// NotRun says why the tool could not be run on this artifact.
	NotRun string
	// NotNeeded says why the tool could find nothing: the check passes.
	NotNeeded string
	// Ran says what was launched, if that was not one launch of a build of its own at
	// the requested shape.
	Ran string
	// By names the check that found something, which may be one of several in
	// the tool, and Found is its first finding in one line; "" when it found
	// nothing.
	By, Found string
	Log       string
	// Outputs are compared with the reference, where the lab can.
	Outputs []Output
	// Observed is what launches of a build of its own left, by the name of a shape. It
	// is judged as in parity.
	Observed map[string]Observation
	// Also lists checks of the same tool that passed, such as ubsan in asan.
	Also    []string
	Elapsed time.Duration
}

// Sampled is what a session timed.
type Sampled struct {
	// Series has one entry for each artifact of the session, in order.
	Series []Series
	// Conditions is what else happened meanwhile.
	Conditions Conditions
	// Pool is the seed of the contents that the session launches on: drawn in secret,
	// so that no candidate knows it while it runs.
	Pool string
	// Making is how long the lab made contents while other work ran on cores that the session
	// left: without that work it takes less, so it does not count against Plan.SampleTime.
	Making time.Duration
}

// A Series is one contender's readings. Entry i of Readings and of Baseline
// were taken back to back, or in one round.
type Series struct {
	Readings, Baseline []Reading
	// Batch and BaselineBatch are the launches of a reading.
	Batch, BaselineBatch int
	// Sets is how many sets of buffers the launches went through.
	Sets int
	// After is what the launches left: the worst of all comparisons.
	// Outputs is empty when nothing was compared yet.
	After Observation
	// Fault is how the contender ended its part: a *Fault, or nil. Its artifact
	// takes no further part in the session.
	Fault *Fault
	// LatencyNS are single launches by evotune's clock, where the lab takes them.
	LatencyNS []float64
}

// A Reading is one timed batch. Times are nanoseconds.
type Reading struct {
	// NS is the time of one launch as the device or the harness claims it. On a
	// CPU the candidate shares the harness's memory and may forge it.
	NS float64
	// WallNS is the whole batch by a clock that the candidate cannot reach,
	// from before it was started until its end was known.
	WallNS float64
	// CPUNS is the processor time of the candidate's process meanwhile; zero
	// where it runs on another device. WaitedNS is how long the process that ran
	// or launched it was ready to run but had no core, Preempted how often it lost a
	// core.
	CPUNS     float64
	WaitedNS  float64
	Preempted int
}

// Peaks are the ceilings of a device.
type Peaks struct {
	// Rates are operations and bytes per second, as in [Device.Peaks].
	Rates map[string]float64
	// CacheBytes is the size of the last-level cache, Cores how many threads
	// run at once (CPUs only).
	CacheBytes int64
	Cores      int
}

// Reach is the check for code that sanitizers have not seen: [NotRun] when some code is
// reached only at other shapes than theirs.
const Reach = "reach of the sanitizers"

// SanitizeShapes is the check of the shapes that sanitizers ran at: [NotRun] in a search
// that launches a genome at a shape of its own, and passed in finals, which run at all
// shapes of the definition.
const SanitizeShapes = "sanitize shapes"

// A Profiler is a Lab that looks more closely at finalists.
type Profiler interface {
	// Profile reads the hardware counters of one launch, or says which code no
	// sanitizer has seen; nothing when that is off. The device must not be in use.
	Profile(ctx context.Context, a Artifact) ([]Evidence, error)
}
