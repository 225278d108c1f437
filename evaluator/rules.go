package evaluator

import (
	"slices"
	"strings"
	"time"
)

// rules are the constants of judging that differ between kinds of devices, each
// with its reason. Constants that are the same everywhere are next to the code
// that uses them.
type rules struct {
	// batch is the minimum duration of one reading: far above the clock's
	// resolution and the cost of starting a batch, which is waking a process on a
	// CPU and launching a graph on a GPU.
	batch time.Duration
	// ask is how many rounds are requested at once. A round on a GPU is shorter than a
	// round trip to the worker.
	ask int
	// least is how many pairs must count before anything is concluded, leastSlow how
	// many if a pair takes longer than slowPair.
	least, leastSlow int
	slowPair         time.Duration
	// samples, sampleTime and finals are the defaults for zero fields of a Plan.
	// Many candidates wait for a GPU, and its readings vary less.
	samples    int
	sampleTime time.Duration
	finals     int
	// processes is how many sets of fresh processes take part in the finals, one after the
	// other: the placement of one process in memory must not decide.
	processes int
	// leastSet is what such a set takes at least: starting the processes of several
	// finalists.
	leastSet time.Duration
	// heldOut is how long a batch of the baseline must last at a held-out shape
	// to be timed in the finals. A batch cannot have more launches than the shape
	// has sets, and shorter batches measure nothing.
	heldOut time.Duration
	// A reading may leave more time unclaimed than the baseline does, by the sum of
	// clockShare of its claim, clockSlack, and launchSlack for every launch that the
	// baseline's batch does not have.
	clockShare  float64
	clockSlack  time.Duration
	launchSlack time.Duration
	// The device may have been disturbed while its peaks were measured. A candidate
	// must be this much faster to be called impossible: more for a CPU's memory, whose
	// caches are shared with neighbors.
	computeHeadroom, memoryHeadroom float64
	// hangs is the least time that a launch or a batch may take before it counts
	// as hanging: a comparison on a GPU computes the reference first.
	hangs time.Duration
	// sanitizers names the tools that are reported when missing. blocking has the
	// diagnostics that always reject, whatever a definition says; optimized has those
	// that reject only optimized builds.
	sanitizers          []string
	blocking, optimized []string
	// finalists names the tools that look at finalists alone, at the tuned shapes.
	finalists []string
	// unseen is what no tool checks, with the reason: "not run" in every result.
	unseen []Evidence
}

// rulesByKind has the rules for each kind of device. A kind without rules does not fall
// back to another kind's.
var rulesByKind = map[string]*rules{
	"cpu": {
		batch: 2 * time.Millisecond, ask: 1,
		least: 5, leastSlow: 3, slowPair: 300 * time.Millisecond,
		samples: 20, sampleTime: time.Second, finals: 20, processes: 6, leastSet: time.Second, heldOut: 500 * time.Microsecond,
		// What an honest batch leaves unclaimed does not depend on how long it takes:
		// 45 to 230 us of the operating system's work around it.
		clockShare: 0.01, clockSlack: 80 * time.Microsecond, launchSlack: 20 * time.Nanosecond,
		computeHeadroom: 1.10, memoryHeadroom: 1.30,
		hangs:      5 * time.Second,
		sanitizers: []string{"asan", "tsan", Guards, "memcheck"},
	},
	"cuda": {
		batch: 500 * time.Microsecond, ask: 3,
		least: 6, leastSlow: 3, slowPair: 300 * time.Millisecond,
		samples: 20, sampleTime: 50 * time.Millisecond, finals: 30, processes: 3, leastSet: 5 * time.Second,
		clockShare: 0.05, clockSlack: 40 * time.Microsecond, launchSlack: 20 * time.Nanosecond,
		computeHeadroom: 1.10, memoryHeadroom: 1.15,
		hangs:      10 * time.Second,
		sanitizers: []string{"memcheck", "racecheck", "synccheck", "initcheck", Schedules, Guards},
		finalists:  []string{Guards},
		// nvcc compiles WMMA on a local array to a trap, with this diagnostic.
		blocking: []string{"cannot perform wmma load or store on local memory"},
		// ptxas compiles what it cannot do as requested (C7508 and others of setmaxnreg;
		// C7510, C7514, C7515 and others of wgmma): without registers for the warps that
		// multiply, or with a wait after every product. Such code is not what its genome
		// says.
		optimized: []string{"'setmaxnreg' ignored", "wgmma.mma_async instructions are serialized"},
		unseen: []Evidence{
			{Check: "races in global memory", Detail: "racecheck looks at shared memory alone"},
			{Check: "shared memory within a block", Detail: "initcheck does not look at it, and memcheck at its end alone: an array may run into another"},
			{Check: "sanitizers at other shapes", Detail: "what only larger shapes make the code do is looked at by parity, after timing and, of finalists, by guards alone"},
		},
	},
}

const (
	// contents is how many contents of the inputs parity compares at a shape. At
	// tuned shapes it is one, since timing compares others.
	contents = 3
	// bitten is at how many verify shapes, besides the sanitize shape, a candidate gets
	// edge-case contents: at each, the dozen of them take as long as
	// the rest of parity.
	bitten = 1
	// finalsLimit bounds the time of the finals at one shape in one set of processes
	// once finalsLeast rounds are done.
	finalsLimit = 40 * time.Second
	finalsLeast = 3
	// slower is how much slower than the incumbent a candidate must be for its
	// sampling to be cut short; at one of several shapes it may make up for more.
	slower, slowerShape = 1.1, 1.5
	// firstReadings is how many pairs decide whether a candidate is a contender (see
	// [Plan.Contenders]), mostFirst how many are taken until so many count, and
	// farBehind how many times as long as the incumbent a contender may take.
	firstReadings, mostFirst = 3, 9
	farBehind                = 1.25
	// precise is the relative half width of the confidence interval at which
	// sampling ends.
	precise = 0.01
	// settled is the half width at which a disturbed measurement ends, unsettled
	// the one above which it is inconclusive once settleTime has passed.
	settled, unsettled = 0.03, 0.10
	settleTime         = 30 * time.Second
	// hopeless is when a measurement ends if less than hopelessShare of its pairs
	// count while other processes use the device: they will keep it busy. One such
	// measurement took 37 s of a GPU without a result.
	hopeless      = 5 * time.Second
	hopelessShare = 0.25
	// disturbedShare is the share of pairs that do not count from which a
	// measurement was disturbed.
	disturbedShare = 0.1
	// mostOpen bounds, in nanoseconds, the time that an honest reading is assumed to
	// leave unclaimed if waits for a core cannot be subtracted.
	mostOpen = 150e3
	// preempted is the share of a reading that its process may have waited for a
	// core.
	preempted = 0.02
	// leastConfirmed is the share of the baseline's rate of confirmed readings
	// below which a candidate's rate is suspicious. It is judged by the probability
	// that an honest candidate with that rate has so few: below doubt sampling
	// continues, and below guilt, once in a million measurements, the candidate is
	// implausible. With fewer than leastForDoubt readings a low rate also means
	// that sampling continues.
	leastConfirmed   = 0.35
	doubt, guilt     = 0.05, 1e-6
	leastForDoubt    = 32
	suspiciousRounds = 80
	// telling is the largest wait, as a share of the claimed time, with which a
	// reading's clock can be judged.
	telling = 0.25
	// A candidate's launches in parity, in a set of processes that times it, and under tools
	// may take allowance times as long as the baseline's, and those of all stages together at least
	// leastAllowed: each of them may take much longer, but dozens of them must not hold the device for
	// minutes. toolSlowdown is how much longer all launches under a tool take than one without.
	allowance    = 50
	leastAllowed = 20 * time.Second
	toolSlowdown = 50
	// patience multiplies the usual time limit of a candidate that did not answer in
	// time on a disturbed machine.
	patience = 4
	// floorDoubt is the factor by which the measured peaks of a disturbed machine may
	// be too low.
	floorDoubt = 1.5
)

// Schedules is the check that covers what racecheck cannot follow.
const Schedules = "schedules"

// Guards is the check that launches on buffers that begin or end where memory does: on a CPU at every
// shape in a search, on a GPU finalists at the tuned shapes.
const Guards = "guards"

// CoveredBy names the check of the same result that, if it passes, covers what the check
// e did not run for, as e's detail says; "" if there is none. No check covers a missing
// tool.
func CoveredBy(e Evidence) string {
	if e.Check == "racecheck" && e.Outcome == NotRun && strings.HasSuffix(e.Detail, "; see "+Schedules) {
		return Schedules
	}
	return ""
}

// OfSanitizers says whether a check of the finals is one of the sanitizers'.
func OfSanitizers(check string) bool {
	for _, r := range rulesByKind {
		if slices.Contains(r.sanitizers, check) {
			return true
		}
	}
	return check == SanitizeShapes || check == "ubsan" || check == Reach
}

// Unseen says whether a check names what no sanitizer can see, whatever tools are
// installed.
func Unseen(check string) bool {
	for _, r := range rulesByKind {
		if slices.ContainsFunc(r.unseen, func(e Evidence) bool { return e.Check == check }) {
			return true
		}
	}
	return check == Reach
}
