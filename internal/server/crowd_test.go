package server

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/store"
)

// TestSideBySide: campaigns that run at once have the logs that they have alone.
func TestSideBySide(t *testing.T) {
	dir := t.TempDir()
	together, alone := filepath.Join(dir, "together.db"), filepath.Join(dir, "alone.db")
	const campaigns = 3
	run := func(path string, wait bool) (ids []string) {
		f := serve(t, path, time.Millisecond)
		for seed := range int64(campaigns) {
			id := f.submit(seed+1, 80).ID
			if ids = append(ids, id); wait {
				f.until(id, api.Finished)
			}
		}
		for _, id := range ids {
			f.until(id, api.Finished)
		}
		if err := f.service.store.Close(); err != nil {
			t.Fatal(err)
		}
		return ids
	}
	a, b := run(together, false), run(alone, true)
	for i := range campaigns {
		want, got := pathOf(t, alone, b[i]), pathOf(t, together, a[i])
		if diff := gocmp.Diff(want, got); diff != "" || len(want) < 160 {
			t.Errorf("seed %d (-alone +together), of %d lines:\n%s", i+1, len(want), diff)
		}
	}
}

// A follower reads a stream over a connection of its own.
type follower struct{ conn net.Conn }

func follow(t *testing.T, url, path string) *follower {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: service\r\n\r\n", path); err != nil {
		t.Fatal(err)
	}
	return &follower{conn}
}

// TestFollowers: with many clients, of which one never reads, the others get all events in
// order, and memory does not grow with the one that is slow.
func TestFollowers(t *testing.T) { followers(t, 20, 40) }

// TestFollowersNightly: 500 clients get each event within half a second of its writing.
func TestFollowersNightly(t *testing.T) {
	longtest.Nightly(t, "measure", "it measures")
	if p95 := followers(t, 500, 300); p95 > 500*time.Millisecond {
		t.Errorf("p95 is %v, want at most 500ms", p95)
	}
}

// followers returns the time from the log to the client that 95% of the events stay below.
func followers(t *testing.T, clients, evaluations int) (p95 time.Duration) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 100*time.Millisecond)
	c := f.submit(1, evaluations)
	path := "/v1/campaigns/" + c.ID + "/events"
	slow := follow(t, f.url, path)
	_ = slow.conn.(*net.TCPConn).SetReadBuffer(4096) //nolint:errcheck,forcetypeassert // it is one

	var mu sync.Mutex
	var delays []time.Duration
	var group sync.WaitGroup
	for range clients - 1 {
		fol := follow(t, f.url, path)
		group.Go(func() {
			resp, err := http.ReadResponse(bufio.NewReader(fol.conn), nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			scan := bufio.NewScanner(resp.Body)
			scan.Buffer(nil, 1<<20)
			next := 0
			var own []time.Duration
			for scan.Scan() {
				text, ok := strings.CutPrefix(scan.Text(), "data: ")
				if !ok {
					continue
				}
				got := time.Now()
				var e struct {
					Event string    `json:"event"`
					Index int       `json:"index"`
					Time  time.Time `json:"time"`
					State api.State `json:"state"`
				}
				if err := json.Unmarshal([]byte(text), &e); err != nil {
					t.Errorf("%v: %.200s", err, text)
				}
				switch {
				case e.Event == "evaluated" && e.Index != next:
					t.Errorf("result %d came after result %d", e.Index, next-1)
				case e.Event == "evaluated":
					own = append(own, got.Sub(e.Time))
					next++
				}
				if e.Event == "state" && e.State.Ended() {
					break
				}
			}
			if next != evaluations {
				t.Errorf("a client was told of %d results, want %d", next, evaluations)
			}
			mu.Lock()
			delays = append(delays, own...)
			mu.Unlock()
		})
	}
	group.Wait()
	var mem runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&mem)
	slices.SortFunc(delays, cmp.Compare)
	p95 = delays[len(delays)*95/100]
	t.Logf("%d clients, %d events: from the log to the client p50 %v, p95 %v, longest %v; heap %d MB", clients, len(delays),
		delays[len(delays)/2].Round(time.Millisecond), p95.Round(time.Millisecond), delays[len(delays)-1].Round(time.Millisecond), mem.HeapAlloc>>20)
	if mem.HeapAlloc > 256<<20 {
		t.Errorf("the heap has %d MB with %d clients", mem.HeapAlloc>>20, clients)
	}
	slow.conn.Close()
	return p95
}

// TestSoakNightly: campaigns, clients that come and go, and restarts; memory, goroutines and
// descriptors stay as they were.
func TestSoakNightly(t *testing.T) {
	longtest.Nightly(t, "soak", "it takes a minute; -soak sets how long")
	path := filepath.Join(t.TempDir(), "s.db")
	type reading struct {
		heap                    uint64
		goroutines, descriptors int
	}
	var readings []reading
	lives := 3
	each := *soak / time.Duration(lives)
	if each > 5*time.Minute {
		each, lives = 5*time.Minute, int(*soak/(5*time.Minute))
	}
	seed := int64(0)
	for range lives {
		s, err := store.Open(path, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		f := serveStore(t, s, 5*time.Millisecond)
		for end := time.Now().Add(each); time.Now().Before(end); {
			seed++
			c := f.submit(seed, 50)
			var group sync.WaitGroup
			for range 8 {
				group.Go(func() { f.events("/v1/campaigns/"+c.ID+"/events", "", int(seed%30)) })
				group.Go(func() { f.do(http.MethodGet, "/v1/campaigns", nil, nil, 200) })
			}
			f.until(c.ID, api.Finished)
			group.Wait()
			f.client.CloseIdleConnections()
		}
		f.stop()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		readings = append(readings, reading{mem.HeapAlloc, runtime.NumGoroutine(), descriptors(t)})
	}
	t.Logf("%d campaigns; heap, goroutines, descriptors after each life: %+v", seed, readings)
	first, last := readings[0], readings[len(readings)-1]
	if last.heap > first.heap+32<<20 || last.goroutines > first.goroutines+5 || last.descriptors > first.descriptors+3 {
		t.Errorf("they grow: %+v", readings)
	}
}

// pathOf is what a campaign's log says of its search and its finals, without names and times.
func pathOf(t *testing.T, path, id string) (lines []string) {
	t.Helper()
	s, err := store.Open(path, store.Options{ReadOnly: true, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	index := map[string]int{}
	asked, told := []string{}, []string{}
	for e, err := range s.Events(id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Asked != nil:
			index[e.Asked.Candidate] = e.Asked.Index
			parents := []int{}
			for _, p := range e.Asked.Parents {
				parents = append(parents, index[p])
			}
			asked = append(asked, fmt.Sprintf("%d asked %s %s %v", e.Asked.Index, e.Asked.Genome, e.Asked.Operator, parents))
		case e.Told != nil:
			told = append(told, fmt.Sprintf("%d told %s %v %v", e.Told.Index, e.Told.Verdict, e.Told.Fitness, e.Told.MedianNS))
		case e.Finals != nil:
			told = append(told, fmt.Sprintf("finals %d %v %v", index[e.Finals.Winner], e.Finals.Fitness, len(e.Finals.Finalists)))
		}
	}
	return append(asked, told...)
}
