package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
)

// A Record is what is known of a candidate that is to be verified.
type Record struct {
	Result evaluator.Result
	// Finals is what the newest finals measured of it; nil when it was in none, or
	// they have no time of it.
	Finals *evaluator.Finalist
	// Readings are the correct results of its campaign, one for each binary, and At
	// is its own among them. They tell how lucky a result of the search is; with
	// Finals they are not needed, and without them nothing is corrected.
	Readings []Reading
	At       int
}

// reference is the measurement to compare with, and the factor that takes the luck
// out of its fitness.
func (r Record) reference() (timings []evaluator.Timing, fitness, factor float64) {
	switch {
	case r.Finals != nil:
		return r.Finals.Timings, r.Finals.Fitness, 1
	case len(r.Readings) > 1:
		return r.Result.Timings, r.Result.Fitness, math.Exp(-Optimism(r.Readings, r.At))
	}
	return r.Result.Timings, r.Result.Fitness, 1
}

// Pools are the contents of the measurement to compare with, for [evaluator.Plan];
// empty where they were not kept.
func (r Record) Pools() []string {
	timings, _, _ := r.reference()
	if len(timings) == 0 {
		return nil
	}
	return timings[0].Pools
}

// A Verification compares a stored result with one made again.
type Verification struct {
	Stored evaluator.Result `json:"stored"`
	Again  evaluator.Result `json:"again"`
	// Reference is the stored fitness that the time is compared with: that of the
	// finals, else that of the search. Corrected is what is left of it when the luck
	// of being selected from SelectedFrom results is taken out; both are 0 for
	// finals, which need no correction.
	Reference    float64 `json:"reference,omitempty"`
	Corrected    float64 `json:"corrected,omitempty"`
	SelectedFrom int     `json:"selected_from,omitempty"`
	// Fresh is the newest measurement, made as finals are; nil unless both are
	// correct. Measurements counts them.
	Fresh        *evaluator.Finalist `json:"fresh,omitempty"`
	Measurements int                 `json:"measurements,omitempty"`
	// SameSource, SameBinary and SameKey say what is as it was: the rendered
	// source, the machine code, and everything that could change the result.
	SameSource bool `json:"same_source"`
	SameBinary bool `json:"same_binary"`
	SameKey    bool `json:"same_key"`
	// SameContents: the time was measured on the stored measurement's contents.
	SameContents bool `json:"same_contents"`
	// Change is (time again / time stored) - 1, each time relative to the
	// baseline that was measured beside it, of the newest measurement; 0 unless both
	// are correct.
	Change float64 `json:"change"`
	// Test compares the samples; nil unless both are correct.
	Test *evaluator.Comparison `json:"test,omitempty"`
	// Reproduced: the verdict is the same, and where it is correct the time did
	// not change, in one of two measurements, by more than the tolerance, or not by
	// more than noise.
	Reproduced bool   `json:"reproduced"`
	Reason     string `json:"reason,omitempty"`
	// Disturbed says what kept the machine from measuring, or was going on when the
	// time was found changed: the result is then neither reproduced nor not
	// reproduced.
	Disturbed string `json:"disturbed,omitempty"`
}

// verifyLooks is how often a time has to be found changed, in the same direction.
// The test knows the noise within a measurement; that from one to the next shows in
// repeating it.
const verifyLooks = 2

// Verify judges a genome again, in fresh processes, measures it as finals do, and
// compares the outcome with the stored one: with its finals, or with the result of
// the search after its luck was taken out. tolerance is the relative change of the
// time that is allowed (0.05 is 5%).
func Verify(ctx context.Context, ev evaluator.Evaluator, g genome.Genome, r Record, tolerance float64) (Verification, error) {
	stored := r.Result
	again, err := ev.Evaluate(ctx, g, 0)
	if err != nil {
		return Verification{}, err
	}
	v := Verification{
		Stored: stored, Again: again,
		SameSource: stored.Source == again.Source,
		SameBinary: stored.Binary == again.Binary,
		SameKey:    stored.Key == again.Key,
	}
	switch {
	case again.Disturbed != "":
		v.Disturbed = again.Disturbed
		return v, nil
	case again.Verdict == evaluator.Infrastructure:
		return v, fmt.Errorf("the candidate could not be judged: %s: %s", again.Stage, again.Reason)
	case stored.Verdict == evaluator.Slower && again.Verdict == evaluator.Correct:
		v.Reproduced = true
		v.Reason = "the search did not sanitize it, since it was slower than the best; now every check passes, and no time is compared"
		return v, nil
	case stored.Verdict != again.Verdict:
		v.Reason = fmt.Sprintf("the verdict was %s and is now %s: %s", stored.Verdict, again.Verdict, again.Reason)
		return v, nil
	case stored.Verdict != evaluator.Correct:
		v.Reproduced = true
		return v, nil
	}
	timings, fitness, factor := r.reference()
	v.Reference = fitness
	if r.Finals == nil && len(r.Readings) > 1 {
		v.Corrected, v.SelectedFrom = fitness*factor, len(r.Readings)
	}
	for last := 0.0; v.Measurements < verifyLooks; last = v.Change {
		f, err := ev.Finals(ctx, []genome.Genome{g})
		if err != nil {
			return v, err
		}
		fresh := f.Entries[0]
		v.Fresh = &fresh
		v.Measurements++
		switch {
		case fresh.Verdict == evaluator.Infrastructure:
			v.Disturbed = cmp.Or(fresh.Reason, "the time could not be measured")
			return v, nil
		case fresh.Verdict != evaluator.Correct:
			v.Reason = fmt.Sprintf("measured as in finals it is %s: %s", fresh.Verdict, fresh.Reason)
			return v, nil
		case !(fresh.Fitness > 0):
			return v, errors.New("measured as in finals it has no time")
		}
		v.Change = fresh.Fitness/(fitness*factor) - 1
		now, then := alike(fresh.Timings, timings)
		for i := range then {
			then[i] *= factor
		}
		v.SameContents = len(fresh.Timings[0].Pools) > 0
		for _, pool := range fresh.Timings[0].Pools {
			v.SameContents = v.SameContents && slices.Contains(r.Pools(), pool)
		}
		test := evaluator.Compare(now, then)
		v.Test = &test
		if math.Abs(v.Change) <= tolerance || !test.Significant {
			v.Reproduced = true
			if v.Measurements > 1 {
				v.Reason = fmt.Sprintf("%+.1f%% at first, but not in measurement %d", 100*last, v.Measurements)
			}
			return v, nil
		}
		if v.Measurements > 1 && (last > 0) != (v.Change > 0) {
			v.Reproduced = true
			v.Reason = fmt.Sprintf("%+.1f%% and %+.1f%% in two measurements: the machine is not steady", 100*last, 100*v.Change)
			return v, nil
		}
	}
	v.Reason = fmt.Sprintf("relative to the baseline it took %+.1f%% of the stored time, more than noise and more than the %.0f%% allowed, in each of %d measurements",
		100*v.Change, 100*tolerance, v.Measurements)
	for _, t := range v.Fresh.Timings {
		// What others do to memory and caches slows one kernel more than another.
		if c := t.Conditions; c != nil && c.Disturbed != "" {
			v.Disturbed = c.Disturbed + "; " + v.Reason
			break
		}
	}
	return v, nil
}

// alike gives the paired ratios candidate/baseline of two measurements over all
// shapes that both have, each relative to the median of b at its shape: shapes
// have speedups of their own, which would drown what changed.
func alike(a, b []evaluator.Timing) (now, then []float64) {
	for _, t := range b {
		i := slices.IndexFunc(a, func(x evaluator.Timing) bool { return x.Shape == t.Shape })
		if i < 0 {
			continue
		}
		r := t.Ratios()
		m := evaluator.Median(r)
		if !(m > 0) {
			continue
		}
		for _, x := range a[i].Ratios() {
			now = append(now, x/m)
		}
		for _, x := range r {
			then = append(then, x/m)
		}
	}
	return now, then
}
