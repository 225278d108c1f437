#!/usr/bin/env bash
# Runs a command beside other work: busy loops, and a process that keeps the
# memory bus busy.
#
#   scripts/busy.sh [LOOPS [HOGS]] -- COMMAND...     # 4 loops and 1 hog
#
# The exit status is the command's. It needs a C compiler.
set -euo pipefail
loops=4 hogs=1
case ${1:-} in --) ;; [0-9]*) loops=$1; shift ;; esac
case ${1:-} in --) ;; [0-9]*) hogs=$1; shift ;; esac
[ "${1:-}" = -- ] && [ $# -gt 1 ] || { echo "usage: scripts/busy.sh [LOOPS [HOGS]] -- COMMAND..." >&2; exit 2; }
shift
dir=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; rm -rf "$dir"' EXIT
cat >"$dir/busy.c" <<'C'
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
	(void)argv;
	if (argc == 1)
		for (volatile unsigned long n = 0;; n++)
			;
	const size_t bytes = 256u << 20;
	char *a = malloc(bytes), *b = malloc(bytes);
	if (!a || !b)
		return 1;
	memset(a, 1, bytes);
	for (;;) {
		memcpy(b, a, bytes);
		memcpy(a, b, bytes);
	}
}
C
${CC:-cc} -O2 -o "$dir/busy" "$dir/busy.c"
for ((n = 0; n < loops; n++)); do "$dir/busy" & pids+=($!); done
for ((n = 0; n < hogs; n++)); do "$dir/busy" memory & pids+=($!); done
"$@"
