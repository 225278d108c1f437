// Package cuda runs kernels on NVIDIA GPUs.
//
// # Model
//
// The package is pure Go: what needs the driver is a worker, the program
// tune-cuda, which a [Backend] starts as often as it needs it and speaks to in
// the messages of the package wire. It implements [evaluator.Lab]: it reports what
// workers and tools have seen, and the judge decides. A worker may die at any
// time; who is to blame is for the judge to find out, in a fresh one.
//
// A candidate is compiled once, to a cubin, by NVRTC in child processes of
// evotune's own executable, or by nvcc. The same cubin is inspected, compared
// with the reference on the device, launched under each tool of
// compute-sanitizer, and timed.
//
// A session is a worker with candidates in it. Each GPU has several workers for
// parity, several under each tool of compute-sanitizer, and one for timing. A gate lets timed runs have the GPU to
// themselves; all else shares it. Several timed runs that wait are let in
// together, since each time the others must first come to an end.
//
// A tool of compute-sanitizer is trusted only after it has found a fault that
// was planted for it on this machine.
//
// # Caveats
//
// What a candidate does to the worker's process it can only do through the
// driver: it has no code on the host. A worker whose context is lost is ended.
package cuda
