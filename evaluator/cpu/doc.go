// Package cpu evaluates C kernels on the processor of this machine.
//
// # Model
//
// A candidate is compiled by gcc or clang into a shared object and loaded by a
// small C program, the harness (native/harness.c), in a process of its own.
// evotune makes the inputs, shares the buffers with that process, tells it over
// a socket what to launch, and judges what it finds in the buffers; the process
// never sees the reference and decides nothing. Times are taken in the process,
// around the launches, and are held against the processor time that the kernel
// accounted to it; while it is not timed it is stopped. The baseline runs in a
// process and in memory of its own, in turns with the candidate.
//
// [Backend.Open] computes the reference's outputs, proves the tolerance with
// negative controls, and puts the baseline through the same stages. What is
// expensive is kept in a cache that several processes may share.
//
// # Caveats
//
// The package needs Linux on x86-64 or 64-bit ARM; elsewhere Open says so. It
// makes evotune the reaper of orphaned descendants (PR_SET_CHILD_SUBREAPER), so
// that no candidate's child escapes. Timings of one process never overlap, but
// two evotunes on one machine do not know of each other. A definition is
// trusted, as a Makefile is; what its templates render is not.
//
// docs/ordeal.md explains the stages and docs/adr/0001-cpu-harness.md the
// choices.
package cpu
