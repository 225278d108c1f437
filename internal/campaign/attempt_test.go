package campaign_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/store"
)

// kill is the end of the process that writes the log: nothing more is kept.
func (m *memory) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit = 1
}

func (m *memory) dead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.limit == 1 && len(m.events) > 0
}

func (m *memory) of(kind store.Kind) (out []store.Event) {
	for _, e := range m.events {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

// deadly is an evaluator some of whose candidates end evotune.
type deadly struct {
	evaluator.Evaluator
	log *memory
	// kills says which candidates do so in parity, killsFinals which in finals.
	kills, killsFinals func(id string) bool
	// killsTogether: finals of several end evotune, those of one do not.
	killsTogether bool
	// instead, when it is set, is what those of parity do to a lab that survives them.
	instead *evaluator.Result

	// meet are two that wait for each other, or give up.
	meet    []string
	arrived chan struct{}

	mu       sync.Mutex
	inFlight int
	together map[string]int // most that were in flight when a candidate was, itself included
	ran      []string       // candidates that entered parity
}

func (d *deadly) Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (evaluator.Result, error) {
	id := campaign.CandidateID("test-1", g)
	d.mu.Lock()
	d.inFlight++
	d.together[id] = max(d.together[id], d.inFlight)
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.inFlight--
		d.mu.Unlock()
	}()
	if slices.Contains(d.meet, id) {
		select {
		case d.arrived <- struct{}{}:
		case <-d.arrived:
		case <-time.After(10 * time.Second):
			return evaluator.Result{}, errors.New("nobody came")
		}
	}
	for _, stage := range []evaluator.Stage{evaluator.StageCompile, evaluator.StageParity} {
		evaluator.Enter(ctx, stage)
		if d.log.dead() {
			return evaluator.Result{}, errKilled
		}
	}
	d.mu.Lock()
	d.ran = append(d.ran, id)
	d.mu.Unlock()
	if d.kills(id) {
		if d.instead != nil {
			return *d.instead, nil
		}
		d.log.kill()
		return evaluator.Result{}, errKilled
	}
	return d.Evaluator.Evaluate(ctx, g, incumbent)
}

func (d *deadly) Finals(ctx context.Context, finalists []genome.Genome) (evaluator.Finals, error) {
	evaluator.Enter(ctx, evaluator.StageFinals)
	for _, g := range finalists {
		if id := campaign.CandidateID("test-1", g); d.killsFinals(id) {
			d.ran = append(d.ran, id)
			d.log.kill()
		}
	}
	if d.killsTogether && len(finalists) > 1 {
		d.log.kill()
	}
	if d.log.dead() {
		return evaluator.Finals{}, errKilled
	}
	return d.Evaluator.Finals(ctx, finalists)
}

func nobody(string) bool { return false }

func only(ids ...string) func(string) bool {
	return func(id string) bool { return slices.Contains(ids, id) }
}

func newDeadly(t testing.TB, log *memory) *deadly {
	t.Helper()
	p, err := quick()
	if err != nil {
		t.Fatal(err)
	}
	return &deadly{Evaluator: p.Evaluator, log: log, kills: nobody, killsFinals: nobody, together: map[string]int{}}
}

// run runs or resumes a campaign of 40 evaluations on a machine that was started
// again, and returns the warnings.
func (d *deadly) run(t testing.TB, workers int) (f campaign.Finished, warnings []string, err error) {
	t.Helper()
	d.log.limit, d.ran = 0, nil
	clear(d.together)
	p, _ := quick()
	p.Evaluator = d
	f, err = campaign.Run(t.Context(), p, config(40), campaign.Options{
		Workers: workers, Log: d.log, Past: slices.Clone(d.log.events),
		Listen: func(e campaign.Event) {
			if e.Warning != "" {
				warnings = append(warnings, e.Warning)
			}
		},
	})
	return f, warnings, err
}

// candidates are those of a campaign that nothing ends, in their order.
func candidates(t *testing.T) (ids []string) {
	t.Helper()
	d := newDeadly(t, &memory{})
	if _, warnings, err := d.run(t, 1); err != nil || len(warnings) > 0 {
		t.Fatal(warnings, err)
	}
	for _, e := range d.log.of(store.KindAsked) {
		ids = append(ids, e.Asked.Candidate)
	}
	return ids
}

// told are the verdicts and figures that the search was told.
func (m *memory) results() (out []store.Told) {
	for _, e := range m.of(store.KindTold) {
		t := *e.Told
		t.Detail = nil
		out = append(out, t)
	}
	return out
}

const twiceInParity = "evotune ended twice while it was in flight, the second time alone, in stage parity"

// TestCulprits: a candidate that ends evotune does so twice, in company and alone,
// and is not run again; the honest ones beside it keep their verdicts, and the path
// is that of a lab that saw it crash.
func TestCulprits(t *testing.T) {
	ids := candidates(t)
	for name, killers := range map[string][]string{
		"one": {ids[10]}, "the first": {ids[0]}, "two in flight": {ids[10], ids[12]}, "neighbours": {ids[10], ids[11]},
	} {
		survived := newDeadly(t, &memory{})
		survived.kills, survived.instead = only(killers...), &evaluator.Result{Verdict: evaluator.Launch}
		if _, _, err := survived.run(t, 1); err != nil {
			t.Fatal(err)
		}
		for _, workers := range []int{1, 4} {
			d := newDeadly(t, &memory{})
			d.kills = only(killers...)
			ends, alone, ran := 0, 0, map[string]int{}
			var warnings []string
			for ; ; ends++ {
				if ends > 5 {
					t.Fatalf("%s, %d workers: %d ends", name, workers, ends)
				}
				_, said, err := d.run(t, workers)
				for _, id := range d.ran {
					ran[id]++
				}
				warnings = append(warnings, said...)
				if err == nil {
					break
				}
				if !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
				if a := d.log.events[len(d.log.events)-1].Attempt; a != nil {
					alone++
					if !d.kills(a.Candidate) || a.Stage != "parity" || a.End != "" {
						t.Errorf("%s, %d workers: the log ends with the attempt %+v", name, workers, a)
					}
				}
			}
			// Killers that were in flight together share their first end.
			if company := ends - alone; alone != len(killers) || company < 1 || company > len(killers) {
				t.Errorf("%s, %d workers: evotune ended %d times, %d times in one that ran alone", name, workers, ends, alone)
			}
			for _, id := range killers {
				if ran[id] > 2 {
					t.Errorf("%s, %d workers: killer %s ran %d times", name, workers, id, ran[id])
				}
			}
			if diff := differ(survived.log.results(), d.log.results()); diff != "" {
				t.Errorf("%s, %d workers: told (-crashed +ended):\n%s", name, workers, diff)
			}
			if diff := differ(survived.log.path()[store.KindAsked], d.log.path()[store.KindAsked]); diff != "" {
				t.Errorf("%s, %d workers: asked (-crashed +ended):\n%s", name, workers, diff)
			}
			marked := map[string]bool{}
			for _, e := range d.log.of(store.KindAttempt) {
				if e.Attempt.End == "evotune ended" {
					marked[e.Attempt.Candidate] = true
				}
			}
			for _, e := range d.log.of(store.KindTold) {
				if guilty := slices.Contains(killers, e.Told.Candidate); guilty != strings.Contains(string(e.Told.Detail), twiceInParity) || guilty != marked[e.Told.Candidate] {
					t.Errorf("%s, %d workers: %s, marked %v: %s", name, workers, e.Told.Candidate, marked[e.Told.Candidate], e.Told.Detail)
				}
			}
			for _, id := range killers {
				if !slices.Contains(warnings, "candidate "+id+" is not run again: "+twiceInParity) {
					t.Errorf("%s, %d workers: nobody was told of %s: %q", name, workers, id, warnings)
				}
			}
			before := len(d.log.events)
			if _, warnings, err := d.run(t, workers); err != nil || len(warnings) > 0 || len(d.ran) > 0 {
				t.Errorf("%s, %d workers: run once more: %v, %q, %q ran, %d events more", name, workers, err, warnings, d.ran, len(d.log.events)-before)
			}
		}
	}
}

// TestSuspectsAlone: what was in flight when evotune ended is evaluated with nobody
// beside it, and nothing else is.
func TestSuspectsAlone(t *testing.T) {
	ids := candidates(t)
	d := newDeadly(t, &memory{})
	d.kills = only(ids[10])
	if _, _, err := d.run(t, 4); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	if len(d.log.of(store.KindAttempt)) > 0 {
		t.Error("attempts before anything ended evotune: they cost a write")
	}
	asked, told := len(d.log.of(store.KindAsked)), len(d.log.of(store.KindTold))
	if asked-told < 2 {
		t.Fatalf("%d asked, %d told: nobody was in company", asked, told)
	}
	d.kills = nobody // it was a power cut
	d.meet, d.arrived = ids[asked:asked+2], make(chan struct{})
	_, warnings, err := d.run(t, 4)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "one at a time") {
		t.Fatal(warnings, err)
	}
	for _, id := range ids[told:asked] {
		if d.together[id] != 1 {
			t.Errorf("suspect %s was evaluated beside %d others", id, d.together[id]-1)
		}
	}
	if got := len(d.log.of(store.KindAttempt)); got != 2*(asked-told) {
		t.Errorf("%d attempts at %d suspects in two stages", got, asked-told)
	}
	calm := newDeadly(t, &memory{})
	if _, _, err := calm.run(t, 1); err != nil {
		t.Fatal(err)
	}
	if diff := differ(calm.log.path(), d.log.path()); diff != "" {
		t.Errorf("(-calm +ended):\n%s", diff)
	}
}

// TestOneKill: whenever evotune is killed once, no verdict is another.
func TestOneKill(t *testing.T) {
	whole := newDeadly(t, &memory{})
	if _, _, err := whole.run(t, 1); err != nil {
		t.Fatal(err)
	}
	for limit := 1; limit < len(whole.log.events); limit++ {
		d := newDeadly(t, &memory{})
		p, _ := quick()
		p.Evaluator = d
		d.log.limit = limit
		if _, err := campaign.Run(t.Context(), p, config(40), campaign.Options{Workers: 2, Log: d.log}); !errors.Is(err, errKilled) {
			t.Fatalf("killed after %d events: %v", limit, err)
		}
		if _, _, err := d.run(t, 2); err != nil {
			t.Fatalf("killed after %d events: %v", limit, err)
		}
		if diff := differ(whole.log.path(), d.log.path()); diff != "" {
			t.Fatalf("killed after %d events (-whole +killed):\n%s", limit, diff)
		}
	}
}

// TestTwoKills: whenever evotune is killed again after an end in company, nobody is to
// blame but the one that ran alone then.
func TestTwoKills(t *testing.T) {
	first := newDeadly(t, &memory{})
	first.kills = only(candidates(t)[10])
	if _, _, err := first.run(t, 4); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	blamed, spared := 0, 0
	for limit := len(first.log.events) + 1; ; limit++ {
		d := newDeadly(t, &memory{events: slices.Clone(first.log.events), limit: limit})
		p, _ := quick()
		p.Evaluator = d
		_, err := campaign.Run(t.Context(), p, config(40), campaign.Options{Workers: 4, Log: d.log, Past: slices.Clone(d.log.events)})
		if err == nil {
			break
		}
		alone := ""
		if a := d.log.events[len(d.log.events)-1].Attempt; a != nil {
			alone = a.Candidate
		}
		asked, old := len(first.log.of(store.KindAsked)), 0 // old suspects without result
		for _, e := range first.log.of(store.KindAsked) {
			if !d.log.told(e.Asked.Candidate) {
				old++
			}
		}
		_, warnings, err := d.run(t, 4)
		if err != nil {
			t.Fatalf("killed after %d events: %v", limit, err)
		}
		for _, e := range d.log.of(store.KindAttempt) {
			if old > 0 && e.Attempt.Index >= asked {
				t.Errorf("killed after %d events: proposal %d, which had not run, is suspected", limit, e.Attempt.Index)
			}
		}
		said := strings.Join(warnings, "\n")
		if alone == "" {
			spared++
		} else {
			blamed++
		}
		if strings.Contains(said, "not run again") != (alone != "") || !strings.Contains(said, alone) {
			t.Errorf("killed after %d events, when %q ran alone: %s", limit, alone, said)
		}
		for _, e := range d.log.of(store.KindTold) {
			if (e.Told.Candidate == alone) != strings.Contains(string(e.Told.Detail), "evotune ended") {
				t.Errorf("killed after %d events, when %q ran alone: %s: %s", limit, alone, e.Told.Candidate, e.Told.Detail)
			}
		}
	}
	if blamed < 4 || spared < 30 {
		t.Errorf("somebody was alone %d times, nobody %d times", blamed, spared)
	}
}

// TestStopIsNoEnd: after a clean stop nobody is suspected.
func TestStopIsNoEnd(t *testing.T) {
	for name, run := range map[string]func(d *deadly, p campaign.Problem) (campaign.Finished, error){
		"drained": func(d *deadly, p campaign.Problem) (campaign.Finished, error) {
			drain := make(chan struct{})
			return campaign.Run(t.Context(), p, config(40), campaign.Options{Workers: 4, Log: d.log, Drain: drain, Listen: afterTen(func() { close(drain) })})
		},
		"cancelled": func(d *deadly, p campaign.Problem) (campaign.Finished, error) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			return campaign.Run(ctx, p, config(40), campaign.Options{Workers: 4, Log: d.log, Listen: afterTen(cancel)})
		},
	} {
		d := newDeadly(t, &memory{})
		p, _ := quick()
		p.Evaluator = d
		f, err := run(d, p)
		if err != nil || f.Complete {
			t.Fatal(f, err)
		}
		if len(d.log.of(store.KindAsked)) == len(d.log.of(store.KindTold)) {
			t.Fatalf("%s: nothing was in flight", name)
		}
		if _, warnings, err := d.run(t, 4); err != nil || len(warnings) > 0 || len(d.log.of(store.KindAttempt)) > 0 {
			t.Errorf("%s: %v, %q, %d attempts", name, err, warnings, len(d.log.of(store.KindAttempt)))
		}
	}
}

func afterTen(do func()) func(campaign.Event) {
	n := 0
	return func(e campaign.Event) {
		if e.Evaluated != nil {
			if n++; n == 10 {
				do()
			}
		}
	}
}

// TestStoppedAlone: a suspect that runs alone when the campaign is stopped, or waits
// in a pause, is not to blame for that; it stays a suspect.
func TestStoppedAlone(t *testing.T) {
	ids := candidates(t)
	for reason, blamed := range map[string]bool{"interrupted": false, "paused: steal 43%": false, "": true} {
		d := newDeadly(t, &memory{})
		d.kills = only(ids[10])
		for range 2 {
			if _, _, err := d.run(t, 4); !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
		}
		d.kills = nobody
		if reason != "" {
			d.log.events = append(d.log.events, store.Event{
				Campaign: "test-1", Kind: store.KindStopped, Time: d.log.events[len(d.log.events)-1].Time, Note: &store.Note{Reason: reason},
			})
		}
		if _, _, err := d.run(t, 4); err != nil {
			t.Fatal(err)
		}
		if ran := slices.Contains(d.ran, ids[10]); ran == blamed || ran && d.together[ids[10]] != 1 {
			t.Errorf("stopped by %q: it ran: %v, beside %d", reason, ran, d.together[ids[10]]-1)
		}
	}
}

// TestCulpritOfFinals: a finalist that ends evotune in the finals is left out of
// them, and another one wins.
func TestCulpritOfFinals(t *testing.T) {
	calm := newDeadly(t, &memory{})
	if _, _, err := calm.run(t, 2); err != nil {
		t.Fatal(err)
	}
	finals := calm.log.of(store.KindFinals)[0].Finals
	for at, killer := range finals.Finalists {
		d := newDeadly(t, &memory{})
		d.killsFinals = only(killer)
		for range 2 {
			if _, _, err := d.run(t, 2); !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
		}
		f, warnings, err := d.run(t, 2)
		if err != nil || len(d.ran) > 0 || len(warnings) != 1 || !strings.Contains(warnings[0], killer) {
			t.Fatalf("finalist %d: %v, %q, %q ran", at, err, warnings, d.ran)
		}
		got := d.log.of(store.KindFinals)
		if len(got) != 1 || !slices.Equal(got[0].Finals.Finalists, finals.Finalists) || got[0].Finals.Winner == killer || got[0].Finals.Winner != f.Best.Candidate {
			t.Fatalf("finalist %d: finals %+v, best %+v", at, got, f.Best)
		}
		if finals.Winner != killer && got[0].Finals.Winner != finals.Winner {
			t.Errorf("finalist %d: %s has won, not %s", at, got[0].Finals.Winner, finals.Winner)
		}
		if detail := string(got[0].Finals.Detail); strings.Count(detail, `"verdict":"launch"`) != 1 || !strings.Contains(detail, "the second time alone, in stage finals") {
			t.Errorf("finalist %d: %s", at, detail)
		}
		if diff := differ(calm.log.results(), d.log.results()); diff != "" {
			t.Errorf("finalist %d: results (-calm +ended):\n%s", at, diff)
		}
	}
}

// TestFinalsTogether: finalists that survive finals of their own are not to blame for
// what ends those of all.
func TestFinalsTogether(t *testing.T) {
	d := newDeadly(t, &memory{})
	d.killsTogether = true
	for n := range 3 {
		if _, warnings, err := d.run(t, 2); !errors.Is(err, errKilled) || len(warnings) > 0 {
			t.Fatalf("run %d: %v, %q", n, err, warnings)
		}
	}
	if got, want := len(d.log.of(store.KindAttempt)), 2*2*config(0).FinalsOf(); got != want {
		t.Errorf("%d attempts, want %d", got, want)
	}
	d.killsTogether = false
	if f, warnings, err := d.run(t, 2); err != nil || len(warnings) > 0 || f.Best == nil {
		t.Error(f.Best, warnings, err)
	}
}

// TestCulpritMeasuredAgain: so is one that ends evotune when it is measured again.
func TestCulpritMeasuredAgain(t *testing.T) {
	log := &memory{}
	_, b := busyProblem(t, log, some(4))
	d := newDeadly(t, log)
	d.Evaluator = b
	again := ""
	d.kills = func(id string) bool { return log.told(id) && (again == "" || id == again) }
	for range 2 {
		if _, _, err := d.run(t, 2); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		again = d.ran[len(d.ran)-1]
	}
	if _, warnings, err := d.run(t, 2); err != nil || len(warnings) != 1 {
		t.Fatal(warnings, err)
	}
	for _, e := range log.of(store.KindMeasured) {
		if guilty := e.Measured.Candidate == again; guilty != strings.Contains(string(e.Measured.Detail), twiceInParity) || guilty && e.Measured.Verdict != string(evaluator.Launch) {
			t.Errorf("%s, measured again: %s", e.Measured.Candidate, e.Measured.Verdict)
		}
	}
}

// childKiller, when set, makes one candidate of the child's campaign kill its process.
const childKiller = "CAMPAIGN_TEST_KILLER"

type suicidal struct {
	evaluator.Evaluator
	killer string
}

func (s suicidal) Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (evaluator.Result, error) {
	evaluator.Enter(ctx, evaluator.StageParity)
	if campaign.CandidateID("test-1", g) == s.killer {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return evaluator.Result{}, err
		}
		select {} // it takes a moment
	}
	return s.Evaluator.Evaluate(ctx, g, incumbent)
}

// TestSIGKILL: a candidate that sends evotune the signal that nobody can catch costs
// two resumptions.
func TestSIGKILL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	killer := candidates(t)[5]
	for n := 0; ; n++ {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childStore+"="+path, childKiller+"="+killer)
		out, err := cmd.CombinedOutput()
		if err == nil {
			if n != 2 {
				t.Errorf("the campaign's process was killed %d times", n)
			}
			break
		}
		status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if n == 2 || !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
			t.Fatalf("after %d kills: %v\n%s", n, err, out)
		}
	}
	s := openStore(t, path)
	c, err := s.Candidate(killer)
	if err != nil || c.Told == nil || c.Told.Verdict != string(evaluator.Launch) || !strings.Contains(string(c.Told.Detail), twiceInParity) {
		t.Errorf("%+v, told %+v, %v", c, c.Told, err)
	}
	for _, e := range lineage(t, s, "test-1") {
		if e.Told != nil && e.Told.Candidate != killer && strings.Contains(string(e.Told.Detail), "evotune ended") {
			t.Errorf("%s: %s", e.Told.Candidate, e.Told.Detail)
		}
	}
	if r, err := s.Check(); err != nil || !r.OK() {
		t.Errorf("check: %v %v", r, err)
	}
}
