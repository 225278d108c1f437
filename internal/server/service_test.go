package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator/cpu"
	"github.com/evotune/evotune/store"
)

// A fixture is a service with an admin's client.
type fixture struct {
	*testing.T
	service *Service
	url     string
	client  *http.Client
	stop    func() // once
}

// soak is how long the test of that name takes.
var soak = flag.Duration("soak", time.Minute, "how long TestSoakNightly takes")

// descriptors counts the open ones of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(list)
}

// table is a recorded space.
func table(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../tables/testdata/synthetic.json")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// serve starts a service on a store of its own, until the test ends.
func serve(t *testing.T, path string, latency time.Duration) *fixture {
	t.Helper()
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	f := serveStore(t, s, latency)
	t.Cleanup(f.stop)
	return f
}

// serveStore starts a service on an open store.
func serveStore(t *testing.T, s *store.Store, latency time.Duration) *fixture {
	t.Helper()
	return serveWith(t, Options{Store: s, Machine: &evotune.Machine{ReplayLatency: latency, CPU: cpu.Options{Sanitizers: []string{"none"}}}})
}

func serveWith(t *testing.T, o Options) *fixture {
	t.Helper()
	service, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		service.Handler().ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), privateKey{}, true)))
	}))
	f := &fixture{T: t, service: service, url: h.URL, client: h.Client()}
	f.stop = sync.OnceFunc(func() {
		if err := service.Close(context.Background()); err != nil {
			t.Error(err)
		}
		h.CloseClientConnections()
		h.Close()
	})
	return f
}

// do sends a request and decodes the answer, whose status must be the one wanted.
func (f *fixture) do(method, path string, in, out any, want int, headers ...string) http.Header {
	f.Helper()
	var b bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&b).Encode(in); err != nil {
			f.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(f.Context(), method, f.url+path, &b)
	if err != nil {
		f.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := f.client.Do(req)
	if err != nil {
		f.Fatal(err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		f.Fatal(err)
	}
	if resp.StatusCode != want {
		f.Fatalf("%s %s: %s, want %d: %s", method, path, resp.Status, want, text.String())
	}
	if out != nil {
		if err := json.Unmarshal(text.Bytes(), out); err != nil {
			f.Fatalf("%s %s: %v: %s", method, path, err, text.String())
		}
	}
	return resp.Header
}

// submit submits a recorded campaign.
func (f *fixture) submit(seed int64, evaluations int) api.Campaign {
	f.Helper()
	var c api.Campaign
	f.do("POST", "/v1/campaigns", api.Submission{Job: evotune.Job{Backend: "replay", Table: table(f), Seed: &seed, Budget: evotune.Budget{Evaluations: evaluations}}}, &c, 201)
	return c
}

// until waits for a campaign to be in a state.
func (f *fixture) until(id string, state api.State) api.Campaign {
	f.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var c api.Campaign
		f.do("GET", "/v1/campaigns/"+id, nil, &c, 200)
		if c.State == state {
			return c
		}
		if c.State.Ended() || time.Now().After(deadline) {
			f.Fatalf("campaign %s is %s (%s), want %s", id, c.State, c.Reason, state)
		}
	}
}

// events reads a stream to its end, or as many events as are wanted: ids and kinds.
func (f *fixture) events(path, last string, most int) (ids, kinds []string, data []string) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+path, nil)
	if err != nil {
		f.Fatal(err)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		f.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		f.Fatalf("%s: %s", path, resp.Status)
	}
	id := ""
	scan := bufio.NewScanner(resp.Body)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		key, value, _ := strings.Cut(scan.Text(), ": ")
		switch key {
		case "id":
			id = value
		case "event":
			kinds = append(kinds, value)
		case "data":
			ids, data, id = append(ids, id), append(data, value), ""
			if len(data) == most {
				return ids, kinds, data
			}
		}
	}
	if err := scan.Err(); err != nil && ctx.Err() != nil {
		f.Fatal(err)
	}
	return ids, kinds, data
}

func TestCampaign(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	c := f.submit(3, 20)
	got := f.until(c.ID, api.Finished)
	if got.Evaluated != 20 || got.Speedup <= 0 || got.Log == nil {
		t.Errorf("%+v", got)
	}
	ids, kinds, data := f.events("/v1/campaigns/"+c.ID+"/events", "", 0)
	n := 0
	for i, k := range kinds {
		if !json.Valid([]byte(data[i])) {
			t.Errorf("no JSON: %s", data[i])
		}
		if k == "evaluated" {
			n++
		}
	}
	if n != 20 || kinds[0] != "started" || kinds[len(kinds)-1] != "state" {
		t.Errorf("%d evaluated of %v", n, kinds)
	}
	// A client that comes back gets the rest, and no more.
	_, rest, _ := f.events("/v1/campaigns/"+c.ID+"/events", ids[5], 0)
	if fmt.Sprint(rest) != fmt.Sprint(kinds[6:]) {
		t.Errorf("after the sixth: %v, want %v", rest, kinds[6:])
	}
}

// TestIdempotency: a request that is repeated with its key makes one campaign, however many
// at a time repeat it.
func TestIdempotency(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	in := api.Submission{Job: evotune.Job{Backend: "replay", Table: table(t), Budget: evotune.Budget{Evaluations: 4}}}
	ids := make([]string, 100)
	var group sync.WaitGroup
	for i := range ids {
		group.Go(func() {
			var c api.Campaign
			f.do("POST", "/v1/campaigns", in, &c, 201, "Idempotency-Key", "k")
			ids[i] = c.ID
		})
	}
	group.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("campaigns %s and %s of one key", id, ids[0])
		}
	}
	var page api.Page[api.Campaign]
	f.do("GET", "/v1/campaigns", nil, &page, 200)
	if len(page.Items) != 1 {
		t.Errorf("%d campaigns, want 1", len(page.Items))
	}
	in.Seed = new(int64(9))
	f.do("POST", "/v1/campaigns", in, nil, 422, "Idempotency-Key", "k")
	f.until(ids[0], api.Finished)
}

// TestPages: the pages of the list have each campaign once, and a cursor that none gave is refused.
func TestPages(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	var want, got []string
	for seed := range int64(3) {
		want = append(want, f.submit(seed+1, 2).ID)
	}
	for path := "/v1/campaigns?limit=1"; ; {
		var page api.Page[api.Campaign]
		f.do("GET", path, nil, &page, 200)
		got = append(got, page.Items[0].ID)
		if page.Next == "" {
			break
		}
		path = "/v1/campaigns?limit=1&cursor=" + page.Next
	}
	slices.Reverse(got)
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, cursor := range []string{"zz", "00", strings.Repeat("a", 36)} {
		f.do("GET", "/v1/campaigns?cursor="+cursor, nil, nil, 422)
	}
}

func TestPauseAndCancel(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 20*time.Millisecond)
	c := f.submit(3, 10000)
	f.until(c.ID, api.Searching)
	f.do("POST", "/v1/campaigns/"+c.ID+"/pause", nil, nil, 200)
	got := f.until(c.ID, api.Paused)
	if !strings.HasPrefix(got.Reason, "paused by ") {
		t.Errorf("paused because: %q", got.Reason)
	}
	tag := f.do("GET", "/v1/campaigns/"+c.ID, nil, nil, 200).Get("ETag")
	f.do("POST", "/v1/campaigns/"+c.ID+"/resume", nil, nil, 200, "If-Match", tag)
	f.do("POST", "/v1/campaigns/"+c.ID+"/pause", nil, nil, 412, "If-Match", tag)
	f.until(c.ID, api.Searching)
	f.do("POST", "/v1/campaigns/"+c.ID+"/cancel", nil, nil, 200)
	f.until(c.ID, api.Cancelled)
	f.do("POST", "/v1/campaigns/"+c.ID+"/resume", nil, nil, 409)
	f.do("POST", "/v1/campaigns/nothing/cancel", nil, nil, 404)
}

// TestRestart: the next service goes on with what the last one had.
func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	var id string
	t.Run("before", func(t *testing.T) {
		f := serve(t, path, 10*time.Millisecond)
		id = f.submit(3, 60).ID
		f.events("/v1/campaigns/"+id+"/events", "", 10)
	})
	t.Run("after", func(t *testing.T) {
		if c := serve(t, path, 0).until(id, api.Finished); c.Evaluated != 60 {
			t.Errorf("%d evaluated, want 60", c.Evaluated)
		}
	})
}

// TestBudget: a budget that is changed while a campaign runs, and after it has finished.
func TestBudget(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 5*time.Millisecond)
	c := f.submit(3, 100000)
	f.until(c.ID, api.Searching)
	change := func(evaluations int) {
		f.do("PATCH", "/v1/campaigns/"+c.ID, api.Change{Budget: &evotune.Budget{Evaluations: evaluations}}, nil, 200)
	}
	change(30)
	got := f.until(c.ID, api.Finished)
	if got.Evaluated < 30 || got.Evaluated > 60 || got.Budget.Evaluations != 30 {
		t.Errorf("%d evaluated under %+v", got.Evaluated, got.Budget)
	}
	change(got.Evaluated + 10)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var now api.Campaign
		f.do("GET", "/v1/campaigns/"+c.ID, nil, &now, 200)
		if now.State == api.Finished && now.Evaluated == got.Evaluated+10 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s with %d evaluated", now.State, now.Evaluated)
		}
	}
	f.do("PATCH", "/v1/campaigns/"+c.ID, api.Change{Budget: &evotune.Budget{}}, nil, 422)
}

// TestQueue: of what waits for a device, the most urgent is next, then the oldest.
func TestQueue(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 20*time.Millisecond)
	var running []string
	for seed := range int64(replayRoom) {
		running = append(running, f.submit(seed+1, 100000).ID)
	}
	first, second := f.submit(50, 10), f.submit(51, 10)
	if first.State != api.Queued || first.Position != 1 || second.Position != 2 {
		t.Fatalf("%s at %d, %s at %d", first.State, first.Position, second.State, second.Position)
	}
	urgent := 5
	for _, part := range []string{"report", "roofline", "importance", "compare?with=" + running[0]} {
		var p api.Problem
		f.do("GET", "/v1/campaigns/"+first.ID+"/"+part, nil, &p, 404)
		if want := "campaign " + first.ID + " is queued: it has not begun"; !strings.HasPrefix(p.Detail, want) {
			t.Errorf("%s: %q, want %q", part, p.Detail, want)
		}
	}
	f.do("PATCH", "/v1/campaigns/"+second.ID, api.Change{Priority: &urgent}, nil, 200)
	var c api.Campaign
	f.do("GET", "/v1/campaigns/"+first.ID, nil, &c, 200)
	if c.Position != 2 {
		t.Errorf("the first is at %d, want 2", c.Position)
	}
	f.do("POST", "/v1/campaigns/"+running[0]+"/cancel", nil, nil, 200)
	f.until(second.ID, api.Finished)
	f.until(first.ID, api.Finished)
	// The order in which they began is in the log.
	events := func(id string) uint64 {
		c, err := f.service.store.Campaign(id)
		if err != nil {
			t.Fatal(err)
		}
		return c.First
	}
	if events(second.ID) > events(first.ID) {
		t.Error("the less urgent began first")
	}
	for _, id := range running[1:] {
		f.do("POST", "/v1/campaigns/"+id+"/cancel", nil, nil, 200)
	}
}

// TestSweep: a sweep that a restart interrupts goes on, and ends once.
func TestSweep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	var id string
	t.Run("before", func(t *testing.T) {
		f := serve(t, path, 10*time.Millisecond)
		var c api.Campaign
		f.do("POST", "/v1/campaigns", api.Submission{Job: evotune.Job{Backend: "replay", Table: table(t), Sweep: true, Budget: evotune.Budget{Evaluations: 50}}}, &c, 201)
		id = c.ID
		f.events("/v1/campaigns/"+id+"/events", "", 10)
	})
	t.Run("after", func(t *testing.T) {
		if c := serve(t, path, 0).until(id, api.Finished); c.Evaluated != 50 {
			t.Errorf("%d evaluated, want 50", c.Evaluated)
		}
	})
}

// TestNoDevice: what no device can run is refused, and does not wait for ever.
func TestNoDevice(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	for _, c := range []struct {
		in    api.Submission
		wrong string // the fields that are named
	}{
		{api.Submission{Job: evotune.Job{Kernel: "gemm", Backend: "cuda"}}, "body.backend"},
		{api.Submission{Job: evotune.Job{Kernel: "sgemm"}, Device: "GPU-1"}, "body.device"},
		{api.Submission{Job: evotune.Job{Kernel: "nothing"}}, "body.kernel"},
		{api.Submission{}, "body.kernel"},
		{api.Submission{Job: evotune.Job{Backend: "replay", Table: "/nothing"}}, "body.table"},
		{api.Submission{Job: evotune.Job{Kernel: "sgemm", Shapes: []string{"no such"}}}, "body.shapes"},
		{api.Submission{Job: evotune.Job{Kernel: "sgemm", Strategy: "no such"}}, "body.strategy"},
		{api.Submission{Job: evotune.Job{Kernel: "nothing", Strategy: "no such"}, Device: "GPU-1"}, "body.device body.strategy body.kernel"},
		{
			api.Submission{Job: evotune.Job{Kernel: "sgemm", Strategy: "no such", Shapes: []string{"no such"}, Implementations: []string{"none"}}, Device: "fleet"},
			"body.device body.strategy body.implementations body.shapes",
		},
		{ // what the schema refuses hides nothing
			api.Submission{Job: evotune.Job{Kernel: "sgemm", Window: 5000, Budget: evotune.Budget{Evaluations: -1}, Strategy: "no such", Shapes: []string{"no such"}}},
			"body.budget.evaluations body.window body.strategy body.shapes",
		},
	} {
		var p api.Problem
		f.do("POST", "/v1/campaigns", c.in, &p, 422)
		var wrong []string
		for _, d := range p.Errors {
			wrong = append(wrong, d.Location)
			if d.Message == "" {
				t.Errorf("%+v: nothing is said of %s", c.in, d.Location)
			}
		}
		if p.Type != api.BadRequest || p.Detail == "" || strings.Join(wrong, " ") != c.wrong {
			t.Errorf("%+v: %v are wrong, want %s: %+v", c.in, wrong, c.wrong, p)
		}
	}
}

// TestSeed: a body's seed is the job's, also where it is 0; a body without one means 1.
func TestSeed(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.c"), []byte("void kernel(void) {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]int64{"": 1, `,"seed":0`: 0, `,"seed":1`: 1, `,"seed":-7`: -7} {
		var in api.Submission
		decode(t, fmt.Appendf(nil, `{"backend":"replay","table":%q%s}`, table(t), field), &in)
		campaign, _, err := f.service.jobs.target(context.WithValue(t.Context(), callerKey{}, caller{scope: api.Admin}), &in)
		if err != nil {
			t.Fatal(err)
		}
		var j api.Judge
		decode(t, fmt.Appendf(nil, `{"kernel":"softmax","name":"a.c"%s}`, field), &j)
		judgment, err := f.service.ops.fileTarget(f.service.machine, &j, dir)
		if err != nil {
			t.Fatal(err)
		}
		if campaign.Job.SearchSeed() != want || judgment.Job.SearchSeed() != want {
			t.Errorf("%q: a campaign of seed %d and a judgment of seed %d, not %d", field, campaign.Job.SearchSeed(), judgment.Job.SearchSeed(), want)
		}
	}
}

// TestNoChange: a change that changes nothing leaves the version alone.
func TestNoChange(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	c := f.until(f.submit(1, 5).ID, api.Finished)
	path, seven := "/v1/campaigns/"+c.ID, 7
	before := f.do("PATCH", path, api.Change{Priority: &seven}, nil, 200).Get("ETag")
	for _, change := range []api.Change{{}, {Priority: &seven}} {
		if after := f.do("PATCH", path, change, nil, 200).Get("ETag"); after != before {
			t.Errorf("%+v: the ETag was %s and is %s", change, before, after)
		}
	}
	f.do("PATCH", path, api.Change{}, nil, 412, "If-Match", `"1"`)
}

// TestEndsInFinals: a service that is told to end gives finals up that would take long, and the next
// one holds them.
func TestEndsInFinals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// A campaign that has searched, and has finals to hold.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done, err := new(evotune.Machine).Run(ctx, s, evotune.Job{Table: table(t), Budget: evotune.Budget{Evaluations: 10}}, evotune.Options{Listen: func(e evotune.Event) {
		if e.Searched != nil {
			cancel()
		}
	}})
	if err != nil || done.Complete {
		t.Fatal(done, err)
	}
	id := done.Campaign

	f := serveStore(t, s, time.Hour)
	f.service.closing.inFlight = 20 * time.Millisecond
	f.do("POST", "/v1/campaigns/"+id+"/resume", nil, nil, 200)
	f.until(id, api.Finals)
	began := time.Now()
	f.stop()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it ended after %s", took)
	}
	c, err := s.Campaign(id)
	if err != nil || c.Reason != "interrupted during the finals" {
		t.Errorf("the campaign is %s: %q, %v", c.State, c.Reason, err)
	}

	f = serveStore(t, s, 0)
	defer f.stop()
	if got := f.until(id, api.Finished); got.Best == "" || got.Measured != "finals" || got.Evaluated != 10 {
		t.Errorf("it ended as %+v", got)
	}
}

// TestEndsWithoutTheStuck: a service does not wait for what does not end.
func TestEndsWithoutTheStuck(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	f.service.closing = closing{time.Millisecond, time.Millisecond}
	stuck := make(chan struct{})
	defer close(stuck)
	f.service.analyses.group.Go(func() { <-stuck })
	f.service.jobs.group.Go(func() { <-stuck })
	f.stop()
}
