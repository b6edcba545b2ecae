# SPDX-License-Identifier: GPL-2.0
# The script of action.yml. Sourced by tools/vm/check-run.

# The action's options are words, and nothing else: it is beside what shows them here. It takes
# no image that is not what it should be.
options()
{
	script '
		mkdir -p shows
		cp /usr/lib/rsiw-run/action /usr/lib/rsiw-run/parts.py shows
		printf "#!/bin/sh\necho \"\$*\"\n" >shows/rsiw-run
		chmod +x shows/rsiw-run
		cp /usr/lib/rsiw-run/rsiw-run.img image
		sum=$(sha256sum <image)
		export IMAGE=image SHA256=${sum%% *} COMMANDS=true OPTIONS="  --console  *"
		shows/action >out
		cat out
		grep "^--image image --console \* -- bash " out
		# refused WORDS: what the action says then.
		refused()
		{
			if shows/action >out 2>&1; then false; fi
			cat out
			grep "$1" out
			if grep "^--image" out; then false; fi
		}
		(IMAGE=http://127.0.0.1/image; refused "neither a path nor https")
		(IMAGE=https://127.0.0.1/image SHA256=; refused "needs a sha256")
		# The end of its file system.
		printf x | dd of=image bs=1 seek="$(($(stat -c %s image) - 5000))" conv=notrunc status=none
		refused "sha256 is"
		SHA256= refused "root in image is damaged"
		rm image
	'
}

# A step that is cancelled leaves neither a machine nor files.
cancelled()
{
	script '
		mkdir -p temp
		RUNNER_TEMP=$PWD/temp IMAGE=/usr/lib/rsiw-run/rsiw-run.img OPTIONS= \
			COMMANDS="echo up; sleep 1000" /usr/lib/rsiw-run/action >out &
		until grep -q up out; do kill -0 $!; sleep 0.2; done
		kill $!
		status=0
		wait $! || status=$?
		[ "$status" = 143 ]
		[ -z "$(grep qemu /proc/[0-9]*/comm)" ]
		[ -z "$(ls temp)" ]
	'
}
