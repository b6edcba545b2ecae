# SPDX-License-Identifier: GPL-2.0
# Shared by the scripts that build what Debian leaves out of its kernel from the
# kernel package's own source. Sourced after lib.sh; sets no options.

# modules_once NAME WHAT FILES...: has the caller's "compile DIR" make the modules WHAT for
# the packaged kernel, of FILES, too, unless they are there. Sets "dir", and before that
# what it needs.
modules_once()
{
	name=$1 what=$2
	shift 2
	kdir=$("$vm/tree")
	src=$kdir/../src
	release=$(cat "$("$vm/kernel")/release")
	dir=$cache/$name-$({ within_cache "$kdir"; cat "$0" "$vm/modules.sh" "$@"; } | hash_of)
	once "$what for $release" "$dir" compile
}

# make_modules DIR VARIABLES...: builds those of DIR. Options of the tree are those of
# the packaged kernel: others reach make as variables, and the sources as macros.
make_modules()
{
	make_dir=$1
	shift
	kernel_make -C "$kdir" M="$make_dir" "$@" modules
}
