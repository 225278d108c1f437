#!/usr/bin/env bash
# Runs everything that examples/README.md shows, in a temporary folder: a kernel of one's own, its
# winner as a library in a C program, a search strategy. About a minute on two cores.
#
#	scripts/examples.sh [--evaluations N]
#
# Needs go, gcc and cmake. Exit status: 0, or 1 when an example does not work.
set -euo pipefail
cd "$(dirname "$0")/.."
evaluations=10
case ${1:-} in
'') ;;
--evaluations) evaluations=${2:?--evaluations needs a number} ;;
*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "examples.sh: $1" >&2; exit 1; }
step() { printf '\n== %s\n' "$*"; }

step "a kernel of your own"
cp -r examples/kernel examples/library "$dir"
go build -o "$dir/tune" ./cmd/tune
(
	cd "$dir"
	./tune kernels lint kernel
	./tune run heat --kernels kernel --evaluations "$evaluations" | tail -4
	./tune best heat
)

step "an exported library in a C program"
(
	cd "$dir"
	rm -rf library/libkernels library/build
	./tune export heat --kernels kernel --out library/libkernels
	(cmake -S library -B library/build && cmake --build library/build) >build.log 2>&1 || { cat build.log; exit 1; }
	library/build/heat
)

step "a strategy of your own"
lines=$(grep -cv '^\s*\(//.*\)\?$' examples/strategy/main.go)
[ "$lines" -le 30 ] || fail "examples/strategy/main.go has $lines lines of Go, of which 30 are promised"
go run ./examples/strategy | tee "$dir/score"
# Random search scores 0, with an error of 0.08 in 40 runs: this one has to be better.
awk '{ sub(":", "", $2); exit !($2 > 0.4) }' "$dir/score" || fail "the strategy is no better than random search"

step "all right"
