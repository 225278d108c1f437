package store

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// childEnv names the role in which a test has started the test binary again, and
// child plays it; only some systems have such tests.
const childEnv = "EVOTUNE_STORE_CHILD"

var child = func(string) int { return 2 }

func TestMain(m *testing.M) {
	if path := os.Getenv(boltEnv); path != "" {
		boltAlone(path)
	}
	if role := os.Getenv(childEnv); role != "" {
		os.Exit(child(role))
	}
	code := m.Run()
	cleanUp()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// mustCreate creates a store that is checked strictly when the test ends.
func mustCreate(t testing.TB) *Store {
	t.Helper()
	return mustOpen(t, filepath.Join(t.TempDir(), "evotune.db"), Options{})
}

// mustOpen opens a store that is closed and checked when the test ends, unless
// the test did so itself.
func mustOpen(t testing.TB, path string, o Options) *Store {
	t.Helper()
	s, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		mustBeSound(t, path)
	})
	return s
}

// mustBeSound has everything checked.
func mustBeSound(t testing.TB, path string) Report {
	t.Helper()
	rep, err := Check(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range rep.Findings {
		t.Errorf("check: %s", f.What)
	}
	return rep
}

func mustAppend(t testing.TB, s *Store, events ...Event) uint64 {
	t.Helper()
	first, err := s.Append(events...)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

// oneLine fails unless the error is one line that names the path.
func oneLine(t testing.TB, err error, path string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if s := err.Error(); strings.Contains(s, "\n") || strings.Count(s, path) != 1 || len(s) > 500 {
		t.Errorf("not one clear line that names the store once: %q", s)
	}
}

// noon is when the events of tests happen.
var noon = time.Date(2026, 11, 1, 12, 0, 0, 123, time.UTC)

func started(campaign string) Event {
	return Event{Time: noon, Campaign: campaign, Kind: KindStarted, Started: &Started{
		Kernel: "sgemm", Shapes: []string{"1024", "odd"}, Backend: "cpu", Device: "f00d", Name: "a processor",
		Strategy: "evolution", SearchVersion: 2, Seed: -7,
		Config: json.RawMessage(`{"workers":2}`), Description: json.RawMessage(`{"backend":"cpu"}`),
	}}
}

func asked(campaign string, index int, id string, parents ...string) Event {
	return Event{Time: noon, Campaign: campaign, Kind: KindAsked, Asked: &Asked{
		Index: index, Candidate: id, Genome: fmt.Sprintf("MR=%d", index), Operator: "mutate", Parents: parents,
	}}
}

// told makes a result; a fitness of 0 is a failure.
func told(campaign string, index int, id string, fitness float64) Event {
	r := &Told{
		Index: index, Candidate: id, Verdict: "parity", Key: "key of " + id,
		Detail: json.RawMessage(fmt.Sprintf(`{"of":%q,"log":%q}`, id, strings.Repeat("ok ", 100))),
	}
	if fitness > 0 {
		r.Verdict, r.Fitness, r.BaselineNS, r.MedianNS = correct, fitness, 1000, 1000*fitness
	}
	return Event{Time: noon, Campaign: campaign, Kind: KindTold, Told: r}
}

// measured makes the second measurement of a candidate.
func measured(campaign string, index int, id string, fitness float64) Event {
	e := told(campaign, index, id, fitness)
	e.Kind, e.Told, e.Measured = KindMeasured, nil, e.Told
	return e
}

// attempt makes an attempt at a candidate that has begun, or has ended somehow.
func attempt(campaign string, index int, id, end string) Event {
	return Event{Time: noon, Campaign: campaign, Kind: KindAttempt, Attempt: &Attempt{Index: index, Candidate: id, Stage: "parity", End: end}}
}

// elsewhere is an attempt on another host.
func elsewhere(campaign string, index int, id string) Event {
	e := attempt(campaign, index, id, "lost")
	e.Attempt.Detail = json.RawMessage(`{"host":"gpu7"}`)
	return e
}

func note(campaign string, kind Kind, reason string) Event {
	return Event{Time: noon, Campaign: campaign, Kind: kind, Note: &Note{Reason: reason, Detail: json.RawMessage(`{}`)}}
}

func finals(campaign, winner string, finalists ...string) Event {
	return Event{Time: noon, Campaign: campaign, Kind: KindFinals, Finals: &Finals{
		Winner: winner, Fitness: 0.5, MedianNS: 500, BaselineNS: 1000, Significant: true,
		Finalists: finalists, Detail: json.RawMessage(`{"entries":[]}`),
	}}
}

// smallStore has two campaigns; the second one is finished.
//
//	one: a(0.9) -> b(0.8) -> d(fails); a, b -> c(0.8)
//	two: e(0.7) -> f(0.6, won finals); g without result
func smallStore(t testing.TB, s *Store) {
	t.Helper()
	mustAppend(t, s,
		started("one"),
		asked("one", 0, "aaaa0001"), told("one", 0, "aaaa0001", 0.9),
		asked("one", 1, "bbbb0001", "aaaa0001"), told("one", 1, "bbbb0001", 0.8),
		asked("one", 2, "cccc0001", "aaaa0001", "bbbb0001"), asked("one", 3, "dddd0001", "bbbb0001"),
	)
	mustAppend(t, s, told("one", 2, "cccc0001", 0.8), told("one", 3, "dddd0001", 0))
	mustAppend(t, s,
		started("two"),
		asked("two", 0, "eeee0001"), told("two", 0, "eeee0001", 0.7),
		asked("two", 1, "ffff0001", "eeee0001"), told("two", 1, "ffff0001", 0.6),
		asked("two", 2, "aaaa0002", "ffff0001"),
		finals("two", "eeee0001", "eeee0001", "ffff0001"),
		note("two", KindFinished, "evaluations"),
	)
}
