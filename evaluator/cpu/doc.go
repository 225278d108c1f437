// Package cpu evaluates C kernels on the processor of this machine.
//
// # Model
//
// The package is an [evaluator.Lab]: it builds, runs and measures candidates and
// reports what it saw. The rules are in package evaluator.
//
// A candidate is compiled by gcc or clang into a shared object and loaded by a
// small C program, the harness (native/harness.c), in a process of its own.
// evotune makes the inputs, shares the buffers with that process, tells it over
// a socket what to launch, and compares what it finds in the buffers with the
// reference, which the process never sees. Times are taken in the process,
// around the launches. With each come evotune's own clock, the processor time
// that the kernel accounted to the process, and the time for which it waited for
// a core. While a process is not timed it is stopped. The baseline runs in a
// process and in memory of its own, in turns with the candidate.
//
// [Backend.Open] computes the reference's outputs and measures the machine's
// peaks, and has the tolerance and the baseline proven. What is expensive is
// kept in a cache that several processes may share.
//
// # Caveats
//
// The package needs Linux on x86-64 or 64-bit ARM; elsewhere Open says so. It
// makes evotune the reaper of orphaned descendants (PR_SET_CHILD_SUBREAPER), so
// that no candidate's child escapes. While one lab of a process times, no other
// of it times, launches on the CPU or compiles, whatever device that is for; two
// evotunes on one machine do not know of each other. A definition is trusted, as
// a Makefile is; what its templates render is not.
//
// docs/ordeal.md explains the stages and docs/adr/0001-cpu-harness.md the
// choices.
package cpu
