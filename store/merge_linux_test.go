package store

import (
	"bytes"
	"context"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/evotune/evotune/internal/longtest"
)

func init() {
	others := child
	child = func(role string) int {
		if role != "merge" {
			return others(role)
		}
		dir := os.Getenv(childDB)
		if _, err := Merge(context.Background(), filepath.Join(dir, "into.db"), []string{filepath.Join(dir, "from.db")}, Options{}); err != nil {
			fmt.Println(err)
			return 3
		}
		return 0
	}
}

// TestMergeKillLong kills merges at any instant: the destination is the old one or
// the new one, and whole.
func TestMergeKillLong(t *testing.T) {
	longtest.Long(t, "it kills processes")
	dir := t.TempDir()
	into, from := filepath.Join(dir, "into.db"), filepath.Join(dir, "from.db")
	storeOf(t, into, started("one"), asked("one", 0, "aaaa0001"), told("one", 0, "aaaa0001", 0.9))
	events := []Event{started("two")}
	for i := range 1500 {
		id := fmt.Sprintf("%08x", i)
		events = append(events, asked("two", i, id), told("two", i, id, 0.5))
	}
	storeOf(t, from, events...)
	old, err := os.ReadFile(into)
	if err != nil {
		t.Fatal(err)
	}
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	killed, took := 0, 200*time.Millisecond
	for range 12 {
		if err := os.WriteFile(into, old, 0o644); err != nil {
			t.Fatal(err)
		}
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), childEnv+"=merge", childDB+"="+dir)
		begin := time.Now()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(time.Duration(rng.Int63n(int64(took))), func() { _ = c.Process.Kill() })
		err := c.Wait()
		if kill.Stop(); err == nil {
			took = time.Since(begin)
		}
		now, readErr := os.ReadFile(into)
		switch {
		case readErr != nil:
			t.Fatal(readErr)
		case bytes.Equal(now, old):
			killed++
			if err == nil {
				t.Error("a merge that was not killed changed nothing")
			}
		default:
			if rep := mustBeSound(t, into); rep.Campaigns != 2 || rep.Candidates != 1501 {
				t.Fatalf("the destination has %d campaigns and %d candidates", rep.Campaigns, rep.Candidates)
			}
		}
	}
	if killed == 0 {
		t.Error("no merge was killed in time: make the store larger")
	}
	mustMerge(t, into, from)
}
