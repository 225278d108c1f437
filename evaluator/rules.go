package evaluator

import (
	"slices"
	"strings"
	"time"

	"github.com/evotune/evotune/internal/backend"
)

// rulesOf returns the rules for a kind of device, nil for one without: it does not fall back to
// another kind's.
func rulesOf(kind string) *backend.Rules { return backend.Of(kind).Rules }

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
const Schedules = backend.Schedules

// Guards is the check that launches on buffers that begin or end where memory does: on a CPU at every
// shape in a search, on a GPU finalists at the tuned shapes.
const Guards = backend.Guards

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
	for _, b := range backend.All() {
		if slices.Contains(b.Rules.Sanitizers, check) {
			return true
		}
	}
	return check == SanitizeShapes || check == "ubsan" || check == Reach
}

// Unseen says whether a check names what no sanitizer can see, whatever tools are
// installed.
func Unseen(check string) bool {
	for _, b := range backend.All() {
		if slices.ContainsFunc(b.Rules.Unseen, func(e backend.Unseen) bool { return e.Check == check }) {
			return true
		}
	}
	return check == Reach
}
