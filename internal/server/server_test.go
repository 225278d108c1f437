package server_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// held is a store with one small campaign, held by this process.
func held(t *testing.T, path string) *store.Store {
	t.Helper()
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	events := []store.Event{
		{Kind: store.KindStarted, Started: &store.Started{Kernel: "k", Shapes: []string{"s"}, Device: "d", Strategy: "random"}},
		{Kind: store.KindAsked, Asked: &store.Asked{Index: 0, Candidate: "aa11", Genome: "X=1", Operator: "random"}},
		{Kind: store.KindAsked, Asked: &store.Asked{Index: 1, Candidate: "aa22", Genome: "X=2", Operator: "mutation", Parents: []string{"aa11"}}},
		{Kind: store.KindAsked, Asked: &store.Asked{Index: 2, Candidate: "bb33", Genome: "X=3", Operator: "crossover", Parents: []string{"aa11", "aa22"}}},
		{Kind: store.KindTold, Told: &store.Told{Index: 0, Candidate: "aa11", Verdict: "correct", Fitness: 0.9, Detail: []byte(`{"verdict":"correct"}`)}},
		{Kind: store.KindTold, Told: &store.Told{Index: 1, Candidate: "aa22", Verdict: "parity"}},
		{Kind: store.KindTold, Told: &store.Told{Index: 2, Candidate: "bb33", Verdict: "correct", Fitness: 0.5}},
	}
	for i := range events {
		events[i].Campaign, events[i].Time = "k-1", at.Add(time.Duration(i)*time.Second)
	}
	if _, err := s.Append(events...); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestAnswersAsTheStoreDoes asks a held store over its socket: errors are the store's, too, and lineages have each
// ancestor once. TestReader asks for everything else.
func TestAnswersAsTheStoreDoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s := held(t, path)
	stop, err := server.Serve(s)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	r, err := server.OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()

	want, err := s.Candidate("bb33")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Candidate("bb"); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%v (-store +socket):\n%s", err, cmp.Diff(want, got))
	}
	lineage, err := r.Lineage("bb33")
	if err != nil {
		t.Fatal(err)
	}
	// aa11 is a parent twice over: shared in the store, shared over the socket.
	if lineage.Parents[0] != lineage.Parents[1].Parents[0] {
		t.Error("the shared ancestor was repeated")
	}

	for id, want := range map[string]error{"zz": store.ErrNotFound, "aa": store.ErrAmbiguous} {
		if _, err := r.Candidate(id); !errors.Is(err, want) {
			t.Errorf("candidate %q: error %v, want %v", id, err, want)
		}
		_, wantText := s.Candidate(id)
		if _, err := r.Candidate(id); err.Error() != wantText.Error() {
			t.Errorf("candidate %q: %q over the socket, %q from the store", id, err, wantText)
		}
	}
}

// TestNobodyAnswers is a store that is held by a process without a socket, or
// with one that a killed process left behind.
func TestNobodyAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s := held(t, path)
	for _, stale := range []bool{false, true} {
		if stale {
			if err := os.WriteFile(server.Socket(path), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := server.OpenReader(t.Context(), path)
		if !errors.Is(err, store.ErrLocked) || strings.Contains(err.Error(), "\n") {
			t.Errorf("stale %v: error %v, want one line that is ErrLocked", stale, err)
		}
	}
	stop, err := server.Serve(s)
	if err != nil {
		t.Fatalf("a stale socket was in the way: %v", err)
	}
	stop()
	if _, err := os.Stat(server.Socket(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there after the end: %v", err)
	}
}

func TestSocketPath(t *testing.T) {
	for _, path := range []string{"s.db", "/" + strings.Repeat("long/", 40) + "s.db"} {
		if p := server.Socket(path); len(p) > 107 {
			t.Errorf("Socket(%q) has %d bytes, too many for an address", path, len(p))
		}
	}
	if server.Socket("/a/s.db") == server.Socket("/b/s.db") {
		t.Error("two stores share a socket")
	}
}

// A socket that cannot be made is refused in words.
func TestLongSocket(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	t.Setenv("TMPDIR", long)
	if _, err := server.ListenSocket(filepath.Join(long, "s.db")); err == nil || !strings.Contains(err.Error(), "at most 100 work: give the store a shorter path, or set TMPDIR") {
		t.Errorf("%v", err)
	}
}

// TestAnotherVersion: a reader that is asked for what the process that holds the store does not know says what to do.
func TestAnotherVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	held(t, path)
	l, err := server.ListenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.NotFoundHandler()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	defer func() { srv.Close(); <-done }()
	_, err = server.OpenReader(t.Context(), path)
	if err == nil || !strings.HasSuffix(err.Error(), "of another version of evotune, which does not know what is asked: use that version to ask it") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}
