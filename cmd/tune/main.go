// Command tune evolves compute kernels and queries the results.
//
// Its logic is in other packages: this one has flags, configuration and
// printing. Every query takes --json. The exit statuses are part of the
// contract; each command's help lists its own.
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
