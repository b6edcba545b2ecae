# SPDX-License-Identifier: GPL-2.0
# Programs in rsiw-run's machine: their streams, status, signals and terminal. Sourced by tools/vm/check-run.

# Of a program that fails.
status()
{
	script '
		status=0
		rsiw-run sh -c "exit 7" || status=$?
		[ "$status" = 7 ]
	'
}

# Input, output, errors, environment, folder; what is written is gone.
streams()
{
	script '
		rm -f written
		printf "one\ntwo\n" | WORD="a  b" rsiw-run sh -c "
			cat; pwd; echo \"\$WORD\"; echo error >&2; echo gone >written; cat written
			dd if=/dev/zero bs=1000000 count=3 status=none | tr \"\\0\" x
		" >out 2>errors
		head -n 5 out | head -c 100; cat errors
		printf "one\ntwo\n/srv\na  b\ngone\n" | cmp -n 23 - out
		[ "$(wc -c <out)" = 3000023 ]
		grep -qx error errors
		[ "$(wc -l <errors)" -le 3 ]
		[ ! -e written ]
	'
}

# Standard input, output and errors opened again, by a user, and what is left running.
reopened()
{
	script '
		id me >/dev/null 2>&1 || useradd -u 1234 me
		status=0
		printf "one\ntwo\n" | timeout 300 \
			setpriv --reuid=1234 --regid=1234 --clear-groups rsiw-run sh -c "
			read -r first; echo \"\$first\"; cat /dev/stdin; cat /dev/stdin
			echo three >/dev/stdout; echo four | tee /dev/stderr; echo five >/dev/stderr
			head -c 1000000 /dev/zero >/dev/stdout; echo six
			sleep 1000 &
			yes >/dev/stderr & exit 4
		" >out 2>errors || status=$?
		[ "$status" = 4 ]
		tr -d "\000" <out | head -c 100; head -c 200 errors
		printf "one\ntwo\nthree\nfour\nsix\n" >wanted
		tr -d "\000" <out | cmp - wanted
		[ "$(wc -c <out)" = 1000023 ]
		grep -A1 -x four errors | grep -qx five
	'
}

# Output that nobody reads for longer than a minute, when COMMAND has ended.
paused()
{
	script '
		{
			status=0
			rsiw-run sh -c "head -c 3000000 /dev/zero; exit 4" 2>errors || status=$?
			echo "$status" >status
		} | {
			sleep 90
			wc -c >size
		}
		cat errors size status
		[ "$(cat size)" = 3000000 ]
		[ "$(cat status)" = 4 ]
	'
}

# A user, who has no rights, in a folder that may be written to.
user()
{
	script '
		id me >/dev/null 2>&1 || useradd -u 1234 me
		mkdir -p mine
		chown me mine
		cd mine
		setpriv --reuid=1234 --regid=1234 --clear-groups rsiw-run --hosts 2 --writable . sh -c "
			id -u >id; on host2 id -u >>id; on host2 hostname >>id
			cat /etc/shadow || echo secret >>id
			ibv_devices | grep -c rsiw1 >>id
		"
		cat id
		printf "1234\n1234\nhost2\nsecret\n2\n" | cmp - id
		[ "$(stat -c %u id)" = 1234 ]
	'
}

# A signal that the program takes, any number of one that is for programs, one that ends it, and
# one that it ignores.
signals()
{
	script '
		rsiw-run sh -c "trap \"echo got; exit 42\" TERM; echo up; while :; do sleep 0.1; done" >out &
		until grep -q up out; do kill -0 $!; sleep 0.2; done
		kill $!
		status=0
		wait $! || status=$?
		cat out
		[ "$status" = 42 ] && grep -q got out
		status=0
		rsiw-run sh -c "kill -KILL \$\$" || status=$?
		[ "$status" = 137 ]
		rm out
		rsiw-run bash -c "n=0; trap \"n=\\\$((n + 1)); echo got \\\$n\" USR1; echo up
			until [ \$n = 4 ]; do sleep 0.1; done; exit 42" >out &
		for said in up "got 1" "got 2" "got 3"; do
			until grep -q "$said" out; do kill -0 $!; sleep 0.2; done
			kill -USR1 $!
		done
		status=0
		wait $! || status=$?
		cat out
		[ "$status" = 42 ]
		rm out
		rsiw-run sh -c "trap \"\" TERM; echo up; sleep 1000" >out &
		until grep -q up out; do kill -0 $!; sleep 0.2; done
		for _ in 1 2 3; do kill $!; sleep 0.2; done
		status=0
		wait $! || status=$?
		[ "$status" = 143 ]
	'
}

# Input that is none, input and output that do not wait, hangups that are ignored.
callers()
{
	script '
		timeout 300 sh -c "
			trap \"\" HUP
			echo \$\$ >pid
			exec rsiw-run sh -c \"cat; echo up; sleep 10; echo over\"
		" 0>nothing >out &
		until grep -q up out; do kill -0 $!; sleep 0.2; done
		kill -HUP "$(cat pid)"
		wait $!
		grep -qx over out
		timeout 300 rsiw-run cat <&- >out
		[ ! -s out ]
		timeout 300 python3 -c "
import os, subprocess, time
stdin, feed = os.pipe()
output, stdout = os.pipe()
os.set_blocking(stdin, False)
os.set_blocking(stdout, False)
child = subprocess.Popen([\"rsiw-run\", \"sh\", \"-c\", \"echo up; cat; head -c 1000000 /dev/zero\"],
                         stdin=stdin, stdout=stdout)
os.close(stdout)
assert os.read(output, 3) == b\"up\\n\"
time.sleep(1)
os.write(feed, b\"later\\n\")
os.close(feed)
time.sleep(3)
with open(output, \"rb\") as f:
    assert f.read() == b\"later\\n\" + bytes(1000000)
assert child.wait() == 0
"
	'
}

# With the terminal, which is as before when it has ended.
terminal()
{
	script '
		status=0
		printf "tty; stty size; exit 5\n" | script -qec "stty rows 30 cols 90
			rsiw-run --shell sh; echo status \$?; stty -a" /dev/null >out || status=$?
		cat out
		grep -q /dev/hvc0 out && grep -q "30 90" out && grep -q "status 5" out
		grep -q " icanon" out && grep -q " echo" out
		printf "echo \$((20 + 1))\nexit\n" | script -qec "rsiw-run --shell sh | tee log" /dev/null
		grep -q "21" log
	'
}
