#!/usr/bin/env bash
# Builds what is published with a release, from the commit that is checked out:
#
#	scripts/release.sh VERSION OUTDIR
#
# VERSION is a tag such as v1.2.3, with or without the v. OUTDIR, which must be empty or not
# exist, gets
#
#	evotune_VERSION_linux_amd64.tar.gz   tune and tune-cuda
#	evotune_VERSION_linux_arm64.tar.gz   tune
#	evotune_VERSION_amd64.deb            tune and tune-cuda, a systemd unit, completions for bash, zsh and fish
#	SHA256SUMS
#
# One commit, version and toolchain give the same bytes: the build is from a clean clone, paths are
# trimmed, and every file has the commit's date. Needs Go, git, gcc, objdump, CUDA's headers
# (scripts/setup-cuda-debian.sh) and dpkg-deb. Exit status: 0; 1 when the build fails; 2 for bad input.
set -euo pipefail
fail() { echo "release.sh: $1" >&2; exit "${2:-1}"; }
[ $# = 2 ] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
version=${1#v} out=$2
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || fail "VERSION is \"$1\": it must be like v1.2.3 or v1.2.3-rc.1" 2
for tool in go git gcc objdump dpkg-deb; do
	command -v $tool >/dev/null || fail "no $tool: apt-get install git gcc binutils dpkg, and Go" 2
done
mkdir -p "$out"
[ -z "$(ls -A "$out")" ] || fail "$out is not empty: give a folder of its own" 2
out=$(cd "$out" && pwd)
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

git clone --quiet --no-hardlinks . "$work/source" 2>/dev/null || fail "git clone of $PWD failed: is it a checkout with a commit?"
cd "$work/source"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH GOFLAGS=-mod=readonly LC_ALL=C TZ=UTC
stamp=github.com/evotune/evotune/internal/build.version

build() { # ARCH CGO PROGRAM [FLAGS]
	GOOS=linux GOARCH=$1 CGO_ENABLED=$2 go build -trimpath -buildvcs=true -ldflags "-X $stamp=v$version -s -w -buildid=" "${@:4}" \
		-o "$work/$1/evotune_$version/$3" "./cmd/$3"
}
for arch in amd64 arm64; do
	build $arch 0 tune
	cp LICENSE README.md CHANGELOG.md "$work/$arch/evotune_$version/"
done
build amd64 1 tune-cuda -tags cuda

# Debian 12 has glibc 2.36: what is linked with a later one does not start there.
# objdump fails for a static program, as tune may be. tune-cuda is dynamic.
newest=$({ objdump -T "$work"/amd64/*/tune* 2>/dev/null || true; } | { grep -o 'GLIBC_[0-9.]*' || true; } | sort -Vu | tail -1)
[ -n "$newest" ] || fail "tune-cuda names no version of glibc: it must be linked dynamically, with CGO and gcc"
[ "$(printf 'GLIBC_2.36\n%s\n' "$newest" | sort -V | tail -1)" = GLIBC_2.36 ] || fail "the programs need $newest: build on Debian 12, which has 2.36"

dated() { find "$@" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +; }
for arch in amd64 arm64; do
	dated "$work/$arch"
	tar --create --sort=name --owner=0 --group=0 --numeric-owner --format=gnu --directory="$work/$arch" "evotune_$version" |
		gzip --no-name -9 >"$out/evotune_${version}_linux_$arch.tar.gz"
done

# The package: what the shells look for has the names that they look for.
deb=$work/deb share=$work/deb/usr/share programs=$work/amd64/evotune_$version
mkdir -p "$deb/DEBIAN" "$deb/usr/bin" "$share/doc/evotune" "$share/bash-completion/completions" "$share/zsh/vendor-completions" "$share/fish/vendor_completions.d" "$deb/usr/lib/systemd/system"
cp "$programs/tune" "$programs/tune-cuda" "$deb/usr/bin/"
cp scripts/evotune.service "$deb/usr/lib/systemd/system/"
cp LICENSE "$share/doc/evotune/copyright"
cp README.md CHANGELOG.md "$share/doc/evotune/"
"$programs/tune" completion bash >"$share/bash-completion/completions/tune"
"$programs/tune" completion zsh >"$share/zsh/vendor-completions/_tune"
"$programs/tune" completion fish >"$share/fish/vendor_completions.d/tune.fish"
cat >"$deb/DEBIAN/control" <<END
Package: evotune
Version: ${version/-/\~}
Architecture: amd64
Maintainer: The evotune authors <evotune@users.noreply.github.com>
Installed-Size: $(find "$deb/usr" -type f -printf '%s\n' | awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }')
Depends: libc6 (>= ${newest#GLIBC_}), gcc | clang | c-compiler
Recommends: binutils
Suggests: valgrind, cmake, libcuda1
Section: devel
Priority: optional
Homepage: https://github.com/evotune/evotune
Description: evolutionary autotuner for compute kernels
 A kernel is a template with parameters. evotune searches for the fastest valid
 combination; every candidate is compared with a double-precision reference and
 run under sanitizers before it is timed.
END
dated "$deb"
dpkg-deb --root-owner-group -Zxz --threads-max=1 --build "$deb" "$out/evotune_${version}_amd64.deb" >/dev/null
(cd "$out" && sha256sum -- *.tar.gz *.deb >SHA256SUMS && cat SHA256SUMS)
