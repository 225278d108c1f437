#!/usr/bin/env bash
# Checks the Python package as a user gets it: its types, the wheels, and the tests against the built
# wheel in two virtual environments, one with nothing in it and one with Debian's PyTorch, NumPy and
# pandas, which also runs the example notebooks. It installs the Debian packages that it needs.
# Exit status: 0, or 1 with what is wrong.
set -euo pipefail
cd "$(dirname "$0")/.."
python=/usr/bin/python3 # Debian's, which sees Debian's modules
need=()
for module in venv:python3-venv numpy:python3-numpy torch:python3-torch pandas:python3-pandas nbclient:python3-nbclient ipykernel:python3-ipykernel; do
	"$python" -c "import ${module%%:*}" 2>/dev/null || need+=("${module##*:}")
done
"$python" -c 'import ensurepip' 2>/dev/null || need+=(python3-venv)
[ -e /usr/include/torch/library.h ] || need+=(libtorch-dev) # operators are built with it
command -v ninja >/dev/null || need+=(ninja-build)
command -v mypy >/dev/null || need+=(mypy)
if [ "${#need[@]}" -gt 0 ]; then
	apt-get update -qq && apt-get install -y -qq --no-install-recommends "${need[@]}"
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
step() { printf -- '-- %s\n' "$*"; }

step "types"
(cd python && mypy --no-error-summary)

step "wheels"
scripts/build-wheel.sh "$dir/wheels"
wheel=$(echo "$dir"/wheels/*x86_64.whl)
# The whole list first: grep -q ends at its match, and what still writes to it would fail, which pipefail tells.
for arch in x86_64 aarch64; do "$python" -m zipfile -l "$dir"/wheels/*$arch.whl >"$dir/$arch.txt"; done
grep -q '^evotune/bin/tune-cuda ' "$dir/x86_64.txt" || { echo "python-check.sh: the wheel for amd64 lacks tune-cuda" >&2; exit 1; }
! grep -q tune-cuda "$dir/aarch64.txt" || { echo "python-check.sh: the wheel for arm64 has tune-cuda" >&2; exit 1; }

# Nothing of this source tree or of this machine's settings is found.
unset PYTHONPATH EVOTUNE_TUNE
step "a clean environment: no dependency"
"$python" -m venv "$dir/clean"
"$dir/clean/bin/pip" install -q --no-index --disable-pip-version-check "$wheel"
cp -r python/tests "$dir/tests"
(cd "$dir" && clean/bin/python -m evotune version && cd tests && ../clean/bin/python -m unittest test_kernel test_tune test_triton)

step "with PyTorch, NumPy and pandas of Debian"
"$python" -m venv --system-site-packages "$dir/full"
"$dir/full/bin/pip" install -q --no-index --disable-pip-version-check "$wheel"
root=$PWD
(cd "$dir/tests" && NOTEBOOKS=$root ../full/bin/python -m unittest test_reference test_example test_kernel_tuner test_server test_docs)
