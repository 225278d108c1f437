#!/usr/bin/env bash
# Installs on Debian what it takes to build the GPU worker and to compile CUDA
# kernels: nvcc, ptxas, cuobjdump, NVRTC, cuda.h and a stub of the driver's
# library. No GPU is needed, and no driver is installed. It does nothing where
# all of it is there already. The packages are NVIDIA's, from Debian's contrib
# and non-free.
#
# Debian 12 has CUDA 11.8, which cannot compile for sm_90a (Hopper's own
# instructions). There, CUDA 12.4 is put beside it, into /usr/local/cuda-12.4: its
# compiler and NVRTC come from Debian 13's packages, which are unpacked and not
# installed, since the rest of a Debian 12 could not satisfy them.
set -euo pipefail

newer=/usr/local/cuda-12.4
release() { "$1" --version | sed -n 's/.*release \([^,]*\),.*/\1/p'; }
have() { command -v nvcc >/dev/null && command -v cuobjdump >/dev/null && command -v nvdisasm >/dev/null &&
  { [ -e /usr/include/cuda.h ] || [ -e /usr/local/cuda/include/cuda.h ]; }; }
# hopper: whether some nvcc here knows sm_90a.
hopper() {
  local c
  for c in "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc /usr/local/cuda-*/bin/nvcc; do
    [ -x "$c" ] && [ "$(release "$c" | cut -d. -f1)" -ge 12 ] && return
  done
  return 1
}
say() { echo "$1: $(release nvcc | sed 's/^/nvcc /')$(hopper && [ -x $newer/bin/nvcc ] && echo ", and $(release $newer/bin/nvcc) in $newer" || true)"; }
if have && hopper; then
  say "CUDA is here"
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "setup-cuda-debian: this is not Debian: install the CUDA toolkit 12.4 or later by other means, so that nvcc is on the PATH" >&2
  exit 1
fi
if [ "$(id -u)" != 0 ]; then
  echo "setup-cuda-debian: run as root: sudo $0" >&2
  exit 1
fi
if ! have; then
  if ! apt-cache policy nvidia-cuda-toolkit 2>/dev/null | grep 'Candidate: [0-9]' >/dev/null; then
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
fi

if ! hopper; then
  # apt gets lists and sources of its own for this, so that the machine's stay as they are.
  work=$(mktemp -d)
  trap 'rm -rf "$work" $newer.new' EXIT
  mirror=$(sed -n -e 's/^URIs: *\([^ ]*\).*/\1/p' -e 's/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -1 || true)
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian} trixie main contrib non-free" >"$work/sources.list"
  mkdir -p "$work/lists/partial" "$work/packages"
  apt=(apt-get -qq -o APT::Sandbox::User=root -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$work/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
  "${apt[@]}" update
  (cd "$work/packages" && "${apt[@]}" download nvidia-cuda-toolkit nvidia-cuda-dev libcudart12 libnvrtc12 libnvrtc-builtins12.4 \
    libnvvm4 libnvjitlink12 libnvfatbin12 libcu++-dev libcub-dev libthrust-dev 2>/dev/null)
  for d in "$work"/packages/*.deb; do
    # The libraries that CUDA programs link with statically are most of the packages, and nothing here needs them.
    dpkg-deb --fsys-tarfile "$d" | tar -x -C "$work" --exclude='*_static*.a' --exclude='*libnvptxcompiler*'
    rm "$d"
  done
  rm -rf $newer.new
  mkdir -p $newer.new/bin $newer.new/nvvm/bin
  cp -a "$work"/usr/bin/{ptxas,cudafe++,fatbinary,nvlink,cuobjdump,nvdisasm,bin2c,cu++filt} "$work/usr/lib/nvidia-cuda-toolkit/bin/nvcc" $newer.new/bin/
  cp -a "$work/usr/lib/nvidia-cuda-toolkit/bin/cicc" $newer.new/nvvm/bin/
  cp -a "$work/usr/lib/nvidia-cuda-toolkit/libdevice" $newer.new/nvvm/libdevice
  cp -a "$work/usr/include" $newer.new/include
  cp -a "$work/usr/lib/x86_64-linux-gnu" $newer.new/lib64
  # Where nvcc finds the rest, from its own folder.
  cat >$newer.new/bin/nvcc.profile <<'P'
TOP                = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
LD_LIBRARY_PATH   += $(TOP)/lib64:
PATH              += $(TOP)/nvvm/bin:$(_HERE_):
INCLUDES          += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES         =+ $(_SPACE_) "-L$(TOP)/lib64/stubs" "-L$(TOP)/lib64"
CUDAFE_FLAGS      +=
PTXAS_FLAGS       +=
P
  echo 'extern "C" __global__ void k(float *x) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); *x = 1; }' >"$work/k.cu"
  $newer.new/bin/nvcc -gencode arch=compute_90a,code=sm_90a -cubin -o "$work/k.cubin" "$work/k.cu" ||
    { echo "setup-cuda-debian: CUDA 12.4 was unpacked, but its nvcc does not compile for sm_90a" >&2; exit 1; }
  mv $newer.new $newer
fi
say "CUDA installed"
