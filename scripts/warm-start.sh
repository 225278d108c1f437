#!/bin/sh
# What a warm start buys on this machine: a campaign at one shape, then campaigns
# at others, each with and without what the first has found, from several seeds.
# Told is after how many evaluations each was first measured within 20%, and 5%, of
# what these campaigns end with: the median of the winners' speedups in the finals,
# since on a machine that has other work to do single ones may be luck.
#
#   scripts/warm-start.sh [KERNEL FROM TO...]     (sgemm 1024 512)
#
# SEEDS (default "1 2 3 4"), EVALUATIONS (50, of each campaign), OUT (a new folder;
# it keeps the logs, and a campaign whose log is there is not run again) and TUNE (a
# built tune) change it. An evaluation takes a second or two. Only AddressSanitizer runs, to save time; it does not change the figures.
set -eu
[ $# -gt 0 ] || set -- sgemm 1024 512
kernel=$1 from=$2
shift 2
seeds=${SEEDS:-1 2 3 4} evaluations=${EVALUATIONS:-50}
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"
tune=${TUNE:-$out/tune}
[ -n "${TUNE:-}" ] || (cd "$(dirname "$0")/.." && go build -o "$out/tune" ./cmd/tune)

campaign() { # STORE SHAPE SEED WARM
	log=$out/$2-$3-$4.jsonl
	[ ! -e "$log" ] || return 0
	"$tune" run "$kernel" --backend cpu --store "$1" --shape "$2" --seed "$3" --warm-start "$4" \
		--evaluations "$evaluations" --sanitizers asan --json >"$log.part"
	mv "$log.part" "$log"
}

campaign "$out/from.db" "$from" 0 off
for to in "$@"; do
	for seed in $seeds; do
		for warm in off auto; do
			# Campaigns at the new shape learn nothing from each other.
			cp "$out/from.db" "$out/copy.db"
			campaign "$out/copy.db" "$to" "$seed" "$warm"
		done
	done
	for seed in $seeds; do
		for warm in off auto; do
			# The fitness is the time relative to the baseline's, measured in between.
			sed -n \
				-e 's/.*"event":"evaluated".*"index":\([0-9]*\),.*"fitness":\([0-9.e-]*\).*/'"$seed $warm"' \1 \2/p' \
				-e 's/.*"event":"finished".*"speedup":\([0-9.]*\).*/'"$seed $warm"' finals \1/p' "$out/$to-$seed-$warm.jsonl"
		done
	done | awk -v shape="$to" -v limit="$evaluations" '
		{ run = "seed " $1 ", warm start " $2 }
		!(run in final) { name[++runs] = run; final[run] = 0 }
		$3 == "finals" { final[run] = $4; next }
		{ n++; of[n] = run; at[n] = $3 + 1; speed[n] = 1 / $4 }
		$3 == 0 { first[run] = 1 / $4 }
		function after(run, share,   i) {
			for (i = 1; i <= n; i++) if (of[i] == run && speed[i] >= (1 - share) * end) return at[i]
			return "more than " limit
		}
		END {
			for (i = 1; i <= runs; i++) {
				for (j = i; j > 1 && sorted[j-1] > final[name[i]]; j--) sorted[j] = sorted[j-1]
				sorted[j] = final[name[i]]
			}
			end = (sorted[int((runs + 1) / 2)] + sorted[int(runs / 2) + 1]) / 2
			printf "%s: these campaigns end with %.2fx the baseline (median)\n", shape, end
			for (i = 1; i <= runs; i++) {
				run = name[i]
				printf "  %-24s first %.2fx, within 20%% after %s, within 5%% after %s, won with %.2fx\n", run, first[run], after(run, 0.2), after(run, 0.05), final[run]
			}
		}'
done
echo "logs: $out"
