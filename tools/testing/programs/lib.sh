# SPDX-License-Identifier: GPL-2.0
# For the scripts "build": sources of others. Sourced, in the root, in a folder that is empty.

# debian_tar SUITE PACKAGE DIR: what the source package of that suite of Debian has from upstream.
# It is checked by the archive's index; the description beside it, which not every mirror keeps,
# is for building packages.
debian_tar()
{
	sed -n "s/^deb \(\S*\) .*/deb-src [check-valid-until=no] \1 $1 main/p;T;q" /etc/apt/sources.list \
		>/etc/apt/sources.list.d/source.list
	sed -i 's/^deb \([^[]\)/deb [check-valid-until=no] \1/' /etc/apt/sources.list
	apt-get -q update
	mkdir -p "$3" source-"$2"
	chmod 755 .
	chmod 777 source-"$2"
	version=$(apt-cache showsrc --only-source "$2" | sed -n 's/^Version: //p' | sort -V | tail -n 1)
	debian_part "$2" tar
	tar -C source-"$2" --one-top-level=all -xf source-"$2"/*.orig.tar.*
	# With or without a folder that holds all.
	from=source-$2/all
	[ "$(ls -A "$from" | wc -l)" -gt 1 ] || from=$from/$(ls "$from")
	cp -a "$from/." "$3/"
}

debian_part()
{
	(cd source-"$1" && apt-get -q source --download-only --"$2"-only "$1=$version")
}

# debian_source SUITE PACKAGE DIR: the same with Debian's patches, as its packages are built from.
debian_source()
{
	debian_tar "$@"
	debian_part "$2" diff
	tar -C "$3" -xf source-"$2"/*.debian.tar.*
	# The last line may have no end.
	{ cat "$3/debian/patches/series" 2>/dev/null || :; } | sed '/^#/d; s/ .*//' |
		while read -r patch || [ -n "$patch" ]; do
			patch -d "$3" -p1 <"$3/debian/patches/$patch" || exit 1
		done
}

# crate NAME VERSION DIR: the source of a crate, as it was published, with its own Cargo.lock.
# cargo fetches it to tell about it, and checks it by the registry's index. As a dependency its
# own would be looked for anew, some of which are there only for who has locked them.
crate()
{
	mkdir -p "$3"
	cargo info --color never "$1@$2" >/dev/null
	cp -r "$CARGO_HOME"/registry/src/*/"$1-$2"/. "$3/"
}

# crate_tests DIR TO ARGUMENTS...: builds the tests and the examples, with these arguments, and keeps
# the programs: each is called as its file in tests/ or examples/, the library's tests are "lib".
crate_tests()
{
	mkdir -p "$2"
	crate_dir=$1 to=$2
	shift 2
	(
		cd "$crate_dir"
		cargo test --locked --no-run --lib --tests --message-format=json "$@"
		cargo build --locked --examples --message-format=json "$@"
	) >built.json
	python3 -c '
import json, shutil, sys
for line in open("built.json"):
    said = json.loads(line)
    file = said.get("executable")
    if not file:
        continue
    target = said["target"]
    name = "lib" if "lib" in target["kind"] else target["name"]
    shutil.copy(file, f"{sys.argv[1]}/{name}")
    print(name)
' "$to"
}
