# SPDX-License-Identifier: GPL-2.0
# rsiw-run with libraries and programs of others. Sourced by tools/vm/check-run.

# Libraries for a program that the root has not, if its C library is new enough; otherwise those of
# the root, without providers. Our own provider, unless it is not wanted.
libraries()
{
	printf '%s\n' "import ctypes" "verbs = ctypes.CDLL('libibverbs.so.1')" "n = ctypes.c_int()" \
		"verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)" \
		"verbs.ibv_open_device.argtypes = [ctypes.c_void_p]" \
		"verbs.ibv_open_device.restype = ctypes.c_void_p" \
		"devices = verbs.ibv_get_device_list(ctypes.byref(n))" \
		"print([verbs.ibv_open_device(devices[i]) is not None for i in range(n.value)])" \
		"maps = open('/proc/self/maps').read()" \
		"print('own' if '/librsiw-rdmav' in maps else 'stock')" >"$root/srv/devices.py"
	[ "$suite" != bookworm ] || script '
		rsiw-run true 2>errors
		cat errors
		grep "lacks rdma-core" errors
		apt-get -q -y -o DPkg::Options::=--force-unsafe-io --no-install-recommends \
			install librdmacm1
	'
	script '
		# opened DEVICES LIBRARY OPTION...
		opened()
		{
			printf "%s\n" "$1" "$2" >wanted
			shift 2
			rsiw-run "$@" python3 devices.py >out 2>errors
			cat out errors
			cmp out wanted
			if grep "lacks\|Warning" errors; then false; fi
		}
		opened "[True, True]" own
		opened "[True, True]" stock --stock
		opened "[True, True, True, True]" own --device rxe,rsiw
	'
}

# Tests of another project, by the libraries that the root has now: two that connect. They
# are of the version of trixie's libraries.
pyverbs()
{
	cp -r "$("$vm/rdma-core")/tests" "$root/srv/"
	script '
		apt-get -q -y -o DPkg::Options::=--force-unsafe-io --no-install-recommends \
			install python3-pyverbs ibverbs-providers
		rsiw-run python3 -B tests/run_tests.py -v --dev rsiw0 \
			tests.test_rdmacm.CMTestCase.test_rdmacm_sync_traffic \
			tests.test_rdmacm.CMTestCase.test_rdmacm_async_read 2>out
		cat out
		[ "$(grep -c "\.\.\. ok\$" out)" = 2 ]
	'
}

# Open MPI starts its processes on both hosts, by our rsh.
mpirun()
{
	script '
		apt-get -q -y -o DPkg::Options::=--force-unsafe-io --no-install-recommends \
			install openmpi-bin
		rsiw-run --root --hosts 2 mpirun --allow-run-as-root --mca plm_rsh_agent /run/rsiw/bin/rsh \
			-H host1,host2 hostname >out
		cat out
		[ "$(sort out | tr "\n" " ")" = "host1 host2 " ]
	'
}

# Programs of MPI, whose data are checked, over UCX on both machines; without the variable they do
# not come near the device.
mpi()
{
	mkdir -p "$root/srv/samples"
	cp "$top/samples/mpi_exchange.c" "$root/srv/samples/"
	cp "$results/page.mpi" "$root/srv/"
	script '
		apt-get -q -y -o DPkg::Options::=--force-unsafe-io --no-install-recommends \
			install gcc libc6-dev ibverbs-providers mpich libmpich-dev openmpi-bin libopenmpi-dev \
			openssh-client
		sh -eu page.mpi >out 2>errors || { cat out errors; exit 1; }
		cat out
		[ "$(grep -c "^all data are right" out)" = 2 ]
		if grep "UCX *ERROR" out errors; then false; fi
		export RDMAV_DRIVERS=/run/rsiw/lib/librsiw
		for as in 1 0; do
			devices=rsiw0:1
			[ "$as" = 1 ] || devices=all
			UCX_NET_DEVICES=$devices RSIW_AS_INFINIBAND=$as rsiw-run --machines 2 sh -ec "
				mpirun.mpich -launcher rsh -launcher-exec /run/rsiw/bin/rsh \
					-hosts host1,host2 -n 4 ./exchange.mpich
				cat /sys/class/infiniband/rsiw0/ports/1/hw_counters/conn_established
			" >out
			cat out
			grep -x "all data are right" out
			[ "$(tail -n 1 out)" -gt 0 ] || [ "$as" = 0 ]
			[ "$(tail -n 1 out)" = 0 ] || [ "$as" = 1 ]
		done
	'
}

# Tests of a crate, which is built outside: nothing is compiled in the machine.
cargo()
{
	cp -r "$top/samples/cargo" "$results/page.cargo" "$root/srv/"
	script '
		apt-get -q -y -o DPkg::Options::=--force-unsafe-io --no-install-recommends \
			install cargo librdmacm-dev
		cd cargo
		rm -rf target
		status=0
		sh -eu ../page.cargo >../out 2>&1 || status=$?
		cat ../out
		[ "$status" = 0 ]
		[ "$(grep -c Compiling ../out)" = 1 ]
		grep "^test result: ok. 3 passed; 0 failed" ../out
	'
}

# Valkey's own test, whose status is 0 even if it has failed. The tar file of its source is
# enough, and is checked by the archive's index; not every mirror keeps what is beside it.
valkey()
{
	cp "$results/page.valkey" "$root/srv/"
	script '
		sed -n "s/^deb /deb-src /p" /etc/apt/sources.list >/etc/apt/sources.list.d/source.list
		apt-get -q update
		apt-get -q -y -o DPkg::Options::=--force-unsafe-io --no-install-recommends \
			install gcc libc6-dev librdmacm-dev make pkgconf python3-netifaces xz-utils
		apt-get -q source --download-only --tar-only valkey
		mkdir valkey
		tar -C valkey --strip-components=1 -xf valkey_*.orig.tar.*
		cd valkey
		status=0
		MAKEFLAGS="-j$(nproc) MALLOC=libc OPTIMIZATION=-O1" \
			sh -eu ../page.valkey >../out 2>&1 || status=$?
		cat ../out
		[ "$status" = 0 ]
		grep "^Valkey Over RDMA test over .* \[OK\]" ../out
	'
}
