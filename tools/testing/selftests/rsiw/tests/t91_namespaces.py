# SPDX-License-Identifier: GPL-2.0
"""Devices in network namespaces, and containers that have one."""

import errno
import os
import socket
import time

from rsiwtest import kmsg
from rsiwtest.core import Fail, Skip, test
from rsiwtest.faults import CALLS, failing_calls, text_of
from rsiwtest.groups import Group
from rsiwtest.machine import LOCAL, wait_until
from rsiwtest.namespaces import INIT, container, exclusive, move
from rsiwtest.pingpong import Pingpong
from rsiwtest.tools import ping, pinging, rping
from rsiwtest.topo import (IF_B, NS_A, NS_B, B4, Path, devices, inside, make_nodes, sh,
                           status)

SAME = "rsiw_same"


def sees(want, netns=None):
    """A namespace sees these devices and no others."""
    found = devices(netns)
    if found != set(want):
        raise Fail("%s sees %s instead of %s" % (netns or "the first", found, want))


def kernel_test(t):
    """The kernel's own test of device names in namespaces, if its source has that."""
    return os.path.join(t.env.bin, "kernel/rdma/netns_names.sh")


@test("netns-exclusive", cost=10, only_type="rsiw")
def netns_exclusive(t):
    """`rdma link add` in a namespace makes the device there, and nobody else sees it."""
    topo = t.topo
    with exclusive(t):
        sees([topo.dev_lo])
        sees([topo.dev_a], NS_A)
        sees([topo.dev_b], NS_B)
        rping(t, topo.wire, count=50)
        rping(t, topo.wire, count=50, v6=True)
        # Names are those of the whole machine in older kernels, which have no test of that.
        if os.path.exists(kernel_test(t)):
            with t.sub("one name in two namespaces"):
                for ns in (NS_A, NS_B):
                    sh("ip", "link", "add", "rsdum", "type", "dummy", netns=ns)
                    topo.add_link(SAME, "rsdum", ns)
                sh("rdma", "link", "del", SAME, netns=NS_A)
                sees([topo.dev_a], NS_A)
                sees([topo.dev_b, SAME], NS_B)
        with t.sub("a namespace goes with its devices"):
            sh("ip", "netns", "del", NS_B)
            # A device whose namespace ends is given back to the first one.
            wait_until("the devices are gone", 20,
                       lambda: devices() == {topo.dev_lo})


@test("netns-move", cost=15, only_type="rsiw")
def netns_move(t):
    """`rdma dev set netns` moves devices; who uses one is cut off, nobody else is."""
    topo = t.topo
    with exclusive(t):
        sh("ip", "link", "add", "rsdum", "type", "dummy")
        topo.add_link(SAME, "rsdum")
        server, client = pinging(t, topo.wire)
        with t.sub("nobody uses it"):
            for _ in range(t.rounds(5)):
                move(SAME, NS_A)
                sees([topo.dev_a, SAME], NS_A)
                move(SAME, INIT, NS_A)
                sees([topo.dev_lo, SAME])
            if server.poll() is not None or client.poll() is not None:
                raise Fail("the connection of others ended")
        sh("ip", "link", "del", "rsdum")
        with t.sub("programs use it"):
            with t.within(30, "moving a device in use"):
                move(topo.dev_b, NS_A, NS_B)
            client.wait(t.left(30))
            server.wait(t.left(30))
            sees([topo.dev_a, topo.dev_b], NS_A)
        with t.sub("its interface is elsewhere"):
            # The address that it has there is also one of this namespace.
            port = t.port()
            sh("ip", "addr", "add", B4 + "/32", "dev", "lo", netns=NS_A)
            t.start("rping", "-s", "-p", port, netns=NS_A).wait_listening(port)
            rv, _ = status("ip", "netns", "exec", NS_A, "rping", "-c", "-a",
                           topo.wire.addr4, "-I", B4, "-p", str(port), "-C", "1")
            if not rv:
                raise Fail("a device is used whose interface is elsewhere")
            sh("ip", "addr", "del", B4 + "/32", "dev", "lo", netns=NS_A)
            ping(t, topo.wire.addr4, port, 1, netns=NS_A)
        with t.sub("and back"):
            move(topo.dev_b, NS_B, NS_A)
            make_nodes()
            rping(t, topo.wire, count=50)


@test("netns-move-taken", cost=10, only_type="rsiw")
def netns_move_taken(t):
    """A device moves, and TCP has the port of somebody who listens on the wildcard: who listens
    does without the device, all others can use it."""
    topo, port = t.topo, t.port()
    with exclusive(t):
        listener = t.start("rping", "-s", "-p", port, netns=NS_B)
        listener.wait_listening(port)
        sh("rdma", "link", "del", topo.dev_b, netns=NS_B)
        with inside(NS_B):
            taken = socket.create_server(("", port))
        with taken:
            topo.add_link(topo.dev_b, IF_B, NS_B)
            log = kmsg.rested()
            move(topo.dev_b, NS_A, NS_B)
            move(topo.dev_b, NS_B, NS_A)
            make_nodes()
            if not kmsg.says(log.read(), "rsiw", "cannot listen: " + kmsg.error("EADDRINUSE")):
                raise Fail("nobody listens at the port that is taken")
            rping(t, topo.wire, count=50)
        if listener.poll() is not None:
            raise Fail("who listens has ended:\n%s" % listener.tail())
        with t.sub("another one is told"), inside(NS_B):
            port = t.port()
            with socket.create_server(("", port)):
                rv, out = status("timeout", "20", "rping", "-s", "-p", str(port))
            if rv == 124 or "in use" not in out:
                raise Fail("status %d:\n%s" % (rv, out))


@test("netns-move-both", cost=40, only_type="rsiw")
def netns_move_both(t):
    """While a device moves, its interface does too, or gets an address: that is made up for.

    The core's move is held (rsiw_fail) where it knows no device.
    """
    t.need_module(CALLS)
    moving = ("rdma", "dev", "set", SAME, "netns", NS_A)

    def is_gone():
        return SAME not in devices() | devices(NS_A)

    def make():
        sh("ip", "link", "add", "rsdum", "up", "type", "dummy")
        t.topo.add_link(SAME, "rsdum")

    with exclusive(t), failing_calls(text_of("ib_core"), {"device_rename": "hold"}) as calls:
        def is_held():
            return LOCAL.read(calls.dir + "/held").strip() == "1"

        with t.sub("an address comes meanwhile"):
            make()
            with calls.held("device_rename", "rdma") as until_held:
                mover = t.start(*moving)
                until_held()
                sh("ip", "addr", "add", "192.0.2.77/32", "dev", "rsdum")
                # The driver tells the core in vain, of which nothing is seen.
                time.sleep(1)
            mover.expect(t.left(20))
            at = "/sys/class/infiniband/%s/ports/1/gids" % SAME
            wait_until("the GID is there", 20, lambda: "ffff:c000:024d" in sh(
                "grep", "-rh", ".", at, netns=NS_A, check=False))
            sh("ip", "link", "del", "rsdum")
        wait_until("the device is gone", 20, is_gone)
        with t.sub("its interface moves meanwhile"):
            make()
            with calls.held("device_rename", "rdma") as until_held:
                mover = t.start(*moving)
                until_held()
                sh("ip", "link", "set", "rsdum", "netns", NS_B)
            mover.expect(t.left(20))
            wait_until("the device is gone", 20, is_gone)
            sh("ip", "link", "del", "rsdum", netns=NS_B)
        with t.sub("its interface moves before"):
            for _ in range(t.rounds(10)):
                make()
                with calls.held("device_rename", "rdma"):
                    mover = t.start("sh", "-c", "ip link set rsdum netns %s; exec %s" % (
                        NS_B, " ".join(moving)))
                    # The device may be gone when it is to be moved.
                    wait_until("the move is held or over", 20,
                               lambda: is_held() or mover.poll() is not None)
                    # The driver asks for the removal in vain, of which nothing is seen.
                    time.sleep(0.5)
                mover.wait(t.left(20))
                wait_until("the device is gone", 20, is_gone)
                sh("ip", "link", "del", "rsdum", netns=NS_B)


@test("netns-any-address", cost=5, only_type="rsiw")
def netns_any_address(t):
    """Who connects to the address 0.0.0.0 gets the device that comes first, whose interface may be
    in another namespace: then the driver refuses."""
    port, log = t.port(), kmsg.Kmsg()
    server = t.start("rping", "-s", "-p", port)
    server.wait_listening(port)
    # One of the two, at least, has another device than that which comes first.
    for ns in (NS_A, NS_B):
        client = t.start("rping", "-c", "-a", "0.0.0.0", "-p", port, "-C", 1, netns=ns)
        # It may not end after that.
        client.wait_output("connect error", t.left(30))
        client.reap()
    if server.poll() is not None:
        raise Fail("a connection from another namespace:\n%s" % server.tail())
    if not kmsg.says(log.read(), "rsiw", "used from another network namespace"):
        raise Fail("no word in the log of the other namespace")
    ping(t, "127.0.0.1", port, 1)


@test("netns-by-number", cost=15, only_type="rsiw")
def netns_by_number(t):
    """By number and for datagrams a program uses any device that it can open, which the mode of the
    core decides. What it does is in the namespace of the interface."""
    topo = t.topo
    topo.changed = True
    with t.sub("devices of others, by number"):
        Pingpong(t, Path("elsewhere", None, None, topo.dev_a, topo.dev_b, "127.0.0.1", None, None),
                 "ibv_rc_pingpong", 1, "-n", 100).finish()
    with t.sub("a namespace stays as long as somebody has a queue pair for datagrams there"):
        port = t.port()
        with t.library("rsiw"):
            user = t.start("ibv_ud_pingpong", "-d", topo.dev_b, "-g", 1, "-p", port)
            user.wait_listening(port)
        # Namespaces end one behind the other.
        sh("ip", "netns", "add", "rsiw-c")
        sh("ip", "link", "add", "rsdum", "type", "dummy", netns="rsiw-c")
        topo.add_link(SAME, "rsdum", "rsiw-c")
        for ns in (NS_B, "rsiw-c"):
            sh("ip", "netns", "del", ns)
        wait_until("a namespace has ended", 20, lambda: SAME not in devices())
        if topo.dev_b not in devices():
            raise Fail("a namespace ends while there is a queue pair")
        user.reap()
        wait_until("the other namespace has ended", 20, lambda: topo.dev_b not in devices())
    with exclusive(t), t.sub("exclusive: no device of others can be opened"):
        ibdev = sh("sh", "-c", "grep -lx %s /sys/class/infiniband_verbs/*/ibdev" % topo.dev_b,
                   netns=NS_B)
        node = "/dev/infiniband/" + ibdev.split("/")[-2]
        with inside(NS_B):
            os.close(os.open(node, os.O_RDWR))
        try:
            os.close(os.open(node, os.O_RDWR))
        except OSError as e:
            if e.errno != errno.EPERM:
                raise Fail("%s: %s" % (node, e)) from e
        else:
            raise Fail("%s can be opened" % node)


@test("netns-interface", cost=10, only_type="rsiw")
def netns_interface(t):
    """An interface that moves to another namespace ends its device, whoever uses it."""
    topo = t.topo
    topo.changed = True
    sh("ip", "netns", "add", "rsiw-c")
    try:
        server, client = pinging(t, topo.wire)
        with t.within(30, "moving an interface whose device is in use"):
            sh("ip", "link", "set", IF_B, "netns", "rsiw-c", netns=NS_B)
        wait_until("the device is gone", 20, lambda: topo.dev_b not in topo.links())
        client.wait(t.left(30))
        # Nobody tells its peer; the interface took the route along.
        server.reap(t.left(10))
        sh("ip", "addr", "add", B4 + "/24", "dev", IF_B, netns="rsiw-c")
        sh("ip", "link", "set", IF_B, "up", netns="rsiw-c")
        topo.add_link(topo.dev_b, IF_B, "rsiw-c")
        rping(t, Path("moved", NS_A, "rsiw-c", topo.dev_a, topo.dev_b,
                      topo.wire.addr4, None, B4), count=50)
    finally:
        t.reap()
        sh("ip", "netns", "del", "rsiw-c", check=False)


@test("containers", cost=15, only_type="rsiw")
def containers(t):
    """Two containers with a device each, limits, and no privilege talk RDMA."""
    path, port = t.topo.wire, t.port()
    args = ["-a", path.addr4, "-p", port, "-V", "-v", "-C", 200]
    with exclusive(t), \
            Group("rsiw-one", "rdma",
                  rdma_max="%s hca_handle=1 hca_object=20" % path.server_dev) as one, \
            Group("rsiw-two", "rdma",
                  rdma_max="%s hca_handle=1 hca_object=20" % path.client_dev) as two:
        listed = t.run(*container(two, "ibv_devices"), netns=path.client_ns)
        if path.client_dev not in listed or path.server_dev in listed:
            raise Fail("a container sees:\n%s" % listed)
        server = t.start(*container(one, "rping", "-s", *args), netns=path.server_ns)
        server.wait_listening(port)
        out = t.run(*container(two, "rping", "-c", *args), netns=path.client_ns)
        if "rdma-ping-199:" not in out:
            raise Fail("rping did not all of its rounds:\n%s" % out)
        server.expect(t.left(20))
        with t.sub("no more than it may have"):
            port = t.port()
            server = t.start("rping", "-s", "-a", path.addr4, "-p", port,
                             netns=path.server_ns)
            server.wait_listening(port)
            with open(os.path.join(two.path, "rdma.max"), "w") as limits:
                limits.write("%s hca_object=2" % path.client_dev)
            client = t.start(*container(two, "rping", "-c", "-a", path.addr4, "-p",
                                        port, "-C", 1), netns=path.client_ns)
            if not client.wait(t.left(20)):
                raise Fail("more objects than allowed:\n%s" % client.tail())


@test("netns-kernel-selftests", cost=15, only_type="rsiw")
def netns_kernel_selftests(t):
    """The kernel's own test of device names in namespaces, with this driver."""
    script = kernel_test(t)
    if not os.path.exists(script):
        raise Skip("the source of this kernel has no such test")
    t.topo.drop()
    try:
        out = t.run("bash", script)
    finally:
        # It unloads the driver.
        t.load()
    if "not ok" in out or out.count("\nok ") < 5:
        raise Fail(out)
