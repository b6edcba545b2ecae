# SPDX-License-Identifier: GPL-2.0
"""Devices that go away under programs, and the module with them."""

import signal
import socket
import time

from rsiwtest import kmsg, mpa
from rsiwtest.core import Fail, test
from rsiwtest.machine import wait_until
from rsiwtest.tools import stream
from rsiwtest.topo import IF_A, IF_B, NS_A, NS_B, inside, sh, status


def unplug(t, path, removed, action, *args):
    """Runs `unplug` over `path`; `action` removes the device at READY."""
    limit = int(t.left(200))
    prog = t.start(t.bin("unplug"), *path.args(), "--port", t.port(),
                   "--removed", removed, "--limit", limit, "--wait",
                   30 * t.env.slow, *args)
    prog.wait_output("READY", t.left(40))
    # In the midst of its work.
    time.sleep(0.3)
    with t.within(20, "the removal"):
        action()
    prog.expect(t.left(60))
    t.topo.changed = True


@test("unplug-rdma-link-del", cost=6)
def link_del(t):
    """`rdma link del` with connections, regions and queues in use.

    V-RNIC-25, L-CORE-15
    """
    unplug(t, t.topo.loopback, "both",
           lambda: sh("rdma", "link", "del", t.topo.dev_lo))
    if t.topo.dev_lo in t.topo.links():
        raise Fail("the device is still there")


@test("unplug-idle", cost=6)
def link_del_idle(t):
    """The same without traffic, 100 connections."""
    unplug(t, t.topo.loopback, "both",
           lambda: sh("rdma", "link", "del", t.topo.dev_lo),
           "--idle", "--conns", 100)


@test("unplug-one-side", cost=6)
def link_del_one(t):
    """One side's device goes; the other side gets a disconnect."""
    unplug(t, t.topo.wire, "client",
           lambda: sh("rdma", "link", "del", t.topo.dev_b))


@test("unplug-ip-link-del", cost=6)
def ip_link_del(t):
    """`ip link del` of the veth pair under traffic takes both devices.

    V-RNIC-25
    """
    unplug(t, t.topo.wire, "both",
           lambda: sh("ip", "link", "del", IF_A, netns=NS_A))
    for dev in (t.topo.dev_a, t.topo.dev_b):
        wait_until("%s to go with its interface" % dev, 10,
                   lambda: dev not in t.topo.links())


@test("unplug-tardy", cost=4, only_type="rsiw")
def tardy(t):
    """A consumer in the kernel gives its protection domain up late."""
    t.need_module("rsiw_tardy")
    dev = t.topo.dev_a
    before = t.topo.resources()[dev]["pd"]
    sh("modprobe", "rsiw_tardy", "device=" + dev)
    try:
        if t.topo.resources()[dev]["pd"] != before + 1:
            raise Fail("it has no protection domain")
        t.topo.changed = True
        with t.within(10, "the removal"):
            sh("rdma", "link", "del", dev)
    finally:
        sh("modprobe", "-r", "rsiw_tardy")


@test("unplug-connecting", cost=5, only_type="rsiw")
def connecting(t):
    """`ip link del` does not wait for an answer to a connect."""
    path, port = t.topo.wire, t.port()
    with inside(path.server_ns):
        silent = socket.create_server((path.addr4, port))
    silent.settimeout(t.left(20))
    client = t.start("rping", "-c", "-a", path.addr4, "-p", port,
                     netns=path.client_ns)
    conn, _ = silent.accept()
    mpa.take_request(t, conn)
    # A connect of a process that ends, as this one would, is given up anyway.
    client.popen.send_signal(signal.SIGSTOP)
    with t.within(20, "the removal"):
        sh("ip", "link", "del", IF_B, netns=NS_B)
    client.popen.send_signal(signal.SIGCONT)
    client.wait(t.left(20))
    t.topo.changed = True


@test("unplug-netns-del", cost=8)
def netns_del(t):
    """Deleting both network namespaces ends their devices."""
    port = t.port()
    server = t.start("rping", "-s", "-P", "-a", t.topo.wire.addr4, "-p", port,
                     netns=NS_A)
    server.wait_listening(port)
    for ns in (NS_A, NS_B):
        sh("ip", "netns", "del", ns)
    # The process keeps its namespace alive: it goes with the process.
    server.reap()

    def left():
        return {t.topo.dev_a, t.topo.dev_b} & set(t.topo.links())

    wait_until(lambda: "the namespaces take along %s" % ", ".join(sorted(left())),
               15, lambda: not left())
    t.topo.changed = True


@test("reload", cost=10)
def reload(t):
    """The module unloads with its devices and loads again, 5 times."""
    for _ in range(5):
        t.unload()
        if t.topo.links():
            raise Fail("devices after unloading: %s" % t.topo.links())
        t.load()
        t.topo.ensure()
    # With devices: they go with the module, or unloading is refused.
    rv, _ = status("rmmod", t.env.module, timeout=60)
    if rv == 0:
        t.load()
    t.topo.changed = True


@test("unload-in-use", cost=8)
def unload_in_use(t):
    """rmmod while a program holds the device: refused or clean."""
    stream(t, t.topo.wire, "ib_write_bw", 20)
    rv, out = status("rmmod", t.env.module, timeout=30)
    t.reap()
    if rv == 0:
        t.load()
    elif "in use" not in out:
        raise Fail("rmmod: %s" % out)
    t.topo.changed = True


@test("beside-siw", cost=6, only_type="rsiw")
def beside_siw(t):
    """The module refuses to load while siw is loaded, and says so."""
    t.need_module("siw")
    t.unload()
    sh("modprobe", "siw")
    log = kmsg.Kmsg()
    try:
        rv, _ = t.try_load()
        if rv == 0:
            raise Fail("loaded beside siw")
        if not kmsg.says(log.read(), "rsiw: ", "the module siw is loaded"):
            raise Fail("no word in the log about siw")
    finally:
        sh("modprobe", "-r", "siw")
        t.load()


@test("before-siw", cost=5, only_type="rsiw")
def before_siw(t):
    """The module leaves the devices of siw alone, which came after it."""
    t.need_module("siw")
    t.topo.drop()
    netdev, dev = "rsd0", "siw_x"
    sh("modprobe", "siw")
    try:
        sh("ip", "link", "add", netdev, "type", "dummy")
        sh("ip", "link", "set", netdev, "up")
        t.topo.add_link(dev, netdev, link_type="siw")
        rv, out = status("rdma", "link", "add", "rsiw_x", "type", "rsiw",
                         "netdev", netdev)
        if rv == 0 or "exists" not in out:
            raise Fail("a second device on %s: %s" % (netdev, out))
        sh("ip", "link", "set", netdev, "address", "02:00:00:00:00:07")
        sh("ip", "addr", "add", "10.79.0.1/24", "dev", netdev)
        if dev not in t.topo.links():
            raise Fail("siw's device is gone")
        sh("ip", "link", "del", netdev)
    finally:
        status("ip", "link", "del", netdev)
        sh("modprobe", "-r", "siw")


@test("siw-link-type", cost=6, only_type="rsiw")
def siw_link_type(t):
    """With siw_link_type the link type `siw` works as well."""
    t.unload()
    rv, out = status("rdma", "link", "add", "x0", "type", "rsiw", "netdev",
                     "lo")
    # Loaded again by its alias, where the tables know it.
    if rv == 0:
        sh("rdma", "link", "del", "x0")
        sh("modprobe", "-r", t.env.module)
    t.load("siw_link_type=1")
    try:
        for i, link_type in enumerate(("siw", "rsiw")):
            t.topo.add_link("x%d" % i, "lo", link_type=link_type)
            sh("rdma", "link", "del", "x%d" % i)
    finally:
        t.unload()
        t.load()
