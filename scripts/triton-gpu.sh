#!/usr/bin/env bash
# Shows kernels in Triton on a GPU: that evotune finds Triton, that it refuses programs that add to
# one element, and how its winners compare with @triton.autotune over the same configurations.
# Usage: scripts/triton-gpu.sh [doctor|races|softmax|layernorm|matmul]...   (default: all of them)
# It takes bin/tune and bin/tune-cuda (docs/gpu.md), and a python3 with PyTorch and Triton.
# TIME is how long each search may take (40s). Exit status: 0, or 1 where a step fails.
set -uo pipefail
cd "$(dirname "$0")/.."
export EVOTUNE_TUNE=${EVOTUNE_TUNE:-$PWD/bin/tune} PYTHONPATH=$PWD/python/src:$PWD/examples/python${PYTHONPATH:+:$PYTHONPATH}
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$(mktemp -d)} PYTHONUNBUFFERED=1
status=0
for step in "${@:-all}"; do
	case $step in
	all) "$0" doctor races softmax layernorm matmul || status=1; continue ;;
	doctor) set -- "$EVOTUNE_TUNE" doctor --backend cuda ;;
	races) set -- python3 examples/python/triton_races.py ;;
	softmax | layernorm | matmul) set -- python3 "examples/python/triton_$step.py" --compare --time "${TIME:-40s}" ;;
	*) echo "triton-gpu.sh: there is no step $step" >&2; exit 2 ;;
	esac
	echo "== $step"
	start=$(date +%s)
	"$@" 2>&1 | if [ "$step" = doctor ]; then grep -E 'triton|python|GPU|compiler|nvrtc|ptxas|landlock|check' ; else cat; fi
	result=${PIPESTATUS[0]}
	[ "$step" = doctor ] || [ "$result" = 0 ] || status=1
	echo "== $step: status $result, $(($(date +%s) - start)) s"
done
exit $status
