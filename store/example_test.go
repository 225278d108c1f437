package store_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/evotune/evotune/store"
)

// A campaign asks for two candidates, the second out of the first, and the
// store tells later which was best and where it came from.
func Example() {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := store.Open(filepath.Join(dir, "evotune.db"), store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = s.Close() }()

	const c = "sgemm-1"
	if _, err := s.Append(
		store.Event{Campaign: c, Kind: store.KindStarted, Started: &store.Started{Kernel: "sgemm", Shapes: []string{"1024"}, Device: "f00d"}},
		store.Event{Campaign: c, Kind: store.KindAsked, Asked: &store.Asked{Index: 0, Candidate: "51ab", Genome: "MR=4", Operator: "random"}},
		store.Event{Campaign: c, Kind: store.KindTold, Told: &store.Told{Index: 0, Candidate: "51ab", Verdict: "correct", Fitness: 0.8}},
		store.Event{Campaign: c, Kind: store.KindAsked, Asked: &store.Asked{Index: 1, Candidate: "c0de", Genome: "MR=6", Operator: "mutate", Parents: []string{"51ab"}}},
		store.Event{Campaign: c, Kind: store.KindTold, Told: &store.Told{Index: 1, Candidate: "c0de", Verdict: "correct", Fitness: 0.5}},
	); err != nil {
		log.Fatal(err)
	}

	best, err := s.Best(store.Query{Kernel: "sgemm", Device: "f00d"})
	if err != nil {
		log.Fatal(err)
	}
	node, err := s.Lineage(best[0].ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s, fitness %g, %s of %s\n", node.ID, node.Asked.Genome, node.Told.Fitness, node.Asked.Operator, node.Parents[0].Asked.Genome)
	// Output: c0de: MR=6, fitness 0.5, mutate of MR=4
}
