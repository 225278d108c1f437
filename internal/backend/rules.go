package backend

import "time"

// Rules are the constants of judging that differ between kinds of devices, each
// with its reason. Constants that are the same everywhere are next to the code
// that uses them.
type Rules struct {
	// Batch is the minimum duration of one reading: far above the clock's
	// resolution and the cost of starting a batch, which is waking a process on a
	// CPU and launching a graph on a GPU.
	Batch time.Duration
	// Ask is how many rounds are requested at once. A round on a GPU is shorter than a
	// round trip to the worker.
	Ask int
	// Least is how many pairs must count before anything is concluded, LeastSlow how
	// many if a pair takes longer than SlowPair.
	Least, LeastSlow int
	SlowPair         time.Duration
	// Samples, SampleTime and Finals are the defaults for zero fields of a Plan.
	// Many candidates wait for a GPU, and its readings vary less.
	Samples    int
	SampleTime time.Duration
	Finals     int
	// Processes is how many sets of fresh processes take part in the finals, one after the
	// other: the placement of one process in memory must not decide.
	Processes int
	// LeastSet is what such a set takes at least: starting the processes of several
	// finalists.
	LeastSet time.Duration
	// HeldOut is how long a batch of the baseline must last at a held-out shape
	// to be timed in the finals. A batch cannot have more launches than the shape
	// has sets, and shorter batches measure nothing.
	HeldOut time.Duration
	// A reading may leave more time unclaimed than the baseline does, by the sum of
	// ClockShare of its claim, ClockSlack, and LaunchSlack for every launch that the
	// baseline's batch does not have.
	ClockShare  float64
	ClockSlack  time.Duration
	LaunchSlack time.Duration
	// The device may have been disturbed while its peaks were measured. A candidate
	// must be this much faster to be called impossible: more for a CPU's memory, whose
	// caches are shared with neighbors.
	ComputeHeadroom, MemoryHeadroom float64
	// Hangs is the least time that a launch or a batch may take before it counts
	// as hanging: a comparison on a GPU computes the reference first.
	Hangs time.Duration
	// Sanitizers names the tools that are reported when missing. Blocking has the
	// diagnostics that always reject, whatever a definition says; Optimized has those
	// that reject only optimized builds.
	Sanitizers          []string
	Blocking, Optimized []string
	// Finalists names the tools that look at finalists alone, at the tuned shapes.
	Finalists []string
	// Unseen is what no tool checks, with the reason: "not run" in every result.
	Unseen []Unseen
}

// An Unseen is a check that no tool does, with the reason.
type Unseen struct{ Check, Detail string }

// Schedules is the check that covers what racecheck cannot follow.
const Schedules = "schedules"

// Guards is the check that launches on buffers that begin or end where memory does: on a CPU at every
// shape in a search, on a GPU finalists at the tuned shapes.
const Guards = "guards"
