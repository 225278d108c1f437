#!/usr/bin/env bash
# Measures what a busy machine does to evotune's judgement of CPU kernels.
#
#   scripts/judge-records.sh DIR STAGE...
#
# The stages are
#   calm    campaigns of every CPU kernel, on the machine as it is
#   busy    the same beside scripts/busy.sh: 4 busy loops and a memory hog
#   beside  the winners of both, measured again on the calm machine
#   verify  `tune verify` of the winners of all campaigns in DIR, beside scripts/busy.sh
#   judged  `tune judge` of the winners' sources
#   lies    how small a lie about time is still caught, calm and busy, as a table and a plot
#   pace    candidates a minute beside another build, OLD=PATH of its tune, by turns
#
# EACH (34) evaluations and FINALISTS (4) make a campaign, SEEDS (1 to 6) are the campaigns of a kernel; KERNELS names
# the kernels. SANITIZERS (all that were found) goes to every campaign but those of seed 1.
# Lines "RESULT ..." go to DIR/results.txt. The exit status is 1 if a campaign of calm or busy failed or ended early,
# or an evaluation or a finalist is not correct.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
dir=${1:?usage: scripts/judge-records.sh DIR STAGE...}
shift
mkdir -p "$dir" && dir=$(cd "$dir" && pwd) || exit 1
tune=${TUNE:-$dir/tune}
[ -n "${TUNE:-}" ] || go build -o "$tune" ./cmd/tune || exit 1
kernels=${KERNELS:-$("$tune" kernels --json | python3 -c '
import json, sys
for k in json.load(sys.stdin):
    if any(i.endswith("(cpu)") for i in k["implementations"]): print(k["name"])')}
say() { echo "RESULT $*" | tee -a "$dir/results.txt"; }

# campaigns NAME PREFIX...: all campaigns into NAME.db.
campaigns() {
  local name=$1 k run extra begin=$SECONDS status=0 asked=0
  shift
  for k in $kernels; do
    for run in ${SEEDS:-1 2 3 4 5 6}; do
      extra=()
      [ "$run" != 1 ] && [ -n "${SANITIZERS:-}" ] && extra=(--sanitizers "$SANITIZERS")
      asked=$((asked + ${EACH:-34}))
      "$@" "$tune" run "$k" --backend cpu --evaluations "${EACH:-34}" --seed "$run" --warm-start off --finalists "${FINALISTS:-4}" \
        --store "$dir/$name.db" --json "${extra[@]}" >>"$dir/$name.jsonl" 2>>"$dir/$name.err" || { say "$name: $k, seed $run: status $?"; status=1; }
    done
  done
  python3 - "$dir/$name.jsonl" "$asked" <<'PY' | while read -r line; do say "$name: $line"; done
import collections, json, sys
verdicts, finals, entries, wrong = collections.Counter(), 0, collections.Counter(), []
for line in open(sys.argv[1]):
    e = json.loads(line)
    if e["event"] == "evaluated":
        verdicts[e["verdict"]] += 1
        if e["verdict"] != "correct":
            wrong.append((e.get("candidate"), e["verdict"], e.get("reason", "")[:200]))
    elif e["event"] == "finals":
        finals += 1
        for x in e["result"]["entries"]:
            entries[x.get("verdict")] += 1
print("evaluations", sum(verdicts.values()), dict(verdicts), "finals", finals, "finalists", dict(entries))
for w in wrong[:20]:
    print("not correct:", *w)
sys.exit(sum(verdicts.values()) < int(sys.argv[2]) or set(verdicts) | set(entries) != {"correct"})
PY
  [ "${PIPESTATUS[0]}" = 0 ] || status=1
  say "$name: $((SECONDS - begin)) s"
  return $status
}
calm() { campaigns calm; }
busy() { campaigns busy scripts/busy.sh --; }

# winners NAME: the winners of a store, as lines "CANDIDATE KERNEL SEED".
winners() {
  python3 - "$dir/$1.jsonl" <<'PY'
import json, sys
kernel = seed = ""
for line in open(sys.argv[1]):
    e = json.loads(line)
    if e["event"] == "started":
        c = e.get("config", e)
        kernel, seed = c.get("kernel"), c.get("seed")
    elif e["event"] == "finished" and e.get("best"):
        print(e["best"]["candidate"], kernel, seed)
PY
}

beside() {
  local name
  for name in calm busy; do
    winners $name | while read -r id k seed; do
      "$tune" verify "$id" --store "$dir/$name.db" --json >"$dir/beside.json" 2>>"$dir/beside.err"
      echo "$name $k $seed $(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["again"]["fitness"])' "$dir/beside.json")"
    done
  done >"$dir/beside.txt"
  python3 - "$dir/beside.txt" <<'PY' | while read -r line; do say "beside: $line"; done
import collections, math, sys
best = collections.defaultdict(dict)
for line in open(sys.argv[1]):
    f = line.split()
    if len(f) == 4:
        best[f[0]][(f[1], f[2])] = float(f[3])
def geo(x): return math.exp(sum(map(math.log, x)) / len(x))
both = sorted(set(best["calm"]) & set(best["busy"]))
for k in sorted({k for k, _ in both}):
    print(k, "busy winners over calm winners: %.3f" % geo([best["busy"][b] / best["calm"][b] for b in both if b[0] == k]))
if both:
    print("geometric mean over %d pairs: %.3f" % (len(both), geo([best["busy"][b] / best["calm"][b] for b in both])))
PY
}

verify() {
  local name good=0 bad=0 busy=0 rc
  for name in calm busy; do
    [ -f "$dir/$name.jsonl" ] || continue
    while read -r id k seed; do
      scripts/busy.sh -- "$tune" verify "$id" --store "$dir/$name.db" >"$dir/verify.txt" 2>&1
      rc=$?
      case $rc in
        0) good=$((good + 1)) ;;
        4) bad=$((bad + 1)); say "verify: $k $id: $(grep -h 'change\|reproduced' "$dir/verify.txt" | tr '\n' ' ')" ;;
        *) busy=$((busy + 1)); say "verify: $k $id: status $rc: $(tail -1 "$dir/verify.txt")" ;;
      esac
    done < <(winners $name)
  done
  say "verify: $good reproduced, $bad not, $busy neither"
}

judged() {
  local name good=0 id k seed said
  for name in calm busy; do
    [ -f "$dir/$name.jsonl" ] || continue
    while read -r id k seed; do
      "$tune" show "$id" --store "$dir/$name.db" --source >"$dir/winner.c"
      if said=$("$tune" judge "$dir/winner.c" --kernel "$k" 2>&1); then good=$((good + 1)); else say "judged: $k $id: status $?: $(tail -1 <<<"$said")"; fi
    done < <(winners $name)
  done
  say "judged: $good winners correct"
}

lies() {
  local times=100,102,104,106,108,110,115,120,150,200
  EVOTUNE_TEST=measure go test ./evaluator/cpu -count=1 -run '^TestLiesNightly$' -timeout 60m -v -lies.only $times -lies "${LIES:-20}" -lies.calm -lies.out "$dir/lies-calm.csv" >"$dir/lies-calm.txt" 2>&1
  say "lies, calm: status $?"
  EVOTUNE_TEST=measure scripts/busy.sh -- go test ./evaluator/cpu -count=1 -run '^TestLiesNightly$' -timeout 60m -v -lies.only $times -lies "${LIES:-20}" -lies.out "$dir/lies-busy.csv" >"$dir/lies-busy.txt" 2>&1
  say "lies, busy: status $?"
  grep -h 'LIES' "$dir/lies-calm.txt" "$dir/lies-busy.txt" | sed 's/^.*LIES //' | while read -r line; do say "lies: $line"; done
}

pace() {
  local turn k t none
  for turn in old new new old; do
    t=$tune
    [ $turn = old ] && t=${OLD:?OLD names the tune of another build}
    none=0 # finals; older builds say -1
    "$t" run --help | grep -q -e '-1: no finals' && none=-1
    for k in ${PACE:-softmax sgemm}; do
      rm -rf "$dir/pace-cache"
      say "pace: $turn $k: $("$t" run "$k" --backend cpu --time 40s --finalists $none --warm-start off --store "$dir/pace-$turn.db" --cache-dir "$dir/pace-cache" 2>&1 | grep 'a minute')"
    done
  done
}

status=0
for stage in "$@"; do "$stage" || status=1; done
exit $status
