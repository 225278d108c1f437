package fleet_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/share"
	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/fleet/fleettest"
)

func TestShelf(t *testing.T) { fleettest.TestShelf(t, fleettest.InMemory) }

func newFolder(t *testing.T) *share.Folder {
	t.Helper()
	f, err := share.NewFolder(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestChecksCompile: a candidate that a second host evaluates to compare the two, and one that a third
// decides on, is compiled there, although the shelf has what the first compiled.
func TestChecksCompile(t *testing.T) { synctest.Test(t, testChecksCompile) }

func testChecksCompile(t *testing.T) {
	f := fleettest.NewFarm(t, fleettest.InMemory(), 5*time.Second, func(o *fleet.Options) { o.Shelf, o.Again = newFolder(t), 1 })
	var machines [3]fleettest.Machine
	for i, name := range []string{"one", "two", "odd"} {
		m, verdict := &machines[i], evaluator.Verdict("")
		m.Bytes = 100
		if name == "odd" {
			verdict = evaluator.Parity // which the two others find out about, each with code of its own
		}
		f.Add(name, 1, func(context.Context) (fleet.Runner, error) {
			slowly := func(ctx context.Context, genome string) error {
				time.Sleep(time.Millisecond) // all three have their part
				return m.Compile(ctx, genome)
			}
			return skewed{Simulated: fleettest.NewSimulated(t, slowly), by: func() float64 { return 1 }, verdict: verdict}, nil
		}, nil)
	}
	for deadline := time.Now().Add(10 * time.Second); len(f.Hub().Hosts()) < 3 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	j := fleettest.Job(300, 8)
	j.Strategy, j.Finalists = "random", new(0)
	l := &fleettest.Log{}
	if _, err := f.Run(t.Context(), j, l, 3); err != nil {
		t.Fatal(err)
	}
	again := len(l.Attempts(fleet.EndAgain))
	var compiled, wrong int
	for i := range machines {
		n, _, w := machines[i].Runs()
		compiled += n
		wrong += w
	}
	n := f.Hub().Traffic()
	// Each genome was compiled once for the search, and once more for each time that it was checked.
	if first := int(n.Misses); again < 10 || wrong != 0 || compiled < first+again || int(n.Kept) > first || n.Kept == 0 { // who is drained leaves nothing
		t.Errorf("%d checks, and compilers ran %d times: %+v", again, compiled, n)
	}
	if len(l.Attempts(fleet.EndDisagree)) == 0 {
		t.Error("nobody was found to be alone")
	}
}

// A mute link does not answer what is asked of the shelf.
type mute struct {
	fleet.Link
	asked *atomic.Int64
}

func (m mute) Request(ctx context.Context, verb fleet.Verb, body []byte) ([]byte, error) {
	if verb == fleet.Keep || verb == fleet.Fetch {
		m.asked.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return m.Link.Request(ctx, verb, body)
}

// TestMuteShelf: a coordinator that does not answer costs five seconds once, and no result.
func TestMuteShelf(t *testing.T) { synctest.Test(t, testMuteShelf) }

func testMuteShelf(t *testing.T) {
	f := fleettest.NewFarm(t, fleettest.InMemory(), 20*time.Second, func(o *fleet.Options) { o.Shelf = newFolder(t) })
	m := &fleettest.Machine{Bytes: 100}
	var asked atomic.Int64
	f.Add("w", 1, func(context.Context) (fleet.Runner, error) { return fleettest.NewSimulated(t, m.Compile), nil }, func(l fleet.Link) fleet.Link { return mute{l, &asked} })
	j := fleettest.Job(60, 4)
	l := &fleettest.Log{}
	begin := time.Now()
	if done, err := f.Run(t.Context(), j, l, 1); err != nil || !done.Complete {
		t.Fatal(done, err)
	}
	if took := time.Since(begin); asked.Load() != 1 || took > 10*time.Second {
		t.Errorf("it was asked %d times, and the campaign took %v", asked.Load(), took)
	}
	if diff := cmp.Diff(fleettest.Alone(t, j).Path(), l.Path()); diff != "" {
		t.Errorf("the path is another:\n%.2000s", diff)
	}
	if n, _, _ := m.Runs(); n == 0 {
		t.Error("nothing was compiled")
	}
}

// A slow link takes three seconds to hand over the largest entries.
type slow struct{ fleet.Link }

func (l slow) Request(ctx context.Context, verb fleet.Verb, body []byte) ([]byte, error) {
	if verb == fleet.Keep {
		select {
		case <-time.After(3 * time.Second * time.Duration(len(body)) / share.MaxEntry):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return l.Link.Request(ctx, verb, body)
}

// TestSlowShelf: what takes long since it is large is handed over all the same.
func TestSlowShelf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.NewFarm(t, fleettest.InMemory(), 20*time.Second, func(o *fleet.Options) { o.Shelf = newFolder(t) })
		m := &fleettest.Machine{Bytes: share.MaxEntry - 1<<10}
		f.Add("w", 1, func(context.Context) (fleet.Runner, error) { return fleettest.NewSimulated(t, m.Compile), nil }, func(l fleet.Link) fleet.Link { return slow{l} })
		j := fleettest.Job(4, 4)
		j.Finalists = new(0)
		if done, err := f.Run(t.Context(), j, &fleettest.Log{}, 1); err != nil || !done.Complete {
			t.Fatal(done, err)
		}
		if n, _, _ := m.Runs(); f.Hub().Traffic().Kept != int64(n) || n == 0 {
			t.Errorf("%d were compiled, and %d handed over", n, f.Hub().Traffic().Kept)
		}
	})
}

// TestKeep: the coordinator takes whole entries under names that can be files, from workers that it
// trusts, and nothing else; the first of a name stays.
func TestKeep(t *testing.T) {
	folder := newFolder(t)
	h := fleet.New(fleet.Options{Version: "test", Logger: fleettest.Quiet(), Shelf: folder})
	defer h.Close()
	send := func(verb fleet.Verb, body string) (string, error) {
		out, err := h.Handle(t.Context(), "w", verb, []byte(body))
		return string(out), err
	}
	key := strings.Repeat("ab", 32)
	entry := func(kind, key, code string) string {
		e, err := share.Seal(kind, key, []byte(code), "a log")
		if err != nil {
			t.Fatal(err)
		}
		return string(e)
	}
	line := `{"kind":"objects","key":"` + key + `"}`
	whole := line + "\n" + entry("objects", key, "code")
	get := func() string {
		t.Helper()
		out, err := send(fleet.Fetch, line)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if _, err := send(fleet.Keep, whole); err == nil || get() != "" {
		t.Errorf("a worker that has not enrolled left an entry: %v", err)
	}
	if _, err := send(fleet.Enrol, `{"protocol":1,"session":"s","time":"`+time.Now().Format(time.RFC3339Nano)+`","host":{"name":"w","version":"test"}}`); err != nil {
		t.Fatal(err)
	}
	for what, body := range map[string]string{
		"no entry": line, "a damaged entry": strings.Replace(whole, "code", "cope", 1), "half an entry": whole[:len(whole)-1], "nothing": "",
		"another's entry": line + "\n" + entry("objects", strings.Repeat("cd", 32), "code"), "another kind": line + "\n" + entry("cubins", key, "code"),
	} {
		if _, err := send(fleet.Keep, body); err == nil || get() != "" {
			t.Errorf("%s was taken", what)
		}
	}
	for _, name := range [][2]string{{"../objects", key}, {"tmp", key}, {"objects", "../" + key}, {"objects", "ab"}, {"objects", strings.ToUpper(key)}} {
		body := `{"kind":"` + name[0] + `","key":"` + name[1] + `"}`
		_, err := send(fleet.Keep, body+"\n"+entry(name[0], name[1], "code"))
		if out, get := send(fleet.Fetch, body); err != nil || get != nil || out != "" {
			t.Errorf("%s was kept: %q, %v, %v", body, out, err, get)
		}
	}
	if large := entry("objects", key, strings.Repeat("x", share.MaxEntry)); true {
		if _, err := send(fleet.Keep, line+"\n"+large); err == nil || get() != "" {
			t.Errorf("an entry of %d bytes was kept: %v", len(large), err)
		}
	}
	h.Drain("w", "it computes nonsense") //nolint:errcheck // nothing is kept
	if _, err := send(fleet.Keep, whole); err == nil || get() != "" {
		t.Errorf("a worker that is drained left an entry: %v", err)
	}
	h.Drain("w", "") //nolint:errcheck // nothing is kept
	if _, err := send(fleet.Keep, whole); err != nil || get() != whole[len(line)+1:] {
		t.Errorf("the entry is not there: %v", err)
	}
	if _, err := send(fleet.Keep, line+"\n"+entry("objects", key, "other")); err != nil || get() != whole[len(line)+1:] {
		t.Errorf("a later entry took the place of the first: %v", err)
	}
}
