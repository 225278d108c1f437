#!/usr/bin/env bash
# Builds a release twice with scripts/release.sh, in a temporary folder, and checks what a user
# would get: the checksums, the archives, the version that the programs print, the package's
# completions, and that both builds are the same bytes. Exit status: 0, or 1 with what is wrong.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.0.1-check
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "release-check.sh: $1" >&2; exit 1; }
expect() { # WHAT TEXT FILE
	grep -qF -- "$2" "$3" || fail "$1: there is no \"$2\" in $(basename "$3")"
}

scripts/release.sh "v$version" "$dir/first"
scripts/release.sh "$version" "$dir/second" >/dev/null
diff -r "$dir/first" "$dir/second" || fail "two builds of one commit differ"
cd "$dir/first"
sha256sum --quiet -c SHA256SUMS

revision=$(git -C "$OLDPWD" rev-parse HEAD)
for arch in amd64 arm64; do
	mkdir "$dir/$arch"
	tar -xzf "evotune_${version}_linux_$arch.tar.gz" -C "$dir/$arch"
	go version -m "$dir/$arch/evotune_$version/tune" >"$dir/recorded"
	expect "$arch" "GOARCH=$arch" "$dir/recorded"
	expect "$arch" "vcs.revision=$revision" "$dir/recorded"
	expect "$arch" "vcs.modified=false" "$dir/recorded"
done
[ ! -e "$dir/arm64/evotune_$version/tune-cuda" ] || fail "arm64 has a tune-cuda, which is not built for it"
"$dir/amd64/evotune_$version/tune" version >"$dir/said"
expect "tune version" "evotune v$version " "$dir/said"
expect "tune version" "revision $revision" "$dir/said"

dpkg-deb --contents "evotune_${version}_amd64.deb" >"$dir/contents"
for file in bin/tune bin/tune-cuda share/bash-completion/completions/tune share/zsh/vendor-completions/_tune share/fish/vendor_completions.d/tune.fish lib/systemd/system/evotune.service; do
	expect "the package" "./usr/$file" "$dir/contents"
done
dpkg-deb --extract "evotune_${version}_amd64.deb" "$dir/installed"
cmp "$dir/installed/usr/bin/tune" "$dir/amd64/evotune_$version/tune"
bash -n "$dir/installed/usr/share/bash-completion/completions/tune"
"$dir/installed/usr/bin/tune" __complete kernels '' 2>/dev/null >"$dir/completed" # what the completions call
expect "the completions" "lint" "$dir/completed"
# The worker does not start without a GPU, not even to print its version.
worker=$dir/installed/usr/bin/tune-cuda
go version -m "$worker" >"$dir/recorded"
expect "tune-cuda" "vcs.revision=$revision" "$dir/recorded"
expect "tune-cuda" "v$version" "$worker"
if "$worker" -version >"$dir/said" 2>/dev/null; then
	expect "tune-cuda -version" "evotune v$version (revision $revision)" "$dir/said"
fi
echo "release-check.sh: all right"
