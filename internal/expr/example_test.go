package expr_test

import (
	"fmt"

	"github.com/evotune/evotune/internal/expr"
)

func ExampleCompile() {
	e, err := expr.Compile("2 * M * N * K", map[string]any{"M": 0, "N": 0, "K": 0})
	if err != nil {
		fmt.Println(err)
		return
	}
	operations, err := e.Float(map[string]any{"M": 1024, "N": 1024, "K": 1024})
	fmt.Println(e.Names(), operations, err)

	_, err = expr.Compile("2 * M * N * Q", map[string]any{"M": 0, "N": 0, "K": 0})
	fmt.Println(err)
	// Output:
	// [K M N] 2.147483648e+09 <nil>
	// column 13 of "2 * M * N * Q": unknown name Q; known are K, M, N
}
