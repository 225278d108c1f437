package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a service on a store of its own, and gives its socket.
func serve(t *testing.T, latency time.Duration) (socket string) {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "s.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	service, err := server.New(server.Options{Store: s, Machine: &evotune.Machine{ReplayLatency: latency}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := server.ListenSocket(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	service.Listen(l, true)
	t.Cleanup(func() {
		if err := service.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func client(t *testing.T, address string) *api.Client {
	t.Helper()
	c, err := api.NewClient(address, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func table(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../internal/tables/testdata/synthetic.json")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func recorded(t *testing.T, evaluations int) api.Submission {
	return api.Submission{Job: evotune.Job{Backend: evotune.Replay, Table: table(t), Budget: evotune.Budget{Evaluations: evaluations}}}
}

// A cutter is in front of a socket and cuts connections after some bytes.
type cutter struct {
	net.Listener
	socket string
	most   func() int64 // bytes from the service
	cuts   atomic.Int64
	group  sync.WaitGroup
}

func (c *cutter) run() {
	for {
		in, err := c.Accept()
		if err != nil {
			return
		}
		c.group.Go(func() {
			defer in.Close()
			out, err := net.Dial("unix", c.socket)
			if err != nil {
				return
			}
			defer out.Close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = io.Copy(out, in)
				out.Close()
			}()
			if n, err := io.CopyN(in, out, c.most()); n > 0 && err == nil {
				c.cuts.Add(1)
			}
			in.Close()
			<-done
		})
	}
}

// TestEventsSurviveCuts: over a connection that breaks again and again, within events and
// between them, every event of the log comes once and in order.
func TestEventsSurviveCuts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	socket := serve(t, time.Millisecond)
	direct := client(t, "unix://"+socket)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	cut := &cutter{Listener: l, socket: socket, most: func() int64 {
		mu.Lock()
		defer mu.Unlock()
		return 100 + random.Int64N(20_000)
	}}
	go cut.run()
	defer cut.group.Wait()
	defer l.Close()

	campaign, err := direct.Submit(t.Context(), recorded(t, 150))
	if err != nil {
		t.Fatal(err)
	}
	follow := func(c *api.Client) (ids []uint64, kinds []string) {
		for e, err := range c.Events(t.Context(), campaign.ID, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if e.ID > 0 {
				ids, kinds = append(ids, e.ID), append(kinds, e.Kind)
			}
		}
		return ids, kinds
	}
	flaky := client(t, "http://"+l.Addr().String())
	got, kinds := follow(flaky)
	flaky.Close()
	want, _ := follow(direct)
	if !slices.Equal(got, want) || !slices.IsSorted(got) {
		t.Errorf("events %v, want %v", got, want)
	}
	if n := len(slices.DeleteFunc(kinds, func(k string) bool { return k != "evaluated" })); n != 150 {
		t.Errorf("%d evaluated, want 150", n)
	}
	if cut.cuts.Load() < 3 {
		t.Errorf("the connection was cut %d times: nothing was tested", cut.cuts.Load())
	}
}

// TestFollow: a campaign in a service is told as one in this process.
func TestFollow(t *testing.T) {
	socket := serve(t, 0)
	c := client(t, "unix://"+socket)
	campaign, err := c.Submit(t.Context(), recorded(t, 40))
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for m, err := range c.Follow(t.Context(), campaign.ID) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Event != nil {
			there = append(there, text(t, *m.Event))
		}
	}
	var here []string
	job := evotune.Job{ID: campaign.ID, Backend: evotune.Replay, Table: table(t), Seed: new(int64(1)), Budget: evotune.Budget{Evaluations: 40}}
	if _, err := new(evotune.Machine).Run(t.Context(), nil, job, evotune.Options{Listen: func(e evotune.Event) { here = append(here, text(t, e)) }}); err != nil {
		t.Fatal(err)
	}
	if len(here) < 40 || !slices.Equal(here, there) {
		for i := range max(len(here), len(there)) {
			if i >= len(here) || i >= len(there) || here[i] != there[i] {
				t.Errorf("event %d:\nhere  %s\nthere %s", i, slices.Concat(here, []string{"", ""})[i], slices.Concat(there, []string{"", ""})[i])
				break
			}
		}
		t.Errorf("%d events here, %d there", len(here), len(there))
	}
}

// text is all of an event but what depends on the moment.
func text(t *testing.T, e evotune.Event) string {
	t.Helper()
	e.Time = time.Time{}
	more := ""
	if e.Evaluated != nil {
		r, p := e.Evaluated.Result, e.Evaluated.Progress
		more = fmt.Sprint(r.Verdict, r.Stage, r.Reason, r.Disturbed, r.Fitness, p.Evaluated, p.Verdicts, p.Best)
	}
	if f := e.Finished; f != nil {
		more = fmt.Sprint(f.Reason, f.Complete)
		f.PerMinute, f.Phases = 0, evotune.Phases{}
	}
	if s := e.Started; s != nil {
		s.Prepared = 0
	}
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + more
}

// TestPausedAndCancelled: following ends with the campaign, and tells what was until then.
func TestPausedAndCancelled(t *testing.T) {
	socket := serve(t, 5*time.Millisecond)
	c := client(t, "unix://"+socket)
	for _, act := range []struct {
		do    func(context.Context, string) (api.Campaign, error)
		state api.State
	}{{c.Pause, api.Paused}, {c.Cancel, api.Cancelled}} {
		campaign, err := c.Submit(t.Context(), recorded(t, 100_000))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		var last api.State
		var end *evotune.Finished
		for m, err := range c.Follow(t.Context(), campaign.ID) {
			switch {
			case err != nil:
				t.Fatal(err)
			case m.Status != nil:
				last = m.Status.State
			case m.Event.Evaluated != nil:
				if n++; n == 5 {
					if _, err := act.do(t.Context(), campaign.ID); err != nil {
						t.Fatal(err)
					}
				}
			case m.Event.Finished != nil:
				end = m.Event.Finished
			}
		}
		if last != act.state || end == nil || end.Complete || end.Evaluated != n || end.Best == nil {
			t.Errorf("%s: the last state is %s, after %d evaluations; end %+v", act.state, last, n, end)
		}
	}
}

// TestRetries: requests are sent again when that is safe, and as late as the service asks.
func TestRetries(t *testing.T) {
	var keys []string
	var n atomic.Int64
	after := "0.05"
	status := http.StatusServiceUnavailable
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if n.Add(1) < 3 {
			w.Header().Set("Retry-After", after)
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"type":%q,"status":%d,"detail":"busy"}`, api.Unavailable, status)
			return
		}
		fmt.Fprint(w, `{"id":"c-1"}`)
	}))
	defer s.Close()
	c := client(t, s.URL)
	var waits []time.Duration
	c.OnRetry = func(_ error, after time.Duration) { waits = append(waits, after) }
	for _, status = range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		n.Store(0)
		keys, waits = nil, nil
		got, err := c.Submit(t.Context(), api.Submission{})
		if err != nil || got.ID != "c-1" {
			t.Errorf("%d: %+v, %v", status, got, err)
		}
		if len(keys) != 3 || keys[0] == "" || keys[0] != keys[1] || keys[1] != keys[2] {
			t.Errorf("%d: keys %q: one submission has one key", status, keys)
		}
		if !slices.Equal(waits, []time.Duration{50 * time.Millisecond, 50 * time.Millisecond}) {
			t.Errorf("%d: waited %v, asked to wait %s s", status, waits, after)
		}
	}
	n.Store(-100)
	c.Attempts = 2
	var p *api.Problem
	if _, err := c.Campaign(t.Context(), "x"); !errors.As(err, &p) || p.Detail != "busy" || !errors.Is(err, api.ErrUnreachable) {
		t.Errorf("%v", err)
	}
	// Nobody there: tried so often, and told so in one line.
	s.Close()
	waits = nil
	_, err := c.Campaign(t.Context(), "x")
	if !errors.Is(err, api.ErrUnreachable) || len(waits) != 1 || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), s.URL) {
		t.Errorf("%v after %v", err, waits)
	}
}

// TestProblem: errors are those of the store and of package evotune.
func TestProblem(t *testing.T) {
	for kind, want := range map[string]error{
		api.NotFound: store.ErrNotFound, api.Ambiguous: store.ErrAmbiguous, api.Damaged: store.ErrCorrupt, api.NoCandidate: evotune.ErrNoCandidate,
		api.Unproven: evotune.ErrUnproven, api.BadRequest: evotune.ErrInput,
	} {
		if err := error(&api.Problem{Type: kind, Detail: "so"}); !errors.Is(err, want) || err.Error() != "so" {
			t.Errorf("%s is not %v", kind, want)
		}
	}
	var field *evotune.FieldError
	err := error(&api.Problem{Type: api.BadRequest, Detail: "shape is empty", Errors: []api.Detail{{Location: "shape", Message: "is empty"}}})
	if !errors.As(err, &field) || field.Field != "shape" || field.Error() != "shape is empty" || !errors.Is(err, evotune.ErrInput) {
		t.Errorf("%+v", field)
	}
	socket := serve(t, 0)
	c := client(t, "unix://"+socket)
	if _, err := c.Campaign(t.Context(), "nothing"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := c.Submit(t.Context(), api.Submission{Job: evotune.Job{Kernel: "nothing"}}); !errors.Is(err, evotune.ErrInput) {
		t.Errorf("%v", err)
	}
	for _, e := range []func() error{
		func() error { _, err := c.Reader(t.Context()).Candidate("nothing"); return err },
		func() error { _, err := c.Reader(t.Context()).Lineage("nothing"); return err },
	} {
		if err := e(); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%v", err)
		}
	}
}

// TestUnknownCertificate: who does not know the service's certificate is told how to.
func TestUnknownCertificate(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	c, err := api.NewClient(s.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Attempts = 1
	if _, err := c.Who(t.Context()); !errors.Is(err, api.ErrUnreachable) || !strings.HasSuffix(err.Error(), "SSL_CERT_FILE") {
		t.Errorf("%v", err)
	}
}

func TestAddress(t *testing.T) {
	for _, address := range []string{"", "host:8787", "ftp://host", "http://", "unix://host/path", "https://token@host", "http://host/?token=x", "unix://", "::"} {
		if _, err := api.NewClient(address, ""); !errors.Is(err, evotune.ErrInput) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", address, err)
		}
	}
	for _, address := range []string{"http://host:8787", "https://host/evotune/", "unix:///run/s.sock"} {
		if _, err := api.NewClient(address, ""); err != nil {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// TestNotTheService: what is not a service, or sends the client elsewhere with its token, is
// told in one line.
func TestNotTheService(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the token was taken elsewhere") }))
	defer elsewhere.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/moved") {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			return
		}
		http.Error(w, "<html>\nno such page", http.StatusNotFound)
	}))
	defer s.Close()
	c, err := api.NewClient(s.URL, "secret")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, id := range []string{"moved", "x"} {
		if _, err := c.Campaign(t.Context(), id); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "tune serve") {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestPath: an address with a path at which there is no service is told to be that, and may be right.
func TestPath(t *testing.T) {
	socket := serve(t, 0)
	service := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "socket"
			r.Out.URL.Path = strings.TrimPrefix(r.Out.URL.Path, "/evotune")
		},
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
	})
	defer service.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for _, at := range []string{service.URL + "/v1", other.URL + "/evotune"} {
		c := client(t, at)
		_, err := c.Campaigns(t.Context(), "", "", "")
		host := at[:strings.LastIndex(at, "/")]
		if want := "the address " + at + " of the service has a path, and no service answers there: give " + host; err == nil || err.Error() != want || !errors.Is(err, evotune.ErrInput) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	c := client(t, service.URL+"/evotune")
	if _, err := c.Campaigns(t.Context(), "", "", ""); err != nil {
		t.Error(err)
	}
	if _, err := c.Campaign(t.Context(), "nothing"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v", err)
	}
}
