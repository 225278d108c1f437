// Command tune evolves compute kernels and answers for the results.
//
// Its logic is in the packages beside it: this one has flags, configuration
// and printing. Every query takes --json; the exit statuses are part of the
// contract and are listed by each command's help.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
