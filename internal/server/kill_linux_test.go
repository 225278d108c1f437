package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/store"
)

// childVariable makes this program a service on the store that it names, until it is killed.
// Its candidates take as long as latencyVariable says.
const (
	childVariable   = "EVOTUNE_TEST_SERVICE"
	latencyVariable = "EVOTUNE_TEST_LATENCY"
)

func init() {
	path := os.Getenv(childVariable)
	if path == "" {
		return
	}
	err := func() error {
		s, err := store.Open(path, store.Options{Timeout: 10 * time.Second})
		if err != nil {
			return err
		}
		latency, err := time.ParseDuration(os.Getenv(latencyVariable))
		if err != nil {
			return err
		}
		service, err := New(Options{Store: s, Machine: &evotune.Machine{ReplayLatency: latency}})
		if err != nil {
			return err
		}
		_ = os.Remove(path + ".sock")
		l, err := net.Listen("unix", path+".sock")
		if err != nil {
			return err
		}
		service.Listen(l, true)
		select {}
	}()
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// A child is such a service.
type child struct {
	*exec.Cmd
	out    bytes.Buffer
	client *http.Client
}

func startChild(t *testing.T, path string, latency time.Duration) *child {
	t.Helper()
	c := &child{Cmd: exec.CommandContext(t.Context(), os.Args[0])} //nolint:gosec // this program
	c.Env = append(os.Environ(), childVariable+"="+path, latencyVariable+"="+latency.String())
	c.Stderr = &c.out
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path+".sock")
	}
	c.client = &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		if err := c.ask(http.MethodGet, "/v1/campaigns", nil, nil); err == nil {
			return c
		}
		if time.Now().After(deadline) {
			t.Fatalf("the service does not answer: %s", c.out.String())
		}
	}
}

// kill ends it as kill -9 does.
func (c *child) kill() {
	_ = c.Process.Kill()
	_ = c.Wait()
}

func (c *child) ask(method, path string, in, out any, headers ...string) error {
	var b bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&b).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(context.Background(), method, "http://service"+path, &b)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= 300:
		return fmt.Errorf("%s: %s", resp.Status, text)
	case out != nil:
		return json.Unmarshal(text, out)
	}
	return nil
}

// TestKilledLong: a service that is killed at any instant goes on with every campaign, loses
// nothing that it has acknowledged, and each campaign ends with the log that it has alone.
func TestKilledLong(t *testing.T) {
	longtest.Long(t, "it kills a service")
	killed(t, 4, 60)
}

func TestKilledNightly(t *testing.T) {
	longtest.Nightly(t, "kills", "it kills a service 50 times")
	killed(t, 50, 300)
}

func killed(t *testing.T, kills, evaluations int) {
	t.Helper()
	in := func(seed int64) api.Submission {
		return api.Submission{Job: evotune.Job{Backend: "replay", Table: table(t), Seed: &seed, Budget: evotune.Budget{Evaluations: evaluations}}}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "s.db")
	random := rand.New(rand.NewPCG(1, 2))
	acknowledged := map[int64]string{}
	priorities := map[string]int{}
	for n := range kills {
		c := startChild(t, path, 15*time.Millisecond)
		at := time.After(time.Duration(random.Int64N(int64(250 * time.Millisecond))))
		stop := make(chan struct{})
		go func() {
			defer close(stop)
			<-at
			_ = c.Process.Kill()
		}()
		for seed := range int64(3) {
			var got api.Campaign
			if err := c.ask(http.MethodPost, "/v1/campaigns", in(seed+1), &got, "Idempotency-Key", fmt.Sprint(seed)); err != nil {
				break
			}
			if old := acknowledged[seed]; old != "" && old != got.ID {
				t.Fatalf("kill %d: the campaign %s was acknowledged, and is %s now", n, old, got.ID)
			}
			acknowledged[seed] = got.ID
		}
		for id, want := range priorities {
			var got api.Campaign
			if c.ask(http.MethodGet, "/v1/campaigns/"+id, nil, &got) == nil && got.State == api.Failed {
				_ = c.ask(http.MethodPost, "/v1/campaigns/"+id+"/resume", nil, nil)
			}
			if err := c.ask(http.MethodGet, "/v1/campaigns/"+id, nil, &got); err == nil && got.Priority < want {
				t.Errorf("kill %d: campaign %s has priority %d, %d was acknowledged", n, id, got.Priority, want)
			}
			if c.ask(http.MethodPatch, "/v1/campaigns/"+id, api.Change{Priority: &n}, &got) == nil {
				priorities[id] = n
			}
		}
		for _, id := range acknowledged {
			if _, ok := priorities[id]; !ok {
				priorities[id] = 0
			}
		}
		<-stop
		_ = c.Wait()
		// Where the machine is slow, a campaign has no result three times, and is given up.
		for line := range strings.Lines(c.out.String()) {
			if strings.Contains(line, "panic") || strings.Contains(line, "ERROR") && !strings.Contains(line, "was killed 3 times") {
				t.Fatalf("kill %d: %s", n, line)
			}
		}
	}
	last := startChild(t, path, 15*time.Millisecond)
	for seed := range int64(3) {
		var c api.Campaign
		if err := last.ask(http.MethodPost, "/v1/campaigns", in(seed+1), &c, "Idempotency-Key", fmt.Sprint(seed)); err != nil {
			t.Fatal(err)
		}
		if old := acknowledged[seed]; old != "" && old != c.ID {
			t.Fatalf("the campaign %s was acknowledged, and is %s now", old, c.ID)
		}
		acknowledged[seed] = c.ID
	}
	for _, id := range acknowledged {
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			var c api.Campaign
			if err := last.ask(http.MethodGet, "/v1/campaigns/"+id, nil, &c); err != nil {
				t.Fatal(err)
			}
			if c.State == api.Finished {
				break
			}
			if c.State == api.Failed && strings.Contains(c.Reason, "was killed") { // before it had a result, each time
				if err := last.ask(http.MethodPost, "/v1/campaigns/"+id+"/resume", nil, nil); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if c.State.Ended() || time.Now().After(deadline) {
				t.Fatalf("campaign %s is %s: %s", id, c.State, c.Reason)
			}
		}
	}
	last.kill()

	alone := filepath.Join(dir, "alone.db")
	f := serve(t, alone, 0)
	ids := map[int64]string{}
	for seed := range int64(3) {
		var c api.Campaign
		f.do("POST", "/v1/campaigns", in(seed+1), &c, 201)
		ids[seed] = f.until(c.ID, api.Finished).ID
	}
	if err := f.service.store.Close(); err != nil {
		t.Fatal(err)
	}
	for seed, id := range acknowledged {
		want, got := pathOf(t, alone, ids[seed]), pathOf(t, path, id)
		if len(want) < 2*evaluations {
			t.Fatalf("the undisturbed log has %d lines", len(want))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d (-undisturbed +killed):\n%s", seed+1, diff)
		}
	}
}

// TestKilledAgainLong: a campaign during which the service is killed again and again is given up,
// unless it gets on meanwhile, and tried again when somebody asks for it.
func TestKilledAgainLong(t *testing.T) {
	longtest.Long(t, "it kills a service seven times")
	path := filepath.Join(t.TempDir(), "s.db")
	const stuck, works = time.Hour, 15 * time.Millisecond
	var id string
	// lives starts a service, waits for what is wanted of the campaign, and kills the service.
	lives := func(latency time.Duration, want func(api.Campaign) bool, acts ...string) (got api.Campaign) {
		t.Helper()
		c := startChild(t, path, latency)
		defer c.kill()
		if id == "" {
			if err := c.ask(http.MethodPost, "/v1/campaigns", api.Submission{Job: evotune.Job{Backend: "replay", Table: table(t), Budget: evotune.Budget{Evaluations: 500}}}, &got); err != nil {
				t.Fatal(err)
			}
			id = got.ID
		}
		for _, act := range acts {
			if err := c.ask(http.MethodPost, "/v1/campaigns/"+id+"/"+act, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
			if err := c.ask(http.MethodGet, "/v1/campaigns/"+id, nil, &got); err != nil {
				t.Fatal(err)
			}
			if want(got) {
				return got
			}
			if time.Now().After(deadline) {
				t.Fatalf("%+v", got)
			}
		}
	}
	searching := func(c api.Campaign) bool { return c.State == api.Searching }
	lives(stuck, searching)
	lives(stuck, searching)
	evaluated := 0
	lives(works, func(c api.Campaign) bool { evaluated = c.Evaluated; return evaluated > 10 })
	lives(stuck, searching) // the second death since the last result
	lives(stuck, searching)
	got := lives(stuck, func(c api.Campaign) bool { return c.State == api.Failed })
	if !strings.Contains(got.Reason, "killed 3 times while this campaign ran") || got.Evaluated < evaluated {
		t.Errorf("%+v", got)
	}
	lives(stuck, func(c api.Campaign) bool { return c.State == api.Failed }) // it stays so
	lives(stuck, searching, "resume")
	lives(stuck, searching)
	lives(works, func(c api.Campaign) bool { return c.State == api.Finished })
}
