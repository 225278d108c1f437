package kernels_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/evotune/evotune/kernels"
)

// A kernel is found by name; its space gives genomes, and a genome renders to
// what a backend compiles.
func Example() {
	def, err := kernels.Find("sgemm") // and the folders of --kernels
	if err != nil {
		log.Fatal(err)
	}
	shape, err := def.Problem.Shape("1024")
	if err != nil {
		log.Fatal(err)
	}
	operations, err := def.Problem.Operations(shape)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s, %.3g operations\n", def.Name, def.Description, operations)

	im := def.Implementations[0]
	space, err := def.Space(def.Implementations, []kernels.Shape{shape}, nil)
	if err != nil {
		log.Fatal(err)
	}
	g, err := space.FromMap(im.Baseline().Genome)
	if err != nil {
		log.Fatal(err)
	}
	candidate, err := im.Render(g)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(candidate.Entry, candidate.Threads, strings.Contains(candidate.Source, "void sgemm("))
	// Output:
	// sgemm: single-precision matrix product C = A B, row-major, 2.15e+09 operations
	// sgemm 1 true
}
