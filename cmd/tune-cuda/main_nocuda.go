//go:build !cuda

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "tune-cuda: built without CUDA; build it with: CGO_ENABLED=1 go build -tags cuda ./cmd/tune-cuda")
	os.Exit(2)
}
