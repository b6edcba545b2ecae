# SPDX-License-Identifier: GPL-2.0
# What people type. The kernel's build system reads Kbuild instead, which it
# prefers, so the two roles do not meet in one file.

# KERNEL, of "packaged", "check", "deb", "shell" and "demo", reaches the scripts by itself.
# ARCH, of "check", stands for all kernels for such machines.
KDIR ?= /lib/modules/$(shell uname -r)/build
MAKEFLAGS += --no-print-directory

# A plain "make": the module for KDIR.
module:
	@tools/vm/kdir-check "$(KDIR)"
	@mkdir -p build/module
	$(MAKE) -C "$(KDIR)" M="$(CURDIR)" MO="$(CURDIR)/build/module" CONFIG_RDMA_RSIW=m modules
	@echo "built build/module/drivers/infiniband/sw/rsiw/rsiw.ko"

packaged:
	@tools/vm/build

user:
	@tools/vm/user

run-image:
	@tools/run/image

# IMAGE: that of another "make run-image".
wheel:
	@tools/vm/wheel $(if $(IMAGE),--image "$(IMAGE)")

container:
	@tools/vm/container

deb:
	@tools/vm/deb $(if $(DEB_VERSION),--version "$(DEB_VERSION)")

archive:
	@tools/vm/archive $(if $(KEY),--key "$(KEY)")

release:
	@tools/vm/release $(if $(VERSION),--version "$(VERSION)") $(if $(KEY),--key "$(KEY)")

port:
	@tools/vm/port "$(KERNEL)" $(SUITE)

modules_install:
	@tools/vm/install "$(KDIR)"

# CHECK=0: the patches are made, and not built.
series:
	@tools/vm/series $(if $(filter 0 no,$(CHECK)),--no-build)

in-tree:
	@tools/vm/series --in-tree

demo check-long check-kernels shell update:
	@tools/vm/$@

check:
	@tools/vm/$(if $(ARCH),check-kernels --whole --arch "$(ARCH)",check)

check-soak:
	@tools/vm/check --soak "$(or $(SECONDS),1800)"

check-debug:
	@tools/vm/check --debug

fuzz:
	@tools/vm/fuzz $(if $(SECONDS),--seconds $(SECONDS))

coverage:
	@tools/testing/coverage/run $(if $(LIMIT),--limit $(LIMIT))

mutants:
	@tools/testing/mutants/run $(if $(SHARD),--shard $(SHARD))

bench:
	@tools/bench/run

# BASE: results to compare with.
bench-quick:
	@tools/bench/quick $(if $(BASE),--base "$(BASE)")

# CASE, WHERE and DEVICE: what of the benchmark. TOP: how many functions. DIRECT: rsiw's
# parameter of that name.
CASE ?= $(if $(filter tcp,$(DEVICE)),iperf3,send_bw 65536)
profile:
	@tools/bench/profile --case "$(CASE)" --where "$(or $(WHERE),wire)" \
		--device "$(or $(DEVICE),rsiw)" $(if $(TOP),--top "$(TOP)") \
		$(if $(DIRECT),--direct "$(DIRECT)")

# RUNS, DEVICES, CASES (with commas) and WHERE: what of it, and how often. CLEAR=0: the kernel does
# not clear memory that it allocates.
NO_CLEAR = $(if $(filter 0,$(CLEAR)),--no-clear)
bench-native:
	@tools/bench/uml $(NO_CLEAR) $(if $(RUNS),--runs "$(RUNS)") $(if $(DEVICES),--devices "$(DEVICES)") \
		$(if $(CASES),--cases "$(CASES)") $(if $(WHERE),--paths "$(WHERE)")

# DEVICES and WHERE: of what, with commas. SIZES: others than its own.
bench-sweep:
	@tools/bench/sweep $(if $(DEVICES),--devices "$(DEVICES)") $(if $(WHERE),--paths "$(WHERE)") \
		$(if $(SIZES),--sizes "$(SIZES)")

# NATIVE=1: in real time, for ROUNDS rounds.
bench-scale:
	@tools/bench/scale $(if $(filter 1,$(NATIVE)),--native) $(NO_CLEAR) \
		$(if $(ROUNDS),--rounds "$(ROUNDS)") $(if $(DEVICES),--devices "$(DEVICES)")

# DEVICES, CASES (with commas): of what.
bench-wan:
	@tools/bench/wan $(if $(DEVICES),--devices "$(DEVICES)") $(if $(CASES),--cases "$(CASES)")

# ROUNDS: how often each device has its turn. DEVICES, CASES (with commas), WHERE: of what.
bench-smp:
	@tools/bench/smp $(if $(ROUNDS),--rounds "$(ROUNDS)") $(if $(DEVICES),--devices "$(DEVICES)") \
		$(if $(CASES),--cases "$(CASES)") $(if $(WHERE),--path "$(WHERE)") \
		$(if $(filter 1,$(RFS)),--rfs)

# ROUNDS: how often each has its turn in the timed part. DEVICES, CASES (with commas): of what.
# NATIVE=1: that part only, at the speed of this machine's processor.
bench-storage:
	@tools/bench/storage $(if $(ROUNDS),--rounds "$(ROUNDS)") $(if $(filter 1,$(NATIVE)),--native) $(NO_CLEAR) \
		$(if $(DEVICES),--devices "$(DEVICES)") $(if $(CASES),--cases "$(CASES)")

# ROUNDS: how often each setting is measured. EVENTS=1: the program does not poll.
bench-posting:
	@tools/bench/posting $(if $(ROUNDS),--rounds "$(ROUNDS)") \
		$(if $(filter 1,$(EVENTS)),--events)

conformance-report:
	@tools/vm/enter tools/testing/conformance/report

lint:
	@tools/lint/run

clean:
	rm -rf build

distclean: clean
	@tools/vm/distclean

help:
	@echo "make demo             from nothing to RDMA programs running over rsiw in a guest"
	@echo "make check            all tests; with ARCH=arm64 those in guests, with pages of 4 and of 16 KiB"
	@echo "make check-long       what takes longer: kernel services, our own library, other kernels, two guests, packages, rsiw-run, lints, series"
	@echo "make check-kernels    the first twenty tests with each packaged kernel that is known"
	@echo "make in-tree          the driver in the kernel's source tree: W=1, sparse, checkpatch, selftests"
	@echo "make series           patches for the mailing lists (kernel, rdma-core) in build/series, each of them built"
	@echo "                      (CHECK=0: only made, and looked at by checkpatch)"
	@echo "make conformance-report  which rows of the requirement matrix the last test results show"
	@echo "make check-soak       traffic and disturbances for half an hour (SECONDS=1800)"
	@echo "make check-debug      the tests in guests on a kernel with KASAN, lockdep and kmemleak"
	@echo "make fuzz             the fuzz targets, a minute each (SECONDS=60)"
	@echo "make coverage         lines of wire/ and proto/ that the tests in user space run;"
	@echo "                      fails below 95 % (LIMIT=N), or if a line lacks a reason"
	@echo "make mutants          changes wire/ and proto/ place by place: does a test notice? (SHARD=0/20: a sample)"
	@echo "make bench            the benchmark: rsiw beside siw, rxe and plain TCP"
	@echo "make bench-native     its main cases in real time, on this machine's processor"
	@echo "                      (RUNS=5 DEVICES=rsiw,tcp CASES='send_bw 65536,iperf3' WHERE=wire)"
	@echo "make bench-quick      what a message costs in eight cases, in three minutes (BASE=before.json)"
	@echo "make profile          where a message's instructions go (CASE='send_bw 65536'"
	@echo "                      WHERE=wire|loopback DEVICE=rsiw|siw|rxe|tcp TOP=40 DIRECT=0|1|2)"
	@echo "make bench-sweep      messages of every size: throughput and latency, and where they dip"
	@echo "                      (DEVICES=rsiw,siw WHERE=wire,loopback SIZES=64,4096)"
	@echo "make bench-scale      cost, memory and set-up of up to 1,000 connections"
	@echo "make bench-wan        links with a rate and a delay: rsiw beside siw and plain TCP"
	@echo "                      (DEVICES=rsiw,tcp CASES='1000 Mb/s 40 ms write 1048576 x16')"
	@echo "make bench-smp        two processors in real time, with programs that poll and that sleep"
	@echo "                      (ROUNDS=5 DEVICES=rsiw,siw CASES='send_lat 64 polls' WHERE=wire RFS=1)"
	@echo "make bench-storage    NVMe and NFS over rsiw, siw and plain TCP"
	@echo "                      (ROUNDS=3 DEVICES=rsiw,tcp CASES='nvme read 4K x1')"
	@echo "make bench-posting    posting with and without system calls, in real time (ROUNDS=9 EVENTS=1)"
	@echo "make shell            a guest with the module loaded"
	@echo "make lint             formatting, lints, and the rules of this tree"
	@echo "make                  rsiw.ko for KDIR (default: the running kernel)"
	@echo "make packaged         rsiw.ko for Debian's packaged Linux 7.3, the newest when it is fetched"
	@echo "                      (KERNEL=... of this, check, deb, demo and shell names another one:"
	@echo "                      `awk '/^[^#]/ { print $$1 }' tools/vm/kernels | xargs`)"
	@echo "make update           has packaged kernels fetched anew when they are wanted: the newest ones then"
	@echo "make port KERNEL=7.4  what a packaged kernel that is not known lacks of what the driver uses"
	@echo "make user             our library for programs (a provider of rdma-core): build/user"
	@echo "make modules_install  installs what make or make packaged has built (INSTALL_MOD_PATH)"
	@echo "make run-image        what tools/run/rsiw-run boots: build/run/rsiw-run.img"
	@echo "make wheel            rsiw-run and that file as a Python wheel, in build/wheel"
	@echo "make container        the same with QEMU as a container (OCI), in build/container"
	@echo "make deb              Debian packages for the packaged kernel, and for DKMS, in build/deb"
	@echo "                      (DEB_VERSION=... RSIW_SIGN_KEY=... RSIW_SIGN_CERT=...)"
	@echo "make archive          an archive of them for apt, in build/archive, signed with KEY=..."
	@echo "make release          all files of a release, with checksums, in build/release"
	@echo "                      (VERSION=... as a check, KEY=... to sign them)"
	@echo "make clean            removes build/"
	@echo "make distclean        removes build/ and the caches"

.PHONY: module packaged port user run-image wheel container deb archive release modules_install demo check check-long check-kernels in-tree series update check-soak check-debug fuzz coverage mutants shell bench profile bench-native bench-sweep bench-scale bench-wan bench-smp bench-storage bench-posting bench-quick conformance-report lint clean distclean help
