#!/bin/bash
# Candidates a minute of two builds of tune on this CPU, by turns: pace-cpu.sh OLD NEW [TURNS [EVALUATIONS [KERNEL]...]]
# The search alone counts, neither preparation nor finals. Each turn has its own seed, so nothing was compiled before;
# the two builds have a cache and a store each. Nothing else should run meanwhile.
set -euo pipefail
old=${1:?usage: pace-cpu.sh OLD NEW [TURNS [EVALUATIONS [KERNEL]...]]} new=${2:?which build is the new one?}
old=$(realpath "$old") new=$(realpath "$new")
turns=${3:-3} evaluations=${4:-24}
kernels=("${@:5}")
[ ${#kernels[@]} -gt 0 ] || kernels=(sgemm softmax)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" # where no config.toml has keys that one of them does not know

# one BUILD NAME KERNEL SEED prints the pace of one campaign.
one() {
	local none=0 # finals; older builds say -1
	"$1" run --help | grep -q -e '-1: no finals' && none=-1
	EVOTUNE_CACHE_DIR=$dir/$2 "$1" run "$3" --seed "$4" --evaluations "$evaluations" --finalists $none --json --store "$dir/$2.db" \
		2>"$dir/log" >"$dir/events" || { cat "$dir/log" >&2; return 1; }
	grep '"event":"finished"' "$dir/events" | grep -o '"per_minute":[0-9.]*' | cut -d: -f2
}

for kernel in "${kernels[@]}"; do
	all=
	for turn in $(seq "$turns"); do
		a=$(one "$old" old "$kernel" "$turn")
		b=$(one "$new" new "$kernel" "$turn")
		echo "$kernel turn $turn: $a and $b candidates a minute"
		all+="$a $b"$'\n'
	done
	awk -v kernel="$kernel" 'NF == 2 { a += 1/$1; b += 1/$2; n++ }
		END { printf "%s: %.1f and %.1f candidates a minute: %.2f times\n", kernel, n/a, n/b, a/b }' <<<"$all"
done
