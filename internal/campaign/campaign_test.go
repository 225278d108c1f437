package campaign_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/replay"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/tables"
	"github.com/evotune/evotune/store"
)

// childStore, when set, makes the test binary a child that runs or resumes a
// campaign on the recorded backend until it is killed.
const childStore = "CAMPAIGN_TEST_STORE"

func TestMain(m *testing.M) {
	if path := os.Getenv(childStore); path != "" {
		if err := child(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func problem(t testing.TB, latency time.Duration) campaign.Problem {
	t.Helper()
	p, err := openProblem(latency)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Evaluator.Close() })
	return p
}

func openProblem(latency time.Duration) (campaign.Problem, error) {
	ev, err := replay.New(tables.Synthetic(1000), replay.Options{Latency: latency})
	if err != nil {
		return campaign.Problem{}, err
	}
	return campaign.Problem{Space: ev.Space(), Evaluator: ev}, nil
}

func config(n int) record.Job {
	return record.Job{ID: "test-1", Kernel: "synthetic", Shapes: []string{"recorded"}, Seed: new(int64(7)), Budget: record.Budget{Evaluations: n}}
}

func openStore(t testing.TB, path string) *store.Store {
	t.Helper()
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// lineage reads the proposals and results of a campaign, without the times of
// day and the resumptions: what must be the same however it was run.
func lineage(t testing.TB, s *store.Store, id string) []store.Event {
	t.Helper()
	var out []store.Event
	for e, err := range s.Events(id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Kind {
		case store.KindAsked, store.KindTold, store.KindFinals:
			e.Seq, e.Time = 0, time.Time{}
			out = append(out, e)
		}
	}
	return out
}

func past(t testing.TB, s *store.Store, id string) []store.Event {
	t.Helper()
	var out []store.Event
	for e, err := range s.Events(id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// TestSamePath is the metamorphic test of the search: one seed, any number of
// workers, the same lineage event for event.
func TestSamePath(t *testing.T) {
	for _, strategy := range []string{"evolution", "hillclimb", "random"} {
		t.Run(strategy, func(t *testing.T) {
			var want []store.Event
			for _, workers := range []int{1, 2, 8} {
				s := openStore(t, filepath.Join(t.TempDir(), "s.db"))
				cfg := config(200)
				cfg.Strategy = strategy
				// Random latencies let results arrive in every order.
				p := problem(t, 0)
				p.Evaluator = &jitter{Evaluator: p.Evaluator, rng: rand.New(rand.NewSource(int64(workers)))}
				sum, err := campaign.Run(t.Context(), p, cfg, campaign.Options{Workers: workers, Log: s})
				if err != nil {
					t.Fatal(err)
				}
				if sum.Evaluated != 200 || !sum.Complete {
					t.Fatalf("%d workers: evaluated %d, complete %v", workers, sum.Evaluated, sum.Complete)
				}
				got := lineage(t, s, cfg.ID)
				if len(got) < 2*200 {
					t.Fatalf("%d workers: only %d events", workers, len(got))
				}
				if want == nil {
					want = got
					continue
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%d workers walked another path (-1 worker +%d workers):\n%s", workers, workers, diff)
				}
			}
		})
	}
}

// jitter delays results at random so that they arrive out of order.
type jitter struct {
	evaluator.Evaluator
	mu  sync.Mutex
	rng *rand.Rand
}

func (j *jitter) Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (evaluator.Result, error) {
	j.mu.Lock()
	d := time.Duration(j.rng.Intn(300)) * time.Microsecond
	j.mu.Unlock()
	time.Sleep(d)
	return j.Evaluator.Evaluate(ctx, g, incumbent)
}

// TestDrainAndResume interrupts a campaign as Ctrl-C does, again and again, and
// compares with the campaign that was left in peace.
func TestDrainAndResume(t *testing.T) {
	cfg := config(120)
	calm := openStore(t, filepath.Join(t.TempDir(), "calm.db"))
	if _, err := campaign.Run(t.Context(), problem(t, 0), cfg, campaign.Options{Workers: 2, Log: calm}); err != nil {
		t.Fatal(err)
	}

	s := openStore(t, filepath.Join(t.TempDir(), "s.db"))
	for round := 0; ; round++ {
		if round > 50 {
			t.Fatal("the campaign does not end")
		}
		drain := make(chan struct{})
		n := 0
		sum, err := campaign.Run(t.Context(), problem(t, 0), cfg, campaign.Options{
			Workers: 3, Log: s, Past: past(t, s, cfg.ID), Drain: drain,
			Listen: func(e campaign.Event) {
				if e.Evaluated != nil {
					if n++; n == 10 {
						close(drain)
					}
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if sum.Complete {
			break
		}
		if sum.Reason != "interrupted" {
			t.Fatalf("ended by %q", sum.Reason)
		}
	}
	if diff := cmp.Diff(lineage(t, calm, cfg.ID), lineage(t, s, cfg.ID)); diff != "" {
		t.Fatalf("interruptions changed the path (-calm +interrupted):\n%s", diff)
	}
}

// TestBudgetRaised resumes a finished campaign with a larger budget: the path
// must be that of a campaign that had the larger budget from the start.
func TestBudgetRaised(t *testing.T) {
	whole := openStore(t, filepath.Join(t.TempDir(), "whole.db"))
	cfg := config(90)
	cfg.Finalists = new(0)
	if _, err := campaign.Run(t.Context(), problem(t, 0), cfg, campaign.Options{Workers: 2, Log: whole}); err != nil {
		t.Fatal(err)
	}
	parts := openStore(t, filepath.Join(t.TempDir(), "parts.db"))
	for _, n := range []int{10, 11, 40, 90} {
		cfg.Budget.Evaluations = n
		sum, err := campaign.Run(t.Context(), problem(t, 0), cfg, campaign.Options{Workers: 2, Log: parts, Past: past(t, parts, cfg.ID)})
		if err != nil {
			t.Fatal(err)
		}
		if sum.Evaluated != n {
			t.Fatalf("budget of %d: evaluated %d", n, sum.Evaluated)
		}
		logged, err := record.ReadSummary(parts, cfg.ID)
		if err != nil || logged.Job.Budget != cfg.Budget {
			t.Fatalf("the log's last budget is %+v, %v, want %+v", logged.Job.Budget, err, cfg.Budget)
		}
	}
	// The order of asked and told events differs where a budget paused the
	// asking; by kind the sequences are the same.
	for _, kind := range []store.Kind{store.KindAsked, store.KindTold} {
		var a, b []store.Event
		for _, e := range lineage(t, whole, cfg.ID) {
			if e.Kind == kind {
				a = append(a, e)
			}
		}
		for _, e := range lineage(t, parts, cfg.ID) {
			if e.Kind == kind {
				b = append(b, e)
			}
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("%s events differ (-whole +parts):\n%s", kind, diff)
		}
	}
}

func TestDivergedLog(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "s.db"))
	cfg := config(30)
	if _, err := campaign.Run(t.Context(), problem(t, 0), cfg, campaign.Options{Log: s}); err != nil {
		t.Fatal(err)
	}
	cfg.Seed = new(int64(8)) // another path
	cfg.Budget.Evaluations = 40
	_, err := campaign.Run(t.Context(), problem(t, 0), cfg, campaign.Options{Log: s, Past: past(t, s, cfg.ID)})
	if !errors.Is(err, campaign.ErrDiverged) {
		t.Fatalf("err = %v, want ErrDiverged", err)
	}
}

// TestOlderSearch resumes a log of another search version: the results are
// known, nothing is evaluated again, and the campaign says so.
func TestOlderSearch(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "s.db"))
	cfg := config(30)
	cfg.Finalists = new(0)
	if _, err := campaign.Run(t.Context(), problem(t, 0), cfg, campaign.Options{Log: s}); err != nil {
		t.Fatal(err)
	}
	events := past(t, s, cfg.ID)
	events[0].Started.SearchVersion-- // as if an older evotune had written it
	cfg.Budget.Evaluations = 60
	var warned bool
	sum, err := campaign.Run(t.Context(), problem(t, 0), cfg, campaign.Options{
		Log: s, Past: events,
		Listen: func(e campaign.Event) { warned = warned || e.Warning != "" },
	})
	if err != nil {
		t.Fatal(err)
	}
	if !warned {
		t.Error("the campaign did not say that the search has changed")
	}
	if sum.Evaluated != 60 {
		t.Errorf("evaluated %d, want 60", sum.Evaluated)
	}
	seen := map[string]bool{}
	for _, e := range lineage(t, s, cfg.ID) {
		if e.Kind == store.KindAsked {
			if seen[e.Asked.Genome] {
				t.Errorf("%s was asked for twice", e.Asked.Genome)
			}
			seen[e.Asked.Genome] = true
		}
	}
	// The log of the two paths must itself replay.
	events = past(t, s, cfg.ID)
	events[0].Started.SearchVersion--
	cfg.Budget.Evaluations = 70
	if sum, err = campaign.Run(t.Context(), problem(t, 0), cfg, campaign.Options{Log: s, Past: events}); err != nil {
		t.Fatal(err)
	}
	if sum.Evaluated != 70 {
		t.Errorf("evaluated %d, want 70", sum.Evaluated)
	}
}

func TestBudgets(t *testing.T) {
	slow := func(c *record.Job) { c.Budget.Evaluations = 0 }
	tests := []struct {
		name    string
		latency time.Duration
		change  func(*record.Job)
		reason  string
	}{
		{"evaluations", 0, func(c *record.Job) { c.Budget.Evaluations = 17 }, "17 evaluations"},
		{"time", time.Millisecond, func(c *record.Job) { slow(c); c.Budget.Time = 30 * time.Millisecond }, "time of 30ms"},
		{"target", 0, func(c *record.Job) { slow(c); c.Budget.Target = 1.05 }, "target of 1.05x reached"},
		{"patience", 0, func(c *record.Job) { slow(c); c.Budget.Patience = 25 }, "no progress for 25 evaluations"},
		{"money", time.Millisecond, func(c *record.Job) {
			slow(c)
			c.Budget.CostPerHour, c.Budget.MaxCost = 3600, 0.03
		}, "cost of 0.03 reached"},
		{"space", 0, slow, "every valid genome was evaluated"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// A clock of its own: on a busy machine 30 ms can pass before anything is evaluated.
			synctest.Test(t, func(t *testing.T) {
				cfg := config(0)
				tt.change(&cfg)
				p := problem(t, tt.latency)
				sum, err := campaign.Run(t.Context(), p, cfg, campaign.Options{Workers: 2})
				if err != nil {
					t.Fatal(err)
				}
				if sum.Reason != tt.reason || !sum.Complete {
					t.Errorf("reason %q complete %v, want %q", sum.Reason, sum.Complete, tt.reason)
				}
				if tt.name == "space" && float64(sum.Evaluated) != p.Space.Size() {
					t.Errorf("evaluated %d of %g genomes", sum.Evaluated, p.Space.Size())
				}
				if sum.Best == nil {
					t.Error("no best candidate")
				}
			})
		})
	}
}

// failing is a machine that breaks after some evaluations.
type failing struct {
	evaluator.Evaluator
	mu    sync.Mutex
	after int
	err   error
}

func (f *failing) Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (evaluator.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.after--; f.after < 0 {
		if f.err != nil {
			return evaluator.Result{}, f.err
		}
		return evaluator.Result{Verdict: evaluator.Infrastructure, Reason: "the disk is full"}, nil
	}
	return f.Evaluator.Evaluate(ctx, g, incumbent)
}

func TestMachineFails(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name string
		err  error
		want error
	}{{"error", boom, boom}, {"infrastructure", nil, campaign.ErrInfrastructure}} {
		t.Run(tt.name, func(t *testing.T) {
			s := openStore(t, filepath.Join(t.TempDir(), "s.db"))
			p := problem(t, 0)
			p.Evaluator = &failing{Evaluator: p.Evaluator, after: 20, err: tt.err}
			sum, err := campaign.Run(t.Context(), p, config(100), campaign.Options{Workers: 4, Log: s})
			if !errors.Is(err, tt.want) {
				t.Fatalf("err = %v, want %v", err, tt.want)
			}
			if sum.Complete {
				t.Error("a failed campaign says that it is complete")
			}
			c, err := s.Campaign("test-1")
			if err != nil {
				t.Fatal(err)
			}
			if c.State != store.Stopped {
				t.Errorf("state is %q, want stopped", c.State)
			}
		})
	}
}

// full is a log whose disk fills up.
type full struct {
	campaign.Log
	left int
}

func (f *full) Append(events ...store.Event) (uint64, error) {
	if f.left--; f.left < 0 {
		return 0, errors.New("no space left on device")
	}
	return f.Log.Append(events...)
}

// TestNothingAnnouncedBeforeDurable fills the disk: what was announced must be
// in the store, whatever was in flight.
func TestNothingAnnouncedBeforeDurable(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "s.db"))
	announced := map[string]bool{}
	_, err := campaign.Run(t.Context(), problem(t, 0), config(100), campaign.Options{
		Workers: 4, Log: &full{s, 20},
		Listen: func(e campaign.Event) {
			if e.Evaluated != nil {
				announced[e.Evaluated.Candidate] = true
			}
		},
	})
	if err == nil {
		t.Fatal("a full disk was not reported")
	}
	if len(announced) == 0 {
		t.Fatal("nothing was announced before the disk was full")
	}
	for id := range announced {
		if c, err := s.Candidate(id); err != nil || c.Told == nil {
			t.Errorf("%s was announced and is not in the store: %v", id, err)
		}
	}
}

// TestNothingAnnouncedAfterALoss: what a log did not take is not announced with what it takes later.
func TestNothingAnnouncedAfterALoss(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "s.db"))
	announced := 0
	_, err := campaign.Run(t.Context(), problem(t, 0), config(100), campaign.Options{
		Log: &fullOnce{Log: s, at: 20},
		Listen: func(e campaign.Event) {
			if e.Evaluated == nil {
				return
			}
			announced++
			if c, err := s.Candidate(e.Evaluated.Candidate); err != nil || c.Told == nil {
				t.Errorf("%s was announced and is not in the store: %v", e.Evaluated.Candidate, err)
			}
		},
	})
	if err == nil || announced == 0 {
		t.Errorf("%v after %d were announced", err, announced)
	}
}

// fullOnce is a log whose disk is full once.
type fullOnce struct {
	campaign.Log
	at int
}

func (f *fullOnce) Append(events ...store.Event) (uint64, error) {
	if f.at--; f.at == 0 {
		return 0, errors.New("no space left on device")
	}
	return f.Log.Append(events...)
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	sum, err := campaign.Run(ctx, problem(t, time.Millisecond), config(500), campaign.Options{
		Workers: 2,
		Listen: func(e campaign.Event) {
			if e.Evaluated != nil {
				if n++; n == 5 {
					cancel()
				}
			}
		},
	})
	if err != nil || sum.Complete || sum.Reason != "interrupted" {
		t.Fatalf("err %v, complete %v, reason %q", err, sum.Complete, sum.Reason)
	}
}

// ---- kill -9 ----

type ack struct {
	Candidate string
	Complete  bool
}

// child runs or resumes the campaign and prints a line for each acknowledged
// evaluation.
func child(path string) error {
	s, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	cfg := config(400)
	var events []store.Event
	for e, err := range s.Events(cfg.ID, 0) {
		if err != nil {
			return err
		}
		events = append(events, e)
	}
	p, err := openProblem(200 * time.Microsecond)
	if err != nil {
		return err
	}
	if killer := os.Getenv(childKiller); killer != "" {
		p.Evaluator = suicidal{p.Evaluator, killer}
	}
	switch {
	case len(events) > 0:
		if err := json.Unmarshal(events[0].Started.Config, &cfg); err != nil {
			return err
		}
	default: // what an earlier campaign found, if the store has one
		if cfg.Start, err = campaign.WarmStart(s, p.Space, p.Evaluator.Describe(), cfg, dims, 5); err != nil {
			return err
		}
	}
	out := json.NewEncoder(os.Stdout)
	sum, err := campaign.Run(context.Background(), p, cfg, campaign.Options{
		Workers: 4, Log: s, Past: events,
		Listen: func(e campaign.Event) {
			if e.Evaluated != nil {
				out.Encode(ack{Candidate: e.Evaluated.Candidate}) //nolint:errcheck // the parent may be gone
			}
		},
	})
	if err != nil {
		return err
	}
	return out.Encode(ack{Complete: sum.Complete})
}

// TestKill9 kills the campaign's process at random instants, and resumes it each time. No
// acknowledged evaluation may be lost, and the lineage must equal that of a campaign that was
// left in peace.
func TestKill9(t *testing.T) { testKill9(t, 2, false) }

// TestKill9Long begins with the winners of another campaign.
func TestKill9Long(t *testing.T) {
	longtest.Long(t, "it kills a process eight times")
	testKill9(t, 8, true)
}

func TestKill9Nightly(t *testing.T) {
	longtest.Nightly(t, "kills", "it kills a process 62 times")
	t.Run("cold", func(t *testing.T) { testKill9(t, 50, false) })
	t.Run("warm", func(t *testing.T) { testKill9(t, 12, true) })
}

func testKill9(t *testing.T, kills int, warm bool) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))

	dir := t.TempDir()
	path := filepath.Join(dir, "killed.db")
	cfg := config(400)
	calm := openStore(t, filepath.Join(dir, "calm.db"))
	if warm {
		first := config(60)
		first.ID, first.Seed = "first-1", new(int64(3))
		killed := openStore(t, path)
		for _, s := range []*store.Store{killed, calm} {
			if _, err := campaign.Run(t.Context(), problem(t, 0), first, campaign.Options{Workers: 4, Log: s}); err != nil {
				t.Fatal(err)
			}
		}
		if err := killed.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		p := problem(t, 0)
		if cfg.Start, err = campaign.WarmStart(calm, p.Space, p.Evaluator.Describe(), cfg, dims, 5); err != nil || len(cfg.Start) < 3 {
			t.Fatal(cfg.Start, err)
		}
	}
	acked := map[string]bool{}
	complete := false
	// How soon a child has something to lose depends on the machine, and on
	// whether the test looks for races.
	start := untilFirst(t, filepath.Join(dir, "start.db"))
	for range kills {
		after := start*3/4 + time.Duration(rng.Int63n(int64(start+60*time.Millisecond)))
		complete = runChild(t, path, acked, after) || complete
	}
	t.Logf("%d evaluations acknowledged over %d kills", len(acked), kills)
	if len(acked) == 0 {
		t.Fatal("no evaluation was acknowledged: the kills came too early to show anything")
	}
	if !complete && !runChild(t, path, acked, 0) {
		t.Fatal("the campaign did not complete")
	}

	s := openStore(t, path)
	for id := range acked {
		if c, err := s.Candidate(id); err != nil || c.Told == nil {
			t.Errorf("the acknowledged evaluation %s was lost: %v", id, err)
		}
	}
	if r, err := s.Check(); err != nil || !r.OK() {
		t.Errorf("check: %v %v", r, err)
	}
	if _, err := campaign.Run(t.Context(), problem(t, 0), cfg, campaign.Options{Workers: 4, Log: calm}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lineage(t, calm, "test-1"), lineage(t, s, "test-1")); diff != "" {
		t.Fatalf("kills changed the lineage (-calm +killed):\n%s", diff)
	}
}

// untilFirst is how long a child takes to its first acknowledged evaluation.
func untilFirst(t *testing.T, path string) time.Duration {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childStore+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !bufio.NewScanner(out).Scan() {
		t.Error("the child said nothing")
	}
	took := time.Since(begin)
	cmd.Process.Kill() //nolint:errcheck // it may have ended
	_ = cmd.Wait()     // killed
	return took
}

// runChild runs a child and kills it after d, or lets it end if d is 0. It
// says whether the campaign completed.
func runChild(t *testing.T, path string, acked map[string]bool, d time.Duration) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childStore+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if d > 0 {
		kill := time.AfterFunc(d, func() { cmd.Process.Kill() }) //nolint:errcheck // it may have ended
		defer kill.Stop()
	}
	complete := false
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var a ack
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			continue // the line that the kill cut
		}
		if a.Candidate != "" {
			acked[a.Candidate] = true
		}
		complete = complete || a.Complete
	}
	io.Copy(io.Discard, out) //nolint:errcheck // drained above
	if err := cmd.Wait(); err != nil && d == 0 {
		t.Fatalf("child: %v", err)
	}
	return complete
}

// ---- evotune's own cost ----

// BenchmarkEvaluation is evotune's own cost per evaluation: search, campaign,
// bookkeeping, and the store where it says so. The recorded backend answers at
// once. ns/op is the mean over campaigns of so many outcomes each, their beginning
// included; cpu-ns/op is the processor's share of it, which says more on a busy
// machine.
func BenchmarkEvaluation(b *testing.B) {
	for _, durable := range []bool{false, true} {
		for _, outcomes := range []int{1_000, 10_000} {
			name := "without-store"
			if durable {
				name = "durable"
			}
			b.Run(fmt.Sprintf("%s/%d", name, outcomes), func(b *testing.B) {
				ev, err := replay.New(tables.Synthetic(100_000), replay.Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer ev.Close()
				p := campaign.Problem{Space: ev.Space(), Evaluator: ev}
				o := campaign.Options{Workers: 1}
				if durable {
					o.Log = openStore(b, filepath.Join(b.TempDir(), "s.db"))
				}
				b.ReportAllocs()
				b.ResetTimer()
				begin := processorTime(b)
				for done, k := 0, 0; done < b.N; k++ {
					cfg := config(min(b.N-done, outcomes))
					cfg.ID = fmt.Sprintf("bench-%d", k)
					cfg.Finalists = new(0)
					sum, err := campaign.Run(b.Context(), p, cfg, o)
					if err != nil {
						b.Fatal(err)
					}
					done += sum.Evaluated
				}
				b.ReportMetric(float64(processorTime(b)-begin)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
