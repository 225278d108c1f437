package evaluator

import (
	"slices"
	"time"
)

// rules are the constants of judging that differ from one kind of device to
// another, each with its reason. What is the same everywhere stands beside the
// code that uses it.
type rules struct {
	// batch is how long one reading lasts at least: far above the clock's
	// resolution and the cost of starting a batch, which is waking a process on a
	// CPU and launching a graph on a GPU.
	batch time.Duration
	// ask is how many rounds are asked for at once. A round on a GPU is shorter
	// than the way to the worker and back.
	ask int
	// least is how many pairs must count before anything is concluded, and
	// leastSlow how many where one takes longer than slowPair.
	least, leastSlow int
	slowPair         time.Duration
	// samples, sampleTime and finals are what zero fields of a Plan stand for. A
	// GPU is waited for by many candidates, and its readings spread less.
	samples    int
	sampleTime time.Duration
	finals     int
	// heldOut is how long a batch of the baseline must last at a held-out shape
	// to be timed in the finals: where batches cannot be made longer than the
	// shape has sets, shorter ones say nothing.
	heldOut time.Duration
	// clockShare of what a reading claims, clockSlack and launchSlack for every
	// launch that the baseline's batch does not have is how much more than the
	// baseline's unclaimed time a reading may leave unclaimed.
	clockShare  float64
	clockSlack  time.Duration
	launchSlack time.Duration
	// The measured peaks are what the device reached while it may have been
	// disturbed. A candidate must be this much faster to be called impossible:
	// more for a CPU's memory, whose caches are shared with neighbours.
	computeHeadroom, memoryHeadroom float64
	// hangs is the least time that a launch or a batch may take before it hangs:
	// a comparison on a GPU makes the reference first.
	hangs time.Duration
	// controlsAtTuned says that negative controls are looked at at tuned shapes
	// too; on a CPU the reference would take seconds for each.
	controlsAtTuned bool
	// sanitizers names the tools that a missing one is told of, and blocking the
	// diagnostics that reject whatever a definition says.
	sanitizers []string
	blocking   []string
	// unseen is what no tool looks at, and why: "not run" in every result.
	unseen []Evidence
}

var rulesByKind = map[string]*rules{
	"cpu": {
		batch: 2 * time.Millisecond, ask: 1,
		least: 5, leastSlow: 3, slowPair: 300 * time.Millisecond,
		samples: 20, sampleTime: time.Second, finals: 20, heldOut: 500 * time.Microsecond,
		// What an honest batch leaves unclaimed does not depend on how long it takes:
		// 45 to 230 us of the kernel's work around it.
		clockShare: 0.01, clockSlack: 80 * time.Microsecond, launchSlack: 20 * time.Nanosecond,
		computeHeadroom: 1.10, memoryHeadroom: 1.30,
		hangs:      5 * time.Second,
		sanitizers: []string{"asan", "tsan", "guards", "memcheck"},
	},
	"cuda": {
		batch: 500 * time.Microsecond, ask: 3,
		least: 6, leastSlow: 3, slowPair: 300 * time.Millisecond,
		samples: 20, sampleTime: 50 * time.Millisecond, finals: 30,
		clockShare: 0.05, clockSlack: 40 * time.Microsecond, launchSlack: 20 * time.Nanosecond,
		computeHeadroom: 1.10, memoryHeadroom: 1.15,
		hangs: 10 * time.Second, controlsAtTuned: true,
		sanitizers: []string{"memcheck", "racecheck", "synccheck", "initcheck"},
		// nvcc compiles WMMA on a local array to a trap, with this diagnostic.
		blocking: []string{"cannot perform wmma load or store on local memory"},
		unseen: []Evidence{
			{Check: "races in global memory", Detail: "racecheck looks at shared memory alone"},
			{Check: "shared memory within a block", Detail: "initcheck does not look at it, and memcheck at its end alone: an array may run into another"},
			{Check: "sanitizers at other shapes", Detail: "what only larger shapes make the code do is looked at by parity and after timing alone"},
		},
	},
}

// rulesOf gives the rules for a kind of device. A kind of its own is judged as
// a CPU is.
func rulesOf(kind string) *rules {
	if r := rulesByKind[kind]; r != nil {
		return r
	}
	return rulesByKind["cpu"]
}

const (
	// contents is how many contents of the inputs parity compares at a shape; at
	// tuned shapes it is one, since the timing looks at others.
	contents = 3
	// bitten is at how many verify shapes, besides the sanitize shape, a candidate meets
	// contents that bite: at each, the dozen of them take as long as all else.
	bitten = 1
	// finalsProcesses is how many sets of fresh processes take part in the finals,
	// one after the other: how a process came to lie in memory must not decide.
	finalsProcesses = 3
	// finalsLimit bounds the finals at one shape in one set of processes once
	// finalsLeast rounds were played.
	finalsLimit = 40 * time.Second
	finalsLeast = 3
	// slower is how much slower than the incumbent a candidate must be for its
	// sampling to be cut short; at one of several shapes it may make up for more.
	slower, slowerShape = 1.1, 1.5
	// precise is the relative half width of the confidence interval at which
	// sampling ends.
	precise = 0.01
	// settled is the half width at which a disturbed measurement ends, unsettled
	// the one above which it says nothing once settleTime has passed.
	settled, unsettled = 0.03, 0.10
	settleTime         = 30 * time.Second
	// hopeless is when a measurement ends of which less than hopelessShare of the
	// pairs count while other processes are on the device: they have it, and keep
	// it. One such measurement took 37 s of a GPU, and told no more.
	hopeless      = 5 * time.Second
	hopelessShare = 0.25
	// disturbedShare is the share of pairs that do not count from which a
	// measurement was disturbed.
	disturbedShare = 0.1
	// mostOpen bounds, in nanoseconds, what an honest reading is taken to leave
	// unclaimed where waiting for a core cannot be taken off.
	mostOpen = 150e3
	// preempted is the share of a reading that its process may have waited for a
	// core.
	preempted = 0.02
	// leastConfirmed is the share of the baseline's rate of confirmed readings
	// below which a candidate's rate is suspicious; it is judged by the chance
	// that an honest candidate with that rate has so few: doubt ends nothing,
	// guilt is what does not happen once in a million measurements.
	// Of fewer than leastForDoubt readings a rate that low ends nothing either.
	leastConfirmed   = 0.35
	doubt, guilt     = 0.05, 1e-6
	leastForDoubt    = 32
	suspiciousRounds = 80
	// telling is the share of what it claims that a reading may have waited in all
	// for its clock to be judged.
	telling = 0.25
	// patience is how many times as long as usual a candidate has to answer when it
	// did not in time on a disturbed machine.
	patience = 4
	// floorDoubt is how much too low the measured peaks of a disturbed machine
	// may be.
	floorDoubt = 1.5
)

// Unseen says whether a check tells what no sanitizer sees, which no tool that is
// installed would change.
func Unseen(check string) bool {
	for _, r := range rulesByKind {
		if slices.ContainsFunc(r.unseen, func(e Evidence) bool { return e.Check == check }) {
			return true
		}
	}
	return check == Reach
}
