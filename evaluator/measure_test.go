package evaluator

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var measurements = flag.Int("measurements", 6, "how many measurements the tests of timing simulate for each case; with 100 or more, the tables have all rows")

// A tableRow is what became of many measurements of one kind.
type tableRow struct {
	verdicts map[Verdict]int
	rounds   []float64
	seconds  []float64
	ratios   []float64 // over the truth, of those that have a time
	dropped  float64
}

// measureMany times candidate 1 again and again.
func measureMany(t *testing.T, l *scriptedLab, n int) (row tableRow) {
	t.Helper()
	row.verdicts = map[Verdict]int{}
	synctest.Test(t, func(t *testing.T) {
		b, err := newJudge(t.Context(), l, labPlan())
		if err != nil {
			t.Fatal(err)
		}
		a := l.actors["1"]
		for range n {
			begin := time.Now()
			l.asked = 0
			l.log = nil
			timings, out, err := b.Benchmark(t.Context(), l.artifact("candidate 1", a), 0)
			if err != nil {
				t.Fatal(err)
			}
			row.verdicts[out.Verdict]++
			row.rounds = append(row.rounds, float64(l.asked))
			row.seconds = append(row.seconds, time.Since(begin).Seconds())
			if out.Verdict == "" {
				row.ratios = append(row.ratios, timings[0].Ratio/(a.ns/l.baseline[""].ns))
				row.dropped += float64(timings[0].Discarded) / float64(timings[0].Discarded+len(timings[0].SamplesNS))
			}
		}
	})
	for _, s := range []*[]float64{&row.rounds, &row.seconds, &row.ratios} {
		slices.Sort(*s)
	}
	return row
}

func (r tableRow) String() string {
	var b strings.Builder
	for _, v := range []Verdict{"", Implausible, Infrastructure} {
		name := string(v)
		if v == "" {
			name = "timed"
		}
		fmt.Fprintf(&b, "%s %4d  ", name, r.verdicts[v])
	}
	q := func(s []float64, at float64) float64 {
		if len(s) == 0 {
			return math.NaN()
		}
		return Quantile(s, at)
	}
	fmt.Fprintf(&b, "rounds %3.0f %4.0f %5.0f  seconds %5.2f %5.2f %5.2f  ratio/truth %.3f %.3f %.3f  dropped %.0f%%",
		q(r.rounds, 0.5), q(r.rounds, 0.95), q(r.rounds, 1), q(r.seconds, 0.5), q(r.seconds, 0.95), q(r.seconds, 1),
		q(r.ratios, 0.01), q(r.ratios, 0.5), q(r.ratios, 0.99), 100*r.dropped/math.Max(1, float64(len(r.ratios))))
	return b.String()
}

type machine struct {
	name string
	weather
}

// beyond says that the machine is busier than those that were measured.
func (m machine) beyond() bool { return m.name == "crowded" || m.name == "even" }

// machines are the weathers of the tables. What is beyond busy was not measured: three times as many
// processes, and as many whose candidate waits within almost every batch but varies little otherwise.
var machines = []machine{{"calm", calm}, {"busy", busy}, {"crowded", func() weather {
	w := busy
	w.outside, w.run, w.slices = 0.8, 3e6, 0.75
	return w
}()}, {"even", func() weather {
	w := busy
	w.outside, w.run, w.noise = 0.8, 2e6, 0.002
	return w
}()}}

// An honest candidate is never called a liar, whatever the machine does, and its
// ratio is true. The table is what the rules cost.
func TestHonest(t *testing.T) {
	for _, m := range machines {
		for _, c := range []struct {
			name    string
			a       actor
			base    int
			timed   bool // even on a busy machine
			seconds float64
		}{
			{"1 thread", actor{ns: 80e3, threads: 1}, 1, true, 2},
			{"1 thread, beside 2", actor{ns: 80e3, threads: 1}, 2, true, 8},
			{"2 threads", actor{ns: 80e3, threads: 2}, 1, true, 8},
			{"2 threads, beside 2", actor{ns: 80e3, threads: 2}, 2, true, 15},
			{"2 declared, 1 works", actor{ns: 80e3, threads: 2, working: 1}, 1, true, 8},
			{"launches of 20 ms", actor{ns: 20e6, threads: 1}, 1, true, 3},
			{"20 ms, 2 threads", actor{ns: 20e6, threads: 2}, 1, false, 40},
			{"launches of 11 us", actor{ns: 11e3, threads: 1}, 1, true, 2},
		} {
			l := newLab()
			l.weather = m.weather
			l.actors["1"] = &c.a
			l.baseline[""].threads = c.base
			row := measureMany(t, l, *measurements)
			t.Logf("%-7s  %-20s %s", m.name, c.name, row)
			if row.verdicts[Implausible] > 0 {
				t.Errorf("%s, %s: an honest candidate is implausible", m.name, c.name)
			}
			if m.beyond() {
				continue
			}
			if (m.name == "calm" || c.timed) && row.verdicts[""] != *measurements {
				t.Errorf("%s, %s: not always timed", m.name, c.name)
			}
			if len(row.ratios) > 0 {
				if lo, hi := Quantile(row.ratios, 0.01), Quantile(row.ratios, 0.99); lo < 0.95 || hi > 1.05 {
					t.Errorf("%s, %s: ratios from %.3f to %.3f of the truth", m.name, c.name, lo, hi)
				}
			}
			if m.name == "calm" && row.rounds[len(row.rounds)-1] > 40 {
				t.Errorf("%s, %s: %g rounds on a calm machine", m.name, c.name, row.rounds[len(row.rounds)-1])
			}
			if n := len(row.seconds); row.seconds[n-1] > c.seconds {
				t.Errorf("%s, %s: %.1f s", m.name, c.name, row.seconds[n-1])
			}
		}
	}
}

// A lie is caught, and one that is not caught does not pay.
func TestLies(t *testing.T) {
	for _, m := range machines {
		for _, threads := range [][2]int{{1, 1}, {2, 1}, {2, 2}} {
			if m.beyond() && *measurements < 100 {
				continue
			}
			smallest := math.Inf(1)
			lies := []float64{5, 2, 1.2, 1.1}
			if *measurements >= 100 {
				lies = []float64{5, 3, 2, 1.5, 1.3, 1.2, 1.15, 1.1, 1.08, 1.07, 1.06, 1.05, 1.04, 1.03, 1.02}
			}
			for _, lie := range lies {
				l := newLab()
				l.weather = m.weather
				l.actors["1"] = &actor{ns: 200e3, threads: threads[0], working: threads[1], claims: liar(lie, 1)}
				row := measureMany(t, l, *measurements)
				t.Logf("%-7s  %d declared, %d work, lies %.2f  %s", m.name, threads[0], threads[1], lie, row)
				caught := row.verdicts[Implausible] == *measurements
				if caught && lie < smallest {
					smallest = lie
				}
				if !caught && (!m.beyond() && lie >= 1.2 || m.name == "calm" && lie >= 1.1) {
					t.Errorf("%s, %v threads: a lie of %g is not always caught", m.name, threads, lie)
				}
				if len(row.ratios) > 0 && row.ratios[0] < 0.90 {
					t.Errorf("%s, %v threads: a lie of %g gains %.3f", m.name, threads, lie, row.ratios[0])
				}
			}
			t.Logf("%-7s  %d declared, %d work: the smallest lie that is always caught is %.2f", m.name, threads[0], threads[1], smallest)
		}
	}
}

// Whoever chooses which of its readings are believed gains nothing by it.
func TestChosenReadings(t *testing.T) {
	chooser := func(below, share float64, spoil func(*Reading)) func(Reading, float64, *rand.Rand) Reading {
		return func(r Reading, slow float64, rng *rand.Rand) Reading {
			if slow > below && rng.Float64() < share {
				spoil(&r)
			}
			return r
		}
	}
	sleeps := func(r *Reading) { r.WallNS += 1e6 }                // after the timed region
	works := func(r *Reading) { r.WallNS += 1e6; r.CPUNS += 1e6 } // the same, with a core
	always := math.Inf(-1)
	for _, m := range machines[:2] {
		for _, threads := range []int{1, 2} {
			for _, c := range []struct {
				name   string
				claims func(Reading, float64, *rand.Rand) Reading
			}{
				{"lies 1.1 in 60%", liar(1.1, 0.6)},
				{"lies 1.1 in 95%", liar(1.1, 0.95)},
				{"lies 3 in 60%", liar(3, 0.6)},
				{"lies 3 in 95%", liar(3, 0.95)},
				{"sleeps after its slower half", chooser(1, 1, sleeps)},
				{"works after its slower half", chooser(1, 1, works)},
				{"works after 40%, whichever", chooser(always, 0.4, works)},
			} {
				l := newLab()
				l.weather = m.weather
				l.weather.noise = 0.05
				l.actors["1"] = &actor{ns: 200e3, threads: threads, claims: c.claims}
				row := measureMany(t, l, *measurements)
				t.Logf("%-7s  %d threads, %-30s %s", m.name, threads, c.name, row)
				if len(row.ratios) > *measurements/10 && Quantile(row.ratios, 0.5) < 0.96 {
					t.Errorf("%s, %d threads, %s: gains %.3f", m.name, threads, c.name, Quantile(row.ratios, 0.5))
				}
			}
		}
	}
}

// plain makes a tally of readings that nothing disturbs, with these ratios by turns.
func plain(j *judge, n int, ratios []float64, pairNS float64) *tally {
	t := j.newTally(Artifact{Threads: 1}, j.plan.Tune[0])
	t.base = 1
	for i := range n {
		read := func(ns float64) Reading { return Reading{NS: ns, WallNS: ns + 80e3, CPUNS: ns + 80e3} }
		t.pairs = append(t.pairs, pair{read(pairNS / 2 * ratios[i%len(ratios)]), read(pairNS / 2), 1, 1, 0})
	}
	return t
}

// Work beside a measurement slows how contents are made, and takes no pairs from it.
func TestMakingBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pairs := map[time.Duration]int{}
		for _, making := range []time.Duration{0, 300 * time.Millisecond} {
			l := newLab()
			l.making, l.rng = making, rand.New(rand.NewPCG(1, 2))
			l.weather.noise, l.weather.run = 0.05, 1e12 // never precise, never preempted
			l.actors["1"], l.baseline[""] = &actor{ns: 60e6}, &actor{ns: 60e6}
			p := labPlan()
			p.SampleTime = time.Second
			j, err := newJudge(t.Context(), l, p)
			if err != nil {
				t.Fatal(err)
			}
			r, err := newOrdeal(j, p).Evaluate(t.Context(), labGenome(t, p, 1), 0)
			if err != nil || r.Verdict != Correct {
				t.Fatalf("%s: %s, %v", r.Verdict, r.Reason, err)
			}
			pairs[making] = len(r.Timings[0].SamplesNS)
		}
		if n := pairs[0]; n < 6 || n > 12 || pairs[300*time.Millisecond] != n {
			t.Errorf("pairs by the time that contents take: %v", pairs)
		}
	})
}

// On a calm machine sampling stops as it always did.
func TestEnough(t *testing.T) {
	j := &judge{rules: rulesOf("cpu"), plan: twoShapes()}
	j.plan.Samples, j.plan.SampleTime = 20, time.Second
	j.plan.Tune = j.plan.Tune[:1]
	for _, c := range []struct {
		n         int
		ratios    []float64
		spent     time.Duration
		incumbent float64
		pairNS    float64
		want      string
	}{
		{2, []float64{5}, 20 * time.Second, 1, 5e6, ""},
		{3, []float64{1.2, 1.3}, 0, 1, 5e6, "slower"},
		{3, []float64{1.05, 1.3}, 0, 1, 5e6, ""},
		{3, []float64{1.3}, 0, 0, 5e6, ""},
		{5, []float64{1}, 0, 0, 5e6, ""},
		{6, []float64{1, 1.005}, 0, 0, 5e6, "precise"},
		{6, []float64{1, 1.03}, 0, 0, 5e6, ""},
		{6, []float64{1, 1.5}, 0, 0, 5e6, ""},
		{5, []float64{1, 1.5}, time.Second, 0, 5e6, "limit"},
		{4, []float64{1, 1.5}, time.Second, 0, 5e6, ""},
		{3, []float64{1, 1.5}, 2 * time.Second, 0, 500e6, "limit"},
		{2, []float64{1, 1.5}, 2 * time.Second, 0, 500e6, ""},
		{20, []float64{1, 1.5}, 0, 0, 5e6, "limit"},
	} {
		if got := j.enough(plain(j, c.n, c.ratios, c.pairNS), c.spent, c.incumbent, 0); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	j.plan.Tune = twoShapes().Tune
	if got := j.enough(plain(j, 3, []float64{1.3}, 5e6), 0, 1, 0); got != "" {
		t.Errorf("of two shapes, one that is slower: %q", got)
	}
	if got := j.enough(plain(j, 5, []float64{1}, 5e6), 0, 0, 1e7); got != "limit" {
		t.Errorf("below the floor: %q", got)
	}

	// Disturbed: more than the plan's samples until the ratio has settled.
	for _, c := range []struct {
		n      int
		ratios []float64
		spent  time.Duration
		want   string
	}{
		{20, []float64{1, 1.02}, 2 * time.Second, "precise"},
		{20, []float64{0.975, 1, 1.025}, 2 * time.Second, "limit"},
		{20, []float64{1, 1.5}, 2 * time.Second, ""},
		{80, []float64{1, 1.15}, 31 * time.Second, "limit"},
		{80, []float64{1, 1.5}, 31 * time.Second, "unsettled"},
		{5, []float64{1}, 31 * time.Second, ""}, // the time of few, long launches
	} {
		tl := plain(j, c.n, c.ratios, 5e6)
		tl.seen.Disturbed = "others"
		if got := j.enough(tl, c.spent, 0, 0); got != c.want {
			t.Errorf("disturbed, %+v: %q", c, got)
		}
	}
}

// Where almost every reading waited, the few that tell of the clock do not keep a
// measurement going forever.
// Who has the device keeps it: a measurement of which little counts ends.
func TestHopeless(t *testing.T) {
	j := &judge{rules: rulesOf("cuda"), plan: labPlan()}
	j.plan.Samples, j.plan.SampleTime = 20, time.Second
	for _, c := range []struct {
		others bool
		spent  time.Duration
		counts int // one pair of so many
		want   string
	}{
		{true, 6 * time.Second, 10, stopUnsettled},
		{true, 4 * time.Second, 10, ""},
		{false, 6 * time.Second, 10, ""},
		{true, 6 * time.Second, 2, ""},
	} {
		tl := j.newTally(Artifact{}, j.plan.Tune[0])
		for i := range 200 {
			launch := 10e3 * (1 + 0.4*float64(i%7))
			mine, theirs := Reading{NS: launch, WallNS: 25*launch + 20e3}, Reading{NS: 10e3, WallNS: 520e3}
			if i%c.counts != 0 {
				mine.WallNS += 2e6 // somebody else had the device
				theirs.WallNS += 2e6
			}
			tl.pairs = append(tl.pairs, pair{mine, theirs, 25, 50, 0})
		}
		tl.seen.Disturbed = "another process uses the GPU"
		if c.others {
			tl.seen.Others = []string{"python3 (pid 7)"}
		}
		if got := j.enough(tl, c.spent, 0, 0); got != c.want {
			t.Errorf("%+v: %q, %d of %d count", c, got, len(tl.count().samples), tl.count().taken)
		}
	}
}

func TestFewReadingsTell(t *testing.T) {
	j := &judge{rules: rulesOf("cpu"), plan: labPlan()}
	j.plan.Samples, j.plan.SampleTime = 20, time.Second
	tl := plain(j, 20, []float64{1, 1.02}, 5e6)
	for i := range tl.pairs {
		r := &tl.pairs[i].candidate
		r.WaitedNS += 5e6
		r.WallNS += 5e6
		r.NS += 5e6
		if i < 3 {
			r.NS /= 10
		}
	}
	if got := j.enough(tl, 2*time.Second, 0, 0); got != "" {
		t.Errorf("after 2 s: %q", got)
	}
	if got := j.enough(tl, 31*time.Second, 0, 0); got == "" {
		t.Errorf("after 31 s: %q", got)
	}
	// Where every reading waited within the timed region, none tells. However precise the
	// ratio is, sampling then goes on for all the time that the plan allows.
	tl = plain(j, 40, []float64{1}, 5e6)
	for i := range tl.pairs {
		r := &tl.pairs[i].candidate
		r.NS, r.WallNS, r.WaitedNS = r.NS+5e6, r.WallNS+5e6, r.WaitedNS+5e6
	}
	for spent, want := range map[time.Duration]string{time.Second / 2: "", time.Second: stopPrecise} {
		if c := tl.count(); c.told != 0 {
			t.Errorf("%d readings tell", c.told)
		}
		if got := j.enough(tl, spent, 0, 0); got != want {
			t.Errorf("none tells after %v: %q", spent, got)
		}
	}
	// A claim of less than the processor time is wrong wherever the process waited, and also
	// where evotune itself waited before it started the batch.
	tl = plain(j, 40, []float64{1}, 5e6)
	for i := range tl.pairs {
		r := &tl.pairs[i].candidate
		r.NS, r.WallNS, r.WaitedNS = r.NS/1.2, r.WallNS+6e6, r.WaitedNS+5e6
	}
	if c := tl.count(); c.told != 40 || c.chance() > guilt {
		t.Errorf("a clock that is too slow for the processor time: %d readings tell, chance %g", c.told, c.chance())
	}
	// Processor time that the baseline leaves unclaimed as well proves nothing.
	tl = plain(j, 40, []float64{1}, 5e6)
	for i := range tl.pairs {
		for _, r := range []*Reading{&tl.pairs[i].candidate, &tl.pairs[i].baseline} {
			r.WallNS, r.CPUNS = r.WallNS+200e3, r.CPUNS+200e3
		}
		r := &tl.pairs[i].candidate
		r.WallNS, r.WaitedNS = r.WallNS+5e6, r.WaitedNS+5e6
	}
	if c := tl.count(); c.told != 0 {
		t.Errorf("where the baseline leaves as much unclaimed, %d readings tell", c.told)
	}
	// And a clock that stays doubtful ends as unsettled.
	tl = plain(j, 80, []float64{1}, 5e6)
	for i := range 64 {
		tl.pairs[i].candidate.CPUNS *= 2
	}
	for spent, want := range map[time.Duration]string{2 * time.Second: "", 31 * time.Second: stopUnsettled} {
		if got := j.enough(tl, spent, 0, 0); got != want {
			t.Errorf("doubtful after %v: %q", spent, got)
		}
	}
}

// On a GPU the events are held against evotune's clock.
func TestClocksOnAGPU(t *testing.T) {
	j := &judge{rules: rulesOf("cuda"), plan: labPlan()}
	for _, c := range []struct {
		what        string
		event, wall float64 // of a launch
		batch       int
		wrong       bool
	}{
		{"the same", 10e3, 10.1e3, 50, false},
		{"one long launch", 1e6, 1.02e6, 1, false},
		{"the cost of a batch", 10e3, 11e3, 50, false},
		{"most of the work outside of the events", 38, 9e6, 1, true},
		{"a fifth of it", 10e3, 12.5e3, 500, true},
		{"no wall clock", 1, 0, 1, true},
	} {
		tl := j.newTally(Artifact{}, j.plan.Tune[0])
		for range 40 {
			mine := Reading{NS: c.event, WallNS: c.wall * float64(c.batch)}
			tl.pairs = append(tl.pairs, pair{mine, Reading{NS: 10e3, WallNS: 520e3}, c.batch, 50, 0})
		}
		if got := tl.count().chance() < guilt; got != c.wrong {
			t.Errorf("%s: wrong is %t: %s", c.what, got, tl.lie())
		}
	}
	// A host that is late now and then is not a lie, and its readings do not count.
	tl := j.newTally(Artifact{}, j.plan.Tune[0])
	for i := range 40 {
		mine, theirs := Reading{NS: 10e3, WallNS: 520e3}, Reading{NS: 10e3, WallNS: 520e3}
		if i%7 == 3 {
			mine.WallNS += 1e6
		}
		if i%7 == 5 {
			theirs.WallNS += 1e6
		}
		tl.pairs = append(tl.pairs, pair{mine, theirs, 50, 50, 0})
	}
	if c := tl.count(); c.chance() < doubt || len(c.samples) < 30 || Median(c.samples) != 10e3 {
		t.Errorf("%d samples, chance %g", len(c.samples), c.chance())
	}
	// A reading that nothing confirms, since it waited for long, does not count.
	for i := range tl.pairs {
		if i%2 == 0 {
			tl.pairs[i].candidate = Reading{NS: 5e3, WallNS: 700e3, WaitedNS: 450e3}
		}
	}
	if c := tl.count(); len(c.samples) > 20 || slices.Min(c.samples) != 10e3 {
		t.Errorf("%d samples, the least %g", len(c.samples), slices.Min(c.samples))
	}
}

// gpu is a GPU whose host is calm, and busyHost one whose host has three
// processes for every core.
var (
	gpu = weather{
		passed: [5]float64{8, 14, 25, 40, 60}, run: math.Inf(1), noise: 0.003,
	}
	busyHost = weather{
		passed: [5]float64{8, 14, 25, 60, 200}, run: 3e6, slices: 0.5, noise: 0.003, say: "others use 95% of the cores",
	}
)

// An honest candidate on a GPU, however busy the host is and however slow the
// candidate: its readings are longer, so that more of them are disturbed.
func TestHonestOnAGPU(t *testing.T) {
	for _, c := range []struct {
		name string
		weather
		ns     float64
		rounds float64
	}{
		{"calm", gpu, 100e3, 24},
		{"busy host", busyHost, 100e3, 120},
		{"busy host, slow candidate", busyHost, 5e6, 400},
		{"calm, slow candidate", gpu, 5e6, 24},
	} {
		l := newLab()
		l.kind, l.actors["1"].threads, l.baseline[""].threads = "cuda", 0, 0
		l.actors["1"].ns, l.weather = c.ns, c.weather
		row := measureMany(t, l, *measurements)
		t.Logf("%-26s %s", c.name, row)
		if row.verdicts[""] != *measurements || row.rounds[len(row.rounds)-1] > c.rounds {
			t.Errorf("%s: %s", c.name, row)
		}
	}
}

// A lie about time on a GPU is found however busy the host is: waiting for a core
// is taken off what evotune's clock shows, and explains no more than itself.
func TestLiesOnAGPU(t *testing.T) {
	for _, w := range []weather{gpu, busyHost} {
		for _, lie := range []float64{1.5, 3} {
			l := newLab()
			l.kind, l.baseline[""].threads, l.weather = "cuda", 0, w
			l.actors["1"] = &actor{ns: 100e3, claims: func(r Reading, slow float64, _ *rand.Rand) Reading {
				r.NS = 100e3 * slow / lie
				return r
			}}
			row := measureMany(t, l, *measurements)
			t.Logf("%.1f %s", lie, row)
			if row.verdicts[Implausible] != *measurements {
				t.Errorf("a lie of %g times: %s", lie, row)
			}
		}
	}
}

func TestFloor(t *testing.T) {
	l := newLab()
	l.peaks = Peaks{Rates: map[string]float64{"f32/1": 1e9, "f32/2": 1.5e9, "memory/1": 1e9}, CacheBytes: 0, Cores: 2}
	p := labPlan()
	j := &judge{lab: l, rules: rulesOf("cpu"), spec: p.Definition.ProblemOn("cpu")}
	floor := func(threads, sets int) float64 {
		t.Helper()
		ns, err := j.floor(t.Context(), &tally{shape: p.Tune[0], threads: threads, sets: sets})
		if err != nil {
			t.Fatal(err)
		}
		return ns
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6*want {
			t.Errorf("%s: %g ns, want %g", what, got, want)
		}
	}
	near("a million operations", floor(1, 1), 1e6/1.1)
	near("two threads", floor(2, 1), 1e6/1.5/1.1)
	near("four threads on two cores", floor(4, 1), 1e6/1.5/1.1)
	l.peaks.Rates["f32/1"], l.peaks.Rates["f32/2"] = 1e15, 1e15
	near("inputs from memory", floor(1, 1), 4000/1.3)
	l.peaks.CacheBytes = 1600 // of which 1.25 times count
	near("half of the inputs from memory", floor(1, 1), 2000/1.3)
	near("of two sets, three quarters", floor(1, 2), 3000/1.3)
	delete(l.peaks.Rates, "memory/1")
	l.peaks.Rates["read"], l.peaks.Rates["copy"], l.peaks.Rates["l2"] = 0.5e9, 1e9, 4e9
	near("a GPU, beyond its cache", floor(0, 1), 6000/1.3)
	l.peaks.CacheBytes = 1 << 20
	near("a GPU, in its cache", floor(0, 1), 8000/4/1.3)
	l.peaks.Rates = map[string]float64{"tensor-f16": 1}
	if got := floor(1, 1); got != 0 {
		t.Errorf("without a peak there is a floor of %v ns", got)
	}
}

// Which pairs count, and as what.
func TestCount(t *testing.T) {
	j := &judge{rules: rulesOf("cpu"), plan: labPlan()}
	// One launch a batch. Baselines take 4 ms and candidates 3 ms, if they say so.
	base := Reading{NS: 4e6, WallNS: 4.1e6, CPUNS: 4.08e6}
	fine := Reading{NS: 3e6, WallNS: 3.1e6, CPUNS: 3.08e6}
	lies := Reading{NS: 2e6, WallNS: 3.1e6, CPUNS: 3.08e6}                       // counts as 3
	works := Reading{NS: 3e6, WallNS: 4.1e6, CPUNS: 4.08e6}                      // counts as 4
	above := Reading{NS: 9e6, WallNS: 3.1e6, CPUNS: 3.08e6}                      // more than passed
	inside := Reading{NS: 8e6, WallNS: 8.1e6, CPUNS: 3.08e6, WaitedNS: 5e6}      // waited within
	outside := Reading{NS: 3e6, WallNS: 8.1e6, CPUNS: 3.08e6, WaitedNS: 5e6}     // waited before
	baseInside := Reading{NS: 9e6, WallNS: 9.1e6, CPUNS: 4.08e6, WaitedNS: 5e6}  // waited within
	baseOutside := Reading{NS: 4e6, WallNS: 9.1e6, CPUNS: 4.08e6, WaitedNS: 5e6} // waited before
	spike := Reading{NS: 4e6, WallNS: 4.1e6, CPUNS: 6e6}                         // the hypervisor
	type of = [2]Reading
	for _, c := range []struct {
		name          string
		threads, base int
		pairs         []of
		samples       string // in ms, the baseline's behind
		dropped, bent int
		confirmed     string // of the candidate and of the baseline
	}{
		{"exact", 1, 1, []of{{fine, base}, {fine, base}, {fine, base}, {lies, base}, {works, base}, {inside, base}, {outside, base}}, "3 3 3 3 4 3 3 / 4 4 4 4 4 4 4", 0, 3, "3/5 7/7"},
		{"exact, claims more than passed", 1, 1, []of{{fine, base}, {fine, base}, {above, base}, {above, base}}, "3 3 3 3 / 4 4 4 4", 0, 2, "2/4 4/4"},
		{"exact, the baseline waits", 1, 1, []of{{fine, base}, {fine, base}, {fine, base}, {fine, baseInside}, {fine, baseOutside}, {fine, spike}}, "3 3 3 3 3 3 / 4 4 4 4 4 4", 0, 1, "6/6 3/4"},
		{"one disturbed reading of the baseline", 1, 1, []of{{fine, spike}, {fine, base}}, "3 3 / 4 4", 0, 0, "2/2 1/2"},
		{"exact beside two threads", 1, 2, []of{{fine, base}, {fine, base}, {fine, base}, {inside, base}, {fine, baseInside}}, "3 3 3 3 / 4 4 4 4", 1, 2, "4/4 4/4"},
		{"two threads", 2, 1, []of{{fine, base}, {fine, base}, {fine, base}, {outside, base}, {fine, baseOutside}}, "3 3 3 3 / 4 4 4 4", 1, 1, "4/5 4/5"},
		{"two threads, more waits than the baseline", 2, 1, []of{{fine, base}, {fine, base}, {fine, base}, {outside, base}, {works, base}, {fine, baseOutside}}, "3 3 3 4 3 / 4 4 4 4 4", 1, 2, "4/6 5/6"},
		{"two threads that wait within, on a calm machine", 2, 1, []of{{fine, base}, {fine, base}, {fine, base}, {inside, base}}, "3 3 3 8 / 4 4 4 4", 0, 0, "4/4 4/4"},
		{"two threads that wait within, as the baseline does", 2, 1, []of{{fine, base}, {fine, base}, {fine, base}, {inside, base}, {fine, baseInside}}, "3 3 3 3 / 4 4 4 4", 1, 2, "5/5 5/5"},
	} {
		tl := &tally{rules: j.rules, threads: c.threads, base: c.base}
		for _, p := range c.pairs {
			tl.pairs = append(tl.pairs, pair{p[0], p[1], 1, 1, 0})
		}
		got := tl.count()
		var words []string
		for _, list := range [][]float64{got.samples, got.baseline} {
			for _, ns := range list {
				words = append(words, fmt.Sprint(math.Round(ns/1e6)))
			}
			words = append(words, "/")
		}
		samples := strings.Join(words[:len(words)-1], " ")
		confirmed := fmt.Sprintf("%d/%d %d/%d", got.confirmed, got.told, got.base, got.baseTold)
		if samples != c.samples || got.dropped != c.dropped || got.bent != c.bent || confirmed != c.confirmed || got.taken != len(c.pairs) {
			t.Errorf("%s: samples %s, %d dropped, %d bent, confirmed %s", c.name, samples, got.dropped, got.bent, confirmed)
		}
	}
}

// TestParallel: who declares more threads than there are cores used no more than
// these at once.
func TestParallel(t *testing.T) {
	r := Reading{NS: 1e6, WallNS: 1.1e6, CPUNS: 4e6}
	for _, c := range []struct {
		threads, cores int
		want           float64
	}{{8, 2, 2e6}, {8, 8, 1.1e6}, {8, 0, 1.1e6}, {2, 2, 2e6}, {0, 2, 4e6}} {
		var l tally
		l.seen.merge(Conditions{Cores: c.cores})
		if got := r.passed(l.parallel(c.threads), false); got != c.want {
			t.Errorf("%d threads on %d cores: %g ns passed, want %g", c.threads, c.cores, got, c.want)
		}
	}
}

// A candidate may lead that is not clearly slower than the best; at one of several shapes it may be slower,
// and before there is a best it is held against the baseline.
func TestLeads(t *testing.T) {
	j := &judge{rules: rulesOf("cpu"), plan: twoShapes()}
	for _, c := range []struct {
		ratio, incumbent float64
		shapes           int
		want             bool
	}{
		{0.9, 1, 1, true},
		{1.01, 1, 1, false},
		{1.4, 1, 2, true},
		{1.6, 1, 2, false},
		{1.4, 0, 1, true},
		{1.6, 0, 1, false},
	} {
		if got := plain(j, 20, []float64{c.ratio}, 5e6).leads(c.incumbent, c.shapes); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Single launches are asked for once, of a candidate that may be the best: they cost as
// much as all else, and tell nothing of one that is slower. Untimed ones are asked for where it may be faster than
// the best, and of finalists.
func TestLatency(t *testing.T) {
	for _, c := range []struct {
		incumbent    float64
		ns           float64 // the baseline takes 0.1 ms
		want, longer int
	}{{0, 1e5, 1, 1}, {0, 1e6, 1, 0}, {20, 1e6, 1, 1}, {1e-3, 1e6, 0, 0}} {
		synctest.Test(t, func(t *testing.T) {
			l, p := newLab(), labPlan()
			asked, last, longer := 0, 0, 0
			l.actors["1"] = &actor{ns: c.ns, threads: 1, fault: func(_ Purpose, r SampleRequest) error {
				if r.Last {
					last++
				}
				if r.Latency {
					asked++
				}
				if r.Longer {
					longer++
				}
				return nil
			}}
			b, err := newJudge(t.Context(), l, p)
			if err != nil {
				t.Fatal(err)
			}
			r, err := newOrdeal(b, p).Evaluate(t.Context(), labGenome(t, p, 1), c.incumbent)
			if err != nil || r.Verdict != Correct {
				t.Fatalf("%s: %s, %v", r.Verdict, r.Reason, err)
			}
			if asked != c.want || longer != c.longer || last != 1 {
				t.Errorf("beside %g: asked %d times, for more launches %d times, of %d last rounds", c.incumbent, asked, longer, last)
			}
			for _, last := range []bool{false, true} {
				if r := b.request(p.Tune[0], 1, last, 0); r.Longer != last {
					t.Errorf("in finals, last %v: %+v", last, r)
				}
			}
		})
	}
}
