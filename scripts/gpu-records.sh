#!/usr/bin/env bash
# Makes the records of docs/evidence/: everything that the documentation says of
# a GPU was measured by this script. It runs on a machine with an NVIDIA GPU,
# CUDA and PyTorch, from the root of the repository, and needs no Go there: the
# programs are built before, with
#
#   scripts/gpu-records.sh build          # into bin/, on a machine with Go and CUDA's headers
#
# and then
#
#   scripts/gpu-records.sh DIR STAGE...   # DIR gets the records; stages: see below
#
# Each stage ends with lines "RESULT ..." in DIR/results.txt. SCALE (default 1)
# multiplies the time of the campaigns.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
root=$PWD

build() {
  mkdir -p bin
  CGO_ENABLED=0 go build -ldflags '-s -w' -o bin/tune ./cmd/tune &&
    CGO_ENABLED=1 go build -tags cuda -ldflags '-s -w' -o bin/tune-cuda ./cmd/tune-cuda &&
    CGO_ENABLED=0 go test -c -tags cuda -ldflags '-s -w' -o bin/cuda-smoke ./cmd/tune-cuda/gputest &&
    CGO_ENABLED=0 go test -c -ldflags '-s -w' -o bin/cuda.test ./evaluator/cuda
}
if [ "${1:-}" = build ]; then build; exit; fi

out=${1:?usage: scripts/gpu-records.sh build, or scripts/gpu-records.sh DIR STAGE...}
shift
mkdir -p "$out"
out=$(cd "$out" && pwd)
export PATH=$PATH:/usr/local/cuda/bin
store=$out/records.db
scale=${SCALE:-1}
seconds() { echo "$(($1 * scale))s"; }
say() { echo "RESULT $*" | tee -a "$out/results.txt"; }
# best FILE: the candidate that a campaign's output ends with.
best() { sed -n 's/^best: \([0-9a-f]*\) .*/\1/p' "$1" | tail -1; }
# campaign NAME ARGS...: one campaign, its output in NAME.txt, its last lines as results.
campaign() {
  local name=$1
  shift
  bin/tune run "$@" --backend cuda --store "$store" >"$out/$name.txt" 2>"$out/$name.err"
  local rc=$?
  say "$name: status $rc; $(grep -h '^best: \|a minute)\|^device: ' "$out/$name.txt" | tr '\n' ' ')"
}
# winner NAME: the evidence of a campaign's winner, and PyTorch beside it.
winner() {
  local id
  id=$(best "$out/$1.txt")
  [ -n "$id" ] || { say "$1: no winner"; return; }
  bin/tune evidence "$id" --store "$store" --out "$out/evidence-$1" --force >"$out/$1.evidence.txt" 2>&1 ||
    say "$1: evidence failed: $(tail -1 "$out/$1.evidence.txt")"
  timeout 120 python3 bench/pytorch/compare.py --json "$out/$1.pytorch.json" "$out/evidence-$1" >"$out/$1.pytorch.txt" 2>&1
  sed -n 's/^  \(.*[0-9]\)$/\1/p' "$out/$1.pytorch.txt" | while read -r line; do say "$1 beside PyTorch: $line"; done
}

# environment: what was found.
environment() {
  bin/tune doctor --backend cuda >"$out/doctor.txt" 2>&1
  nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv,noheader >>"$out/doctor.txt"
  say "environment: $(grep -c '^ok' "$out/doctor.txt") tools ok, $(grep -c '^missing' "$out/doctor.txt") missing"
}

# smoke: every message of the worker's protocol, on the GPU.
smoke() {
  timeout 150 bin/cuda-smoke -test.timeout 140s -worker bin/tune-cuda -harness evaluator/cuda/harness.cu \
    -kernels cmd/tune-cuda/gputest/testdata >"$out/smoke.txt" 2>&1
  say "smoke: status $?; $(grep -a NothingGrows "$out/smoke.txt" | tail -1 | cut -c1-160)"
}

# zoo: the suite that every backend passes, with the kernels that are wrong on purpose.
zoo() {
  (cd evaluator/cuda && EVOTUNE_CUDA_WORKER=$root/bin/tune-cuda timeout 400 "$root/bin/cuda.test" -test.v -test.timeout 390s \
    -test.run '^TestConformance$' >"$out/zoo.txt" 2>&1)
  say "zoo: status $?; $(grep -ac '^ *--- PASS: TestConformance/zoo/' "$out/zoo.txt") cases right, $(grep -ac '^ *--- FAIL: TestConformance/zoo/' "$out/zoo.txt") wrong"
}

# debug: device asserts, what kernels print, and the debug flavour.
debug() {
  timeout 60 bin/cuda-smoke -test.v -test.timeout 55s -test.run 'TestAssert|TestPrints' -worker bin/tune-cuda -harness evaluator/cuda/harness.cu \
    -kernels cmd/tune-cuda/gputest/testdata >"$out/debug.txt" 2>&1
  say "debug: worker: status $?"
  (cd evaluator/cuda && EVOTUNE_CUDA_WORKER=$root/bin/tune-cuda timeout 120 "$root/bin/cuda.test" -test.v -test.timeout 110s \
    -test.run '^TestDebugOnGPU$' >>"$out/debug.txt" 2>&1)
  say "debug: flavour: status $?; $(grep -ac '^ *--- PASS' "$out/debug.txt") passed, $(grep -ac '^ *--- FAIL' "$out/debug.txt") failed"
}

# attention: the campaign of the seed's shape, over both implementations, with
# kill -9 of a worker and, after as long again, of tune itself. ATTENTION (150) is
# its seconds, KILL (a quarter of them) when the worker dies; BETWEEN is a command
# that has the machine while nobody searches. The resumption gets the flags in
# DIR/resume.flags, if there are any by then: another --time, where the machine is
# lent for less. With CAMPAIGN, a store of another machine of the kind, the
# campaign that was last in it goes on.
attention() {
  local store=$store shape=2x8x512x64 log=$out/attention.jsonl t k before=0
  t=$((${ATTENTION:-150} * scale))
  k=${KILL:-$((t / 4))}
  local command=(run attention --backend cuda --shape $shape)
  if [ -n "${CAMPAIGN:-}" ]; then
    store=$out/attention.db
    cp "$CAMPAIGN" "$store"
    command=(resume)
    before=$(bin/tune list --store "$store" --json | grep -o '"evaluated": *[0-9]*' | tail -1 | grep -o '[0-9]*')
    say "attention: goes on after $before evaluations elsewhere"
  fi
  nvidia-smi --query-gpu=timestamp,memory.used,utilization.gpu,clocks.sm,temperature.gpu --format=csv,noheader -l 2 >"$out/attention.memory.csv" &
  local smi=$!
  bin/tune "${command[@]}" --time ${t}s --store "$store" --json >"$log" 2>"$out/attention.err" &
  local tune=$!
  sleep "$k"
  pkill -9 -o -f 'bin/tune-cuda' && say "attention: a worker was killed after $k s"
  sleep "$k"
  kill -9 $tune
  wait $tune 2>/dev/null
  local told
  told=$((before + $(grep -c '"event":"evaluated"' "$log")))
  say "attention: tune was killed after $((2 * k)) s, having announced $told evaluations"
  sleep 2
  say "attention: workers left behind: $(pgrep -c -f 'bin/tune-cuda')"
  bin/tune check --store "$store" >"$out/attention.check1.txt" 2>&1
  say "attention: check after the kill: status $?; $(tail -1 "$out/attention.check1.txt")"
  local kept
  kept=$(bin/tune list --store "$store" --json 2>/dev/null | grep -o '"evaluated": *[0-9]*' | tail -1 | grep -o '[0-9]*')
  say "attention: the store holds $kept evaluations; lost: $((told > ${kept:-0} ? told - ${kept:-0} : 0))"
  [ -n "${BETWEEN:-}" ] && bash -c "$BETWEEN" >"$out/between.txt" 2>&1
  # shellcheck disable=SC2046 # a list of words
  bin/tune resume --store "$store" $(cat "$out/resume.flags" 2>/dev/null) >"$out/attention.txt" 2>>"$out/attention.err"
  say "attention: resumed, status $?; $(grep -h '^best: \|a minute)\|^device: ' "$out/attention.txt" | tr '\n' ' ')"
  bin/tune check --store "$store" >"$out/attention.check2.txt" 2>&1
  say "attention: check at the end: status $?; $(tail -1 "$out/attention.check2.txt")"
  kill $smi 2>/dev/null
  say "attention: memory of the GPU in MiB, first, largest, last: $(cut -d, -f2 "$out/attention.memory.csv" | awk 'NR==8{f=$1} $1>m{m=$1} {l=$1} END{print f, m, l}')"
  winner attention
  bin/tune best attention --device H200 --shape $shape --store "$store" >"$out/attention.best.txt" 2>&1
  say "attention: tune best: $(head -1 "$out/attention.best.txt")"
  bin/tune report "$(bin/tune list --store "$store" --json | grep -o '"id": *"attention-[0-9a-f]*"' | head -1 | cut -d'"' -f4)" --store "$store" --out "$out/report-attention" --force >/dev/null 2>&1
}

# fault: every genome with the planted fault, of a campaign over the seed's space.
fault() {
  bin/tune run attention --backend cuda --implementation seed --shape 2x8x512x64 --time "$(seconds 30)" --store "$store" --json \
    >"$out/fault.jsonl" 2>"$out/fault.err"
  python3 - "$out/fault.jsonl" <<'PY' | while read -r line; do say "fault: $line"; done
import collections, json, sys
planted, rest = collections.Counter(), collections.Counter()
for line in open(sys.argv[1]):
    e = json.loads(line)
    if e.get("event") != "evaluated":
        continue
    g = e["genome"]
    where = planted if g.get("PATH") == "wmma" and g.get("Q_PLACE") == "registers" else rest
    where[e["verdict"] + ("" if e["verdict"] == "correct" else ": " + e.get("reason", "")[:90])] += 1
print("genomes with the planted fault:", sum(planted.values()), dict(planted))
print("the others:", sum(rest.values()), {k: v for k, v in rest.items() if v > 1 or k == "correct"})
PY
}

# shapes: attention at four further shapes.
shapes() {
  for s in ${SHAPES:-4x16x512x64 2x8x2048x64-causal 2x8x512x128 4x16x4096x128-causal}; do
    campaign "attention-$s" attention --implementation mma --shape "$s" --time "$(seconds "${EACH:-25}")" --finalists 2
    winner "attention-$s"
  done
}

# gemm: 4096, beside cuBLAS.
gemm() {
  campaign gemm-4096 gemm --implementation mma --shape 4096 --time "$(seconds 60)" --finalists 2
  winner gemm-4096
}

# rows: softmax, layernorm and rmsnorm at their three shapes.
rows() {
  for k in softmax layernorm rmsnorm; do
    for s in 4096x1024 16384x4096 65536x1024; do
      campaign "$k-$s" $k --shape $s --time "$(seconds "${ROWS:-12}")" --finalists 2
      winner "$k-$s"
    done
  done
}

# pace: fully validated candidates a minute, all four sanitizers, on all of the WMMA
# space at 2048, with an empty cache; PACE has further flags.
pace() {
  local cache
  cache=$(mktemp -d)
  # shellcheck disable=SC2086 # a list of words
  campaign pace gemm --implementation wmma --shape 2048 --evaluations 336 --finalists 0 --warm-start off --cache-dir "$cache" ${PACE:-}
  rm -rf "$cache"
}

# side: the pace of another build, bin/tune-old with bin/tune-cuda-old, beside
# this one's, by turns, caches empty; SPACE is what is searched, larger than what a
# turn of SIDE (40) seconds evaluates.
side() {
  local turn cache worker
  for turn in old new new old; do
    cache=$(mktemp -d)
    worker=bin/tune-cuda tune=bin/tune
    [ $turn = old ] && worker=bin/tune-cuda-old tune=bin/tune-old
    # shellcheck disable=SC2086 # a list of words
    $tune run ${SPACE:-attention --implementation mma --shape 2x8x512x64} --time "$(seconds "${SIDE:-40}")" --window 96 --finalists 0 --backend cuda --warm-start off \
      --cuda-worker $worker --store "$out/side-$turn.db" --cache-dir "$cache" >"$out/side-$turn.txt" 2>&1
    say "side: $turn: status $?; $(grep -h 'a minute)' "$out/side-$turn.txt" | tail -1)"
    rm -rf "$cache"
  done
}

# busy: a campaign while another process multiplies matrices on the GPU, for as
# long as BUSY (60) seconds and then no more, beside a campaign on the calm GPU.
busy() {
  local other
  campaign busy-calm softmax --shape 16384x4096 --time "$(seconds 25)" --finalists 3
  python3 - >"$out/busy.other.txt" 2>&1 <<'PY' &
import torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
while True:
    for _ in range(20):
        b = a @ a
    torch.cuda.synchronize()
PY
  other=$!
  sleep 8
  (sleep "${BUSY:-60}"; kill -9 $other) &
  bin/tune run softmax --shape 16384x4096 --time "$(seconds 25)" --finalists 3 --backend cuda --warm-start off --seed 1 \
    --store "$out/busy.db" --json >"$out/busy.jsonl" 2>"$out/busy.err"
  say "busy: status $?"
  kill -9 $other 2>/dev/null
  python3 - "$out/busy.jsonl" <<'PY' | while read -r line; do say "busy: $line"; done
import collections, json, sys
verdicts = collections.Counter()
for line in open(sys.argv[1]):
    e = json.loads(line)
    name = e.get("event")
    if name == "evaluated":
        verdicts[e["verdict"]] += 1
    elif name in ("paused", "continued", "finished", "measured", "finals"):
        print(name, json.dumps({k: v for k, v in e.items() if k in ("reason", "after", "best", "verdict", "winner")})[:300])
print("verdicts:", dict(verdicts))
PY
}

# compile: NVRTC beside nvcc, on one gemm, as many at once as there are cores.
compile() {
  (cd evaluator/cuda && timeout 100 "$root/bin/cuda.test" -test.run '^$' -test.bench '^BenchmarkCompile$' -test.benchtime 64x >"$out/compile.txt" 2>&1)
  grep -h '^BenchmarkCompile' "$out/compile.txt" | while read -r line; do say "compile: $line"; done
}

# sweep: a sample of a space as tables, and a search over what was recorded.
sweep() {
  timeout 120 bin/tune sweep rmsnorm --backend cuda --sample 60 --format compact --format t4 --format kerneltuner --out "$out/sweep" --store "$out/sweep.db" >"$out/sweep.txt" 2>&1
  say "sweep: status $?; $(ls "$out" | grep -c '^sweep[.-].*json') tables; $(tail -1 "$out/sweep.txt" | cut -c1-120)"
}

# devices: one campaign on one GPU and over all of them, caches empty.
devices() {
  local k d cache
  for k in "gemm --implementation hopper --shape 2048" "attention --shape 2x8x512x64" "rmsnorm --shape 16384x4096"; do
    for d in 0 all; do
      cache=$(mktemp -d)
      # shellcheck disable=SC2086 # words
      campaign "devices-${k%% *}-$d" $k --time "$(seconds 15)" --window 96 --finalists 0 --warm-start off --cuda-devices "$d" --cache-dir "$cache"
      rm -rf "$cache"
    done
  done
  bin/tune check --store "$store" >"$out/devices.check.txt" 2>&1
  say "devices: check: status $?; $(tail -1 "$out/devices.check.txt")"
}

# neighbors: what a candidate that faults costs those beside it.
neighbors() {
  (cd evaluator/cuda && EVOTUNE_CUDA_WORKER=$root/bin/tune-cuda timeout 150 "$root/bin/cuda.test" -test.v -test.timeout 145s \
    -test.run '^TestNeighborsOnGPU$' >"$out/neighbors.txt" 2>&1)
  say "neighbors: status $?; $(grep -a 'eight honest' "$out/neighbors.txt" | sed 's/.*: \([a-z-]*\): eight.* beside it: /\1 /' | tr '\n' ',')"
}

# service: attention and softmax as campaigns of a service, asked for and followed by the
# client; the service is killed while the second one runs, and started again. SERVICE (20) is the seconds of each.
service() {
  local url=http://127.0.0.1:8787 db=$out/service.db file=$out/service.token name pid rc
  rm -f "$db"* "$file"
  ask() { curl -s -m 5 -H "Authorization: Bearer $(cat "$file")" "$url/$1"; }
  serve() {
    bin/tune serve --listen "${url#http://}" --store "$db" --token-file "$file" >>"$out/serve.txt" 2>&1 &
    pid=$!
    for _ in $(seq 100); do curl -sf -m 1 "$url/healthz" >/dev/null && return; sleep 0.2; done
    say "service: it does not answer: $(tail -1 "$out/serve.txt")"
  }
  follow() {
    timeout 150 bin/tune attach "$(sed -n 's/.*"campaign":"\([^"]*\)".*/\1/p' "$out/service-$1.json")" --server $url --token-file "$file" >"$out/service-$1.txt" 2>&1
    rc=$?
    say "service $1: status $rc; $(grep -h '^best: \|a minute)' "$out/service-$1.txt" | tail -2 | tr '\n' ' ')"
  }
  serve
  for name in attention softmax; do
    bin/tune run "$name" --backend cuda --server $url --token-file "$file" --time "$(seconds "${SERVICE:-20}")" --finalists 2 --detach --json >"$out/service-$name.json" 2>&1
  done
  follow attention
  sleep 12
  ask v1/campaigns >"$out/service-before.json"
  kill -9 "$pid"
  serve
  follow softmax
  ask v1/campaigns >"$out/service-campaigns.json"
  say "service: $(grep -o '"state":"[a-z]*"' "$out/service-before.json" | tr '\n' ' ') before kill -9; $(grep -o '"state":"[a-z]*"' "$out/service-campaigns.json" | tr '\n' ' ') at the end"
  bin/tune best attention --server $url --token-file "$file" >"$out/service-best.txt" 2>&1
  say "service best: $(sed -n 2p "$out/service-best.txt")"
  ask v1/devices >"$out/service-devices.json"
  ask metrics | grep '^evotune_' >"$out/service-metrics.txt"
  say "service: $(grep -c . "$out/service-metrics.txt") metrics; devices $(grep -o '"name":"[^"]*"' "$out/service-devices.json" | tr '\n' ' ')"
  kill -TERM "$pid"
  wait "$pid"
  say "service: ended with status $?"
}

# fleet: what a fleet costs. Two campaigns of FLEET (384) evaluations on two GPUs by a service alone, and by
# workers of its fleet, a process for each GPU, over NATS; by turns, caches empty. The paths are the same, so
# both evaluate the same candidates.
fleet() {
  local url=http://127.0.0.1:8789 file turn cache db begin place pids name id state
  local n=${FLEET:-384}
  for turn in ${TURNS:-local fleet local fleet}; do
    cache=$(mktemp -d)
    db=$cache/fleet.db file=$cache/token pids=() place=()
    [ $turn = fleet ] && place=(--device fleet --fleet-workers 1)
    bin/tune serve --listen "${url#http://}" --fleet 127.0.0.1:8790 --store "$db" --token-file "$file" --cache-dir "$cache/service" >>"$out/fleet.serve.txt" 2>&1 &
    pids+=($!)
    for _ in $(seq 100); do curl -sf -m 1 "$url/healthz" >/dev/null && break; sleep 0.2; done
    if [ $turn = fleet ]; then
      for gpu in 0 1; do
        bin/tune worker --name "gpu$gpu" --server $url --token-file "$file" --cuda-devices $gpu --cache-dir "$cache/$gpu" >>"$out/fleet.worker$gpu.txt" 2>&1 &
        pids+=($!)
      done
      for _ in $(seq 100); do # until both are there
        [ "$(curl -s -m 5 -H "Authorization: Bearer $(cat "$file")" "$url/v1/fleet" | grep -o '"name":"gpu[01]"' | sort -u | wc -l)" = 2 ] && break
        sleep 0.2
      done
    fi
    begin=$(date +%s.%N) id=()
    for name in "gemm --implementation hopper --shape 2048" "attention --implementation hopper --shape 2x8x512x64"; do
      # shellcheck disable=SC2086 # a list of words
      id+=("$(bin/tune run $name --backend cuda --server $url --token-file "$file" --evaluations "$n" --window 32 --finalists 0 --warm-start off --detach --json "${place[@]}" 2>>"$out/fleet.err" |
        sed -n 's/.*"campaign": *"\([^"]*\)".*/\1/p')")
    done
    state=
    for _ in $(seq 600); do
      state=$(curl -s -m 5 -H "Authorization: Bearer $(cat "$file")" "$url/v1/campaigns" | grep -o '"state":"[a-z]*"' | sort | uniq -c | tr '\n' ' ')
      case $state in *queued* | *preparing* | *searching* | *running* | *finals* | "") sleep 0.25 ;; *) break ;; esac
    done
    say "fleet: $turn: both campaigns in $(python3 -c "import time; print(f'{time.time() - $begin:.1f}')") s: $state"
    for name in "${id[@]}"; do
      say "fleet: $turn: $(bin/tune attach "$name" --server $url --token-file "$file" 2>/dev/null | grep -h 'a minute)' | tail -1)"
      bin/tune query 'index >= 0' --campaign "$name" --server $url --token-file "$file" --sort index --limit 0 --format csv >"$out/fleet-$turn-$name.csv" 2>>"$out/fleet.err"
    done
    kill -TERM "${pids[@]}" 2>/dev/null
    wait "${pids[@]}" 2>/dev/null
    rm -rf "$cache"
  done
}

# answer FILL DIR: fills in the kernel's folder that was made from a file of internal/draft/testdata/from-cuda: the lines of FILL
# take the places of those that are left to fill in, and what follows "reference.c:" that of the #error line.
answer() {
  awk 'NR == FNR { if ($0 == "reference.c:") over = 1; if (!over) { if (/^ /) list[n] = list[n] "\n" $0; else list[++n] = $0 } next }
    /FILL IN: / { print list[++at]; next } { print }' "$1" "$2/kernel.toml" >"$2/filled" && mv "$2/filled" "$2/kernel.toml"
  awk 'NR == FNR { if (on) text = text $0 "\n"; if ($0 == "reference.c:") on = 1; next }
    /FILL IN: / { printf "%s", text; next } { print }' "$1" "$2/reference.c" >"$2/filled" && mv "$2/filled" "$2/reference.c"
}

# fromcuda: twenty plain files in CUDA, from `kernels new --from` to a winner, FROM (20) seconds each, preparation included. A line a
# file: seconds of both commands, evaluations, what came of it, exit status. FILES has the names of some of them.
fromcuda() {
  local file name dir begin rc taken what count=0 won=0
  rm -rf "$out/fromcuda"
  mkdir -p "$out/fromcuda"
  for file in ${FILES:-$(cd internal/draft/testdata/from-cuda && ls ./*.cu)}; do
    file=$(basename "$file" .cu) name=${file//_/-} dir=$out/fromcuda/${file//_/-} count=$((count + 1)) what=
    begin=$(date +%s.%N)
    bin/tune kernels new "$dir" --from "internal/draft/testdata/from-cuda/$file.cu" >"$dir.new.txt" 2>"$dir.err"
    rc=$?
    if [ $rc = 0 ]; then
      answer "internal/draft/testdata/from-cuda/$file.fill" "$dir"
      timeout 120 bin/tune run "$name" --kernels "$dir" --backend cuda --time "$(seconds "${FROM:-20}")" --warm-start off --store "$out/fromcuda.db" >"$dir.txt" 2>"$dir.err"
      rc=$?
      what=$(grep -h '^winner against baseline:\|^best: \|^nothing faster\|^no winner' "$dir.txt" | sed 's/  */ /g' | paste -sd ';')
    fi
    taken=$(python3 -c "import time; print(f'{time.time() - $begin:.1f}')")
    grep -q '^winner against baseline:' "$dir.txt" 2>/dev/null && won=$((won + 1))
    say "fromcuda: $file: $taken s; $(grep -ho '^[0-9]* evaluations' "$dir.txt" 2>/dev/null || echo 'no evaluations'); ${what:-$(tail -1 "$dir.err" | cut -c1-300)}; status $rc"
  done
  say "fromcuda: finals named a winner for $won of $count files"
}

# family: attention at twelve shapes by one command, from an empty store; its library at 40 shapes between them, beside PyTorch.
family() {
  local db=$out/family.db lib=$out/libattention
  rm -rf "$db" "$lib"
  bin/tune run attention --backend cuda --family "B=2 H=8 S=512,2048,8192 D=64,128 CAUSAL=0,1" --time 7m30s --store "$db" >"$out/family.txt" 2>"$out/family.err"
  say "family: status $?; $(grep -h '^attention-family-.*, in ' "$out/family.txt")"
  bin/tune export attention --lang cuda --embed --store "$db" --out "$lib" >"$out/family.export.txt" 2>&1 || say "family: export failed: $(tail -1 "$out/family.export.txt")"
  (cd "$lib/torch" && timeout 300 python3 bench.py --held-out 40) >"$out/heldout.txt" 2>&1
  grep -h '^40 shapes: ' "$out/heldout.txt" | while read -r line; do say "family: $line"; done
}

for stage in "$@"; do
  begin=$SECONDS
  "$stage"
  echo "-- $stage took $((SECONDS - begin)) s"
done
