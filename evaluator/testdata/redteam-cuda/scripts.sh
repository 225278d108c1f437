#!/bin/sh
# The red team on a machine with a GPU and without Go.
#
#   scripts.sh pack DIR      here: build the worker and the test's binary into DIR,
#                            with the folder layout that the test expects
#   scripts.sh run [FILTER]  there, in DIR: judge all kinds, or those of a filter
#                            such as product/memo; lines go to redteam.txt, the log to redteam.log
#
# The parts after each other, where commands may take ten minutes alone:
#   for d in product softmax layernorm rowsum; do sh scripts.sh run $d; done
set -eu
case ${1:-} in
pack)
	out=$2
	cd "$(dirname "$0")/../../.."
	mkdir -p "$out/evaluator/cuda" "$out/evaluator/testdata"
	CGO_ENABLED=1 go build -tags cuda -o "$out/tune-cuda" ./cmd/tune-cuda
	go test -c -o "$out/evaluator/cuda/cuda.test" ./evaluator/cuda
	cp -r evaluator/testdata/redteam-cuda "$out/evaluator/testdata/"
	cp evaluator/testdata/redteam-cuda/scripts.sh "$out/"
	;;
run)
	here=$(cd "$(dirname "$0")" && pwd)
	filter=${2:-}
	cd "$here/evaluator/cuda"
	status=0
	EVOTUNE_CUDA_WORKER=${EVOTUNE_CUDA_WORKER:-$here/tune-cuda} ./cuda.test -test.v -test.timeout 60m \
		-test.run "TestRedTeam\$${filter:+/$filter}" >"$here/redteam.log" 2>&1 || status=$?
	grep -aE '^(RED|HOLE|LEAK|BEFORE|AFTER) ' "$here/redteam.log" | tee -a "$here/redteam.txt"
	exit $status
	;;
*)
	sed -n '2,12s/^# \{0,1\}//p' "$0"
	exit 2
	;;
esac
