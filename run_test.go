package evotune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cpu"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// Nobody who sets nothing gets one worker on many cores.
func TestWorkers(t *testing.T) {
	cores := runtime.NumCPU()
	for _, c := range []struct {
		asked, window int
		backend       string
		want          int
	}{
		{0, 0, CPU, min(2*cores, 8)},
		{0, 1, CPU, 1},
		{3, 0, CPU, 3},
		{9, 4, CPU, 4},
		{0, 32, CUDA, 32},
		{2, 32, CUDA, 2},
	} {
		if got := workersFor(c.asked, c.window, c.backend); got != c.want {
			t.Errorf("%d asked for, window %d on %s: %d workers, want %d", c.asked, c.window, c.backend, got, c.want)
		}
	}
}

// TestSearches: workers of a search are started where there will be one.
func TestSearches(t *testing.T) {
	job := Job{Table: "internal/tables/testdata/synthetic.json", Strategy: "random", Finalists: new(0), Budget: Budget{Evaluations: 12}}
	s := openStore(t)
	fin, err := (&Machine{}).Run(t.Context(), s, job, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var past []store.Event
	for e, err := range s.Events(fin.Campaign, 0) {
		if err != nil {
			t.Fatal(err)
		}
		past = append(past, e)
	}
	for _, c := range []struct {
		budget Budget
		past   []store.Event
		want   bool
	}{
		{Budget{}, nil, true},
		{Budget{Time: time.Minute}, nil, true},
		{Budget{Evaluations: 300}, nil, true},
		{Budget{Evaluations: 4}, nil, false}, // winners of neighbors are compared
		{Budget{Evaluations: 300}, past, true},
		{Budget{Evaluations: 12, Time: time.Hour}, past, false}, // finals alone
		{Budget{Evaluations: 14}, past, false},
		{Budget{Time: time.Hour}, past, true},
		{Budget{Time: time.Nanosecond}, past, false},
	} {
		if got, err := searches(c.budget, c.past, false); err != nil || got != c.want {
			t.Errorf("%+v after %d events: %v (%v)", c.budget, len(c.past), got, err)
		}
	}
}

// TestResumable: a campaign goes on only on its device and against its baseline, which depends on what is installed.
func TestResumable(t *testing.T) {
	then := evaluator.Description{Baseline: "attention of libcudnn.so 9.19.0", Device: evaluator.Device{Name: "H200", Fingerprint: "a"}}
	started, err := record.NewStarted(record.Job{}, then, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	past := []store.Event{{Campaign: "attention-1", Started: started}}
	if err := resumable(past, then); err != nil {
		t.Errorf("as it was: %v", err)
	}
	other := then
	other.Device.Fingerprint = "b"
	if err := resumable(past, other); err == nil || !strings.Contains(err.Error(), "another device") {
		t.Errorf("another device: %v", err)
	}
	other = then
	other.Baseline = "mma with its baseline genome"
	if err := resumable(past, other); err == nil || !strings.Contains(err.Error(), "against attention of libcudnn.so 9.19.0, and here the baseline is mma with its baseline genome") {
		t.Errorf("another baseline: %v", err)
	}
}

// A target that is there to render, to verify or to judge starts no campaign.
func TestRunRefuses(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "evotune.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing is kept
	m := new(Machine)
	done, err := m.Run(t.Context(), s, Job{Table: "internal/tables/testdata/synthetic.json", Budget: Budget{Evaluations: 5}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Campaign(done.Campaign)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := m.Recorded(c)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(c.Started.Config, &config); err != nil {
		t.Fatal(err)
	}
	config["hash"] = "abc"
	if c.Started.Config, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	changed, err := m.Recorded(c)
	if changed == nil || !errors.Is(err, ErrInput) {
		t.Fatalf("of a kernel that has changed: %v, %v", changed, err)
	}
	for name, x := range map[string]struct {
		target *Target
		want   string
	}{
		"recorded": {recorded, "is recorded"},
		"changed":  {changed, "is recorded"},
		"file":     {&Target{machine: m, file: &judged{path: "mine.c"}}, "mine.c is a finished kernel"},
	} {
		if sum, err := x.target.Run(t.Context(), s, Options{}); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), x.want) || sum.Campaign != "" {
			t.Errorf("%s: %+v, %v", name, sum, err)
		}
	}
	if all, err := s.Campaigns(); err != nil || len(all) != 1 || all[0].Evaluated != 5 {
		t.Errorf("the store has %+v (%v)", all, err)
	}
}

func openStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "evotune.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// logged is the log of a campaign, one event a line, without its place in the store and
// the time.
func logged(t *testing.T, s *store.Store, campaign string, kinds ...store.Kind) (lines []string) {
	t.Helper()
	for e, err := range s.Events(campaign, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if len(kinds) > 0 && !slices.Contains(kinds, e.Kind) {
			continue
		}
		e.Seq, e.Time = 0, time.Time{}
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, measuredOnce.ReplaceAllString(string(line), "measured"))
	}
	return lines
}

// measuredOnce is what the first event holds of this machine: how long preparing took, and the peaks that
// it was found to reach. Other processes that share the cache may find more between two campaigns.
var measuredOnce = regexp.MustCompile(`"peaks":\{[^}]*\}|"prepared_ns":\d+`)

// A job that was fixed when it was given walks the path that it would have walked then,
// whatever other campaigns find until it runs, and after a way through JSON.
func TestFix(t *testing.T) {
	const table = "internal/tables/testdata/synthetic.json"
	testFix(t, Job{Table: table}, nil)
}

// TestFixCPULong is TestFix on this machine, without the results, which are measured.
func TestFixCPULong(t *testing.T) {
	longtest.Long(t, "it tunes a kernel on the CPU five times")
	testFix(t, Job{Kernel: "softmax", Backend: CPU, Finalists: new(0)}, []store.Kind{store.KindStarted, store.KindAsked})
}

func testFix(t *testing.T, job Job, kinds []store.Kind) {
	run := func(s *store.Store, j Job) {
		t.Helper()
		m := &Machine{CPU: cpu.Options{Sanitizers: []string{"none"}}}
		if _, err := m.Run(t.Context(), s, j, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	earlier := job
	earlier.ID, earlier.Seed, earlier.Budget = "earlier", new(int64(1)), Budget{Evaluations: 3}
	job.ID, job.Seed, job.WarmStart, job.Budget = "campaign", new(int64(2)), new(2), Budget{Evaluations: 4}
	if len(kinds) == 0 { // it takes no time
		earlier.Budget.Evaluations, job.Budget.Evaluations = 16, 60
	}
	now, later := openStore(t), openStore(t)
	run(now, earlier)
	for e, err := range now.Events(earlier.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := later.Append(e); err != nil {
			t.Fatal(err)
		}
	}

	target, err := new(Machine).Target(job)
	if err != nil {
		t.Fatal(err)
	}
	fixed, err := target.Fix(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	if len(fixed.Start) == 0 || fixed.Start[0].Campaign != earlier.ID || fixed.Strategy == "" || fixed.Window == 0 || fixed.Hash == "" {
		t.Fatalf("fixed: %+v", fixed)
	}
	run(now, job) // at once

	earlier.ID, earlier.Seed, earlier.Budget.Evaluations = "between", new(int64(3)), 2*earlier.Budget.Evaluations
	run(later, earlier)
	text, err := json.Marshal(fixed)
	if err != nil {
		t.Fatal(err)
	}
	var back Job
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	run(later, back)
	if diff := cmp.Diff(logged(t, now, job.ID, kinds...), logged(t, later, job.ID, kinds...)); diff != "" {
		t.Errorf("a job that was fixed goes another way (-at once +later):\n%s", diff)
	}
}

// A fixed job has a list to begin with even where it is empty, and no store fills it.
func TestFixNothing(t *testing.T) {
	m := &Machine{Definitions: []string{"kernels/templates"}}
	s := openStore(t)
	job := Job{Table: "internal/tables/testdata/synthetic.json", WarmStart: new(4), Budget: Budget{Evaluations: 5}}
	target, err := m.Target(job)
	if err != nil {
		t.Fatal(err)
	}
	fixed, err := target.Fix(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if fixed.ID == "" || fixed.Start == nil || len(fixed.Start) != 0 {
		t.Fatalf("%+v", fixed)
	}
	for range 2 { // the second time there would be winners
		done, err := m.Run(t.Context(), s, job, Options{})
		if err != nil || done.Evaluated != 5 {
			t.Fatal(done, err)
		}
		job.ID = ""
	}
	text, err := json.Marshal(fixed)
	if err != nil {
		t.Fatal(err)
	}
	var back Job
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Run(t.Context(), s, back, Options{}); err != nil {
		t.Fatal(err)
	}
	c, err := s.Campaign(fixed.ID)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := RecordedJob(c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fixed, recorded, cmp.Comparer(func(a, b map[string]int64) bool { return len(a) == 0 && len(b) == 0 || cmp.Equal(a, b) })); diff != "" {
		t.Errorf("recorded (-fixed +recorded):\n%s", diff)
	}
}

// TestCampaignsAtOnce: campaigns of one Machine, or of several, at once in one store have,
// to the byte, the logs that they have alone.
func TestCampaignsAtOnce(t *testing.T) {
	jobs := make([]Job, 3)
	alone := make([][]string, len(jobs))
	for i := range jobs {
		jobs[i] = Job{
			ID: fmt.Sprint("campaign-", i), Table: "internal/tables/testdata/synthetic.json", Seed: new(int64(i)), Budget: Budget{Evaluations: 100},
		}
		s := openStore(t)
		if _, err := new(Machine).Run(t.Context(), s, jobs[i], Options{Workers: 1}); err != nil {
			t.Fatal(err)
		}
		if alone[i] = logged(t, s, jobs[i].ID); len(alone[i]) < 2*100+2 {
			t.Fatalf("%d events", len(alone[i]))
		}
	}
	one := &Machine{ReplayLatency: 200 * time.Microsecond}
	for name, machines := range map[string][]*Machine{
		"one machine": {one, one, one},
		"several":     {new(Machine), {ReplayLatency: time.Millisecond}, {ReplayLatency: 100 * time.Microsecond}},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			var group errgroup.Group
			for i, job := range jobs {
				group.Go(func() error {
					_, err := machines[i].Run(t.Context(), s, job, Options{Workers: 1 + 3*i})
					return err
				})
			}
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			for i, job := range jobs {
				if diff := cmp.Diff(alone[i], logged(t, s, job.ID)); diff != "" {
					t.Errorf("%s (-alone +at once):\n%s", job.ID, diff)
				}
			}
		})
	}
}

// TestCPUCampaignsAtOnceLong: campaigns that measure on the CPU, of one Machine and of another,
// one of which is given up on its way, all come to their ends.
func TestCPUCampaignsAtOnceLong(t *testing.T) {
	longtest.Long(t, "it tunes three kernels on the CPU")
	s := openStore(t)
	one, another := &Machine{CPU: cpu.Options{Sanitizers: []string{"none"}}}, &Machine{CPU: cpu.Options{Sanitizers: []string{"none"}}}
	machines, names := []*Machine{one, one, another}, []string{"softmax", "rmsnorm", "softmax"}
	var group errgroup.Group
	for i, m := range machines {
		group.Go(func() error {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := Options{}
			if i == 1 {
				o.Listen = func(e Event) {
					if e.Evaluated != nil {
						cancel()
					}
				}
			}
			done, err := m.Run(ctx, s, Job{Kernel: names[i], Backend: CPU, Seed: new(int64(i)), WarmStart: new(0), Finalists: new(1), Budget: Budget{Evaluations: 3}}, o)
			if err == nil && (done.Complete != (i != 1) || i != 1 && done.Evaluated != 3) {
				err = fmt.Errorf("%+v", done)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// A campaign is gone on with on the architecture that it was searched on.
func TestArch(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "s.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := &Machine{}
	done, err := m.Run(t.Context(), s, Job{Table: "internal/tables/testdata/synthetic.json", Budget: Budget{Evaluations: 5}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Campaign(done.Campaign)
	if err != nil {
		t.Fatal(err)
	}
	if j, err := RecordedJob(c); err != nil || j.Arch != runtime.GOARCH {
		t.Errorf("%+v, %v", j, err)
	}
	other := strings.Replace(string(c.Started.Config), `"arch":"`+runtime.GOARCH+`"`, `"arch":"pdp11"`, 1)
	e := store.Event{Campaign: "other", Time: time.Now(), Kind: store.KindStarted, Started: &c.Started}
	e.Started.Config = json.RawMessage(strings.ReplaceAll(other, done.Campaign, "other"))
	if _, err := s.Append(e); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Continue(s, "other", Budget{}); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "began on pdp11; floating-point results on "+runtime.GOARCH+" differ") {
		t.Errorf("%v", err)
	}
}
