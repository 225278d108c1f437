// Tune-cuda is evotune's GPU worker: one process that holds one GPU, loads the
// cubins that evotune compiled, runs them on data of its own making, and says
// what came of it. It judges nothing: evotune does, from what it is told.
//
// It reads requests on standard input and answers on standard output (package
// wire has both), writes what people may want to know on standard error, and
// ends when its input ends. It holds the first device that it sees;
// CUDA_VISIBLE_DEVICES chooses which.
//
// # Build
//
// It needs cgo, cuda.h of CUDA 11.8 or later, and a libcuda.so to link with
// (the stub of the toolkit will do; no GPU is needed to build):
//
//	CGO_ENABLED=1 go build -tags cuda -o bin/tune-cuda ./cmd/tune-cuda
//
// Headers are found in /usr/include and /usr/local/cuda/include, the library
// in the usual places and the toolkit's stubs; elsewhere, name them:
//
//	CGO_CFLAGS=-I/opt/cuda/include CGO_LDFLAGS=-L/opt/cuda/lib64/stubs go build ...
//
// The program runs on any later driver, and launches as older ones do where a candidate asks
// for nothing else. Clusters and cooperative launches need a driver of CUDA 11.8, tensor maps
// one of 12.0, dependent launches one of 12.3. NVML and cuBLAS are opened when they are
// wanted: without NVML there is no telemetry, without cuBLAS (or the library that
// TUNE_CUDA_CUBLAS names) no vendor's routine. Which cuDNN is opened evotune says.
//
// Behind a tool such as compute-sanitizer or ncu, the tool's own output must go
// to a file (--log-file), since it would be in the way of the answers. With
// -share N the worker is one of N that are on the device at once: it sleeps
// rather than spins while the device works, and keeps less there.
//
// Built without the tag, the program only says how to build it, so that the
// rest of the module needs no CUDA.
//
// # Model
//
// All driver calls are made by one goroutine, locked to its thread. A problem
// is a harness, a list of buffers and a reference. An instance is one shape and
// seed of it: pristine inputs and the reference's outputs, both kept on the
// device. A set is working memory for one shape: each buffer in a block of its
// own with guards at both ends. Instances and sets are kept between requests,
// up to half of the free memory or a share of that, the longest unused given up
// first. A race times contenders round by round, over several requests; what it
// needs is kept until it ends.
//
// A vendor's routine is a binary as well. One of cublasLt, which is opened like cuBLAS
// (TUNE_CUDA_CUBLASLT names a file of its own), or of cuDNN looks for the fastest of the
// proposed algorithms before the first race at a shape, and the worker remembers it.
//
// A driver error while a candidate runs is that candidate's [wire.Fault]; when
// the context is lost with it, the worker answers and ends, and evotune starts
// another. Nothing stops a kernel that does not end: evotune kills the worker.
package main
