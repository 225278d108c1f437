package search_test

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/replay"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/search"
)

var (
	spacesFlag     = flag.String("spaces", "", "files of recorded spaces (a glob pattern) to measure the strategies on")
	repeatsFlag    = flag.Int("repeats", 40, "runs per strategy and recorded space, with seeds 1, 2, ...")
	windowFlag     = flag.Int("window", 1, "proposals in flight on recorded spaces")
	strategiesFlag = flag.String("strategies", strings.Join(search.Names(), ","), "strategies to measure on recorded spaces")
	tracesFlag     = flag.String("traces", "", "file that gets the configurations in the order evaluated, one JSON object per space and strategy")
)

// TestRecordedSpaces measures the strategies on recorded spaces, which do not
// belong to the repository; docs/search.md explains the figures.
func TestRecordedSpaces(t *testing.T) {
	if *spacesFlag == "" {
		t.Skip("no recorded spaces: name some with -spaces")
	}
	files, err := filepath.Glob(*spacesFlag)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files match %s (%v)", *spacesFlag, err)
	}
	var trace *os.File
	if *tracesFlag != "" {
		if trace, err = os.Create(*tracesFlag); err != nil {
			t.Fatal(err)
		}
		defer trace.Close()
	}
	sums := map[string]float64{}
	strategies := strings.Split(*strategiesFlag, ",")
	for _, file := range files {
		r := openRecorded(t, file)
		for _, name := range strategies {
			runs := make([]run, *repeatsFlag)
			var wait sync.WaitGroup
			slots := make(chan struct{}, runtime.GOMAXPROCS(0))
			for i := range runs {
				wait.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					runs[i] = r.walk(t, name, int64(i+1), *windowFlag)
				})
			}
			wait.Wait()
			mean, deviation := summary(runs)
			sums[name] += mean / float64(len(files))
			t.Logf("%-26s %-12s P_mean %+.3f ± %.3f", r.table.Name(), name, mean, deviation/math.Sqrt(float64(len(runs))))
			if trace != nil {
				type evals struct {
					Evals []string `json:"evals"`
				}
				record := struct {
					Space    string  `json:"space"`
					Strategy string  `json:"strategy"`
					Runs     []evals `json:"runs"`
				}{Space: strings.TrimSuffix(filepath.Base(file), ".json.gz"), Strategy: name}
				for _, run := range runs {
					record.Runs = append(record.Runs, evals{run.keys})
				}
				if err := json.NewEncoder(trace).Encode(record); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, name := range strategies {
		t.Logf("%-26s %-12s P_mean %+.3f", "mean", name, sums[name])
	}
}

// A run is one campaign until its budget is spent.
type run struct {
	score float64
	keys  []string // values joined by commas
}

func summary(runs []run) (mean, deviation float64) {
	for _, r := range runs {
		mean += r.score / float64(len(runs))
	}
	for _, r := range runs {
		deviation += (r.score - mean) * (r.score - mean)
	}
	return mean, math.Sqrt(deviation / math.Max(1, float64(len(runs)-1)))
}

// A recorded is a space with the budget and the yardstick of the published
// auto-tuning methodology (Willemsen et al., 2024). Time is scored between the
// moments at which random search is expected to have gone 1% and 95% of the
// way from the median to the optimum; the budget is 1.1 times the latter. The
// score at a time is (expectation of random search - best so far) over
// (expectation of random search - optimum), and a run's score its mean over
// 1000 times.
type recorded struct {
	table    *replay.Table
	space    *genome.Space
	results  map[genome.Genome]evaluator.Result
	optimum  float64
	mean     float64
	times    []float64 // seconds
	baseline []float64 // expected best of random search at times
	budget   float64   // seconds
}

func openRecorded(t *testing.T, file string) *recorded {
	t.Helper()
	table, err := replay.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := replay.New(table, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &recorded{table: table, space: ev.Space(), results: map[genome.Genome]evaluator.Result{}}
	var values, costs []float64
	total := 0.0
	for g := range r.space.All() {
		res, err := ev.Evaluate(t.Context(), g, 0)
		if err != nil {
			t.Fatal(err)
		}
		r.results[g] = res
		costs = append(costs, res.Cost.Seconds())
		total += res.Cost.Seconds()
		if res.Verdict == evaluator.Correct {
			values = append(values, res.Fitness)
		}
	}
	slices.Sort(values)
	r.optimum = values[0]
	for _, v := range values {
		r.mean += v / float64(len(values))
	}
	n := float64(len(values))
	moment := func(way float64) float64 {
		target := r.optimum + (evaluator.Median(values)-r.optimum)*(1-way)
		worse := 0.0
		for _, v := range values {
			if v > target {
				worse++
			}
		}
		return math.Ceil(worse/(n+1-worse)) * evaluator.Median(costs)
	}
	first, last := moment(0.01), moment(0.95)
	r.budget = 1.1 * last
	const points = 1000
	for i := range points {
		at := first + (last-first)*float64(i)/(points-1)
		draws := n / float64(len(costs)) * at / (total / float64(len(costs)))
		r.times = append(r.times, at)
		r.baseline = append(r.baseline, expectedBest(values, math.Min(n, math.Max(1, draws))))
	}
	return r
}

// expectedBest is the expected minimum of m of the sorted values, drawn without
// replacement: v1 + Σ P(none of the i best is drawn) (v[i+1] - v[i]).
func expectedBest(values []float64, m float64) float64 {
	lgamma := func(x float64) float64 { y, _ := math.Lgamma(x); return y }
	n := float64(len(values))
	all := lgamma(n+1) - lgamma(n-m+1)
	e := values[0]
	for i := 1; i < len(values) && float64(i) <= n-m; i++ {
		k := n - float64(i)
		e += math.Exp(lgamma(k+1)-lgamma(k-m+1)-all) * (values[i] - values[i-1])
	}
	return e
}

// walk runs one campaign on the simulated clock.
func (r *recorded) walk(t *testing.T, strategy string, seed int64, window int) run {
	s, err := search.New(strategy, r.space, search.Options{Seed: seed})
	if err != nil {
		t.Error(err)
		return run{}
	}
	var (
		out   run
		told  int
		asked []genome.Genome
		clock float64
		best  = math.NaN()
		point int
		sum   float64
	)
	score := func(until float64) {
		for ; point < len(r.times) && r.times[point] < until; point++ {
			have := best
			if math.IsNaN(have) {
				have = r.mean
			}
			sum += (r.baseline[point] - have) / (r.baseline[point] - r.optimum)
		}
	}
	for clock < r.budget {
		p, ok := s.Ask()
		if !ok {
			break
		}
		asked = append(asked, p.Genome)
		res := r.results[p.Genome]
		clock += res.Cost.Seconds()
		score(clock)
		if res.Verdict == evaluator.Correct && !(best <= res.Fitness) {
			best = res.Fitness
		}
		var values []string
		for _, gene := range r.space.Genes() {
			v, _ := p.Genome.Get(gene.Name)
			values = append(values, v.String())
		}
		out.keys = append(out.keys, strings.Join(values, ","))
		for len(asked)-told >= window {
			res := r.results[asked[told]]
			s.Tell(told, search.Outcome{OK: res.Verdict == evaluator.Correct, Fitness: res.Fitness, Cost: res.Cost})
			told++
		}
	}
	score(math.Inf(1))
	out.score = sum / float64(len(r.times))
	return out
}
