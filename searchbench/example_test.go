package searchbench_test

import (
	"fmt"
	"os"

	"github.com/evotune/evotune/searchbench"
)

// A table from a file becomes a space to score searches on.
func ExampleRead() {
	file, err := os.Open("../internal/tables/testdata/synthetic.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	table, err := searchbench.Read(file, "synthetic.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	space, err := searchbench.New(table.Name(), table)
	if err != nil {
		fmt.Println(err)
		return
	}
	f := space.Facts()
	fmt.Printf("%s: %d configurations, %d failed\n", f.Space, f.Configurations, f.Failed)
	fmt.Printf("%.3f ms at best, %.3f ms in the median\n", f.OptimumMS, f.MedianMS)
	fmt.Printf("a search is given %.0f simulated seconds\n", f.BudgetS)
	// Output:
	// synthetic-1000: 1650 configurations, 55 failed
	// 6.307 ms at best, 9.552 ms in the median
	// a search is given 200 simulated seconds
}
