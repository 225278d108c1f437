#!/usr/bin/env bash
# Prints a pattern for go test -run: the tests in which EVOTUNE_TEST=all changes
# something, be it in a function that they call. All others have run already when
# "go test ./..." has.
set -euo pipefail
cd "$(dirname "$0")/.."
names=$(grep -rl 'longtest\.' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r folder; do
  awk '
    /^func / { name = $0; sub(/^func (\([^)]*\) )?/, "", name); sub(/[(\[].*/, "", name) }
    { text[NR] = $0; of[NR] = name }
    /longtest\.(Skip|All)\(/ { long[name] }
    END {
      do {
        before = length(long)
        for (i in text) for (f in long) if (f !~ /^Test/ && text[i] ~ "(^|[^A-Za-z0-9_])" f "\\(") long[of[i]]
      } while (length(long) > before)
      for (f in long) if (f ~ /^(Test|Fuzz|Benchmark)/) print f
    }' "$folder"/*_test.go
done | sort -u | paste -sd'|')
echo "^(Example|$names)\$" # TestMain leaves out Example, which cannot skip itself
