# SPDX-License-Identifier: GPL-2.0
"""The commands that rsiw.rst tells users to give, and what other pages say."""

import concurrent.futures
import contextlib
import fnmatch
import os
import re
import socket

from rsiwtest import core, docs, nfs, nullb, rnbd
from rsiwtest.core import Fail, test
from rsiwtest.iscsi import Initiator
from rsiwtest.iscsi import Target as IscsiTarget
from rsiwtest.kmsg import rested
from rsiwtest.machine import LOCAL, wait_until
from rsiwtest.portmap import daemon
from rsiwtest.proc import listening
from rsiwtest.topo import LO4, sh, status
from rsiwtest.wire import IF_C, IF_S, S4, Wire, meet


@contextlib.contextmanager
def hosts(t):
    """What A and B are called here: both ends of a wire."""
    with Wire(t) as wire:
        addr = {"192.0.2.1": S4}
        yield {"A": {"eth0": IF_S, "rsiw0": wire.dev_s, **addr},
               "B": {"eth0": IF_C, "rsiw0": wire.dev_c, **addr}}


@test("docs-blocks", cost=1, only_type="rsiw")
def docs_blocks(t):
    """Each block of commands names the test that runs it, and the text those that there are."""
    tests = {each.name for each in core.collect()} | {
        "check-deb", "check-publish", "check-run", "check-run-cargo", "check-run-first", "check-run-mpi",
        "check-run-valkey"}
    for block in docs.blocks():
        if block.test and block.test not in tests:
            raise Fail("no test is called %s" % block.test)
    for name in docs.named_tests():
        if not fnmatch.filter(tests, name):
            raise Fail("no test is called %s" % name)
    named = list(docs.application_tests())
    if len(named) < 20:
        raise Fail("the table of programs names %d tests only" % len(named))
    for name, script in named:
        if not (docs.runs_there(name, script) if script else fnmatch.filter(tests, name)):
            raise Fail("%s runs no test that is called %s" % (script or "make check", name))


@test("docs-first-steps", cost=8, only_type="rsiw")
def docs_first_steps(t):
    """First steps, two hosts, and tuning."""
    t.need("nft")
    with hosts(t) as names:
        for host in names.values():
            sh("rdma", "link", "del", host["rsiw0"])
        with t.sub("first steps"):
            docs.run(t, "First steps", names)
        # A kernel for debugging has no nftables.
        if t.env.slow == 1 or not status("nft", "list", "tables")[0]:
            with t.sub("two hosts"):
                docs.run(t, "Two hosts", names)
        try:
            with t.sub("tuning"):
                docs.run(t, "Tuning", names)
        finally:
            LOCAL.write("/sys/module/rsiw/parameters/mpa_crc", "Y")
        t.reap()


def says(t, dev, column):
    """ibv_devinfo prints what the column of rsiw-compared.rst says."""
    out = t.run("ibv_devinfo", "-v", "-d", dev)
    printed = dict(re.findall(r"^\s*(\w+):\s+(\S+)", out, re.M))
    for field, want in docs.compared()[column].items():
        if printed.get(field) != want:
            raise Fail("%s of %s is %s, the page says %s" % (
                field, dev, printed.get(field), want))


@test("docs-compared", cost=3)
def docs_compared(t):
    """What rsiw-compared.rst has of this driver's devices."""
    with t.sub("stock library"), t.library("stock"):
        says(t, t.topo.dev_a, t.type)
    if t.type == "rsiw":
        with t.sub("our library"), t.library("rsiw"):
            says(t, t.topo.dev_a, "with librsiw")


@test("docs-compared-rxe", cost=3, only_type="rsiw", packaged=True)
def docs_compared_rxe(t):
    """What rsiw-compared.rst has of rxe's."""
    t.need_module("rdma_rxe")
    sh("rdma", "link", "add", "rxe_lo", "type", "rxe", "netdev", "lo")
    try:
        says(t, "rxe_lo", "rxe")
    finally:
        sh("rdma", "link", "del", "rxe_lo")
        sh("modprobe", "-r", "rdma_rxe")


class Causes:
    """What rsiw-causes.rst says, and whether it is so."""

    def __init__(self, t):
        self.t, self.log = t, rested()
        with open(docs.page_of("rsiw-causes.rst"), encoding="utf-8") as f:
            self.page = " ".join(f.read().replace("`", "").split())

    def check(self, name, printed, logged, run):
        """`run` returns what a program prints; all of it is in the page, too."""
        with self.t.sub(name):
            self.log.read()
            out = run()
            log = "\n".join(self.log.read())
            for said, where, text in ((printed, "prints", out), (logged, "log has", log)):
                if said and said not in text:
                    raise Fail("the %s:\n%s" % (where, text))
                if said and said not in self.page:
                    raise Fail("the page does not have: " + said)


def no_speaker(port):
    """A service of TCP that closes what it does not understand, twice: set-up is tried again."""
    with socket.create_server((LO4, port)) as listener:
        listener.settimeout(30)
        for _ in range(2):
            listener.accept()[0].close()


@test("docs-causes", cost=15, only_type="rsiw")
def docs_causes(t):
    """What rsiw-causes.rst says that programs print, and the log has."""
    causes, first = Causes(t), t.bin("first_client")

    def client(addr=LO4):
        return t.run(first, addr, "1", expect=1)

    def other_service():
        with concurrent.futures.ThreadPoolExecutor() as pool:
            service = pool.submit(no_speaker, 7474)
            wait_until("it listens", t.left(10), lambda: listening(os.getpid(), 7474))
            out = client()
            service.result()
            return out

    causes.check("nobody listens", "Connection refused", "connect failed: ECONNREFUSED", client)
    causes.check("a service of TCP", "Connection refused", "connect failed: ECONNRESET",
                 other_service)
    sh("ip", "link", "add", "causes", "type", "dummy")
    try:
        sh("ip", "addr", "add", "10.79.70.1/24", "dev", "causes")
        sh("ip", "link", "set", "causes", "up")
        causes.check("no device", "No such device", None, lambda: client("10.79.70.1"))
        causes.check("no device, event", "RDMA_CM_EVENT_ADDR_ERROR, error -19", None, lambda: t.run(
            "rping", "-c", "-a", "10.79.70.1", "-C", "1", expect=255))
    finally:
        sh("ip", "link", "del", "causes")
    with t.library("stock"):
        causes.check("datagrams", "Couldn't create QP", None, lambda: t.run(
            "ibv_ud_pingpong", "-d", t.topo.dev_lo, "-g", "1", expect=1))


@contextlib.contextmanager
def disk():
    """The name of a disk, as memory."""
    nullb.make(LOCAL, 64)
    try:
        yield nullb.DISK
    finally:
        nullb.drop(LOCAL)


@test("docs-nvme", cost=10, only_type="rsiw")
def docs_nvme(t):
    """NVMe over Fabrics."""
    nvmet = "/sys/kernel/config/nvmet"
    with hosts(t) as names, disk() as name:
        names["A"]["/dev/vdb"] = name
        try:
            docs.run(t, "NVMe over Fabrics", names)
        finally:
            LOCAL.remove(nvmet + "/ports/1/subsystems/disk")
            LOCAL.remove(nvmet + "/ports/1")
            space = nvmet + "/subsystems/disk/namespaces/1"
            LOCAL.write(space + "/enable", "0")
            LOCAL.remove(space)
            LOCAL.remove(nvmet + "/subsystems/disk")


class TcpServer(nfs.Server):
    """An NFS server that listens at its port of TCP only."""

    def serve(self):
        self.sh("nfsdctl", "listener", "+tcp:%s:2049" % self.addr)
        self.start()


@test("docs-nfs", cost=10, only_type="rsiw")
def docs_nfs(t):
    """NFS."""
    with hosts(t) as names, TcpServer(t, LOCAL, S4):
        docs.run(t, "NFS", names)


@test("docs-iser", cost=15, only_type="rsiw", packaged=True)
def docs_iser(t):
    """iSER."""
    with t.loaded_with("port_map=1"), hosts(t) as names, daemon(t, S4), \
            IscsiTarget(LOCAL, S4), Initiator(t, LOCAL):
        docs.run(t, "iSER", names)


@test("docs-rnbd", cost=10, only_type="rsiw", packaged=True)
def docs_rnbd(t):
    """rnbd."""
    t.need_module("rnbd_server")
    with hosts(t) as names, disk() as name:
        for mine in names.values():
            mine["/dev/vdb"] = name
        meet()
        try:
            docs.run(t, "rnbd", names)
        finally:
            rnbd.unload()
