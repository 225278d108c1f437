# Sourced by the bench scripts: finds the candidate that the arguments name and
# compiles it with the flags it was tuned with.
#
#	candidate_arguments "$@"	sets candidate, store, source, flags, rest
#	candidate_build KERNEL OBJECT	leaves the compiled candidate in OBJECT

die() {
	echo "$(basename "$0"): $*" >&2
	exit 2
}

candidate_arguments() {
	candidate='' store=evotune.db source='' flags='' rest=()
	while [ $# -gt 0 ]; do
		case $1 in
		-h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
		--*) [ -n "${2:-}" ] || die "$1 needs a value" ;;
		esac
		case $1 in
		--store) store=$2; shift ;;
		--source) source=$2; shift ;;
		--flags) flags=$2; shift ;;
		--*) rest+=("$1" "$2"); shift ;;
		*) [ -z "$candidate" ] || die "one candidate at a time: $candidate or $1"; candidate=$1 ;;
		esac
		shift
	done
}

candidate_build() {
	local kernel=$1 object=$2 text=$2.c
	command -v "${CC:-gcc}" >/dev/null || die "no C compiler: apt-get install gcc, or set CC"
	if [ -n "$source" ]; then
		[ -r "$source" ] || die "$source cannot be read"
		cp "$source" "$text"
	else
		[ -r "$store" ] || die "no store $store: run \`tune run $kernel\` first, or give --store FILE or --source FILE"
		if [ -z "$candidate" ]; then
			# A winner of finals before one that was only measured once.
			local proven
			for proven in --proven ''; do
				[ -n "$candidate" ] || candidate=$(go run ./cmd/tune best "$kernel" $proven --store "$store" --json 2>/dev/null |
					sed -n 's/^ *"candidate": "\(.*\)",$/\1/p' | head -1) || true
			done
			[ -n "$candidate" ] || die "$store has no candidate of $kernel"
		fi
		go run ./cmd/tune show "$candidate" --store "$store" --source >"$text" 2>/dev/null ||
			die "$store has no candidate $candidate, or more than one, or not its source: see \`tune show $candidate\`"
	fi
	# The source says how it was compiled, unless --flags does.
	[ -n "$flags" ] || flags=$(sed -n 's|^// flags: ||p' "$text" | head -1)
	[ -n "$flags" ] || die "$text does not say its compiler flags: give --flags '-O3 -march=native'"
	sed -n 's|^// genome: |candidate  |p' "$text" | head -1
	echo "flags      $flags"
	# shellcheck disable=SC2086 # flags are words
	"${CC:-gcc}" $flags -I "kernels/templates/$kernel" -I kernels/templates/include -c "$text" -o "$object" || die "the candidate does not compile"
}
