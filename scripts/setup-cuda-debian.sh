#!/usr/bin/env bash
# Installs on Debian what it takes to build the GPU worker and to compile CUDA
# kernels: nvcc, ptxas, cuobjdump, NVRTC, cuda.h and a stub of the driver's
# library. No GPU is needed, and no driver is installed. It does nothing where
# all of it is there already. The packages are NVIDIA's, from Debian's contrib
# and non-free.
set -euo pipefail

have() { command -v nvcc >/dev/null && command -v cuobjdump >/dev/null && command -v nvdisasm >/dev/null &&
  { [ -e /usr/include/cuda.h ] || [ -e /usr/local/cuda/include/cuda.h ]; }; }
if have; then
  echo "CUDA is here: $(nvcc --version | sed -n 's/.*release \([^,]*\),.*/nvcc \1/p')"
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "setup-cuda-debian: this is no Debian: install the CUDA toolkit 11.8 or later by other means, so that nvcc is on the PATH" >&2
  exit 1
fi
if [ "$(id -u)" != 0 ]; then
  echo "setup-cuda-debian: run as root: sudo $0" >&2
  exit 1
fi
if ! apt-cache policy nvidia-cuda-toolkit 2>/dev/null | grep -q 'Candidate: [0-9]'; then
  # Add the components to the sources that are there: a source of its own would
  # clash with them over keys.
  for f in /etc/apt/sources.list.d/debian.sources; do
    [ -e "$f" ] && sed -i -E '/^Components:/{/ non-free( |$)/!s/$/ contrib non-free/}' "$f" && echo "added contrib and non-free to $f"
  done
  f=/etc/apt/sources.list
  [ -s "$f" ] && sed -i -E '/^deb /{/ non-free( |$)/!s/$/ contrib non-free/}' "$f" && echo "added contrib and non-free to $f"
  apt-get update -qq
fi
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nvidia-cuda-toolkit nvidia-cuda-dev >/dev/null
have || { echo "setup-cuda-debian: the packages are installed, but nvcc or cuda.h is still missing: see apt's log" >&2; exit 1; }
echo "CUDA installed: $(nvcc --version | sed -n 's/.*release \([^,]*\),.*/nvcc \1/p')"
