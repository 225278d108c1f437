package store

import (
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// benchEvaluations is how many evaluations the store of the benchmarks has. It
// is built once, in a temporary folder, in about a minute.
var benchEvaluations = flag.Int("store.evaluations", 1_000_000, "evaluations in the benchmarks' store")

const (
	benchCampaigns  = 100
	benchPopulation = 64
)

// benchStore is the store that the benchmarks query.
var benchStore struct {
	once sync.Once
	dir  string
	path string
	last string // a candidate of the last generation
	took time.Duration
	err  error
}

// cleanUp removes it; TestMain calls it.
func cleanUp() {
	if benchStore.dir != "" {
		_ = os.RemoveAll(benchStore.dir)
	}
}

// largeStore builds the store: campaigns one after the other, each a genetic search
// with two parents per candidate out of the generation before, so that
// lineages are as deep as there are generations and as wide as the population.
func largeStore(b *testing.B) string {
	b.Helper()
	benchStore.once.Do(func() {
		begin := time.Now()
		benchStore.err = func() error {
			dir, err := os.MkdirTemp("", "evotune-store-bench") //nolint:usetesting // it outlives the benchmark that builds it
			if err != nil {
				return err
			}
			benchStore.dir, benchStore.path = dir, filepath.Join(dir, "evotune.db")
			s, err := Open(benchStore.path, Options{})
			if err != nil {
				return err
			}
			s.db.NoSync = true // a bulk load: synced at the end
			if err := fillLarge(s, *benchEvaluations); err != nil {
				return err
			}
			if err := s.db.Sync(); err != nil {
				return err
			}
			return s.Close()
		}()
		benchStore.took = time.Since(begin)
	})
	if benchStore.err != nil {
		b.Fatal(benchStore.err)
	}
	return benchStore.path
}

func fillLarge(s *Store, evaluations int) error {
	rng := rand.New(rand.NewSource(1))
	details := make([]json.RawMessage, 16)
	for i := range details {
		details[i] = sampleDetail(rng)
	}
	n := max(1, evaluations/benchCampaigns)
	for c := 0; c*n < evaluations; c++ {
		campaign := fmt.Sprintf("sgemm-%08x", c)
		kernel, device := [...]string{"sgemm", "softmax", "attention"}[c%3], fmt.Sprintf("device-%d", c%4)
		events := []Event{{Campaign: campaign, Kind: KindStarted, Started: &Started{
			Kernel: kernel, Shapes: []string{"1024"}, Backend: "cpu", Device: device, Name: "a processor",
			Strategy: "evolution", SearchVersion: 1, Seed: int64(c), Config: details[0], Description: details[1],
		}}}
		ids := make([]string, 0, n)
		for i := range min(n, evaluations-c*n) {
			e := evaluation(rng, campaign, i, ids, details)
			ids = append(ids, e[0].Asked.Candidate)
			if events = append(events, e...); len(events) >= 20_000 {
				if _, err := s.Append(events...); err != nil {
					return err
				}
				events = events[:0]
			}
		}
		events = append(events, Event{Campaign: campaign, Kind: KindFinished, Note: &Note{Reason: "evaluations", Evaluated: len(ids)}})
		if _, err := s.Append(events...); err != nil {
			return err
		}
		benchStore.last = ids[len(ids)-1]
	}
	return nil
}

// evaluation makes the proposal number i and its result.
func evaluation(rng *rand.Rand, campaign string, i int, ids []string, details []json.RawMessage) []Event {
	id := fmt.Sprintf("%016x", rng.Uint64())
	var parents []string
	if from := (i/benchPopulation - 1) * benchPopulation; from >= 0 {
		parents = []string{ids[from+rng.Intn(benchPopulation)], ids[from+rng.Intn(benchPopulation)]}
	}
	told := &Told{Index: i, Candidate: id, Verdict: "correct", Key: fmt.Sprintf("%016x%016x%016x%016x", rng.Uint64(), rng.Uint64(), rng.Uint64(), rng.Uint64()), Detail: details[rng.Intn(len(details))]}
	if i%5 == 4 {
		told.Verdict = "parity"
	} else {
		told.Fitness = 0.2 + rng.Float64()
		told.BaselineNS = 1e6
		told.MedianNS = told.BaselineNS * told.Fitness
	}
	return []Event{
		{Campaign: campaign, Kind: KindAsked, Asked: &Asked{
			Index: i, Candidate: id, Operator: "crossover", Parents: parents,
			Genome: fmt.Sprintf("MC=%d,NC=%d,KC=%d,MR=%d,NR=%d,UNROLL=%d,PACK=true,PREFETCH=%d,ORDER=nmk,FLAGS=-O3", rng.Intn(512), rng.Intn(4096), rng.Intn(512), rng.Intn(16), rng.Intn(32), rng.Intn(8), rng.Intn(4)),
		}},
		{Campaign: campaign, Kind: KindTold, Told: told},
	}
}

// sampleDetail has the form and size of what an evaluator says of a candidate.
func sampleDetail(rng *rand.Rand) json.RawMessage {
	type evidence struct {
		Check   string  `json:"check"`
		Outcome string  `json:"outcome"`
		Value   float64 `json:"value"`
		Limit   float64 `json:"limit"`
	}
	var d struct {
		Verdict string     `json:"verdict"`
		Parity  []evidence `json:"parity"`
		Samples []float64  `json:"samples_ns"`
		Base    []float64  `json:"baseline_ns"`
	}
	d.Verdict = "correct"
	for seed := range 6 {
		d.Parity = append(d.Parity, evidence{fmt.Sprintf("parity 1024 seed %d", seed), "passed", rng.Float64() * 1e-6, 1e-4})
	}
	for range 30 {
		d.Samples = append(d.Samples, float64(1e6+rng.Intn(1e5)))
		d.Base = append(d.Base, float64(2e6+rng.Intn(1e5)))
	}
	b, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	return b
}

// resident reports the resident memory of the process, in MB, as a metric of its
// own: that of the process and, of it, what is not pages of the store.
func resident(b *testing.B) {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Logf("resident memory is not measured: %v", err)
		return
	}
	for line := range strings.Lines(string(status)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		if metric := map[string]string{"VmRSS:": "MB-resident", "RssAnon:": "MB-anonymous"}[f[0]]; metric != "" {
			kb, err := strconv.Atoi(f[1])
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(kb)/1024, metric)
		}
	}
}

// settle gives back what building the store took.
func settle(b *testing.B) {
	b.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	b.ResetTimer()
}

func openLarge(b *testing.B, o Options) *Store {
	b.Helper()
	s, err := Open(largeStore(b), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

func BenchmarkOpen(b *testing.B) {
	path := largeStore(b)
	if info, err := os.Stat(path); err == nil {
		b.Logf("%d evaluations, built in %v, %d MB", *benchEvaluations, benchStore.took.Round(time.Second), info.Size()>>20)
	}
	for _, o := range []Options{{}, {ReadOnly: true}} {
		b.Run(map[bool]string{false: "write", true: "read"}[o.ReadOnly], func(b *testing.B) {
			settle(b)
			for b.Loop() {
				s, err := Open(path, o)
				if err != nil {
					b.Fatal(err)
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
			resident(b)
		})
	}
}

func BenchmarkBest(b *testing.B) {
	s := openLarge(b, Options{ReadOnly: true})
	settle(b)
	for _, q := range []struct {
		name string
		Query
	}{
		{"one", Query{Kernel: "sgemm", Device: "device-1", Shapes: []string{"1024"}}},
		{"hundred", Query{Kernel: "sgemm", Device: "device-1", Shapes: []string{"1024"}, Limit: 100}},
		{"any", Query{Limit: 100}},
	} {
		b.Run(q.name, func(b *testing.B) {
			for b.Loop() {
				got, err := s.Best(q.Query)
				if err != nil {
					b.Fatal(err)
				}
				if len(got) != max(1, q.Limit) {
					b.Fatalf("%d candidates", len(got))
				}
			}
			resident(b)
		})
	}
}

func BenchmarkLineage(b *testing.B) {
	s := openLarge(b, Options{ReadOnly: true})
	// 50 generations deep, and the deepest of its campaign.
	all, err := s.Campaigns()
	if err != nil {
		b.Fatal(err)
	}
	at := map[int]string{}
	for e, err := range s.Events(all[len(all)/2].ID, 0, WithoutDetail()) {
		if err != nil {
			b.Fatal(err)
		}
		if e.Asked != nil {
			at[e.Asked.Index] = e.Asked.Candidate
		}
	}
	for _, generations := range []int{50, 100} {
		id, ok := at[generations*benchPopulation]
		if !ok {
			b.Skip("the store is too small")
		}
		b.Run(fmt.Sprintf("generations=%d", generations), func(b *testing.B) {
			settle(b)
			ancestors := 0
			for b.Loop() {
				n, err := s.Lineage(id)
				if err != nil {
					b.Fatal(err)
				}
				ancestors = countNodes(n)
			}
			b.ReportMetric(float64(ancestors), "candidates")
			resident(b)
		})
	}
}

func countNodes(n *Node) int {
	seen := map[*Node]bool{n: true}
	for todo := []*Node{n}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, p := range at.Parents {
			if !seen[p] {
				seen[p] = true
				todo = append(todo, p)
			}
		}
	}
	return len(seen)
}

func BenchmarkCandidate(b *testing.B) {
	s := openLarge(b, Options{ReadOnly: true})
	settle(b)
	for b.Loop() {
		if _, err := s.Candidate(benchStore.last); err != nil {
			b.Fatal(err)
		}
	}
	resident(b)
}

// BenchmarkEvents measures what it takes to read an event in a loop over many, as a
// campaign does that is resumed.
func BenchmarkEvents(b *testing.B) {
	for name, options := range map[string][]EventsOption{"all": nil, "bare": {WithoutDetail()}} {
		b.Run(name, func(b *testing.B) {
			s := openLarge(b, Options{ReadOnly: true})
			settle(b)
			next, stop := iter.Pull2(s.Events("", 0, options...))
			defer func() { stop() }()
			for b.Loop() {
				_, err, ok := next()
				if err != nil {
					b.Fatal(err)
				}
				if !ok {
					stop()
					next, stop = iter.Pull2(s.Events("", 0, options...))
				}
			}
			resident(b)
		})
	}
}

func BenchmarkCampaigns(b *testing.B) {
	s := openLarge(b, Options{ReadOnly: true})
	settle(b)
	for b.Loop() {
		if _, err := s.Campaigns(); err != nil {
			b.Fatal(err)
		}
	}
	resident(b)
}

func BenchmarkCheck(b *testing.B) {
	s := openLarge(b, Options{ReadOnly: true})
	settle(b)
	for b.Loop() {
		rep, err := s.Check()
		if err != nil {
			b.Fatal(err)
		}
		if err := rep.Err(); err != nil {
			b.Fatal(err)
		}
	}
	resident(b)
}

// BenchmarkAppend measures what an evaluation costs in the store, durable: its proposal
// and its result, at the end of a store that has many already.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []string{"empty", "large"} {
		for _, group := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/evaluations=%d", size, group), func(b *testing.B) {
				benchmarkAppend(b, size, group)
			})
		}
	}
	b.Run("large/appenders=8", benchmarkAppendConcurrent)
}

// BenchmarkDisk measures the least that a transaction can cost on this disk: a page
// written and synced, twice (bbolt syncs the data before it writes the page that
// makes it valid). What BenchmarkAppend shows is to be seen beside it.
func BenchmarkDisk(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "page"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	page := make([]byte, 4096)
	if err := f.Truncate(1 << 20); err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		for k := range 2 {
			if _, err := f.WriteAt(page, int64((2*i+k)%256)*4096); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func appendStore(b *testing.B, size string) *Store {
	b.Helper()
	if size == "large" {
		return openLarge(b, Options{})
	}
	s, err := Open(filepath.Join(b.TempDir(), "evotune.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func startBench(b *testing.B, s *Store) string {
	b.Helper()
	campaign := fmt.Sprintf("bench-%08x", rand.Uint32())
	if _, err := s.Append(Event{Campaign: campaign, Kind: KindStarted, Started: &Started{Kernel: "bench", Shapes: []string{"1024"}, Device: "bench"}}); err != nil {
		b.Fatal(err)
	}
	return campaign
}

func benchmarkAppend(b *testing.B, size string, group int) {
	s := appendStore(b, size)
	campaign := startBench(b, s)
	rng := rand.New(rand.NewSource(2))
	details := []json.RawMessage{sampleDetail(rng)}
	var ids []string
	var events []Event
	i := 0
	settle(b)
	for b.Loop() {
		e := evaluation(rng, campaign, i, ids, details)
		e[0].Asked.Candidate = fmt.Sprintf("%016x", rand.Uint64())
		e[1].Told.Candidate = e[0].Asked.Candidate
		ids = append(ids, e[0].Asked.Candidate)
		events = append(events, e...)
		if i++; len(events) >= 2*group {
			if _, err := s.Append(events...); err != nil {
				b.Fatal(err)
			}
			events = events[:0]
		}
	}
	b.StopTimer()
	if len(events) > 0 {
		if _, err := s.Append(events...); err != nil {
			b.Fatal(err)
		}
	}
	resident(b)
}

// benchmarkAppendConcurrent has eight campaigns append to one store, one
// evaluation at a time each.
func benchmarkAppendConcurrent(b *testing.B) {
	s := openLarge(b, Options{})
	b.SetParallelism(4)
	settle(b)
	b.RunParallel(func(pb *testing.PB) {
		campaign := startBench(b, s)
		rng := rand.New(rand.NewSource(int64(rand.Uint32())))
		details := []json.RawMessage{sampleDetail(rng)}
		var ids []string
		for i := 0; pb.Next(); i++ {
			e := evaluation(rng, campaign, i, ids, details)
			ids = append(ids, e[0].Asked.Candidate)
			if _, err := s.Append(e...); err != nil {
				b.Error(err)
				return
			}
		}
	})
	resident(b)
}
