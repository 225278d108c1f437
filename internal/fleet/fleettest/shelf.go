package fleettest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator/share"
	"github.com/evotune/evotune/internal/fleet"
)

// A Machine compiles as a lab does, with a cache of its own. What it makes is noise that follows from
// the genome, of Bytes bytes.
type Machine struct {
	Bytes int

	mu    sync.Mutex
	cache map[string]bool
	runs  map[string]int // of the compiler, by genome
	wrong int            // code that was another genome's
}

// Compile is for the function before of NewSimulated.
func (m *Machine) Compile(ctx context.Context, genome string) error {
	sum := sha256.Sum256([]byte(genome))
	key := hex.EncodeToString(sum[:])
	code := make([]byte, m.Bytes)
	_, _ = rand.NewChaCha8(sum).Read(code) // cannot fail
	shelf, anew := share.From(ctx)
	m.mu.Lock()
	known := m.cache[genome] && !anew
	m.mu.Unlock()
	if known {
		return nil
	}
	if shelf != nil {
		if entry := shelf.Get(ctx, "objects", key); entry != nil {
			got, err := share.Open("objects", key, entry, nil)
			if err != nil || string(got) != string(code) {
				m.mu.Lock()
				m.wrong++
				m.mu.Unlock()
			}
			return nil
		}
	}
	m.mu.Lock()
	if m.runs == nil {
		m.cache, m.runs = map[string]bool{}, map[string]int{}
	}
	m.cache[genome] = true
	m.runs[genome]++
	m.mu.Unlock()
	entry, err := share.Seal("objects", key, code, nil)
	if shelf != nil && err == nil {
		shelf.Put(ctx, "objects", key, entry)
	}
	return err
}

// Runs is how often the compiler ran, and for how many genomes; wrong counts entries that were not
// what they should be.
func (m *Machine) Runs() (runs, genomes, wrong int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.runs {
		runs += n
	}
	return runs, len(m.runs), m.wrong
}

// TestShelf tests that a second worker compiles nothing that a first one has compiled, also the
// largest entries that are shared, and that the path of the search is the same.
func TestShelf(t *testing.T, rig func() Rig) {
	t.Helper()
	for name, size := range map[string]int{"small": 20 << 10, "largest": share.MaxEntry - 1<<10} {
		t.Run(name, func(t *testing.T) {
			folder, err := share.NewFolder(t.TempDir(), 0)
			if err != nil {
				t.Fatal(err)
			}
			defer folder.Close() //nolint:errcheck // its entries are not of use
			f := NewFarm(t, rig(), 20*time.Second, func(o *fleet.Options) { o.Shelf = folder })
			j := Job(40, 4)
			j.Finalists = new(0)
			if size > 1<<20 {
				j.Budget.Evaluations = 8
			}
			var paths [2][]Line
			var machines [2]Machine
			for i, name := range []string{"one", "two"} {
				m := &machines[i]
				m.Bytes = size
				w := f.Add(name, 2, func(context.Context) (fleet.Runner, error) { return NewSimulated(t, m.Compile), nil }, nil)
				l := &Log{}
				if done, err := f.Run(t.Context(), j, l, 1); err != nil || !done.Complete {
					t.Fatal(done, err)
				}
				paths[i] = l.Path()
				w.Kill()
				<-w.Ended           //nolint:errcheck // it was killed
				f.Hub().Expel(name) // else the next campaign waits for it
			}
			if diff := cmp.Diff(paths[0], paths[1]); diff != "" {
				t.Errorf("with code of another worker the path is another:\n%.2000s", diff)
			}
			compiled, genomes, _ := machines[0].Runs()
			if again, _, wrong := machines[1].Runs(); compiled < genomes || compiled == 0 || again != 0 || wrong != 0 {
				t.Errorf("the first worker compiled %d times for %d genomes, the second %d times, and got %d wrong entries", compiled, genomes, again, wrong)
			}
			if n := f.Hub().Traffic(); n.Hits < int64(genomes) || n.Kept != int64(compiled) || n.Misses != int64(compiled) {
				t.Errorf("%+v for %d genomes, compiled %d times", n, genomes, compiled)
			}
		})
	}
}
