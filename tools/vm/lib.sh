# SPDX-License-Identifier: GPL-2.0
# Shared by the scripts of tools/vm: where caches live, how a step is shown,
# and how a cached result is made once and never half trusted. Sourced; sets
# no options, needs "top" (the checkout) to be set by the caller.

cache=${XDG_CACHE_HOME:-$HOME/.cache}/rsiw
vm=$top/tools/vm
tab=$(printf '\t')

die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# The kernel's make, and lists in these scripts, cannot have such names.
case $top$cache in
*[" $tab:,'\"\\"]*) die "no spaces, colons, commas or quotes, please, in the paths $top and $cache" ;;
esac

# "port" has a table of its own.
kernels=${RSIW_KERNELS:-$vm/kernels}

# Columns of the table of kernels: of all, or of the one that KERNEL names.
known_kernels()
{
	awk '/^[^#]/ { print $1 }' "$kernels"
}

# Those of Debian 13, which "deb" takes.
debian_13()
{
	awk '/^[^#]/ && $2 ~ /^trixie/ { print $1 }' "$kernels"
}

of_kernel()
{
	awk -v name="$KERNEL" -v column="$1" '$1 == name { print $column }' "$kernels"
}

# KERNEL is inherited by all scripts. What belongs to another kernel than the first one of
# the table is kept apart by the end of its name.
first_kernel=$(known_kernels | head -n 1)
: "${KERNEL:=$first_kernel}"
export KERNEL
[ -n "$(of_kernel 1)" ] || die "KERNEL=$KERNEL is none of those known: $(known_kernels | xargs)"
apart=
[ "$KERNEL" = "$first_kernel" ] || apart=-$KERNEL

# The machine that it is for, by Debian's name.
arch_of()
{
	case $(of_kernel 4) in
	*arm64*) echo arm64 ;;
	*) echo amd64 ;;
	esac
}

# And the prefix of the tools for it. "foreign" is not empty if that is another one than this.
arch=$(arch_of)
case $arch in
amd64) triplet=x86_64-linux-gnu foreign= ;;
arm64) triplet=aarch64-linux-gnu foreign=yes ;;
esac

# kernel_compiler CC|RUSTC: what the packaged kernel was built by, name and version.
kernel_compiler()
{
	sed -n "s/^CONFIG_$1_VERSION_TEXT=\"\(.*\)\"/\1/p" \
		"$("$vm/kernel")"/headers/usr/src/linux-headers-*/.config
}

# kernel_make ARGUMENTS...: the make of a tree of that kernel, whose name is in "release", in
# the Debian root, with the compilers of the kernel.
kernel_make()
{
	kernel_cc=$(kernel_compiler CC) layer=$("$vm/compilers") || return 1
	set -- -j"$(nproc)" CC="${kernel_cc%% *}" LOCALVERSION= KERNELRELEASE="$release" "$@"
	if [ -n "$foreign" ]; then
		"$vm/enter" --layer "$("$vm/cross")" make ARCH="$arch" CROSS_COMPILE="$triplet-" "$@"
	else
		"$vm/enter" ${layer:+--layer "$layer"} make "$@"
	fi
}

# program_make ARGUMENTS...: make of programs for guests with that kernel, in the Debian root.
program_make()
{
	if [ -n "$foreign" ]; then
		"$vm/enter" --layer "$("$vm/cross")" make CC="$triplet-gcc-14" "$@"
	else
		"$vm/enter" make "$@"
	fi
}

# Returns whether the kernel is the newest of its flavour, which is the first one in the table.
is_newest()
{
	[ "$KERNEL" = "$(awk -v flavour="$(of_kernel 4)" \
		'/^[^#]/ && $4 == flavour { print $1; exit }' "$kernels")" ]
}

# For what is made of the first kernel's source and never of another's.
first_only()
{
	[ -z "$apart" ] || die "$1 is for KERNEL=$first_kernel only"
}

# A line on stderr when a step starts and its time when it is over; the
# result of a command stays alone on stdout.
say()
{
	printf '%s\n' "$*" >&2
}

now()
{
	date +%s
}

# timed NAME LOG COMMAND...: runs COMMAND with its output in LOG, shows the
# end of LOG when it fails.
timed()
{
	timed_name=$1 timed_log=$2
	shift 2
	timed_start=$(now)
	mkdir -p "${timed_log%/*}"
	printf '%-44s ' "$timed_name" >&2
	if "$@" >"$timed_log" 2>&1; then
		say "$(($(now) - timed_start)) s"
		return 0
	fi
	say "FAILED after $(($(now) - timed_start)) s, see $timed_log"
	tail -n 25 "$timed_log" >&2
	return 1
}

# begin_tests NAME: the tests of a script, as TAP. What they leave behind is in "results", a new folder
# build/NAME-XXXXXX of the checkout.
begin_tests()
{
	mkdir -p "$top/build"
	results=$(mktemp -d "$top/build/$1-XXXXXX")
	passed=0 failed=0 tests_begun=$(now)
	tests_at=$tests_begun
	echo "TAP version 13"
}

# verdict STATUS NAME: a test, which is passed if STATUS is 0, and the time since the one before it.
verdict()
{
	if [ "$1" = 0 ]; then
		passed=$((passed + 1)) tests_said=ok
	else
		failed=$((failed + 1)) tests_said='not ok'
	fi
	echo "$tests_said $((passed + failed)) $2 # time=$(($(now) - tests_at))s"
	tests_at=$(now)
}

# passes NAME COMMAND...: a test that is passed if COMMAND succeeds. What that prints goes to a log
# of this name, whose end is shown if it fails.
passes()
{
	tests_name=$1 tests_status=0
	shift
	"$@" >"$results/$tests_name.log" 2>&1 || tests_status=$?
	[ "$tests_status" = 0 ] || tail -n 25 "$results/$tests_name.log" | sed 's/^/# /'
	verdict "$tests_status" "$tests_name"
}

# The sum as the last line. Returns whether all tests have passed, of which there was one.
end_tests()
{
	echo "1..$((passed + failed))"
	say "total $(($(now) - tests_begun)) s; logs in ${results#"$top"/}"
	echo "$passed passed, $failed failed, 0 skipped"
	[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}

# as_group SCRIPT ARGUMENTS...: runs the script in a process group of its own, with --grouped as the
# first argument, and ends with it; there it returns at once. What runs beside others ignores SIGINT,
# and no process knows of all that is below it; a group ends as one.
as_group()
{
	[ "${2:-}" != --grouped ] || return 0
	script=$1
	shift
	setsid "$script" --grouped "$@" &
	group=$! ended=
	stop()
	{
		ended=$1
		# There is no such group yet in the first moment.
		kill -TERM "-$group" 2>/dev/null || kill -TERM "$group" 2>/dev/null || :
	}
	trap 'stop 130' INT
	trap 'stop 143' TERM HUP
	status=0
	while :; do
		wait "$group" || status=$?
		kill -0 "$group" 2>/dev/null || break
		status=0
	done
	exit "${ended:-$status}"
}

# The name of a result: a hash over everything that went into it.
hash_of()
{
	cat "$@" | sha256sum | cut -c1-12
}

# A result in the name of another that is made from it: not by its path, so that
# the caches can be copied to a place elsewhere.
within_cache()
{
	printf '%s\n' "${1#"$cache"/}"
}

# apt_install ARGUMENTS...: in the root, installs packages for a layer, and leaves neither
# lists nor archives behind.
apt_install()
{
	export DEBIAN_FRONTEND=noninteractive
	apt-get -q update
	apt-get -q -y -o DPkg::Options::=--force-unsafe-io install "$@"
	apt-get -q clean
	find /var/lib/apt/lists -type f -delete
}

# apt_suite SUITE: in the root, has apt know that suite of the archive, too. What is said of
# sid and experimental holds for a week only, so that a mirror or a snapshot that is behind
# could not be used; their signatures are looked at all the same.
apt_suite()
{
	case $1 in
	trixie*) options= ;;
	*) options='[check-valid-until=no] ' ;;
	esac
	sed -n "s/^deb \(.*\) trixie main\$/deb $options\1 $1 main/p" \
		/etc/apt/sources.list >"/etc/apt/sources.list.d/$1.list"
}

# The version of the packages of the kernel in $1, which have one, from a changelog.
kernel_version()
{
	set -- "$1"/layer/usr/share/doc/linux-*/changelog.Debian.gz
	gzip -dc "$1" | sed -n '1s/^[^(]*(\([^)]*\)).*/\1/p'
}

# relocatable BUILD SOURCE: the kernel's build directory BUILD finds its source,
# whose path is relative to it, wherever the caches lie.
relocatable()
{
	ln -sfn "$2" "$1/source"
	printf 'export KBUILD_OUTPUT = $(CURDIR)\ninclude %s/Makefile\n' "$2" >"$1/Makefile"
}

# Held, through an inherited descriptor, by whatever runs in the caches; what
# removes them takes it for itself.
use_cache()
{
	mkdir -p "$cache"
	exec 8>"$cache/in-use"
	flock -s -n 8 || die "the caches ($cache) are being removed"
}

# once NAME DIR FUNCTION: makes DIR by calling FUNCTION DIR, unless an earlier
# call did so to the end. The stamp is written last and removed first, so an
# interrupted run leaves nothing that a later one would take for complete. The
# lock makes a second run wait for the first instead of working beside it.
once()
{
	[ -e "$2/.complete" ] && return 0
	use_cache
	mkdir -p "$cache/lock" "${2%/*}"
	(
		if ! flock -n 9; then
			say "$1: waiting for another run that does this"
			flock 9
		fi
		[ -e "$2/.complete" ] && exit 0
		[ -d "$2" ] && wipe "$2"
		timed "$1" "$cache/log/${2##*/}.log" "$3" "$2" || exit 1
		touch "$2/.complete"
	) 9>"$cache/lock/${2##*/}"
}

# As a user the files of the root belong to subordinate ids, which only a user
# namespace with all of them can remove.
as_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		unshare --user --map-root-user --map-auto "$@"
	fi
}

wipe()
{
	as_root rm -f "$1/.complete"
	as_root rm -rf --one-file-system "$1"
}
