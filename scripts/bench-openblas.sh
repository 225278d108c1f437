#!/usr/bin/env bash
# Times a stored candidate of sgemm beside OpenBLAS, one thread each, interleaved
# in one process, and prints the ratio. OpenBLAS has one sgemm for each core type
# (OPENBLAS_CORETYPE): all that this CPU can run are timed, and the candidate is
# compared with the fastest.
#
#	scripts/bench-openblas.sh [CANDIDATE] [--store FILE] [--size N] [--rounds N] \
#	        [--at-least RATIO] [--clock wall|thread]
#	scripts/bench-openblas.sh --source FILE [--flags FLAGS] ...
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
candidate_build sgemm "$work/candidate.o"
"${CC:-gcc}" -O2 -Wall -Wextra scripts/bench-openblas.c "$work/candidate.o" -o "$work/bench" -ldl -lm -pthread ||
	die "the bench does not compile: is this a candidate of sgemm?"
OPENBLAS_NUM_THREADS=1 "$work/bench" ${rest[@]+"${rest[@]}"}
