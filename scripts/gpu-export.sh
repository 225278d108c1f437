#!/usr/bin/env bash
# Tries `tune export --lang cuda` on a machine with an NVIDIA GPU, from campaigns to PyTorch, in one
# visit of less than nine minutes. It needs CUDA, CMake and PyTorch there, and no Go: bin/ is built before by
#
#   scripts/gpu-records.sh build
#
# and then, from the root of the repository,
#
#   scripts/gpu-export.sh DIR [STEP...]
#
# The steps are, in this order, campaigns, export, build, check, operators and bench; without any, all of them. A step
# that fails is reported, and the next goes on with what there is. DIR gets results.txt, the table that is printed
# last; bench.json; and records.tar.gz: every step's output. WORK is the folder in which stores, libraries and builds lie:
# a temporary one unless it is given, as it must be for steps one at a time.
#
# EACH (60) is the seconds of each campaign's search, LIMIT (530) those of everything; KERNELS chooses kernels, shapes and, after
# a second colon, other seconds ("attention:2x8x512x64 softmax:4096x1024+16384x4096:15"), and FLAGS gives each campaign further flags. Where there are several GPUs, campaigns go on
# side by side, and their stores are merged; all that comes after has the first GPU.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
out=${1:-${OUT:-}}
[ -n "$out" ] || { echo "usage: scripts/gpu-export.sh DIR [STEP...]" >&2; exit 2; }
shift
[ $# -gt 0 ] || set -- campaigns export build check operators bench
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
if [ -n "${WORK:-}" ]; then
  mkdir -p "$WORK" && work=$(cd "$WORK" && pwd) || exit 1
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
logs=$work/output
mkdir -p "$logs"
limit=${LIMIT:-530}
each=${EACH:-60}
kernels=${KERNELS:-"attention:2x8x512x64 gemm:4096 softmax:4096x1024+16384x4096:20 layernorm:4096x1024+16384x4096:20"}
names=$(for k in $kernels; do echo "${k%%:*}"; done | sort -u)
store=$work/export.db
python=${PYTHON:-python3}
[ -z "${CUDA_HOME:-}" ] && [ -d /usr/local/cuda ] && export CUDA_HOME=/usr/local/cuda
# CMake and ninja often lie beside Python.
export PATH=$("$python" -c 'import os, sys; print(os.path.dirname(sys.executable))'):$PATH:${CUDA_HOME:-/usr/local/cuda}/bin EVOTUNE_TORCH_CACHE=$work/torch
say() { echo "$*" | tee -a "$out/results.txt"; }
left() { echo $((limit - SECONDS)); }

# step NAME MOST COMMAND...: runs it for at most so many seconds, or until the time is up; its output goes to
# output/NAME.txt.
step() {
  local name=$1 most=$2 begin=$SECONDS rc
  shift 2
  [ "$(left)" -lt "$most" ] && most=$(left)
  if [ "$most" -lt 3 ]; then
    say "$(printf '%-20s not run: the time is up' "$name")"
    return 1
  fi
  timeout -k 5 "$most" "$@" >"$logs/$name.txt" 2>&1
  rc=$?
  if [ $rc = 0 ]; then
    say "$(printf '%-20s ok      %4d s' "$name" $((SECONDS - begin)))"
  else
    say "$(printf '%-20s FAILED  %4d s  status %d: %s' "$name" $((SECONDS - begin)) $rc "$(grep -v '^ *$' "$logs/$name.txt" | tail -1 | cut -c1-160)")"
  fi
  return $rc
}

# one GPU KERNEL...: campaigns one after the other on a GPU, into a store of its own.
one() {
  local gpu=$1 k name shapes seconds
  shift
  for k in "$@"; do
    IFS=: read -r name shapes seconds <<<"$k"
    seconds=${seconds:-$each}
    if [ "$(left)" -lt $((seconds + 210)) ]; then
      say "$(printf '%-20s not run: the rest needs the time' "tune-$name")"
      continue
    fi
    # shellcheck disable=SC2086 # several flags
    step "tune-$name" $((seconds + 100)) bin/tune run "$name" --backend cuda --cuda-devices "$gpu" --shape ${shapes//+/ --shape } --time "${seconds}s" --finalists 2 ${FLAGS:-} --store "$work/gpu$gpu.db"
    say "  $name $(grep -h '^best: ' "$logs/tune-$name.txt" | tail -1)"
  done
}

# What comes after the campaigns takes some 200 s.
campaigns() {
  local gpu gpus
  gpus=$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | wc -l)
  [ "$gpus" -gt 0 ] || gpus=1
  for ((gpu = 0; gpu < gpus; gpu++)); do
    # shellcheck disable=SC2046 # a list of words
    one $gpu $(awk -v g=$gpu -v n="$gpus" '{ for (i = 1; i <= NF; i++) if ((i - 1) % n == g) print $i }' <<<"$kernels") &
  done
  wait
  step merge 60 bin/tune merge "$work"/gpu*.db --into "$store"
}

# Of what has proof, each kernel alone where not all have.
export_() {
  local able= less= name
  for name in $names; do
    rm -rf "$work/try-$name"
    bin/tune export "$name" --lang cuda --store "$store" --out "$work/try-$name" >"$logs/export-$name.txt" 2>&1 && able="$able $name" ||
      say "  $name stays: $(tail -1 "$logs/export-$name.txt" | cut -c1-200)"
  done
  if [ -z "$able" ]; then # the libraries are tried all the same
    say "  nothing is proven: exported with --min-evidence parity"
    able=$names less="--min-evidence parity"
  fi
  rm -rf "$work"/try-* "$work/sources" "$work/embedded"
  # shellcheck disable=SC2086 # lists of words
  step export-sources 60 bin/tune export $able $less --lang cuda --store "$store" --out "$work/sources"
  # shellcheck disable=SC2086
  step export-embedded 90 bin/tune export $able $less --lang cuda --embed --store "$store" --out "$work/embedded"
  cp "$work/sources/manifest.json" "$out/" 2>/dev/null
}

# Both libraries and the operators, at once.
library() { cmake -S "$work/$1" -B "$work/build-$1" && cmake --build "$work/build-$1" -j 8; }
import() { cd "$work/sources/torch" && "$python" -c 'import evotune_torch; print(evotune_torch._path)'; }
export -f library import
export work python
build() {
  local begin=$SECONDS w rc
  for w in sources embedded; do
    (timeout 120 bash -c "library $w" >"$logs/build-$w.txt" 2>&1; echo $? >"$work/rc-build-$w") &
  done
  (timeout 180 bash -c import >"$logs/build-torch.txt" 2>&1; echo $? >"$work/rc-build-torch") &
  wait
  for w in build-sources build-embedded build-torch; do
    rc=$(cat "$work/rc-$w")
    say "$(printf '%-20s %s' "$w" "$([ "$rc" = 0 ] && echo "ok      $((SECONDS - begin)) s, all at once" || echo "FAILED  status $rc: $(grep -i 'error' "$logs/$w.txt" | head -1 | cut -c1-200)")")"
  done
  say "  warnings: $(cat "$logs"/build-sources.txt "$logs"/build-embedded.txt | grep -ci 'warning')"
}

# What the libraries compute.
check() {
  local w f
  for w in sources embedded; do
    step "check-$w" 60 "$work/build-$w/evotune_check"
    say "  $(grep -c '^ok' "$logs/check-$w.txt") right, $(grep -c '^FAIL' "$logs/check-$w.txt") wrong, $(grep -c '^none' "$logs/check-$w.txt") that nothing computes"
  done
  # Machine code from files, of candidates that the library does not know by these names.
  rm -rf "$work/plugins" && mkdir -p "$work/plugins"
  for f in "$work"/embedded/*.cubin; do cp "$f" "$work/plugins/0${f##*/}" 2>/dev/null; done
  awk -F'\t' -v OFS='\t' 'NF == 7 && !/^#/ { $3 = "0" $3 } 1' "$work/embedded/wisdom.txt" >"$work/plugins/wisdom.txt"
  EVOTUNE_WISDOM=$work/plugins/wisdom.txt step check-wisdom 60 "$work/build-embedded/evotune_check"
  say "  $(grep -c 'named by a wisdom file' "$logs/check-wisdom.txt") shapes named by it"
}

# What the operators compute; opcheck, torch.compile, graphs, streams.
operators() {
  step torch-tests 300 "$python" "$work/sources/torch/test_ops.py" -v
  say "  $(grep '^Ran ' "$logs/torch-tests.txt"), $(grep -c 'skipped' "$logs/torch-tests.txt") skipped: $(tail -1 "$logs/torch-tests.txt")"
}

# How fast they are, and the campaigns' figures once more, in fresh processes.
bench() {
  local name id
  step torch-bench 120 "$python" "$work/sources/torch/bench.py" --json "$out/bench.json"
  cp "$logs/torch-bench.txt" "$out/"
  step torch-grid 200 "$python" "$work/sources/torch/bench.py" --grid 40 --rounds 15 --json "$out/grid.json"
  cp "$logs/torch-grid.txt" "$out/"
  say "  $(grep ' shapes: ' "$logs/torch-grid.txt")"
  for name in $names; do
    id=$(sed -n 's/^best: \([0-9a-f]*\) .*/\1/p' "$logs/tune-$name.txt" | tail -1)
    [ -n "$id" ] && step "verify-$name" 60 bin/tune verify "$id" --store "$store"
  done
}

say "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -1), $(nvcc --version 2>/dev/null | grep -o 'release [0-9.]*'), $("$python" -c 'import torch; print("PyTorch", torch.__version__)' 2>/dev/null)"
for s in "$@"; do
  case $s in
  campaigns | build | check | operators | bench)
    # After the campaigns one GPU does.
    [ "$s" = campaigns ] || export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
    $s
    ;;
  export) export_ ;;
  *) say "no such step: $s" ;;
  esac
done
tar -czf "$out/records.tar.gz" -C "$work" --exclude '*.sock' --exclude 'build-*' --exclude './torch' --exclude '*.db' . 2>/dev/null
say "$SECONDS s in all"
echo
cat "$out/results.txt"
echo
cat "$out/torch-bench.txt" 2>/dev/null
