package evotune_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/store"
)

// Tune softmax for 20 seconds on this machine and print the best.
func Example() {
	job := evotune.Job{Kernel: "softmax", Budget: evotune.Budget{Time: 20 * time.Second}}
	done, err := new(evotune.Machine).Run(context.Background(), nil, job, evotune.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintln(os.Stderr, done.Best) // another on every machine
	fmt.Println("faster than the baseline, beyond noise:", done.Best.Significant && done.Best.Speedup > 1)
	// It prints:
	// faster than the baseline, beyond noise: true
}

// TestExampleNightly: the first example prints what its comment says.
func TestExampleNightly(t *testing.T) {
	longtest.Nightly(t, "measure", "it tunes a kernel for 20 s")
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // it is only read
	stdout := os.Stdout
	os.Stdout = out
	defer func() { os.Stdout = stdout }()
	Example()
	if got, err := os.ReadFile(out.Name()); err != nil || string(got) != "faster than the baseline, beyond noise: true\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// A job as JSON, its campaign in a store, a resumption with a larger budget, and a
// question. Results come from a recorded table here, so that they are always the same.
func ExampleMachine_Run() {
	dir, err := os.MkdirTemp("", "evotune")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := store.Open(filepath.Join(dir, "evotune.db"), store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	var job evotune.Job
	if err := json.Unmarshal([]byte(`{"table": "internal/tables/testdata/synthetic.json", "seed": 3, "budget": {"evaluations": 40}}`), &job); err != nil {
		log.Fatal(err)
	}
	var m evotune.Machine
	ctx := context.Background()
	done, err := m.Run(ctx, s, job, evotune.Options{Listen: func(e evotune.Event) {
		if e.Started != nil {
			fmt.Printf("%s: %.0f genomes\n", e.Started.Config.Kernel, e.Started.SpaceSize)
		}
		if e.Evaluated != nil && e.Evaluated.Record {
			fmt.Printf("%2d  %.3f of the baseline's time\n", e.Evaluated.Index, e.Evaluated.Result.Fitness)
		}
	}})
	if err != nil {
		log.Fatal(err)
	}
	if done, err = m.Resume(ctx, s, done.Campaign, evotune.Budget{Evaluations: 60}, evotune.Options{}); err != nil {
		log.Fatal(err)
	}
	answers, err := m.Best(ctx, s, evotune.Question{Kernel: "synthetic-1000"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Evaluated, "evaluations; the best:", answers[0].Asked.Genome)
	// Output:
	// synthetic-1000: 1650 genomes
	//  1  0.978 of the baseline's time
	//  5  0.916 of the baseline's time
	//  7  0.795 of the baseline's time
	// 17  0.757 of the baseline's time
	// 23  0.694 of the baseline's time
	// 60 evaluations; the best: block_x=48,block_y=2,tile_x=2,tile_y=4,vector=1,unroll=2,depth=1,staged=1,order=swizzled
}
