package campaign_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

// dims knows shapes that are called ROWSxCOLS.
func dims(shape string) map[string]int64 {
	var rows, cols int64
	if n, _ := fmt.Sscanf(shape, "%dx%d", &rows, &cols); n != 2 {
		return nil
	}
	return map[string]int64{"ROWS": rows, "COLS": cols}
}

// tiles is a space in which larger products are better, and TILE is ordinal.
func tiles(t *testing.T, constraint string, tile ...int64) *genome.Space {
	t.Helper()
	gene := genome.Gene{Name: "TILE", Ordinal: true}
	for _, v := range tile {
		gene.Values = append(gene.Values, genome.Int(v))
	}
	order := genome.Gene{Name: "ORDER", Values: []genome.Value{genome.Str("rows"), genome.Str("columns")}}
	var rules []genome.Constraint
	if constraint != "" {
		rules = []genome.Constraint{{Expr: constraint}}
	}
	s, err := genome.NewSpace([]genome.Gene{gene, order}, rules)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// An earlier campaign, as WarmStart finds it. Its genomes are given best first.
type earlier struct {
	id, kernel, shape, device string
	name, flags               string
	implementations           []string
	genomes                   []string
	winner                    int // of the finals among genomes; -1: there were none
}

func (e earlier) description() evaluator.Description {
	return evaluator.Description{
		Backend: "cpu", Kernel: e.kernel, Implementations: e.implementations, Shapes: []string{e.shape},
		Device: evaluator.Device{Name: e.name, Fingerprint: e.device, Facts: map[string]string{"flags": e.flags, "architecture": "amd64"}},
	}
}

func (e earlier) write(t *testing.T, s *store.Store) {
	t.Helper()
	events := []store.Event{{Kind: store.KindStarted, Started: &store.Started{
		Kernel: e.kernel, Shapes: []string{e.shape}, Backend: "cpu", Device: e.device, Name: e.name,
		Description: mustJSON(t, e.description()),
	}}}
	var ids []string
	for i, g := range e.genomes {
		id := fmt.Sprintf("%s/%d", e.id, i)
		ids = append(ids, id)
		events = append(events,
			store.Event{Kind: store.KindAsked, Asked: &store.Asked{Index: i, Candidate: id, Genome: g, Operator: "seed"}},
			store.Event{Kind: store.KindTold, Told: &store.Told{Index: i, Candidate: id, Verdict: "correct", Fitness: 0.5 + 0.02*float64(i)}})
	}
	if e.winner >= 0 {
		events = append(events, store.Event{Kind: store.KindFinals, Finals: &store.Finals{Winner: ids[e.winner], Fitness: 0.1, Finalists: ids}})
	}
	for i := range events {
		events[i].Campaign = e.id
	}
	if _, err := s.Append(events...); err != nil {
		t.Fatal(err)
	}
}

func TestWarmStart(t *testing.T) {
	base := earlier{kernel: "k", shape: "512x512", device: "here", name: "EPYC", flags: "avx512", implementations: []string{"plain"}, winner: -1}
	with := func(id string, change func(*earlier), genomes ...string) earlier {
		e := base
		e.id, e.genomes = id, genomes
		change(&e)
		return e
	}
	same := func(*earlier) {}
	tests := []struct {
		name  string
		past  []earlier
		limit int
		want  []string // candidate and genome
	}{
		{"nothing", nil, 8, nil},
		{
			"devices before shapes, the newest of equals first",
			[]earlier{
				with("other", func(e *earlier) { e.device, e.name, e.flags = "far", "Xeon", "avx2" }, "TILE=1,ORDER=rows"),
				with("family", func(e *earlier) { e.device = "near" }, "TILE=2,ORDER=rows"),
				with("distant", func(e *earlier) { e.shape = "64x8192" }, "TILE=4,ORDER=rows"),
				with("close", func(e *earlier) { e.shape = "1024x512" }, "TILE=8,ORDER=rows"),
				with("old", same, "TILE=1,ORDER=columns"),
				with("new", same, "TILE=2,ORDER=columns"),
				with("unknown", func(e *earlier) { e.shape = "gone" }, "TILE=4,ORDER=columns"),
			},
			8,
			[]string{
				"new/0 TILE=2,ORDER=columns", "old/0 TILE=1,ORDER=columns", "close/0 TILE=8,ORDER=rows", "distant/0 TILE=4,ORDER=rows",
				"unknown/0 TILE=4,ORDER=columns", "family/0 TILE=2,ORDER=rows", "other/0 TILE=1,ORDER=rows",
			},
		},
		{
			"every campaign's first before any second; the limit",
			[]earlier{
				with("a", func(e *earlier) { e.shape = "512x1024" }, "TILE=1,ORDER=rows", "TILE=2,ORDER=rows"),
				with("b", same, "TILE=4,ORDER=rows", "TILE=8,ORDER=rows"),
			},
			3,
			[]string{"b/0 TILE=4,ORDER=rows", "a/0 TILE=1,ORDER=rows", "b/1 TILE=8,ORDER=rows"},
		},
		{
			"winners of finals before luck",
			[]earlier{with("a", func(e *earlier) { e.winner = 1 }, "TILE=1,ORDER=rows", "TILE=2,ORDER=rows")},
			8,
			[]string{"a/1 TILE=2,ORDER=rows", "a/0 TILE=1,ORDER=rows"},
		},
		{
			"no losers: the fourth takes 1.12 of the first one's time",
			[]earlier{
				with("a", same, "TILE=1,ORDER=rows", "TILE=2,ORDER=rows", "TILE=4,ORDER=rows", "TILE=8,ORDER=rows"),
			},
			8,
			[]string{"a/0 TILE=1,ORDER=rows", "a/1 TILE=2,ORDER=rows", "a/2 TILE=4,ORDER=rows"},
		},
		{
			"distinct, and of an ordinal gene the nearest value by ratio",
			[]earlier{with("a", same, "TILE=6,ORDER=rows", "TILE=4,ORDER=rows", "TILE=100,ORDER=rows")},
			8,
			[]string{"a/0 TILE=8,ORDER=rows", "a/1 TILE=4,ORDER=rows"},
		},
		{
			"what is not valid here is left out",
			[]earlier{with("a", same, "TILE=8,ORDER=columns", "TILE=2,ORDER=diagonal", "TILE=4,ORDER=rows,PACK=true"), with("b", same, "ORDER=rows")},
			8,
			[]string{"a/2 TILE=4,ORDER=rows"},
		},
		{
			"other kernels and implementations",
			[]earlier{
				with("a", func(e *earlier) { e.kernel = "other" }, "TILE=1,ORDER=rows"),
				with("b", func(e *earlier) { e.implementations = []string{"fancy"} }, "TILE=2,ORDER=rows"),
				with("c", func(e *earlier) { e.implementations = []string{"fancy", "plain"} }, "implementation=fancy,TILE=4,ORDER=rows", "implementation=plain,TILE=8,ORDER=rows"),
			},
			8,
			[]string{"c/1 TILE=8,ORDER=rows"},
		},
		{"none asked for", []earlier{with("a", same, "TILE=1,ORDER=rows")}, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := openStore(t, filepath.Join(t.TempDir(), "s.db"))
			for _, e := range tt.past {
				e.write(t, s)
			}
			space := tiles(t, `TILE < 8 or ORDER == "rows"`, 1, 2, 4, 8)
			got, err := campaign.WarmStart(s, space, base.description(), record.Job{Kernel: "k", Shapes: []string{"512x512"}}, dims, tt.limit)
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, g := range got {
				lines = append(lines, g.Candidate+" "+g.Genome)
				if id, _, _ := strings.Cut(g.Candidate, "/"); g.Campaign != id || g.Device == "" || len(g.Shapes) != 1 {
					t.Errorf("%+v", g)
				}
			}
			if diff := cmp.Diff(tt.want, lines); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A choice among implementations is a gene only where there are several.
func TestWarmStartUnion(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "s.db"))
	e := earlier{id: "a", kernel: "k", shape: "1x1", device: "d", implementations: []string{"plain"}, genomes: []string{"TILE=2,ORDER=rows"}, winner: -1}
	e.write(t, s)
	plain := tiles(t, "", 1, 2, 4)
	space, err := genome.NewUnion("implementation", []genome.Alternative{
		{Name: "fancy", Genes: plain.Genes()}, {Name: "plain", Genes: plain.Genes()},
	})
	if err != nil {
		t.Fatal(err)
	}
	d := e.description()
	d.Implementations = []string{"fancy", "plain"}
	got, err := campaign.WarmStart(s, space, d, record.Job{Kernel: "k", Shapes: []string{"1x1"}}, dims, 8)
	if err != nil || len(got) != 1 || got[0].Genome != "implementation=plain,TILE=2,ORDER=rows" {
		t.Errorf("%+v, %v", got, err)
	}
}

// What a definition names comes after what the store knows, once, where it is valid.
func TestNamed(t *testing.T) {
	space, here := tiles(t, "TILE < 8", 1, 2, 4, 8), evaluator.Description{Implementations: []string{"plain"}}
	plain := &kernels.Implementation{Name: "plain", Starts: []string{
		"TILE=8,ORDER=rows", "TILE=2,ORDER=rows", "TILE=4,ORDER=columns", "TILE=4,ORDER=columns",
	}}
	fancy := &kernels.Implementation{Name: "fancy", Starts: []string{"TILE=1,ORDER=rows"}} // not searched
	list := []record.Start{{Genome: "TILE=2,ORDER=rows", Candidate: "c"}}
	got := campaign.Named(space, here, list, []*kernels.Implementation{fancy, plain})
	if want := append(list, record.Start{Genome: "TILE=4,ORDER=columns"}); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

// warmed is a store with one campaign, and the configuration of a second one
// that starts from it.
func warmed(t *testing.T) (*store.Store, record.Job) {
	t.Helper()
	s := openStore(t, filepath.Join(t.TempDir(), "s.db"))
	first := config(60)
	first.ID, first.Seed = "first-1", new(int64(3))
	p := problem(t, 0)
	if _, err := campaign.Run(t.Context(), p, first, campaign.Options{Workers: 2, Log: s}); err != nil {
		t.Fatal(err)
	}
	cfg := config(60)
	start, err := campaign.WarmStart(s, p.Space, p.Evaluator.Describe(), cfg, dims, 3)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Start = start
	return s, cfg
}

// TestWarmPath: the genomes to start with come first, their parents are the
// candidates that they were, and the path is the same for any number of workers,
// interrupted or not, whatever else the store has learned meanwhile.
func TestWarmPath(t *testing.T) {
	var want []store.Event
	for _, workers := range []int{1, 8} {
		for _, interrupted := range []bool{false, true} {
			s, cfg := warmed(t)
			for rounds := 0; ; rounds++ {
				drain := make(chan struct{})
				n := 0
				sum, err := campaign.Run(t.Context(), problem(t, 0), cfg, campaign.Options{
					Workers: workers, Log: s, Past: past(t, s, cfg.ID), Drain: drain,
					Listen: func(e campaign.Event) {
						if e.Evaluated != nil && interrupted {
							if n++; n == 2 {
								close(drain)
							}
						}
					},
				})
				if err != nil || rounds > 60 {
					t.Fatal(rounds, err)
				}
				if sum.Complete {
					break
				}
				// Resumed as the log has it, after another campaign found its best.
				c, err := s.Campaign(cfg.ID)
				if err != nil {
					t.Fatal(err)
				}
				cfg = decode[record.Job](t, c.Started.Config)
				if rounds == 0 {
					other := config(30)
					other.ID = "meanwhile-1"
					if _, err := campaign.Run(t.Context(), problem(t, 0), other, campaign.Options{Log: s}); err != nil {
						t.Fatal(err)
					}
				}
			}
			got := lineage(t, s, cfg.ID)
			var warm []string
			for _, e := range got {
				if e.Kind == store.KindAsked && e.Asked.Operator == "warm" {
					warm = append(warm, e.Asked.Genome)
					if i := e.Asked.Index; !slices.Equal(e.Asked.Parents, []string{cfg.Start[i].Candidate}) {
						t.Errorf("proposal %d has the parents %v", i, e.Asked.Parents)
					}
				}
			}
			if len(warm) != 3 || warm[0] != cfg.Start[0].Genome || got[0].Asked.Genome != warm[0] {
				t.Errorf("started with %v, want %+v", warm, cfg.Start)
			}
			if n, err := s.Lineage(got[0].Asked.Candidate); err != nil || len(n.Parents) != 1 || n.Parents[0].Campaign != "first-1" {
				t.Errorf("the lineage does not lead to the earlier campaign: %v", err)
			}
			if f, err := s.Check(); err != nil || !f.OK() {
				t.Errorf("check: %v %v", f, err)
			}
			if want == nil {
				want = got
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%d workers, interrupted %v: another path:\n%s", workers, interrupted, diff)
			}
		}
	}
}

// The configuration of a cold campaign has no start.
func TestColdPath(t *testing.T) {
	if b := mustJSON(t, config(10)); strings.Contains(string(b), "start") {
		t.Errorf("a cold campaign's configuration has a start: %s", b)
	}
	cfg := config(10)
	cfg.Start = []record.Start{{Genome: "x=1"}}
	if _, err := campaign.Run(t.Context(), problem(t, 0), cfg, campaign.Options{}); err == nil || !strings.Contains(err.Error(), "genome 0 to start with") {
		t.Errorf("a genome of another space to start with: %v", err)
	}
}

func mustJSON(t *testing.T, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decode[T any](t *testing.T, b []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
