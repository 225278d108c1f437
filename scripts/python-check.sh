#!/usr/bin/env bash
# Checks the Python package as a user gets it: its types, the wheel for this machine, and the tests
# against it in two virtual environments, one with nothing in it and one with Debian's PyTorch and NumPy.
# It installs the Debian packages that it needs.
#
#	scripts/python-check.sh          # CI
#	scripts/python-check.sh --rest   # nightly: the other wheel, Kernel Tuner's interface, the pages' examples, the notebooks
#
# Exit status: 0, or 1 with what is wrong.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in '') rest=no ;; --rest) rest=yes ;; *) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;; esac
python=/usr/bin/python3 # Debian's, which sees Debian's modules
need=()
modules=(venv:python3-venv numpy:python3-numpy torch:python3-torch)
[ $rest = no ] || modules+=(pandas:python3-pandas nbclient:python3-nbclient ipykernel:python3-ipykernel)
for module in "${modules[@]}"; do
	"$python" -c "import ${module%%:*}" 2>/dev/null || need+=("${module##*:}")
done
"$python" -c 'import ensurepip' 2>/dev/null || need+=(python3-venv)
[ -e /usr/include/torch/library.h ] || need+=(libtorch-dev) # operators are built with it
command -v ninja >/dev/null || need+=(ninja-build)
[ $rest = yes ] || command -v mypy >/dev/null || need+=(mypy)
if [ "${#need[@]}" -gt 0 ]; then
	apt-get update -qq && apt-get install -y -qq --no-install-recommends "${need[@]}"
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
step() { printf -- '-- %s\n' "$*"; }

if [ $rest = no ]; then
	step "types"
	(cd python && mypy --no-error-summary)
fi

step "wheels"
arches=(--arch amd64)
[ $rest = no ] || arches=()
scripts/build-wheel.sh "$dir/wheels" "${arches[@]}"
wheel=$(echo "$dir"/wheels/*x86_64.whl)
# The whole list first: grep -q ends at its match, and what still writes to it would fail, which pipefail tells.
for file in "$dir"/wheels/*.whl; do "$python" -m zipfile -l "$file" >"$file.txt"; done
grep -q '^evotune/bin/tune-cuda ' "$wheel.txt" || { echo "python-check.sh: the wheel for amd64 lacks tune-cuda" >&2; exit 1; }
if [ $rest = yes ] && grep -q tune-cuda "$dir"/wheels/*aarch64.whl.txt; then
	echo "python-check.sh: the wheel for arm64 has tune-cuda" >&2
	exit 1
fi

# Nothing of this source tree or of this machine's settings is found.
unset PYTHONPATH EVOTUNE_TUNE
root=$PWD
cp -r python/tests "$dir/tests"
if [ $rest = no ]; then
	step "a clean environment: no dependency"
	"$python" -m venv "$dir/clean"
	"$dir/clean/bin/pip" install -q --no-index --disable-pip-version-check "$wheel"
	(cd "$dir" && clean/bin/python -m evotune version && cd tests && ../clean/bin/python -m unittest test_kernel test_tune test_triton)
	tests=(test_reference test_example test_server)
else
	tests=(test_kernel_tuner test_docs)
fi

step "with PyTorch and NumPy of Debian"
"$python" -m venv --system-site-packages "$dir/full"
"$dir/full/bin/pip" install -q --no-index --disable-pip-version-check "$wheel"
(cd "$dir/tests" && NOTEBOOKS=$root ../full/bin/python -m unittest "${tests[@]}")
