#!/usr/bin/env bash
# Times a stored candidate of attention beside the kernel's reference compiled in
# single precision with -O3 -march=native, interleaved in one process, and prints
# the ratio.
#
#	scripts/bench-attention.sh [CANDIDATE] [--store FILE] [--causal 0|1] [--pairs N] \
#	        [--at-least RATIO] [--clock wall|thread]
#	scripts/bench-attention.sh --source FILE [--flags FLAGS] ...
#
# CANDIDATE defaults to the best one in the store, a winner of finals first, and
# the store to evotune.db. CC chooses the compiler. --clock thread counts processor
# time in place of wall time, for a machine that has other work to do. Exit status:
# 0; 1 when a result is wrong or the ratio is below --at-least; 2 when it cannot run.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/candidate.sh
candidate_arguments "$@"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
candidate_build attention "$work/candidate.o"
cc=${CC:-gcc} reference=kernels/templates/attention/reference.c
"$cc" -O3 -march=native -DREAL=float -DEXP=expf -Dreference=reference_float -c "$reference" -o "$work/float.o" &&
	"$cc" -O3 -march=native -Dreference=reference_double -c "$reference" -o "$work/double.o" &&
	"$cc" -O2 -Wall -Wextra scripts/bench-attention.c "$work"/*.o -o "$work/bench" -lm -pthread ||
	die "the bench does not compile: is this a candidate of attention?"
"$work/bench" ${rest[@]+"${rest[@]}"}
