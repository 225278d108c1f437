package evaluator

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evotune/evotune/genome"
)

// early plays finals that should be over after some time, after a search that has measured
// candidate 1 if known is set.
func early(t *testing.T, l *scriptedLab, p Plan, by, last time.Duration, known bool) (f Finals, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		j, err := newJudge(t.Context(), l, p)
		if err != nil {
			t.Fatal(err)
		}
		o := newOrdeal(j, p)
		var list []genome.Genome
		for i := range len(l.actors) {
			list = append(list, labGenome(t, p, i+1))
		}
		if known {
			if r, err := o.Evaluate(t.Context(), list[0], 0); err != nil || r.Verdict != Correct {
				t.Fatal(r, err)
			}
		}
		begin := time.Now()
		ctx := WithEnd(t.Context(), End{By: begin.Add(by), Last: begin.Add(last)})
		if f, err = o.Finals(ctx, list); err != nil {
			t.Fatal(err)
		}
		took = time.Since(begin)
	})
	if l.open != 0 {
		t.Errorf("%d sessions are still open", l.open)
	}
	return f, took
}

// slowContest is a contest of launches that take a thousand times as long: a set of processes takes
// between one and two seconds for each finalist.
func slowContest(ns ...float64) *scriptedLab {
	l := contest(ns...)
	l.baseline[""].ns *= 1000
	for _, a := range l.actors {
		a.ns *= 1000
	}
	return l
}

// TestFinalsEndEarly: finals end after the last set of processes that fits, and say whom they do
// not separate.
func TestFinalsEndEarly(t *testing.T) {
	four := func() *scriptedLab { return slowContest(60e3, 80e3, 60.01e3, 90e3) }
	_, whole := early(t, four(), labPlan(), time.Hour, time.Hour, false)
	for _, c := range []struct {
		share float64
		sets  int
	}{{1.1, 6}, {0.75, 4}, {0.45, 2}, {0.22, 1}} {
		by := time.Duration(c.share * float64(whole))
		f, took := early(t, four(), labPlan(), by, by+time.Second, false)
		if took > by {
			t.Errorf("%v of the time: it took %v of %v", c.share, took, by)
		}
		if c.sets == 6 {
			if f.Early != nil {
				t.Errorf("with enough time: %+v", f.Early)
			}
			continue
		}
		if f.Early == nil || f.Early.Sets != c.sets || f.Early.Of != 6 || f.Winner != 0 && f.Winner != 2 {
			t.Fatalf("%v of the time: winner %d, %+v", c.share, f.Winner, f.Early)
		}
		twin := 2 - f.Winner
		switch all := []int{2, 1, 3}; {
		case c.sets == 4 && (!slices.Equal(f.Early.Unseparated, []int{twin}) || f.Early.Baseline || !f.VsBaseline.Significant):
			t.Errorf("four sets: %+v, %+v", f.Early, f.VsBaseline)
		case c.sets == 1 && (len(f.Early.Unseparated) != len(all) || !f.Early.Baseline || f.VsBaseline.Significant):
			t.Errorf("one set shows a difference: %+v, %+v", f.Early, f.VsBaseline)
		}
		for i, e := range f.Entries {
			if e.Verdict != Correct || len(e.HeldOut) != 1 || len(e.Timings[0].SamplesNS) != 4*c.sets+1 {
				t.Errorf("%d sets: entry %d is %+v", c.sets, i, e)
			}
		}
		name := func(i int) string { return string(rune('A' + i)) }
		if c.sets == 4 {
			if got, want := f.EndedEarly(name), "the time was over after 4 of 6 sets of processes: they do not separate "+name(f.Winner)+" from "+name(twin); got != want {
				t.Errorf("%q, not %q", got, want)
			}
		}
	}
}

// TestFinalsSlowSet: where the first set of processes takes longer than was estimated, so that only
// some fit another one, the fastest have it.
func TestFinalsSlowSet(t *testing.T) {
	four := func() *scriptedLab { return slowContest(60e3, 80e3, 50e3, 90e3) }
	_, whole := early(t, four(), labPlan(), time.Hour, time.Hour, false)
	by := whole * 30 / 100
	f, took := early(t, four(), labPlan(), by, by+time.Second, false)
	if took > by || f.Winner != 2 || f.Early == nil || f.Early.Sets < 2 || !f.VsBaseline.Significant || f.VsRunnerUp != nil {
		t.Errorf("after %v of %v: winner %d, %+v, %+v, %+v", took, by, f.Winner, f.Early, f.VsBaseline, f.VsRunnerUp)
	}
	for i, e := range f.Entries {
		if left := strings.HasPrefix(e.Reason, TimeOver+": it was not among"); left != (i != 2) {
			t.Errorf("entry %d is %s: %s", i, e.Verdict, e.Reason)
		}
	}
}

// TestFinalsFewerFinalists: where the search's measurements show that there is no time for three
// sets of all, the first take part, one at least.
func TestFinalsFewerFinalists(t *testing.T) {
	four := func() *scriptedLab { return slowContest(60e3, 80e3, 70e3, 90e3) }
	_, whole := early(t, four(), labPlan(), time.Hour, time.Hour, false)
	one := whole / 24 // a set of one
	for want, by := range map[int]time.Duration{4: 25 * one, 3: 15 * one, 2: 10 * one, 1: 2 * one} {
		f, took := early(t, four(), labPlan(), by, by+time.Minute, true)
		if took > by {
			t.Errorf("%d finalists: it took %v of %v", want, took, by)
		}
		for i, e := range f.Entries {
			if left := e.Verdict == Infrastructure && e.Reason == TimeOver && e.Timings == nil; left != (i >= want) || !left && e.Verdict != Correct {
				t.Errorf("%d finalists: entry %d is %s: %s", want, i, e.Verdict, e.Reason)
			}
		}
		if f.Early == nil && want < 4 || f.Winner != 0 {
			t.Errorf("%d finalists: winner %d, %+v", want, f.Winner, f.Early)
		}
	}
}

// TestFinalsGivenUp: what still runs at the end is given up; without any set there is no winner,
// and nobody is to blame.
func TestFinalsGivenUp(t *testing.T) {
	f, took := early(t, slowContest(60e3, 80e3), labPlan(), 100*time.Millisecond, 500*time.Millisecond, false)
	if took != 500*time.Millisecond || f.Winner != -1 || f.Early == nil || f.Early.Sets != 0 || f.VsBaseline != nil {
		t.Errorf("after %v: winner %d, %+v", took, f.Winner, f.Early)
	}
	for _, e := range f.Entries {
		if e.Verdict != Infrastructure || e.Reason != TimeOver {
			t.Errorf("%s: %s", e.Verdict, e.Reason)
		}
	}
	if got := f.EndedEarly(nil); got != "the time was over after 0 of 6 sets of processes: no finalist won" {
		t.Error(got)
	}
}

// TestFinalsUnchecked: who was not launched under all tools when the time is over cannot win, and
// the fastest is launched first.
func TestFinalsUnchecked(t *testing.T) {
	p := labPlan()
	p.SanitizeAlso = p.Verify
	for launches, want := range map[time.Duration]int{time.Second: 3, 10 * time.Second: 1, time.Hour: 0} {
		l := slowContest(80e3, 60e3, 90e3)
		l.tools = []string{"asan"}
		_, whole := early(t, slowContest(80e3, 60e3, 90e3), labPlan(), time.Hour, time.Hour, false)
		l.launches = launches
		f, took := early(t, l, p, whole+time.Second, whole+12*time.Second, false)
		checked := 0
		for i, e := range f.Entries {
			switch {
			case e.Verdict == Correct:
				checked++
			case e.Reason != TimeOver+": the sanitizers" || e.Timings != nil:
				t.Errorf("%v: entry %d is %s: %s", launches, i, e.Verdict, e.Reason)
			}
		}
		winner := 1
		if want == 0 {
			winner = -1
		}
		if checked != want || f.Winner != winner || (f.Early == nil) != (want == 3) || took > whole+12*time.Second {
			t.Errorf("%v: %d checked, winner %d, %+v after %v", launches, checked, f.Winner, f.Early, took)
		}
	}
}

// TestFinalsDoubtInTime: one measurement makes nobody implausible, also where there is no time
// for a second one.
func TestFinalsDoubtInTime(t *testing.T) {
	for by, want := range map[time.Duration]Verdict{time.Hour: Implausible, 14 * time.Second: Infrastructure} {
		l := slowContest(60e3, 80e3)
		l.actors["1"].ns = 1e3 // below the floor
		l.baseline[""].ns = 100e6
		f, _ := early(t, l, labPlan(), by, by+time.Second, false)
		if e := f.Entries[0]; e.Verdict != want || want == Infrastructure && !strings.HasPrefix(e.Reason, TimeOver+": ") || f.Winner != 1 {
			t.Errorf("with %v: %s: %s; winner %d, %+v", by, e.Verdict, e.Reason, f.Winner, f.Early)
		}
	}
}

// TestFewSets: kernels that do not differ, but whose processes do, are told apart by few sets of
// processes about as often as alpha says, and large differences are seen.
func TestFewSets(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	timing := func(sets int, ratio float64) []Timing {
		var samples, baseline []float64
		var per []int
		for range sets {
			process := 1 + 0.05*rng.NormFloat64()
			for range 4 {
				samples, baseline = append(samples, 100*ratio*process*(1+0.005*rng.NormFloat64())), append(baseline, 100)
			}
			per = append(per, 4)
		}
		tm := NewTiming("main", samples, baseline, 1, 1)
		tm.PerSet = per
		return []Timing{tm}
	}
	const trials = 2000
	for sets := 2; sets <= 5; sets++ {
		rate := func(ratio float64) float64 {
			found := 0
			for range trials {
				a, b := timing(sets, ratio), timing(sets, 1)
				c := Compare(RoundRatios(a), RoundRatios(b))
				c.agree(a, b)
				c.few(a, b)
				found += btoi(c.Significant)
			}
			return float64(found) / trials
		}
		if alarms, seen := rate(1), rate(0.5); alarms > 0.06 || seen < 0.5 || sets > 2 && seen < 0.95 {
			t.Errorf("%d sets: %.3f of the equals differ, and %.3f of those of half the time", sets, alarms, seen)
		}
	}
	if c := (Comparison{Significant: true, Ratio: 0.5}); true {
		one := timing(1, 0.5)
		one[0].PerSet = nil
		if c.few(one, nil); c.Significant || len(c.Warnings) != 1 {
			t.Errorf("one set: %+v", c)
		}
	}
	// The ratio of the medians is the baseline's where there is none beside.
	a := timing(3, 0.5)
	c := Compare(a[0].SamplesNS, a[0].BaselineNS)
	if c.few(a, nil); !c.Significant || math.Abs(c.Ratio-0.5) > 0.1 {
		t.Errorf("half of the baseline's time in three sets: %+v", c)
	}
}

// TestEndedEarlyWithAllSets: finals that left finalists out and measured the others wholly say the former.
func TestEndedEarlyWithAllSets(t *testing.T) {
	for sets, want := range map[int]string{6: "there was no time for all finalists", 5: "the time was over after 5 of 6 sets of processes"} {
		f := Finals{Early: &Early{Sets: sets, Of: 6}}
		if got := f.EndedEarly(nil); got != want {
			t.Errorf("%d sets: %q, want %q", sets, got, want)
		}
	}
}
