# SPDX-License-Identifier: GPL-2.0
# Several hosts and machines, the networks between them, and devices. Sourced by tools/vm/check-run.

# On host1, 127.0.0.1 is for RDMA as well, by the device that is the first of all.
hosts()
{
	script '
		rsiw-run --hosts 3 sh -ec "
			on host3 rping -s -a host3 -C 10 -v &
			until rping -c -a host3 -C 10 -v; do sleep 1; done
			wait \$!
			on host2 ping -c 1 -W 5 host3
			# refused WORD...: no words for \"on\".
			refused()
			{
				status=0
				on \"\$@\" 2>errors || status=\$?
				cat errors
				[ \$status = 255 ] && grep \"^usage: on\" errors
			}
			refused host2
			refused -n host2
			refused host2 \"\"
			rdma dev | grep \"^0: rsiw1:\"
			rping -s -a 127.0.0.1 -C 10 &
			until rping -c -a 127.0.0.1 -C 10; do sleep 1; done
			wait \$!
		"
	'
}

# The status of a program on another machine, its streams and what it may do, as a user, and
# what it leaves running.
machines()
{
	script '
		id me >/dev/null 2>&1 || useradd -u 1234 me
		setpriv --reuid=1234 --regid=1234 --clear-groups rsiw-run --machines 2 sh -ec "
			cd /tmp
			on host2 rping -s -a host2 -C 10 -v &
			until rping -c -a host2 -C 10 -v; do sleep 1; done
			wait \$!
			status=0
			echo in | on host2 \"cat; hostname >&2; exit 9\" >out 2>errors || status=\$?
			[ \$status = 9 ]
			[ \$(cat out) = in ]
			[ \$(cat errors) = host2 ]
			[ \$(on host2 \"on host1 \\\"hostname; id -u\\\"\" | tr \"\n\" :) = host1:1234: ]
			on host2 ip link set eth0 mtu 1400
			status=0
			on host3 true 2>errors || status=\$?
			[ \$status = 255 ]
			[ \"\$(cat errors)\" = \"on: no host host3\" ]
			[ \$(on host2 \"head -c 3000000 /dev/zero\" | wc -c) = 3000000 ]
			[ \$(on host2 yes 2>errors | head -n 1) = y ]
			[ ! -s errors ]
			later=\"until [ -e now ]; do sleep 0.1; done; touch went\"
			timeout 100 on host2 \"{ \$later; echo later; } & echo first\" >out
			[ \$(cat out) = first ]
			printf \"1\n2\n\" | while read -r n; do on -n host2 echo \$n; done >lines
			[ \$(wc -l <lines) = 2 ]
			timeout 100 on host2 \"(\$later-silently) >silent 2>&1 &\"
			on host2 touch now
			until [ \$(tail -n 1 out) = later ]; do sleep 0.1; done
			on host2 \"until [ -e went-silently ]; do sleep 0.1; done\"
		"
	'
}

# Signals for a program on another machine that does not read its input, of which there is more than
# is on its way; the program ends if what asked for it is gone.
far_signals()
{
	script '
		cat >job <<-"EOT"
			# unread COMMAND: on host2, until no more of its input leaves here.
			unread()
			{
				rm -f out
				on host2 "$1" <input >out &
				until grep -qs up out; do kill -0 $!; sleep 0.2; done
				before=
				until at=$(grep "^pos:.*[1-9]" /proc/$!/fdinfo/0) && [ "$at" = "$before" ]; do
					before=$at
					sleep 1
				done
			}
			truncate -s 1G input
			unread "trap \"echo got\" USR1; trap \"exit 9\" TERM; echo up; while :; do sleep 0.1; done"
			kill -USR1 $!
			until grep -q got out; do kill -0 $!; sleep 0.2; done
			for _ in 1 2 3; do kill -USR1 $!; done
			kill $!
			status=0
			wait $! || status=$?
			[ "$status" = 9 ]
			unread "echo \$\$ >pid; echo up; exec sleep 1000"
			kill -KILL $!
			on -n host2 "while kill -0 \$(cat pid); do sleep 0.2; done"
		EOT
		timeout 300 rsiw-run --machines 2 sh -eux job
	'
}

# 50 ms each way, for data of RDMA as well, and packets of 9000 octets; not within one host.
net()
{
	script '
		! rsiw-run --net delay=50ms true 2>errors
		cat errors
		grep "needs --hosts or --machines" errors
		rsiw-run --hosts 2 --net delay=50ms,rate=1gbit,mtu=9000 sh -ec "
			ip link show eth0 | grep \"mtu 9000\"
			ping -c 3 -s 8900 -M do host2
			on host2 ib_read_lat -R -F -s 64 -n 10 >server &
			until on host2 ss -ltn | grep -q :18515; do sleep 0.2; done
			ib_read_lat -R -F -s 64 -n 10 host2
			wait \$!
		" >out
		cat out
		grep -q "^3 packets transmitted, 3 received" out
		awk -F / "/^rtt/ { exit !(\$5 >= 100 && \$5 < 1000) }" out
		awk "\$1 == 64 { n++; if (\$3 < 100000) exit 1 } END { exit n != 1 }" out
	'
}

# The standard programs by the name of a host, of which there are two addresses; datagrams by name
# are refused. check-publish has other forms of rsiw-run do the same. The exporter's package brings
# one program, and no libraries.
jobs()
{
	cp "$top/tools/run/tests/jobs" "$top/tools/run/tests/exporter" "$root/srv/"
	script '
		./exporter
		rsiw-run --root --expect-rdma --hosts 2 sh jobs standard node_exporter
	'
}

# Those for two machines, by the libraries of the root, with rxe beside rsiw.
machine_jobs()
{
	cp "$top/tools/run/tests/jobs" "$root/srv/"
	script '
		apt-get -q -y -o DPkg::Options::=--force-unsafe-io --no-install-recommends \
			install python3-mpi4py
		rsiw-run --root --expect-rdma --device rsiw,rxe --param ud_port=4792 --machines 2 \
			sh jobs pingpong_rxe openmpi
	'
}

# Devices of other drivers, beside ours and alone: the first named are the first ones, also for
# programs of the root that has libraries of its own or gets them. What they count; a parameter.
devices()
{
	script '
		# rping on host2, and on this one by the first device.
		cat >listening <<-"EOT"
			on -n host2 rping -s -a host2 -C 3 &
			until on -n host2 rdma resource show cm_id | grep -q LISTEN; do sleep 0.2; done
			rping -c -a host2 -C 3
			wait $!
		EOT
		rsiw-run --device rxe,rsiw --param direct=0 --machines 2 sh -ec "
			ibv_devices | sed -n 3p | grep rxe0
			on host2 ibv_devices | sed -n 3p | grep rxe0
			[ \$(cat /sys/module/rsiw/parameters/direct) = 0 ]
			. ./listening
			on -n host2 ibv_rc_pingpong -g 1 -d rxe0 -n 10 &
			until ibv_rc_pingpong -g 1 -d rxe0 -n 10 host2; do sleep 1; done
			wait \$!
		" >out 2>errors
		cat out errors
		grep "^rxe: [1-9][0-9]* packets, [0-9.]* [kM]*B\$" errors
		grep "^rsiw: 0 connections, 0 FPDUs, 0 octets\$" errors
		rsiw-run --device rsiw,rxe --expect-rdma --machines 2 sh -ec "
			ibv_devices | sed -n 3p | grep rsiw0
			. ./listening
		" >out 2>errors
		cat out errors
		grep "^rsiw: 1 connection, [1-9][0-9]* FPDUs, [0-9]* octets\$" errors
		grep "^rxe: 0 packets" errors
		rsiw-run --device siw --machines 2 sh -ec "
			ibv_devices | sed -n 3p | grep siw0
			. ./listening
		"
	'
}

# What counts as RDMA, and the status without it.
expect()
{
	script '
		# rdma STATUS COMMAND
		rdma()
		{
			status=0
			rsiw-run --expect-rdma sh -ec "$2" >out 2>errors || status=$?
			cat out errors
			[ "$status" = "$1" ]
		}
		rdma 123 "true"
		grep "^rsiw: 0 connections, 0 FPDUs, 0 octets\$" errors
		grep "nothing was sent" errors
		rdma 7 "exit 7"
		rdma 0 "ibv_rc_pingpong -g 1 -n 10 & until ibv_rc_pingpong -g 1 -n 10 host1; do sleep 1; done"
		grep "^rsiw: .* FPDUs, " errors
		rdma 0 "ibv_ud_pingpong -g 1 -n 10 & until ibv_ud_pingpong -g 1 -n 10 host1; do sleep 1; done"
		grep "^rsiw: 0 connections, 0 FPDUs, 0 octets, [1-9][0-9]* datagrams\$" errors
		rsiw-run --quiet true 2>errors
		[ ! -s errors ]
	'
}

# All that netem does to packets.
faults()
{
	script '
		net=delay=5ms,jitter=1ms,loss=0.1%,reorder=1%,duplicate=1%,corrupt=0.1%,rate=1gbit
		rsiw-run --hosts 2 --net $net sh -ec "
			tc qdisc show dev eth0
			on -n host2 ib_send_bw -R -F -n 200 >server &
			until on -n host2 ss -ltn | grep -q :18515; do sleep 0.2; done
			ib_send_bw -R -F -n 200 host2
			wait \$!
		" >out
		cat out
		for word in "delay 5ms *1ms" "loss 0.1%" "reorder 1%" "duplicate 1%" "corrupt 0.1%" "rate 1Gbit"; do
			grep "$word" out
		done
		for net in delay=5 loss=x jitter=1ms latency=5ms; do
			status=0
			rsiw-run --hosts 2 --net $net true 2>errors || status=$?
			[ "$status" = 2 ]
			grep "argument --net: " errors
		done
	'
}
