package server

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/store"
)

// TestDiskFull: on a full disk campaigns wait, none are taken, and the service is not ready. When there
// is room, they go on as if nothing had happened.
func TestDiskFull(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("NOT TESTED: a small file system cannot be mounted here (%v)", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	s, err := store.Open(filepath.Join(dir, "s.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f := serveWith(t, Options{Store: s, Machine: &evotune.Machine{ReplayLatency: 2 * time.Millisecond}, probePace: 20 * time.Millisecond})
	defer f.stop()
	const evaluations = 300
	one := f.submit(1, evaluations)
	f.until(one.ID, api.Searching)

	filler := filepath.Join(dir, "filler")
	b := make([]byte, 4096)
	out, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = out.Write(b)
	}
	out.Close()
	c := f.until(one.ID, api.Queued)
	var p api.Problem
	if c.Reason != noRoom || c.Evaluated >= evaluations {
		t.Fatalf("%q after %d", c.Reason, c.Evaluated)
	}
	f.do("GET", "/readyz", nil, nil, 503)
	f.do("GET", "/healthz", nil, nil, 200)
	f.do("POST", "/v1/kernels", api.Upload{Name: "large", Files: map[string]string{"kernel.toml": strings.Repeat("# much\n", 10000)}}, &p, 503)
	if p.Detail != noRoom {
		t.Errorf("an upload: %s", p.Detail)
	}
	f.do("POST", "/v1/campaigns", api.Submission{Job: evotune.Job{Backend: "replay", Table: table(f)}}, nil, 503)
	f.do("GET", "/v1/campaigns/"+one.ID, nil, &c, 200)
	if c.State != api.Queued {
		t.Errorf("it is %s while there is no room", c.State)
	}

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	for f.service.writable() != nil { // whoever asks first whether it is ready, the campaigns go on
		time.Sleep(time.Millisecond)
	}
	if c = f.until(one.ID, api.Finished); c.Evaluated != evaluations || c.Reason == noRoom {
		t.Errorf("it ended with %d, %q", c.Evaluated, c.Reason)
	}
	f.do("GET", "/readyz", nil, nil, 200)
	for e, err := range s.Events(one.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == store.KindAttempt {
			t.Fatalf("a candidate is suspected of having ended evotune: %+v", e.Attempt)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.probe"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %s, %v", strings.Join(left, ", "), err)
	}
}

// TestStoppedWithoutRoom: a campaign whose stop found no room on the disk was not killed, and its log
// says so before it goes on.
func TestStoppedWithoutRoom(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	s := f.service.store
	started := store.Event{Kind: store.KindStarted, Campaign: "a", Time: time.Now().UTC(), Started: &store.Started{Kernel: "k", Backend: "cpu", Shapes: []string{"s"}}}
	if _, err := s.Append(started); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id, reason string
		want       store.State
	}{{"b", noRoom, ""}, {"a", "", store.Running}, {"a", noRoom, store.Stopped}, {"a", noRoom, store.Stopped}} {
		j := &job{Job: evotune.Job{ID: c.id}, State: api.Queued, Reason: c.reason}
		if err := f.service.jobs.stopped(j); err != nil || j.Reason != "" {
			t.Fatal(j.Reason, err)
		}
		if got, err := s.Campaign(c.id); (err == nil) != (c.want != "") || got.State != c.want {
			t.Errorf("%s, %q: %s, %v, want %s", c.id, c.reason, got.State, err, c.want)
		}
	}
}
