# SPDX-License-Identifier: GPL-2.0
# What is said of machines: why there is none, how one is watched, its clock. Sourced by tools/vm/check-run.

# An instruction takes a nanosecond, and so does a tick of the processor's own clock.
own_time()
{
	script '
		rsiw-run --accel tcg --own-time sh -c "nproc; grep MHz /proc/cpuinfo" >out
		cat out
		[ "$(head -n 1 out)" = 1 ]
		awk "/MHz/ { n++; if (\$4 < 990 || \$4 > 1010) exit 1 } END { exit n != 1 }" out
	'
}

# A kernel that is not that which was built.
damaged()
{
	script '
		head -c 20000000 /usr/lib/rsiw-run/rsiw-run.img >damaged.img
		printf x | dd of=damaged.img bs=1 seek=100000 conv=notrunc status=none
		status=0
		rsiw-run --image damaged.img true 2>errors || status=$?
		cat errors
		rm damaged.img
		[ "$status" = 125 ] && grep -q damaged errors
	'
}

# Why there is no machine.
refusals()
{
	script '
		# refused WORD OPTION...
		refused()
		{
			word=$1 status=0
			shift
			rsiw-run "$@" true 2>/srv/errors || status=$?
			cat /srv/errors
			[ "$status" = 125 ] && grep -q "$word" /srv/errors &&
				! grep "Traceback\|booting again" /srv/errors
		}
		refused "qemu.*foo" --memory foo
		refused "typo" --modules dummy,typo
		(ulimit -f 100; refused "File too large")
		mkdir gone
		(cd gone; rmdir ../gone; refused "working directory")
		for folder in /dev/shm /run /proc /sys/kernel; do
			(cd "$folder"; refused "working directory $folder is not in the machine")
		done
		refused "has no parameter typo" --param typo=1
		refused "load the module rsiw with direct=7" --param direct=7
		# The image without the beginning of its file system.
		cp /usr/lib/rsiw-run/rsiw-run.img damaged.img
		dd if=/dev/zero of=damaged.img bs=4096 count=1 conv=notrunc status=none \
			seek="$(($(head -n 7 damaged.img | sed -n "s/^root \([0-9]*\) .*/\1/p") / 4096))"
		refused "guest-init: no image" --image damaged.img
		rm damaged.img
		for folder in / /dev /etc /run /proc /sys/kernel; do
			status=0
			rsiw-run --writable "$folder" true 2>errors || status=$?
			cat errors
			[ "$status" = 2 ]
			grep "error: $folder cannot be written to" errors
		done
	'
}

# A debugger finds the first machine's kernel stopped, at the addresses of its symbols, and lets it
# go.
debugger()
{
	script '
		# ports: TCP ports that somebody listens at.
		ports() { grep -c ": [0-9A-F]*:[0-9A-F]* [0-9A-F]*:0000 0A" /proc/net/tcp || :; }
		before=$(ports)
		rsiw-run --gdb sh -c "grep \"^ffffffff81000000 . _text\$\" /proc/kallsyms && exit 3" \
			2>errors &
		until path=$(sed -n "s/.*target remote //p" errors | tail -n 1); [ -S "$path" ]; do
			kill -0 $!
			sleep 0.1
		done
		[ "$(ports)" = "$before" ]
		id me >/dev/null 2>&1 || useradd -u 1234 me
		if setpriv --reuid=1234 --regid=1234 --clear-groups test -e "$path"; then false; fi
		python3 -c "
import socket, sys
kernel = socket.socket(socket.AF_UNIX)
kernel.connect(sys.argv[1])
for asked, answer in ((b\"+\$?#3f\", b\"T05\"), (b\"+\$D#44\", b\"OK\")):
    kernel.sendall(asked)
    said = b\"\"
    while b\"#\" not in said:
        said += kernel.recv(100)
    assert answer in said, said
" "$path"
		status=0
		wait $! || status=$?
		cat errors
		[ "$status" = 3 ]
		grep "rsiw.ko is loaded.* 0xffffffff" errors
		status=0
		rsiw-run --gdb 2345 true 2>errors || status=$?
		[ "$status" = 2 ]
		grep "takes no port" errors
	'
}

# All that the kernel says, and a folder where the machine has its own.
console()
{
	script '
		mkdir -p /dev/shm/results
		rsiw-run --writable /dev/shm/results --console log sh -c "
			echo rsiw-run: hello >/dev/kmsg
			echo written >/dev/shm/results/file
		"
		tail -n 3 log
		grep -qx written /dev/shm/results/file
		grep -q "Linux version" log && grep -q "rsiw-run: hello" log
	'
}

# A kernel that dies, and one that has had a fault: what the log says of it, and where it is.
died()
{
	script '
		# kept FIRST LAST: the lines behind the one that names the file are these, and in the file.
		kept()
		{
			cat errors
			log=$(sed -n "s/^rsiw-run: the machine .*; its log is in \(.*\):$/\1/p" errors)
			grep -A 1 "; its log is in " errors | tail -n 1 | grep "$1"
			grep "$2" errors
			grep "$2" "$log"
		}
		status=0
		rsiw-run --root sh -c "echo c >/proc/sysrq-trigger; sleep 1000" 2>errors || status=$?
		[ "$status" = 126 ]
		kept "Kernel panic" "Call Trace"
		rm "$log"
		status=0
		rsiw-run --root --quiet sh -c "echo \"<4>WARNING: CPU: 0 of a test\" >/dev/kmsg
			echo \"<4>behind it\" >/dev/kmsg; exit 3" 2>errors || status=$?
		[ "$status" = 3 ]
		kept "WARNING: CPU: 0 of a test" "behind it"
		rm "$log"
	'
}
