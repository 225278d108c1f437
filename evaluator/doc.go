// Package evaluator judges candidates: it puts each through the ordeal, stage
// by stage, and records the verdict with its evidence.
//
// # Model
//
// An [Ordeal] puts a candidate through the stages in order: render, compile,
// inspect, parity, sanitize, benchmark. The first stage that fails gives the
// [Verdict]; only a candidate that passes all of them has a fitness. A failed
// candidate is a [Result]; a Go error means that evotune or the machine failed.
// Candidates that compile to the same code share one evaluation. At the end
// [Ordeal.Finals] measures the best again, in fresh processes, and [Compare]
// says whether a difference is more than noise.
//
// All rules are in this package. A [Lab] handles one kind of device: it builds, runs
// and reports, and never judges. There is evaluator/cpu for this machine's processor
// and evaluator/cuda for NVIDIA's GPUs. evaluator/replay is an [Evaluator] without a
// lab, for results from a table. evaluator/backendtest is the suite that all three
// pass, and docs/ordeal.md walks through the stages.
//
// A timing is made in these steps: a [Reading] is what a lab measured for one batch, a
// [Series] has the readings of one contender in one request. The judge pairs readings
// with the baseline's, decides which count, and keeps them as a [Timing] in the
// [Result]. The Timing is stored, and every printed figure is computed from it.
//
// # Caveats
//
// "Not run" is an outcome of its own and never counts as "passed". A fitness
// is a ratio to a baseline that was timed next to the candidate: it can be
// compared within one device and one definition, and nowhere else.
package evaluator
