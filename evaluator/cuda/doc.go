// Package cuda runs kernels on NVIDIA GPUs.
//
// # Model
//
// The package is pure Go: what needs the driver is a worker, the program
// tune-cuda, which a [Backend] starts as often as it needs it and speaks to in
// the messages of the package wire. It implements [evaluator.Lab]: it reports what
// workers and tools have seen, and the judge decides. A worker may die at any
// time; the judge finds out who is to blame, in a fresh one.
//
// A candidate is compiled once, to a cubin, by NVRTC in child processes of
// evotune's own executable, or by nvcc. The same cubin is inspected, compared
// with the reference on the device, launched under each tool of
// compute-sanitizer, and timed.
//
// A session is a worker with candidates in it. Each GPU has several workers for
// parity, several under each tool of compute-sanitizer, and one for timing. A gate
// gives a timed run the GPU to itself; all others share it. Several timed runs that
// wait are let in together, since the others must finish first each time.
//
// A tool of compute-sanitizer is trusted only after it has found a fault that
// was planted for it on this machine.
//
// # Caveats
//
// A candidate has no code on the host: it reaches the worker's process only through
// the driver. A worker whose context is lost is ended.
package cuda
