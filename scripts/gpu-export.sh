#!/usr/bin/env bash
# Tries `tune export --lang cuda` on a machine with an NVIDIA GPU, from campaigns to PyTorch, in one
# visit of less than nine minutes. It needs CUDA, CMake and PyTorch there, and no Go: bin/ is built before by
#
#   scripts/gpu-records.sh build
#
# and then, from the root of the repository,
#
#   scripts/gpu-export.sh DIR
#
# A step that fails is reported, and the next goes on with what there is. DIR gets results.txt, the table that is
# printed last; bench.json; and records.tar.gz: the store, the libraries, every step's output.
#
# EACH (60) is the seconds of each campaign's search, LIMIT (530) those of everything; KERNELS chooses kernels, shapes and, after
# a second colon, other seconds ("attention:2x8x512x64 softmax:4096x1024+16384x4096:15"). Where there are several GPUs, campaigns go on side
# by side, and their stores are merged; all that comes after has the first GPU.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
out=${1:-${OUT:-}}
[ -n "$out" ] || { echo "usage: scripts/gpu-export.sh DIR" >&2; exit 2; }
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
logs=$work/logs
mkdir "$logs"
limit=${LIMIT:-530}
each=${EACH:-60}
kernels=${KERNELS:-"attention:2x8x512x64 gemm:4096 softmax:4096x1024+16384x4096:20 layernorm:4096x1024+16384x4096:20"}
store=$work/export.db
python=${PYTHON:-python3}
[ -z "${CUDA_HOME:-}" ] && [ -d /usr/local/cuda ] && export CUDA_HOME=/usr/local/cuda
# CMake and ninja often lie beside Python.
export PATH=$("$python" -c 'import os, sys; print(os.path.dirname(sys.executable))'):$PATH:${CUDA_HOME:-/usr/local/cuda}/bin EVOTUNE_TORCH_CACHE=$work/torch
: >"$out/results.txt"
say() { echo "$*" | tee -a "$out/results.txt"; }
left() { echo $((limit - SECONDS)); }

# step NAME MOST COMMAND...: runs it for at most so many seconds, or until the time is up; its output goes to
# logs/NAME.txt.
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

say "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -1), $(nvcc --version 2>/dev/null | grep -o 'release [0-9.]*'), $("$python" -c 'import torch; print("PyTorch", torch.__version__)' 2>/dev/null)"

# Campaigns. What comes after them takes some 200 s.
gpus=$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | wc -l)
[ "$gpus" -gt 0 ] || gpus=1
campaigns() { # campaigns GPU KERNEL...: one after the other on one GPU, into a store of its own
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
    step "tune-$name" $((seconds + 100)) bin/tune run "$name" --backend cuda --cuda-devices "$gpu" --shape ${shapes//+/ --shape } --time "${seconds}s" --finalists 2 --store "$work/gpu$gpu.db"
    say "$(grep -h '^best: ' "$logs/tune-$name.txt" 2>/dev/null | tail -1 | sed "s/^/  $name /")"
  done
}
for ((gpu = 0; gpu < gpus; gpu++)); do
  # shellcheck disable=SC2046,SC2086 # lists of words
  campaigns $gpu $(awk -v g=$gpu -v n="$gpus" '{ for (i = 1; i <= NF; i++) if ((i - 1) % n == g) print $i }' <<<"$kernels") &
done
wait
step merge 60 bin/tune merge "$work"/gpu*.db --into "$store"
names=$(for k in $kernels; do echo "${k%%:*}"; done | sort -u)
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}

# Export: of what has proof, each kernel alone where not all have.
able=
for name in $names; do
  bin/tune export "$name" --lang cuda --store "$store" --out "$work/try-$name" >"$logs/export-$name.txt" 2>&1 && able="$able $name" ||
    say "  $name stays: $(tail -1 "$logs/export-$name.txt" | cut -c1-200)"
done
if [ -z "$able" ]; then # the libraries are tried all the same
  say "  nothing is proven: exported with --min-evidence parity"
  able=$names less="--min-evidence parity"
fi
# shellcheck disable=SC2086 # lists of words
step export-sources 60 bin/tune export $able ${less:-} --lang cuda --store "$store" --out "$work/sources"
# shellcheck disable=SC2086
step export-embedded 90 bin/tune export $able ${less:-} --lang cuda --embed --store "$store" --out "$work/embedded"

# Build both, and the operators, at once.
build() { cmake -S "$work/$1" -B "$work/build-$1" && cmake --build "$work/build-$1" -j 8; }
import() { cd "$work/sources/torch" && "$python" -c 'import evotune_torch; print(evotune_torch._path)'; }
export -f build import
export work python
begin=$SECONDS
for w in sources embedded; do
  (timeout 120 bash -c "build $w" >"$logs/build-$w.txt" 2>&1; echo $? >"$work/rc-build-$w") &
done
(timeout 180 bash -c import >"$logs/build-torch.txt" 2>&1; echo $? >"$work/rc-build-torch") &
wait
for w in build-sources build-embedded build-torch; do
  rc=$(cat "$work/rc-$w")
  say "$(printf '%-20s %s' "$w" "$([ "$rc" = 0 ] && echo "ok      $((SECONDS - begin)) s, all at once" || echo "FAILED  status $rc: $(grep -i 'error' "$logs/$w.txt" | head -1 | cut -c1-200)")")"
done
say "  warnings: $(cat "$logs"/build-sources.txt "$logs"/build-embedded.txt | grep -ci 'warning')"

# What they compute, and how fast.
for w in sources embedded; do
  step "check-$w" 60 "$work/build-$w/evotune_check"
  say "  $(grep -c '^ok' "$logs/check-$w.txt") right, $(grep -c '^FAIL' "$logs/check-$w.txt") wrong, $(grep -c '^none' "$logs/check-$w.txt") that nothing computes"
done
# Machine code from files, of candidates that the library does not know by these names.
mkdir -p "$work/plugins"
for f in "$work"/embedded/*.cubin; do cp "$f" "$work/plugins/0${f##*/}" 2>/dev/null; done
awk -F'\t' -v OFS='\t' 'NF == 7 && !/^#/ { $3 = "0" $3 } 1' "$work/embedded/wisdom.txt" >"$work/plugins/wisdom.txt"
EVOTUNE_WISDOM=$work/plugins/wisdom.txt step check-wisdom 60 "$work/build-embedded/evotune_check"
say "  $(grep -c 'named by a wisdom file' "$logs/check-wisdom.txt") shapes named by it"
# The campaigns' figures once more, in fresh processes, just before PyTorch's.
for name in $able; do
  id=$(sed -n 's/^best: \([0-9a-f]*\) .*/\1/p' "$logs/tune-$name.txt" | tail -1)
  step "verify-$name" 60 bin/tune verify "$id" --store "$store"
done
step torch-bench 120 "$python" "$work/sources/torch/bench.py" --json "$out/bench.json"
step torch-tests 150 "$python" "$work/sources/torch/test_ops.py" -v
say "  $(grep -c ' ok$' "$logs/torch-tests.txt") passed, $(grep -c 'skipped' "$logs/torch-tests.txt") skipped; $(tail -1 "$logs/torch-tests.txt")"

cp "$work"/sources/manifest.json "$out/" 2>/dev/null
rm -rf "$work"/try-* "$work"/build-* "$work/torch"
mv "$work/logs" "$work/output"
tar -czf "$out/records.tar.gz" -C "$work" --exclude '*.sock' . 2>/dev/null
say "$SECONDS s in all"
echo
cat "$out/results.txt"
echo
cat "$work/output/torch-bench.txt" 2>/dev/null
