# SPDX-License-Identifier: GPL-2.0
# Sourced by tools/vm/check-run.

# The first command of README.md, as somebody types it who has installed the package only.
readme()
{
	sed -n "s/^    \(rsiw-run --hosts .*\)/\1/p" "$top/README.md" >"$root/srv/readme"
	script '
		[ "$(wc -l <readme)" = 1 ]
		id me >/dev/null 2>&1 || useradd -m -u 1234 me
		(cd /home/me; timeout 300 setpriv --reuid=1234 --regid=1234 --clear-groups \
			env HOME=/home/me bash -c "$(cat /srv/readme)") >out 2>errors || { cat out errors; exit 1; }
		cat out errors
		[ "$(grep -c "^server ping data: rdma-ping-" out)" = 3 ]
		grep "^rsiw: 1 connection, " errors
	'
}

# The programs of rsiw-first.rst, compiled and run as it says: no message is lost while the network
# is down and where packets are, and both ends notice when a device goes.
first()
{
	mkdir -p "$root/srv/samples"
	cp "$top/samples/first_server.c" "$top/samples/first_client.c" "$root/srv/samples/"
	cp "$results/page.first" "$root/srv/"
	script '
		apt-get -q -y -o DPkg::Options::=--force-unsafe-io --no-install-recommends \
			install gcc libc6-dev libibverbs-dev librdmacm-dev
		status=0
		timeout 600 sh -eu page.first >out 2>errors || status=$?
		cat out errors
		[ "$status" = 0 ]
		# has PATTERN N: in N lines.
		has() { [ "$(grep -c "$1" out)" = "$2" ]; }
		# How far the client is when the fault is there depends on how busy the host is.
		case $(sed -n "s/^server: \([0-9]*\) messages, then \"Work Request Flushed.*/\1/p" out |
			tr "\n" " ") in
		"5 20 "[5-9]" 40 "|"5 20 1"[0-9]" 40 ") ;;
		*) exit 1 ;;
		esac
		has "^client: message 20, back after" 2
		grep "^client: message [0-9]*, back after [2-9][0-9][0-9][0-9]\." out
		has "retrans:[0-9]*/[1-9]" 1
		has "^ *tx_send_requests 20" 1
		has "^ *rx_send_requests 20" 1
		has "^ *tx_write_requests 1 " 1
		has "^ *conn_asked 1 " 1
		has "^ *conn_established 1 " 1
		has "^ *conn_lost 0 " 1
		has "^TcpRetransSegs" 1
		grep "^rsiw: 1 connection, 11 FPDUs, 100 octets\$" errors
		grep "^first_client: message [0-9]*: Work Request Flushed Error" errors
	'
}
