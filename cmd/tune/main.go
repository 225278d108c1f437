// Command tune evolves compute kernels and answers for the results.
//
// Its logic is in the packages beside it: this one has flags, configuration
// and printing. Every query takes --json; the exit statuses are part of the
// contract and are listed by each command's help.
package main

import (
	"context"
	"os"

	"github.com/evotune/evotune/evaluator/cuda"
)

func main() {
	cuda.CompileServerMain() // returns unless this process is to compile
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
