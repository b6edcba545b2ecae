# SPDX-License-Identifier: GPL-2.0
# Shared by the scripts that sign what they make with gpg. Sourced after lib.sh, with "new",
# a folder that goes away, set; sets no options.

# The key: a file that holds it, or a name by which the caller's gpg knows it.
key=
use_key()
{
	key=$1
	"$vm/prereqs" gpg gpg
	if [ -f "$key" ]; then
		# First: what fails from here on leaves the secret key nowhere.
		key_given=$1
		GNUPGHOME=$(mktemp -d)
		export GNUPGHOME
		gpg --batch --quiet --import "$key" 2>/dev/null || die "$key holds no key that gpg takes"
		key=$(gpg --batch --with-colons --list-secret-keys | awk -F : '$1 == "fpr" { print $10; exit }')
		[ -n "$key" ] || die "$1 holds no secret key"
	else
		GNUPGHOME=${GNUPGHOME:-}
		[ -n "$GNUPGHOME" ] || unset GNUPGHOME
		gpg --batch --list-secret-keys "$key" >/dev/null 2>&1 ||
			die "$key is neither a file nor a secret key that gpg knows"
	fi
}

# What use_key has made: the agent ends, too, when its folder goes.
drop_key()
{
	[ ! -f "${key_given:-}" ] || { gpgconf --kill all 2>/dev/null; rm -rf "$GNUPGHOME"; }
}

# sign OPTION FILE SIGNATURE
sign()
{
	gpg --batch --yes --quiet --local-user "$key" --armor --output "$3" "$1" "$2" ||
		die "$2 could not be signed with the key $key"
}
