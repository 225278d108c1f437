package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
)

// TestRefusedChange: a change that is refused changes nothing.
func TestRefusedChange(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	c := f.submit(3, 4)
	f.until(c.ID, api.Finished)
	urgent := 5
	f.do("PATCH", "/v1/campaigns/"+c.ID, api.Change{Priority: &urgent, Budget: &evotune.Budget{}}, nil, 422)
	f.do("GET", "/v1/campaigns/"+c.ID, nil, &c, 200)
	if c.Priority != 0 {
		t.Errorf("priority %d, want 0", c.Priority)
	}
}

// TestWholeSweep: a sweep that the log has whole has ended, whatever budget its job has, and
// is not run again and again.
func TestWholeSweep(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	var c api.Campaign
	f.do("POST", "/v1/campaigns", api.Submission{Job: evotune.Job{Backend: "replay", Table: table(t), Sweep: true, Budget: evotune.Budget{Evaluations: 20}}}, &c, 201)
	f.until(c.ID, api.Finished)
	f.do("PATCH", "/v1/campaigns/"+c.ID, api.Change{Budget: &evotune.Budget{Evaluations: 20}}, nil, 200)
	f.rest(c.ID, api.Finished)
}

// TestZippedNames: no file of a download leads out of its folder.
func TestZippedNames(t *testing.T) {
	for _, name := range []string{"../x", "/x", "a/../../x", ""} {
		if _, err := zipped("library", evotune.Files{name: nil}); err == nil {
			t.Errorf("%q is sent", name)
		}
	}
}

// TestTableTellsNothing: whoever names a file as a table learns neither what is in it nor
// whether it is there.
func TestTableTellsNothing(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	dir := t.TempDir()
	for name, text := range map[string]string{"token": "evt_secret", "config.json": `{"secret": "a"}`, "list.json": `["secret"]`, "t4.json": `{"results": "secret"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"none", "none.json", "token", "config.json", "list.json", "t4.json", ".", "token/x.json"} {
		path := dir + "/" + name
		for _, in := range []evotune.Job{{Backend: "replay", Table: path}, {Backend: "replay", Kernel: path}, {Table: path}} {
			var p api.Problem
			f.do("POST", "/v1/campaigns", api.Submission{Job: in}, &p, 422)
			if want := path + " cannot be read as a recorded table: "; !strings.HasPrefix(p.Detail, want) || strings.Contains(p.Detail, "secret") || len(p.Errors) != 1 || p.Errors[0].Location != "body.table" {
				t.Errorf("%+v, want %s", p, want)
			}
		}
	}
}

// rest waits until nothing runs a campaign, whose state must then be the one wanted.
func (f *fixture) rest(id string, want api.State) {
	f.Helper()
	q := f.service.jobs
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		q.mu.Lock()
		state, runs := q.jobs[id].State, q.runs[id] != nil
		q.mu.Unlock()
		if !runs && state != api.Queued {
			if state != want {
				f.Fatalf("campaign %s is %s, want %s", id, state, want)
			}
			return
		}
		if time.Now().After(deadline) {
			f.Fatalf("campaign %s is %s still, want %s", id, state, want)
		}
	}
}

// TestLateBudget: a budget that comes when the search has ended counts, and does not undo that
// the campaign was paused or cancelled.
func TestLateBudget(t *testing.T) {
	for _, then := range []api.State{"", api.Paused, api.Cancelled} {
		f := serve(t, filepath.Join(t.TempDir(), "s.db"), 2*time.Millisecond)
		c := f.submit(3, 100)
		f.until(c.ID, api.Searching)
		// As change and act do it, but for what would end the search.
		q, want := f.service.jobs, then
		release := q.both()
		q.jobs[c.ID].Job.Budget.Evaluations = 150
		if then == "" {
			want = api.Finished
		} else {
			q.jobs[c.ID].State, q.runs[c.ID].then = then, then
		}
		release()
		f.rest(c.ID, want)
		got, evaluated := fetch[api.Campaign](f, "/v1/campaigns/"+c.ID), 100
		if then == "" {
			evaluated = 150
		}
		if got.Evaluated != evaluated {
			t.Errorf("%s: %d evaluated, want %d", want, got.Evaluated, evaluated)
		}
	}
}

// TestManyCampaigns: a list is made in time that grows with its length, and not with its
// square.
func TestManyCampaigns(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	const n = 10_000
	q := f.service.jobs
	release := q.both()
	for i := range n {
		id := fmt.Sprintf("k-%08x", i)
		q.jobs[id] = &job{Job: evotune.Job{ID: id, Kernel: "k", Backend: evotune.CUDA}, State: api.Queued, Turn: uint64(i)}
	}
	release()
	began := time.Now()
	page := fetch[api.Page[api.Campaign]](f, "/v1/campaigns")
	if took := time.Since(began); took > 15*time.Second { // which is a hundred times what it takes
		t.Errorf("the list took %s", took)
	}
	if len(page.Items) != 100 || page.Items[0].Position != n {
		t.Errorf("%d campaigns, the first is at %d", len(page.Items), page.Items[0].Position)
	}
}

// TestReaderHoldsNobody: while a follower reads a long log, the campaign and the scheduler go
// on.
func TestReaderHoldsNobody(t *testing.T) {
	f, c := finished(t, 20)
	follower, leave := f.service.streams.join(c.ID)
	defer leave()
	follower.mu.Lock() // as if it read
	defer follower.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.service.streams.wake(c.ID)
		f.service.streams.state(c.ID)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("who tells of news waits for a reader")
	}
}

// TestIdleStreams: of campaigns that were followed once, few are kept in memory.
func TestIdleStreams(t *testing.T) {
	s := newStreams(&Service{})
	first, leaveFirst := s.join("first")
	for i := range 10 * idleStreams {
		_, leave := s.join(fmt.Sprint(i % (5 * idleStreams)))
		leave()
	}
	if len(s.of) != idleStreams+1 || len(s.idle) != idleStreams {
		t.Errorf("%d streams, %d idle", len(s.of), len(s.idle))
	}
	again, leaveAgain := s.join("first")
	if again != first {
		t.Error("a stream that is followed was forgotten")
	}
	leaveFirst()
	if leaveAgain(); len(s.of) != idleStreams {
		t.Errorf("%d streams", len(s.of))
	}
}

// TestPendingAnalyses: however many analyses are asked for, few wait to be made.
func TestPendingAnalyses(t *testing.T) {
	f, c := finished(t, 60)
	s := f.service
	leave, err := s.heavily(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	refused := 0
	for i := range 4 * maxPending {
		_, err := s.analyses.get(gone, s, analysisKey{c.ID, 1 / float64(i+1)}, c.Log.Last)
		if !errors.Is(err, context.Canceled) {
			refused++
		}
	}
	if refused != 3*maxPending || s.analyses.waiting() != maxPending {
		t.Errorf("%d refused, %d wait", refused, s.analyses.waiting())
	}
	f.do("GET", "/v1/campaigns/"+c.ID+"/importance?best=0.77", nil, nil, 503)
	leave()
	for deadline := time.Now().Add(30 * time.Second); s.analyses.waiting() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("they are not made")
		}
	}
	f.do("GET", "/v1/campaigns/"+c.ID+"/importance?best=0.77", nil, nil, 200)
}

func (l *analyses) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pending
}

// TestTokenFileIsWhole: at no instant is there a token file without a token, which would keep
// a service from starting that was killed then.
func TestTokenFileIsWhole(t *testing.T) {
	dir := t.TempDir()
	s, err := openState(filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tokens, err := openTokens(s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		path := filepath.Join(dir, fmt.Sprint("token", i))
		made := make(chan error)
		go func() { made <- tokens.file(path) }()
		for done := false; !done; {
			select {
			case err := <-made:
				if done = true; err != nil {
					t.Fatal(err)
				}
			default:
			}
			b, err := os.ReadFile(path)
			switch {
			case err == nil && !strings.HasSuffix(string(b), "\n"), err != nil && done:
				t.Fatalf("a token file with %q: %v", b, err)
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.new")); err != nil || left != nil {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestFullDisk: what cannot be made durable is refused, and not half done.
func TestFullDisk(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 20*time.Millisecond)
	done := f.until(f.submit(1, 2).ID, api.Finished)
	var running []string
	for seed := range int64(replayRoom) {
		running = append(running, f.submit(seed+2, 100000).ID)
	}
	f.until(running[0], api.Searching)
	waits := f.begin("/v1/candidates/"+done.Best+"/verify", api.Verify{})
	broken, err := openState(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	if err := broken.Close(); err != nil {
		t.Fatal(err)
	}
	swap := func(s *state) (old *state) {
		for _, mu := range []*sync.Mutex{&f.service.jobs.changing, &f.service.ops.changing} {
			mu.Lock()
			defer mu.Unlock()
		}
		old, f.service.state = f.service.state, s
		return old
	}
	whole := swap(broken)
	urgent := 5
	f.do("POST", "/v1/campaigns/"+running[0]+"/cancel", nil, nil, 500)
	f.do("PATCH", "/v1/campaigns/"+running[0], api.Change{Priority: &urgent, Budget: &evotune.Budget{Evaluations: 1}}, nil, 500)
	f.do("DELETE", "/v1/operations/"+waits.ID, nil, nil, 500)
	swap(whole)
	c := fetch[api.Campaign](f, "/v1/campaigns/"+running[0])
	if c.State != api.Searching || c.Priority != 0 || c.Budget.Evaluations != 100000 {
		t.Errorf("%s, priority %d, %+v", c.State, c.Priority, c.Budget)
	}
	if a := fetch[api.Operation](f, "/v1/operations/"+waits.ID); a.State != api.Queued {
		t.Errorf("%+v", a)
	}
	f.do("DELETE", "/v1/operations/"+waits.ID, nil, nil, 200)
	for _, id := range running {
		f.do("POST", "/v1/campaigns/"+id+"/cancel", nil, nil, 200)
	}
}

// TestAmbiguousBeginning: the beginning of two IDs names neither, also where the log has one
// of the two alone.
func TestAmbiguousBeginning(t *testing.T) {
	f, c := finished(t, 4)
	first := c.ID[:len(c.ID)-1]
	add := func(id string) {
		defer f.service.jobs.both()()
		f.service.jobs.jobs[id] = &job{Job: evotune.Job{ID: id, Backend: evotune.CUDA}, State: api.Queued}
	}
	if got := fetch[api.Campaign](f, "/v1/campaigns/"+first); got.ID != c.ID {
		t.Errorf("%s is %s, want %s", first, got.ID, c.ID)
	}
	add(first + "-2")
	f.do("GET", "/v1/campaigns/"+first, nil, nil, 409)
	f.do("POST", "/v1/campaigns/"+first+"/cancel", nil, nil, 409)
	for _, id := range []string{c.ID, first + "-2"} {
		if got := fetch[api.Campaign](f, "/v1/campaigns/"+id); got.ID != id {
			t.Errorf("%s is %s", id, got.ID)
		}
	}
	add(first) // a whole ID is never ambiguous
	if got := fetch[api.Campaign](f, "/v1/campaigns/"+first); got.ID != first {
		t.Errorf("%s is %s", first, got.ID)
	}
}

// TestGoesOnNoMore: a budget that a finished campaign cannot take is refused, and the campaign
// stays finished.
func TestGoesOnNoMore(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	var c api.Campaign
	f.do("POST", "/v1/campaigns", api.Submission{Job: evotune.Job{Backend: "replay", Table: table(t), Sweep: true, Budget: evotune.Budget{Evaluations: 20}}}, &c, 201)
	f.until(c.ID, api.Finished)
	f.do("PATCH", "/v1/campaigns/"+c.ID, api.Change{Budget: &evotune.Budget{Evaluations: 10}}, nil, 409)
	f.until(c.ID, api.Finished)
	done := f.submit(1, 10)
	f.until(done.ID, api.Finished)
	if _, err := f.service.store.Archive(t.Context(), done.ID); err != nil {
		t.Fatal(err)
	}
	f.do("PATCH", "/v1/campaigns/"+done.ID, api.Change{Budget: &evotune.Budget{Evaluations: 40}}, nil, 409)
	f.until(done.ID, api.Finished)
}

// TestForgetKeys: a key of an idempotent request is remembered for its time, and no longer.
func TestForgetKeys(t *testing.T) {
	s, err := openState(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := time.Now()
	err = s.change(func(tx *bbolt.Tx) error {
		return errors.Join(put(tx, keysBucket, "old", submitted{Time: now.Add(-keyLife - time.Hour)}), put(tx, keysBucket, "new", submitted{Time: now.Add(-keyLife + time.Hour)}))
	})
	if err = errors.Join(err, s.forgetKeys(now)); err != nil {
		t.Fatal(err)
	}
	_ = s.db.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket([]byte(keysBucket)); b.Get([]byte("old")) != nil || b.Get([]byte("new")) == nil {
			t.Error("the old one is kept, or the new one is not")
		}
		return nil
	})
}

// TestScans: however many ask, few read through whole campaigns at once.
func TestScans(t *testing.T) {
	f, c := finished(t, 10)
	if err := f.service.scans.Acquire(t.Context(), mostScans); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/query?where=true", "/v1/campaigns/" + c.ID + "/points", "/v1/candidates/" + c.Best + "/children"} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := f.client.Do(req); err == nil {
			resp.Body.Close()
			t.Errorf("%s did not wait: %s", path, resp.Status)
		}
		cancel()
	}
	f.service.scans.Release(mostScans)
	f.do("GET", "/v1/query?where=true", nil, nil, 200)
	f.do("GET", "/v1/campaigns/"+c.ID+"/points", nil, nil, 200)
}
