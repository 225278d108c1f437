#!/usr/bin/env bash
# Runs every fuzz target of the repository for a while, one after the other.
#
#	scripts/fuzz.sh [DURATION]	60s each unless told otherwise
#
# Stops at the first finding; Go keeps its input in the package's testdata/fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
duration=${1:-60s}
git grep --name-only '^func Fuzz' -- '*_test.go' | while read -r file; do
	dir=./$(dirname "$file")
	sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' "$file" | while read -r target; do
		echo "== $dir $target $duration"
		# Go's default minimisation can take longer than the fuzzing.
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$duration" -fuzzminimizetime 20x "$dir" </dev/null
	done
done
