package genome_test

import (
	"errors"
	"fmt"
	"math/rand"

	"github.com/evotune/evotune/genome"
)

func Example() {
	space, err := genome.NewSpace(
		[]genome.Gene{
			{Name: "BM", Values: []genome.Value{genome.Int(16), genome.Int(32), genome.Int(64), genome.Int(128)}, Ordinal: true},
			{Name: "BN", Values: []genome.Value{genome.Int(16), genome.Int(32), genome.Int(64), genome.Int(128)}, Ordinal: true},
			{Name: "ORDER", Values: []genome.Value{genome.Str("ijk"), genome.Str("ikj")}},
			{Name: "PACK", Values: []genome.Value{genome.Bool(false), genome.Bool(true)}},
			{Name: "AHEAD", Values: []genome.Value{genome.Int(0), genome.Int(8)}, Ordinal: true, When: "PACK"},
		},
		[]genome.Constraint{
			{Expr: "4 * BM * BN <= CACHE", Why: "a block must fit the cache"},
			{Expr: "AHEAD == 0 or BN >= 32", Why: "short rows need no prefetch"},
		},
		map[string]any{"CACHE": 32768},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("valid genomes:", space.Size())

	g, err := space.Parse("BM=64,BN=64,ORDER=ikj,PACK=true,AHEAD=8")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.Hash(), g)
	for _, n := range space.Adjacent(g) {
		fmt.Println("next to it:", n)
	}
	rng := rand.New(rand.NewSource(1))
	child := space.Crossover(g, space.Mutate(g, 0.2, rng), rng)
	fmt.Println("a child is valid:", space.Check(child) == nil)

	_, err = space.Parse("BM=128,BN=128,ORDER=ikj,PACK=false")
	fmt.Println(errors.Is(err, genome.ErrInvalid), err)
	_, err = genome.NewSpace(space.Genes(), []genome.Constraint{{Expr: "BM * BNN <= 4096"}})
	fmt.Println(err)
	// Output:
	// valid genomes: 82
	// 46c7129dc9ce7758 BM=64,BN=64,ORDER=ikj,PACK=true,AHEAD=8
	// next to it: BM=64,BN=64,ORDER=ikj,PACK=false
	// next to it: BM=64,BN=64,ORDER=ikj,PACK=true,AHEAD=0
	// next to it: BM=64,BN=32,ORDER=ikj,PACK=true,AHEAD=8
	// next to it: BM=64,BN=128,ORDER=ikj,PACK=true,AHEAD=8
	// next to it: BM=32,BN=64,ORDER=ikj,PACK=true,AHEAD=8
	// next to it: BM=128,BN=64,ORDER=ikj,PACK=true,AHEAD=8
	// next to it: BM=64,BN=64,ORDER=ijk,PACK=true,AHEAD=8
	// a child is valid: true
	// true invalid genome: it breaks the constraint "4 * BM * BN <= CACHE" (a block must fit the cache)
	// space: constraint: column 6 of "BM * BNN <= 4096": unknown name BNN; did you mean BN?
}

func ExampleNewUnion() {
	space, err := genome.NewUnion("implementation", []genome.Alternative{
		{Name: "scalar", Genes: []genome.Gene{
			{Name: "UNROLL", Values: []genome.Value{genome.Int(1), genome.Int(2), genome.Int(4)}, Ordinal: true},
		}},
		{Name: "vector", Genes: []genome.Gene{
			{Name: "UNROLL", Values: []genome.Value{genome.Int(1), genome.Int(2)}, Ordinal: true},
			{Name: "WIDTH", Values: []genome.Value{genome.Int(4), genome.Int(8)}, Ordinal: true},
		}, Constraints: []genome.Constraint{{Expr: "UNROLL * WIDTH <= 8", Why: "registers"}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for g := range space.All() {
		fmt.Println(g)
	}
	// Output:
	// implementation=scalar,UNROLL=1
	// implementation=scalar,UNROLL=2
	// implementation=scalar,UNROLL=4
	// implementation=vector,UNROLL=1,WIDTH=4
	// implementation=vector,UNROLL=1,WIDTH=8
	// implementation=vector,UNROLL=2,WIDTH=4
}
