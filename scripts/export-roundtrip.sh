#!/usr/bin/env bash
# The way of a kernel from a campaign to other people's programs, on this CPU, outside of the
# repository: short campaigns for softmax and sgemm, tune export, a clean build with CMake,
# its checks, and callers in C, Python and Go; then what the export costs in speed, and what
# choosing a kernel costs.
#
#	scripts/export-roundtrip.sh [DIR] [--evaluations N] [--within 0.05] [--at-most NS]
#
# DIR defaults to a temporary folder, which is removed at the end. Needs gcc, cmake,
# pkg-config, python3 and go. Exit status: 0; 1 when something is wrong or too slow.
set -euo pipefail
cd "$(dirname "$0")/.."
repo=$PWD dir='' evaluations=10 within=0.05 most=100
while [ $# -gt 0 ]; do
	case $1 in
	--evaluations) evaluations=${2:?--evaluations needs a number}; shift ;;
	--at-most) most=${2:?--at-most needs nanoseconds}; shift ;;
	--within) within=${2:?--within needs a number}; shift ;;
	-h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
	-*) echo "export-roundtrip.sh: unknown option $1" >&2; exit 2 ;;
	*) dir=$1 ;;
	esac
	shift
done
for tool in gcc cmake pkg-config python3 go; do
	command -v $tool >/dev/null || { echo "export-roundtrip.sh: no $tool: apt-get install gcc cmake pkg-config python3, and Go" >&2; exit 2; }
done
if [ -z "$dir" ]; then
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
fi
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
step() { printf '\n== %s\n' "$*"; }

step "campaigns"
go build -o "$dir/tune" ./cmd/tune
cd "$dir"
./tune run softmax --evaluations "$evaluations" --store winners.db | grep '^best'
./tune run sgemm --shape 512 --evaluations "$evaluations" --store winners.db | grep '^best'

step "export: the same store gives the same bytes"
rm -rf library again
./tune export softmax sgemm --store winners.db --out library
./tune export sgemm softmax --store winners.db --out again >/dev/null
diff -r library again && echo "the same"

step "build, check, install"
(cmake -S library -B build && cmake --build build -j2) >build.log 2>&1 || { cat build.log; exit 1; }
grep -i 'warning' build.log && exit 1
ctest --test-dir build --output-on-failure | tail -4
build/evotune_check | tail -1
cmake --install build --prefix "$dir/installed" >/dev/null

step "a program outside, built with find_package"
mkdir -p program
cp "$repo/scripts/export-roundtrip.c" "$repo/scripts/bench.h" program/
cat >program/CMakeLists.txt <<'EOF'
cmake_minimum_required(VERSION 3.18)
project(program C)
find_package(evotune 1 REQUIRED)
add_executable(program export-roundtrip.c)
set_target_properties(program PROPERTIES C_STANDARD 11)
target_link_libraries(program PRIVATE evotune::evotune m ${CMAKE_DL_LIBS})
EOF
(cmake -S program -B program/build -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$dir/installed" && cmake --build program/build) >program.log 2>&1 ||
	{ cat program.log; exit 1; }
program/build/program

step "inside of another project, which stays as it is"
mkdir -p around && cat >around/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.18)
project(around LANGUAGES C)
add_subdirectory(../library library)
if(DEFINED BUILD_SHARED_LIBS OR DEFINED BUILD_TESTING OR TARGET evotune_check)
	message(FATAL_ERROR "the library sets what is the project's")
endif()
END
cmake -S around -B around/build >around.log 2>&1 || { cat around.log; exit 1; }

step "the same with pkg-config"
export PKG_CONFIG_PATH=$dir/installed/lib/pkgconfig LD_LIBRARY_PATH=$dir/installed/lib
[ -d installed/lib/pkgconfig ] || { PKG_CONFIG_PATH=$(dirname "$(find "$dir/installed" -name evotune.pc)"); LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH"); }
# shellcheck disable=SC2046 # flags are words
gcc -O2 -D_GNU_SOURCE program/export-roundtrip.c -o program/plain $(pkg-config --cflags --libs evotune) -lm -ldl
program/plain | sed -n 1p

step "Python"
EVOTUNE_LIBRARY=$LD_LIBRARY_PATH/libevotune.so.1 python3 library/python/example.py | tail -3

step "Go"
(cd library/go && go run ./example) | tail -3

step "speed: exported beside what its campaign compiled, in one process"
as_tuned() { # KERNEL: compiles the candidate's own source with the flags that it was tuned with
	python3 - "$1" <<'EOF'
import json, subprocess, sys
kernel = sys.argv[1]
variant = next(k for k in json.load(open("library/manifest.json"))["kernels"] if k["kernel"] == kernel)["variants"][0]
subprocess.run(["./tune", "evidence", variant["candidate"], "--store", "winners.db", "--out", "evidence-" + kernel, "--force"], check=True, stdout=subprocess.DEVNULL)
folder = "evidence-" + kernel + "/source"
subprocess.run(["gcc", *variant["tuned_flags"], "-D_GNU_SOURCE=", "-shared", "-fPIC", "-I.", "-include", "evotune_kernel.h", "kernel.c", "-o", "../../" + kernel + ".so", "-lm", "-pthread"], check=True, cwd=folder)
for t in variant["timings"]:
    print(f"{kernel} at {t['shape']}: {t['median_ns']:.0f} ns in the finals of its campaign")
EOF
}
as_tuned softmax
as_tuned sgemm
# A machine with other work may need a second look.
for try in 1 2 3; do
	if program/build/program --softmax ./softmax.so --sgemm ./sgemm.so --within "$within" | sed -n '5,$p'; then
		break
	elif [ $try = 3 ]; then
		exit 1
	fi
done

step "what choosing costs, per call"
build/evotune_bench | grep choice | tee choice.txt
awk -v most="$most" '{ for (i = 1; i < NF; i++) if ($(i + 1) == "ns" && $i > most + 0) bad = 1 } END { exit bad }' choice.txt || { echo "more than $most ns"; exit 1; }

step "all right"
