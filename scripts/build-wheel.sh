#!/usr/bin/env bash
# Builds the Python package's wheels from the files that are checked out:
#
#	scripts/build-wheel.sh DIR [--version v1.2.3] [--arch amd64|arm64] [--without-cuda]
#
# DIR gets evotune-VERSION-py3-none-PLATFORM.whl, one for each of
#
#	amd64   with tune and tune-cuda
#	arm64   with tune
#
# Needs Go, python3 and, for tune-cuda, gcc, objdump and CUDA's headers (scripts/setup-cuda-debian.sh).
# Without these the wheel for amd64 is an error, and not a smaller wheel, unless --without-cuda asks for
# one. Without --version it is what `tune version` says of the build. The same files, version and
# toolchain give the same bytes. Exit status: 0; 1 when the build fails; 2 for bad input.
set -euo pipefail
fail() { echo "build-wheel.sh: $1" >&2; exit "${2:-1}"; }
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
out='' version='' cuda=yes arches=(amd64 arm64)
while [ $# -gt 0 ]; do
	case $1 in
	--version) [ $# -ge 2 ] || usage; version=$2; shift ;;
	--arch) [ $# -ge 2 ] || usage; arches=("$2"); shift ;;
	--without-cuda) cuda=no ;;
	-*) usage ;;
	*) [ -z "$out" ] || usage; out=$1 ;;
	esac
	shift
done
[ -n "$out" ] || usage
[ -z "$version" ] || [[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-(a|b|rc)\.?[0-9]+)?$ ]] || fail "the version is \"$version\": it must be like v1.2.3 or v1.2.3-rc.1" 2
[[ ${arches[0]} =~ ^(amd64|arm64)$ ]] || fail "there is no wheel for ${arches[0]}: choose amd64 or arm64" 2
tools=(go python3)
[ $cuda = no ] || [[ ! " ${arches[*]} " =~ " amd64 " ]] || tools+=(gcc objdump)
for tool in "${tools[@]}"; do
	command -v "$tool" >/dev/null || fail "no $tool: apt-get install gcc binutils python3, and Go" 2
done
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
export GOFLAGS=-mod=readonly LC_ALL=C TZ=UTC
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1700000000)}
export SOURCE_DATE_EPOCH
stamp=
[ -z "$version" ] || stamp="-X github.com/evotune/evotune/internal/build.version=$version"

build() { # ARCH CGO PROGRAM [FLAGS]
	GOOS=linux GOARCH=$1 CGO_ENABLED=$2 go build -trimpath -ldflags "$stamp -s -w -buildid=" "${@:4}" -o "$work/$1/$3" "./cmd/$3"
}
for arch in "${arches[@]}"; do
	build "$arch" 0 tune
	platform=x86_64
	[ "$arch" = amd64 ] || platform=aarch64
	# Without cgo a Go program is static, and runs with any C library. 2.17 is the oldest that pip has a name for.
	tag=manylinux_2_17_$platform.manylinux2014_$platform
	if [ "$arch" = amd64 ] && [ $cuda = yes ]; then
		build amd64 1 tune-cuda -tags cuda || fail "tune-cuda does not build: scripts/setup-cuda-debian.sh installs CUDA's headers; --without-cuda makes a wheel without it"
		# What it needs of the C library decides where the wheel may be installed.
		newest=$({ objdump -T "$work/amd64/tune-cuda" || true; } | { grep -o 'GLIBC_[0-9.]*' || true; } | sort -Vu | tail -1)
		[ -n "$newest" ] || fail "tune-cuda names no version of glibc: it must be linked dynamically, with CGO and gcc"
		needs=$(printf '2.17\n%s\n' "${newest#GLIBC_}" | sort -V | tail -1)
		[ "$needs" = 2.17 ] || tag=manylinux_${needs//./_}_$platform
	fi
	python3 - "$work/$arch" "$tag" "$out" "$version" "$arch" <<'END'
import base64, hashlib, json, os, pathlib, platform, re, subprocess, sys, time, zipfile

programs, tag, out, version, arch = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4], sys.argv[5]
if not version:
    # What tune says of itself; one for another processor has the same from Go's record.
    if {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine()) == arch:
        version = json.loads(subprocess.check_output([programs / "tune", "version", "--json"]))["version"]
    else:
        record = subprocess.check_output(["go", "version", "-m", programs / "tune"], text=True)
        version = re.search(r"^\tmod\t\S+\t(\S+)", record, re.M).group(1)


def pep440(v):
    """A version of Go as one of Python."""
    m = re.fullmatch(r"v(\d+\.\d+\.\d+)(?:-(a|b|rc)\.?(\d+))?", v)
    if m:
        return m[1] + (m[2] + m[3] if m[2] else "")
    m = re.fullmatch(r"v(\d+\.\d+\.\d+)-(?:0\.)?(\d{14})-([0-9a-f]+)(\+dirty)?", v)
    if m:  # between two releases
        return f"{m[1]}.dev{m[2]}+g{m[3]}" + (".dirty" if m[4] else "")
    return "0.0.0.dev0"


version = pep440(version)
files = {}
source = pathlib.Path("python/src/evotune")
for path in sorted(source.rglob("*")):
    if path.suffix in (".py", ".typed"):
        files[f"evotune/{path.relative_to(source)}"] = path.read_bytes(), 0o644
files["evotune/_version.py"] = f'__version__ = "{version}"\n'.encode(), 0o644
for path in sorted(programs.iterdir()):
    files[f"evotune/bin/{path.name}"] = path.read_bytes(), 0o755
info = f"evotune-{version}.dist-info"
files[f"{info}/METADATA"] = f"""Metadata-Version: 2.1
Name: evotune
Version: {version}
Summary: Evolutionary autotuner for C and CUDA kernels
License: Apache-2.0
Requires-Python: >=3.9
Provides-Extra: torch
Requires-Dist: torch; extra == "torch"
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Provides-Extra: pandas
Requires-Dist: pandas; extra == "pandas"
Description-Content-Type: text/markdown

""".encode() + pathlib.Path("docs/python.md").read_bytes(), 0o644
files[f"{info}/WHEEL"] = ("Wheel-Version: 1.0\nGenerator: evotune\nRoot-Is-Purelib: false\n" + "".join(f"Tag: py3-none-{t}\n" for t in tag.split("."))).encode(), 0o644
files[f"{info}/licenses/LICENSE"] = pathlib.Path("LICENSE").read_bytes(), 0o644
record = ""
for name, (data, _) in sorted(files.items()):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    record += f"{name},sha256={digest},{len(data)}\n"
files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode(), 0o644
date = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]
wheel = out / f"evotune-{version}-py3-none-{tag}.whl"
temp = wheel.with_suffix(".part")
with zipfile.ZipFile(temp, "w", zipfile.ZIP_DEFLATED) as z:
    for name, (data, mode) in sorted(files.items()):
        entry = zipfile.ZipInfo(name, date)
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        z.writestr(entry, data)
temp.rename(wheel)
print(wheel)
END
done
