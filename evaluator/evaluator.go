package evaluator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/kernels"
)

// A Verdict says how the ordeal ended for one candidate. The set is closed:
// scripts and stores rely on it.
type Verdict string

// The verdicts, in the order of the stages that give them.
const (
	// Correct: every stage passed; the candidate has a fitness, unless the plan
	// says [Plan.Debug].
	Correct Verdict = "correct"
	// Slower: it passed parity, and its first readings are far slower than the best that was
	// known, so it was not sanitized (see [Plan.Contenders]). It has a fitness for the
	// search to learn, and is never a result: nothing shows that it is right.
	Slower Verdict = "slower"
	// Infeasible: the genome breaks a constraint of its space.
	Infeasible Verdict = "infeasible"
	// Render: the template could not be filled (a missing key, a bad pipeline).
	Render Verdict = "render"
	// Compile: the compiler refused it, or gave a blocking diagnostic.
	Compile Verdict = "compile"
	// Inspect: the binary lacks a required feature or shows a forbidden one.
	Inspect Verdict = "inspect"
	// Launch: the candidate crashed, exited, was killed by a limit, or left
	// processes behind.
	Launch Verdict = "launch"
	// Timeout: the candidate did not answer within its deadline.
	Timeout Verdict = "timeout"
	// Parity: the output differs from the reference, is not finite, is not
	// written, is not deterministic, or memory outside the output was changed.
	Parity Verdict = "parity"
	// Sanitizer: a sanitizer found a fault.
	Sanitizer Verdict = "sanitizer"
	// Implausible: the candidate is faster than the device can be, or its
	// clock disagrees with the harness's; never a record.
	Implausible Verdict = "implausible"
	// Infrastructure: evotune or the machine failed, not the candidate. It is
	// retried and never counted against the candidate.
	Infrastructure Verdict = "infrastructure"
)

// Verdicts lists every verdict in the order in which reports print them.
func Verdicts() []Verdict {
	return []Verdict{
		Correct, Slower, Infeasible, Render, Compile, Inspect, Launch, Timeout,
		Parity, Sanitizer, Implausible, Infrastructure,
	}
}

// A Stage is one step of the ordeal.
type Stage string

// The stages in the order in which a candidate meets them.
const (
	StageRender    Stage = "render"
	StageCompile   Stage = "compile"
	StageInspect   Stage = "inspect"
	StageParity    Stage = "parity"
	StageSanitize  Stage = "sanitize"
	StageBenchmark Stage = "benchmark"
	// StageFinals is not a stage of a candidate: it reports progress in the finals.
	StageFinals Stage = "finals"
)

// Stages lists the stages in their order.
func Stages() []Stage {
	return []Stage{StageRender, StageCompile, StageInspect, StageParity, StageSanitize, StageBenchmark}
}

// An Evaluator judges genomes. A failed candidate is a Result with a verdict;
// an error means that evotune or the machine failed, or that ctx ended.
// Evaluate is safe for concurrent use.
type Evaluator interface {
	// Describe says what the results depend on. It does not change during the
	// life of the evaluator.
	Describe() Description
	// Evaluate runs the ordeal. incumbent is the best fitness known so far, or
	// zero when there is none: a benchmark may stop early once the candidate is
	// clearly slower, and with [Plan.Contenders] it may not be sanitized then.
	Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (Result, error)
	// Finals measures the finalists again in fresh processes, interleaved and
	// in random order, and tests the winner against runner-up and baseline.
	// The finalists come best first. At least one is required. If the context has an
	// [End], they end by then, with as many of the finalists as there is time for: the
	// others have the verdict Infrastructure and [TimeOver] in their reason.
	Finals(ctx context.Context, finalists []genome.Genome) (Finals, error)
	// Close ends every process that the evaluator holds.
	Close() error
}

// A Description says where and with what results were made.
type Description struct {
	Backend string `json:"backend"`
	Device  Device `json:"device"`
	// Kernel and Shapes name the problem; Implementations those in the space.
	Kernel          string   `json:"kernel"`
	Implementations []string `json:"implementations,omitempty"`
	Shapes          []string `json:"shapes"`
	// Verified lists the shapes that only parity and finals see.
	Verified []string `json:"verified,omitempty"`
	// Baseline says what speedups are measured against, for people.
	Baseline string `json:"baseline,omitempty"`
	Compiler string `json:"compiler,omitempty"`
	// Native lists the arguments that mean to the compiler what -march=native
	// means on this device; empty when that is not known.
	Native []string `json:"native,omitempty"`
	// Tools lists the sanitizers and inspectors, found or not.
	Tools []Tool `json:"tools,omitempty"`
	// Harness is the version of the harness; results of different versions
	// are never compared.
	Harness string `json:"harness"`
	// Unproven lists the wrong answers that would be taken for correct at the tuned shapes:
	// candidates that are correct there are not proven.
	Unproven []Unproven `json:"unproven,omitempty"`
}

// NotProven says in a few words that candidates are not proven at the tuned shapes; empty if
// they are.
func (d Description) NotProven() string {
	if len(d.Unproven) == 0 {
		return ""
	}
	u := d.Unproven[0]
	where := "here"
	if len(d.Shapes) > 1 {
		where = "at " + u.Shape
	}
	return fmt.Sprintf("not proven: the control %q passes %s", u.Control, where)
}

// An Unproven is a negative control that every definition has, and that would be taken for
// correct.
type Unproven struct {
	Control string `json:"control"` // "work left out", "X returned as Y"
	Shape   string `json:"shape"`
	Output  string `json:"output"`
	// Error is in tolerances: at most 1.
	Error float64 `json:"error"`
}

func (u Unproven) String() string {
	return fmt.Sprintf("the control %q passes at shape %s: output %s is off by %.2g tolerances, so nothing is proven there: lower the tolerance, or change the data or the shape",
		u.Control, u.Shape, u.Output, u.Error)
}

// A Device is what candidates run on. Two results are comparable only when
// their devices have the same Fingerprint.
type Device struct {
	// Name is the vendor's name for it: "AMD EPYC 9654", "NVIDIA H200".
	Name string `json:"name"`
	// Kind is "cpu", "cuda" or "recorded".
	Kind string `json:"kind"`
	// Fingerprint is a short hash over all that identifies the device.
	Fingerprint string `json:"fingerprint"`
	// Facts holds what is known about it: cores, caches, instruction sets, driver.
	Facts map[string]string `json:"facts,omitempty"`
	// Peaks are the measured ceilings: "f32" and "f64" in FLOP/s per thread
	// count ("f32/1", "f32/2"), "memory" in bytes/s, "llc" in bytes/s.
	Peaks map[string]float64 `json:"peaks,omitempty"`
}

// A Tool is a program that a stage relies on.
type Tool struct {
	Name    string `json:"name"`
	Path    string `json:"path,omitempty"`
	Version string `json:"version,omitempty"`
	// Missing says what is lost without the tool, and how to install it; empty
	// when it was found and works.
	Missing string `json:"missing,omitempty"`
}

// A Result is all that the ordeal learned about one candidate.
type Result struct {
	Verdict Verdict `json:"verdict"`
	// Stage is the stage that gave the verdict.
	Stage Stage `json:"stage"`
	// Reason is one line for people; empty for Correct.
	Reason string `json:"reason,omitempty"`
	// Fitness is the geometric mean over the tuned shapes of candidate time
	// over baseline time; smaller is better; 0 unless the verdict is Correct or Slower.
	Fitness float64 `json:"fitness,omitempty"`
	// Cost is what the evaluation took: wall time, or recorded time on replay.
	Cost time.Duration `json:"cost_ns"`
	// Steps has one entry for each stage that was reached, in the order in which they
	// were: with [Plan.Contenders], a benchmark that begins before the sanitizers run
	// comes before them.
	Steps []Step `json:"steps"`
	// Timings has one entry per tuned shape that was benchmarked.
	Timings []Timing `json:"timings,omitempty"`
	// Key identifies everything that could change the result (SHA-256, hex).
	Key string `json:"key,omitempty"`
	// Source and Binary are SHA-256 hashes (hex) of the compiled source and of the
	// resulting binary.
	Source string `json:"source,omitempty"`
	Binary string `json:"binary,omitempty"`
	// Disturbed says in one line what disturbed the measurement so much that it
	// did not settle. The verdict is then [Infrastructure], and the candidate can
	// be measured again when the machine is calm.
	Disturbed string `json:"disturbed,omitempty"`
	// SharedWith names the genome (canonical encoding) whose evaluation this
	// result repeats because both compile to the same binary.
	SharedWith string `json:"shared_with,omitempty"`
	// Host names the worker that evaluated it; empty if evotune did so itself.
	Host string `json:"host,omitempty"`
}

// Step returns the step of a stage, and whether the stage was reached.
func (r Result) Step(stage Stage) (Step, bool) {
	for _, s := range r.Steps {
		if s.Stage == stage {
			return s, true
		}
	}
	return Step{}, false
}

// A Check says how one check of a stage ended. "Not run" is never "passed".
type Check string

// The outcomes of a check.
const (
	Passed Check = "passed"
	Failed Check = "failed"
	NotRun Check = "not run"
)

// A Step records one stage of one candidate.
type Step struct {
	Stage   Stage         `json:"stage"`
	Outcome Check         `json:"outcome"`
	Elapsed time.Duration `json:"elapsed_ns"`
	// Evidence lists what the stage saw, in the order in which it looked.
	Evidence []Evidence `json:"evidence,omitempty"`
}

// Evidence is one observation: a parity error at one shape and seed, a
// sanitizer's outcome, a compiler log, a count of instructions.
type Evidence struct {
	// Check names what was looked at: "parity 1024 seed 1", "asan", "registers".
	Check   string `json:"check"`
	Outcome Check  `json:"outcome"`
	// Value and Limit are set for measured checks (an error and its tolerance).
	Value float64 `json:"value,omitempty"`
	Limit float64 `json:"limit,omitempty"`
	// AtLeast says that Limit is the least allowed, not the most.
	AtLeast bool   `json:"at_least,omitempty"`
	Unit    string `json:"unit,omitempty"`
	// Detail is text: the reason, the log, why the check did not run.
	Detail string `json:"detail,omitempty"`
}

// MachineCode is the check whose detail names the judged code and its launch, so that an
// export can check that it has the same.
const MachineCode = "machine code"

// A Timing holds the samples of one candidate at one shape that count. Samples
// and baseline samples are paired: entry i of both was taken back to back.
type Timing struct {
	Shape string `json:"shape"`
	// SamplesNS and BaselineNS are nanoseconds per launch, one per batch: the claimed
	// time or, if evotune's clock and the operating system's accounting do not confirm
	// it, the time that passed.
	SamplesNS  []float64 `json:"samples_ns"`
	BaselineNS []float64 `json:"baseline_ns"`
	// PerSet is how many of the samples are of each set of processes, in their order; nil
	// where there was one set.
	PerSet []int `json:"per_set,omitempty"`
	// Batch and BaselineBatch are the launches per sample.
	Batch         int `json:"batch"`
	BaselineBatch int `json:"baseline_batch"`
	// MedianNS and BaselineMedianNS are the medians of the samples.
	MedianNS         float64 `json:"median_ns"`
	BaselineMedianNS float64 `json:"baseline_median_ns"`
	// Ratio is the median of the paired ratios candidate/baseline.
	Ratio float64 `json:"ratio"`
	// Spread is the relative interquartile range of the samples.
	Spread float64 `json:"spread"`
	// FloorNS is the shortest time that a launch on this device can take.
	FloorNS float64 `json:"floor_ns,omitempty"`
	// Stopped says why sampling ended: "precise", "slower", "limit".
	Stopped string `json:"stopped"`
	// Discarded counts the pairs that were taken but are not among the samples.
	Discarded int `json:"discarded,omitempty"`
	// Conditions is what else the machine did while this was measured.
	Conditions *Conditions `json:"conditions,omitempty"`
	// Pools are the seeds of the contents that the launches used, one for each set of
	// processes. Each is drawn in secret, and is not part of a result's key.
	Pools []string `json:"pools,omitempty"`
}

// Conditions is what else a machine did during a measurement. A value that could
// not be read is zero.
type Conditions struct {
	// Cores is how many cores a candidate may use at once; zero if unknown.
	Cores int `json:"cores,omitempty"`
	// Steal is the share of the cores' time that the hypervisor gave to others.
	Steal float64 `json:"steal,omitempty"`
	// Busy is the share of the cores' time that other processes used, Pressure
	// the share of the wall time in which some process waited for a core.
	Busy     float64 `json:"busy,omitempty"`
	Pressure float64 `json:"pressure,omitempty"`
	// WaitedNS is how long the measured processes were ready to run but had no core,
	// Preempted how often they lost one.
	WaitedNS  float64 `json:"waited_ns,omitempty"`
	Preempted int     `json:"preempted,omitempty"`
	// ClockMHz and MemoryClockMHz are the device's clocks, PowerWatts and
	// Celsius its power and temperature; Throttle names why its clocks were lowered.
	ClockMHz       int      `json:"clock_mhz,omitempty"`
	MemoryClockMHz int      `json:"memory_clock_mhz,omitempty"`
	PowerWatts     float64  `json:"power_watts,omitempty"`
	Celsius        int      `json:"celsius,omitempty"`
	Throttle       []string `json:"throttle,omitempty"`
	// Others names the other processes that used the device ("python3 (pid
	// 812), 97% of the GPU").
	Others []string `json:"others,omitempty"`
	// OthersShare is the share of the device that the busiest of them used, if
	// that was enough to disturb.
	OthersShare float64 `json:"others_share,omitempty"`
	// Disturbed says in one line, for people, what disturbs measurements now;
	// empty when the machine is calm.
	Disturbed string `json:"disturbed,omitempty"`
	// Unknown says that the lab's own candidates left no time to check the device.
	// Disturbed says so, too.
	Unknown bool `json:"unknown,omitempty"`
}

// Finals is the result of the last comparison of a campaign.
type Finals struct {
	// Entries are in the order of the finalists given.
	Entries []Finalist `json:"entries"`
	// Winner indexes Entries; -1 when no finalist survived the finals.
	Winner int `json:"winner"`
	// VsBaseline and VsRunnerUp test the winner. VsRunnerUp is nil when there
	// was only one finalist.
	VsBaseline *Comparison `json:"vs_baseline,omitempty"`
	VsRunnerUp *Comparison `json:"vs_runner_up,omitempty"`
	// Early is set when the time was over before the finals were complete.
	Early *Early `json:"early,omitempty"`
	// Host names the worker that ran them, as in Result.
	Host string `json:"host,omitempty"`
}

// Early says what finals lack that ended because their time was over.
type Early struct {
	// Sets is how many sets of processes took part, of Of. In each, every finalist is
	// measured some times.
	Sets int `json:"sets"`
	Of   int `json:"of"`
	// Unseparated indexes the entries whose times may equal the winner's, for all that
	// these finals show; Baseline says the same of the baseline.
	Unseparated []int `json:"unseparated,omitempty"`
	Baseline    bool  `json:"baseline,omitempty"`
}

// EndedEarly says in one line what finals that ended early do not show; empty for others. Name
// names the finalist with an index.
func (f *Finals) EndedEarly(name func(i int) string) string {
	if f.Early == nil {
		return ""
	}
	text := fmt.Sprintf("the time was over after %d of %d sets of processes", f.Early.Sets, f.Early.Of)
	if f.Early.Sets == f.Early.Of {
		text = "there was no time for all finalists"
	}
	if f.Winner < 0 {
		return text + ": no finalist won"
	}
	var others []string
	for _, i := range f.Early.Unseparated {
		others = append(others, name(i))
	}
	if f.Early.Baseline {
		others = append(others, "the baseline")
	}
	if len(others) == 0 {
		return text
	}
	return fmt.Sprintf("%s: they do not separate %s from %s", text, name(f.Winner), strings.Join(others, ", "))
}

// A Finalist is one candidate of the finals.
type Finalist struct {
	Genome  genome.Genome `json:"genome"`
	Verdict Verdict       `json:"verdict"`
	Reason  string        `json:"reason,omitempty"`
	// Fitness is computed from the fresh samples, over the tuned shapes.
	Fitness float64  `json:"fitness,omitempty"`
	Timings []Timing `json:"timings,omitempty"`
	// HeldOut are timings at shapes that were not tuned for.
	HeldOut []Timing `json:"held_out,omitempty"`
	// Evidence is what else the finals found, such as a profile.
	Evidence []Evidence `json:"evidence,omitempty"`
}

// A Comparison tests whether two sets of paired ratios differ.
type Comparison struct {
	// Ratio is the center of (first time / second time); below 1 the first is
	// faster.
	Ratio float64 `json:"ratio"`
	// P is the p-value of the test; Alpha the threshold that it was compared with.
	P     float64 `json:"p"`
	Alpha float64 `json:"alpha"`
	// Significant says whether the difference is more than noise.
	Significant bool `json:"significant"`
	// N1 and N2 are the sample counts.
	N1 int `json:"n1"`
	N2 int `json:"n2"`
	// Warnings come from the statistics, for people.
	Warnings []string `json:"warnings,omitempty"`
}

// A Plan is one problem to be judged on one device.
type Plan struct {
	Definition *kernels.Definition
	// Implementations are those whose genomes may be evaluated; the backend
	// must be able to run all of them.
	Implementations []*kernels.Implementation
	// Tune are the shapes that are benchmarked; Verify those that parity also checks;
	// Sanitize the small one that sanitizers run on, unless an implementation declares
	// another (see [kernels.Implementation.SanitizeShape]).
	Tune, Verify []kernels.Shape
	Sanitize     kernels.Shape
	// SanitizeAlso are further small shapes. In the finals, sanitizers run on them, and on
	// Sanitize if they have not yet.
	SanitizeAlso []kernels.Shape
	// Seed makes the data. Parity derives its several seeds from it.
	Seed uint64
	// Samples bounds the pairs of samples per shape on a calm machine, and
	// SampleTime the time spent on them; a minimum number is always taken.
	// FinalsSamples is the number of rounds of the finals. Zero means the default for
	// the kind of device: 20, a second (50 ms on a GPU), and 20 (30).
	Samples       int
	SampleTime    time.Duration
	FinalsSamples int
	// Pools, as in Timing, makes timings reuse contents that were drawn before;
	// empty draws new ones.
	Pools []string
	// Search says that many candidates will come, several at once: a lab starts all of its
	// workers while it prepares, and not each when it is first needed.
	Search bool
	// Contenders says that only contenders are sanitized: a candidate that passed parity is
	// timed first, and if its first readings are more than a quarter slower than the
	// incumbent, its verdict is Slower. Without an incumbent all candidates are sanitized.
	// Baselines and finalists always are.
	Contenders bool
	// Strict refuses a problem at whose tuned shapes a negative control passes that the
	// definition does not declare (see [Description.Unproven]), with an ErrControl.
	Strict bool
	// Debug judges candidates, but not the baseline, in the debug flavor: compiled
	// without optimization, with debugging information and with asserts enabled. The
	// binary has no requirements to meet, the sanitizers also run on what failed
	// parity, and nothing is timed.
	Debug bool
}

// A Backend makes labs for one kind of device.
type Backend interface {
	// Name is what `--backend` selects: "cpu", "cuda". The package internal/backend has its
	// facts.
	Name() string
	// Doctor looks for every tool the backend can use.
	Doctor(ctx context.Context) []Tool
	// Open prepares a lab for a plan: it builds harness and reference, tries the
	// tools, and measures the device's ceilings if they are not known yet.
	Open(ctx context.Context, plan Plan) (Lab, error)
	// Available says why the backend cannot be used here; nil when it can: when there is a
	// device, whether or not there are others that cannot be used.
	Available(ctx context.Context) error
	// Device describes the first of the devices that the options choose, Together all of
	// them as one device, as labs do. Both leave out the peaks.
	Device(ctx context.Context) (Device, error)
	Together(ctx context.Context) (Device, error)
	// Limits describes that first device by the names that definitions may use in
	// constraints, as in [kernels.Limits]; nil when nothing is known of it.
	Limits() map[string]any
	// Count is on how many devices a lab evaluates: one on a processor; 0 when one of
	// those chosen cannot be used.
	Count() int
	// Devices names those that can be used one by one, each as the option that chooses
	// devices does: the chosen ones, or all if none are. A processor has none.
	Devices(ctx context.Context) ([]string, error)
}

// A Usage says how busy a lab's devices are. Labs that can tell have a method
// Usage() Usage.
type Usage struct {
	// Measuring is the share of the wall time, since the lab was opened, that
	// its devices spent on measured launches, and nothing else. Reserved is the share
	// in which a device was kept free for them.
	Measuring float64 `json:"measuring"`
	Reserved  float64 `json:"reserved"`
	// Stages counts the candidates in each stage now, including those that wait for a
	// compiler, a worker or the device.
	Stages map[Stage]int `json:"stages,omitempty"`
	// Waiting counts those of them that wait, by what they wait for: "compiler",
	// "parity", "timing", "memcheck".
	Waiting map[string]int `json:"waiting,omitempty"`
}

// An Outcome is the result of one stage for one candidate.
type Outcome struct {
	// Verdict is empty when the candidate passed the stage. It is Infrastructure, with
	// Disturbed, when the machine disturbed a measurement so much that it did not
	// settle.
	Verdict   Verdict
	Reason    string
	Disturbed string
	Evidence  []Evidence
}
