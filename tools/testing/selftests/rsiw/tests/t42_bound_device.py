# SPDX-License-Identifier: GPL-2.0
"""Devices that are bound to their interface: with those connections come by it, or do not come
about; TCP is refused, or reset before anything of MPA is read or answered."""

import contextlib
import errno
import json
import os
import socket

from rsiwtest import docs, kmsg, mpa, nvme, tls
from rsiwtest.core import Fail, test
from rsiwtest.machine import LOCAL
from rsiwtest.topo import inside, sh

from .t41_which_device import (
    ADMIN_QUEUE, FIRST, FIRST4, FIRST6, HERE_NS, INNER, INNER4, INNER6, OTHER, OTHER4, OTHER_NS,
    SECOND, SECOND4, SECOND6, belongs, home, refused, serve)

SETTING = "/sys/class/infiniband/%s/ports/1/settings/%s"
ON, OFF = {"bind_netdev": "on"}, {"bind_netdev": "off"}
# WireGuard's interface with its device: those who have no key of it know the address all the same.
TUNNEL, TUNNEL4, TUNNEL6 = "rsiw_tunnel", "10.76.3.1", "fd76:3::1"
ANY4, ANY6 = "0.0.0.0", "::"


def setting(dev, name):
    """What a device was made with."""
    return LOCAL.read(SETTING % (dev, name)).strip()


def family_of(addr):
    """What a socket for an address is of."""
    return socket.AF_INET6 if ":" in addr else socket.AF_INET


def closed(addr, port, data=b""):
    """From the other side, TCP to an address is refused or reset, with no octet of an answer."""
    with inside(OTHER_NS), socket.socket(family_of(addr)) as conn:
        conn.settimeout(10)
        try:
            conn.connect((addr, int(port)))
            mpa.request(conn, data)
            answer = conn.recv(600)
        except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
            return
        except OSError as e:
            if e.errno != errno.ECONNABORTED:
                raise Fail("to %s: %s" % (addr, e)) from e
            return
    if answer:
        raise Fail("%s is answered: %s" % (addr, answer))


def only_by_its_way(t, here, own, others):
    """The first device is reached by its interface, and no other device is. From this side each is.
    Addresses come with their devices."""
    for wildcard in (ANY4, ANY6):
        with t.sub("a listener on " + wildcard):
            server, port = serve(t, here, wildcard)
            for addr, dev in own + others:
                if ":" in addr and wildcard == ANY4:
                    continue
                if dev == FIRST:
                    belongs(t, here, server, port, addr, dev, OTHER_NS)
                else:
                    closed(addr, port)
                    refused(t, here, server, port, addr)
                belongs(t, here, server, port, addr, dev, here.netns, "-I", addr)
        t.reap()
    with t.sub("a listener on one address"):
        for addr, dev in own + others:
            server, port = serve(t, here, addr)
            if dev == FIRST:
                belongs(t, here, server, port, addr, dev, OTHER_NS)
            else:
                closed(addr, port)
            belongs(t, here, server, port, addr, dev, here.netns, "-I", addr)
            server.reap(10)
    t.reap()


def sockets(netns, addr):
    """The local ends of the connections of an address, as ss(8) shows them: with the interface
    to which they are bound."""
    rows = [row.split() for row in sh("ss", "-tnH", netns=netns).splitlines()]
    return {row[3].rpartition(":")[0] for row in rows if row[3].startswith(addr)}


def goes_by(t, here, server_ns, client_ns, to, *args):
    """The local ends at the first device of a connection to `to`."""
    port = t.port()
    server = t.start("rping", "-s", "-a", to, "-p", port, netns=server_ns)
    server.wait_listening(port)
    client = t.start("rping", "-c", "-a", to, "-p", port, "-v", "-C", 100000000, *args,
                     netns=client_ns)
    client.wait_output("ping data", t.left(30))
    found = sockets(here.netns, FIRST4)
    t.reap()
    if found != {FIRST4 + "%rs0"}:
        raise Fail("the local end of the connection is %s" % found)


def both_sides(t, here):
    """Connections of a bound device are bound, whoever has asked for them; and a route that leads
    elsewhere does not lead them there."""
    with t.sub("a connection that is accepted"):
        goes_by(t, here, here.netns, OTHER_NS, FIRST4)
    with t.sub("a connection that is asked for"):
        goes_by(t, here, OTHER_NS, here.netns, OTHER4, "-I", FIRST4)


def link_local(t, here):
    """An address that counts on one link only."""
    shown = here.sh("ip", "-j", "-6", "addr", "show", "dev", "rs0", "scope", "link")
    # Those that are left out are empty.
    own, = (info["local"] for info in json.loads(shown)[0]["addr_info"] if info)
    for listener in (ANY6, own + "%rs0"):
        server, port = serve(t, here, listener)
        belongs(t, here, server, port, own + "%rsp0", FIRST, OTHER_NS)
        server.reap(10)


def again(t, here, dev, netdev, values):
    """A device anew, with these values of parameters."""
    sh("rdma", "link", "del", dev)
    with tls.settings(values):
        t.topo.add_link(dev, netdev, here.netns)


OWN = [(FIRST4, FIRST), (FIRST6, FIRST)]
OTHERS = [(SECOND4, SECOND), (SECOND6, SECOND), (INNER4, INNER), (INNER6, INNER)]


@test("bound-device", cost=40, limit=400, only_type="rsiw", packaged=True)
def bound_device(t):
    """Devices that are bound to their interfaces: nobody comes by another one."""
    with tls.settings(ON), home(t, HERE_NS) as here:
        if setting(FIRST, "bind_netdev") != "on":
            raise Fail("the setting is not shown")
        only_by_its_way(t, here, OWN, OTHERS)
        both_sides(t, here)
        with t.sub("addresses of the link"):
            link_local(t, here)


@test("bound-device-vrf", cost=40, limit=400, only_type="rsiw", packaged=True)
def bound_device_vrf(t):
    """The same in a VRF, which the interfaces are put in after their devices were made."""
    t.need_module("vrf")
    sh("modprobe", "vrf")
    with tls.settings(ON), home(t, HERE_NS, vrf=True) as here:
        only_by_its_way(t, here, OWN, OTHERS)
        both_sides(t, here)


@test("bound-device-beside", cost=20, limit=300, only_type="rsiw")
def beside(t):
    """Bound devices beside others, which are as they were: with them the wildcard's port is one."""
    with home(t) as here:
        again(t, here, SECOND, "rs2", ON)
        for wildcard, first, second, inner in ((ANY4, FIRST4, SECOND4, INNER4),
                                               (ANY6, FIRST6, SECOND6, INNER6)):
            with t.sub("a listener on " + wildcard):
                log = kmsg.rested()
                server, port = serve(t, here, wildcard)
                closed(second, port)
                if not kmsg.says(log.read(), SECOND + ": a connection by another interface"):
                    raise Fail("the log does not say so")
                os.close(log.fd)
                for addr, dev in ((first, FIRST), (inner, INNER)):
                    belongs(t, here, server, port, addr, dev, OTHER_NS)
                belongs(t, here, server, port, second, SECOND, None, "-I", second)
            t.reap()
        with t.sub("what comes by a bound interface is for its device"):
            again(t, here, FIRST, "rs0", ON)
            server, port = serve(t, here, ANY4)
            closed(INNER4, port)
            belongs(t, here, server, port, FIRST4, FIRST, OTHER_NS)
            belongs(t, here, server, port, INNER4, INNER, None, "-I", INNER4)
        t.reap()
        with t.sub("a device that comes while somebody listens, goes, and is another"):
            server, port = serve(t, here, ANY4)
            again(t, here, SECOND, "rs2", OFF)
            again(t, here, FIRST, "rs0", OFF)
            belongs(t, here, server, port, SECOND4, SECOND, OTHER_NS)
            again(t, here, SECOND, "rs2", ON)
            closed(SECOND4, port)
            sh("rdma", "link", "del", SECOND)
            belongs(t, here, server, port, FIRST4, FIRST, OTHER_NS)
        t.reap()
        with t.sub("the port is free again"), socket.create_server((ANY4, int(port))):
            pass
        with t.sub("the port is somebody else's"), socket.create_server((ANY4, 0)) as taken:
            again(t, here, FIRST, "rs0", ON)
            port = taken.getsockname()[1]
            server = t.start("rping", "-s", "-a", FIRST4, "-p", port)
            if server.wait(t.left(20)) == 0:
                raise Fail("it listens where somebody else does:\n" + server.tail())
        t.reap()


@test("bound-device-vlan", cost=8, only_type="rsiw")
def vlan(t):
    """A VLAN is another interface than the one it lies over, and so is that."""
    t.need_module("8021q")
    with home(t) as here:
        addr, other = "10.76.5.1", "10.76.5.2"
        for netns, below, name, own in ((None, "rs0", "rs0.5", addr),
                                        (OTHER_NS, "rsp0", "rsp0.5", other)):
            sh("ip", "link", "add", "link", below, "name", name, "type", "vlan", "id", "5",
               netns=netns)
            sh("ip", "link", "set", name, "up", netns=netns)
            sh("ip", "addr", "add", own + "/24", "dev", name, netns=netns)
        with t.sub("below it is bound"):
            again(t, here, FIRST, "rs0", ON)
            server, port = serve(t, here, ANY4)
            closed(addr, port)
            belongs(t, here, server, port, FIRST4, FIRST, OTHER_NS)
        t.reap()
        with t.sub("it is bound"):
            # With both the RDMA CM would take the first.
            sh("rdma", "link", "del", FIRST)
            with tls.settings(ON):
                t.topo.add_link("rsiw_vlan", "rs0.5")
            server, port = serve(t, here, addr)
            belongs(t, here, server, port, addr, "rsiw_vlan", OTHER_NS)
            sh("ip", "route", "add", addr + "/32", "via", FIRST4, netns=OTHER_NS)
            closed(addr, port)
        t.reap()


@test("bound-device-bridge", cost=8, only_type="rsiw")
def bridge(t):
    """Over a bridge, packets come in by it, whatever port they came from."""
    t.need_module("bridge")
    with home(t) as here, contextlib.ExitStack() as stack:
        sh("ip", "link", "add", "rsbr", "type", "bridge")
        stack.callback(sh, "ip", "link", "del", "rsbr")
        sh("ip", "link", "set", "rsbr", "up")
        sh("ip", "link", "set", "rs2", "master", "rsbr")
        for netns, netdev, own in ((None, "rsbr", "10.76.6.1"), (OTHER_NS, "rsp2", "10.76.6.2")):
            sh("ip", "addr", "add", own + "/24", "dev", netdev, netns=netns)
        t.topo.add_link("rsiw_port", "rsp2", OTHER_NS)
        with tls.settings(ON):
            t.topo.add_link("rsiw_bridge", "rsbr")
        server, port = serve(t, here, ANY4)
        belongs(t, here, server, port, "10.76.6.1", "rsiw_bridge", OTHER_NS)
        sh("ip", "route", "add", "10.76.6.1/32", "via", FIRST4, netns=OTHER_NS)
        closed("10.76.6.1", port)
        t.reap()


@test("bound-device-tunnel", cost=12, limit=300, only_type="rsiw", packaged=True)
def tunnel(t):
    """Over WireGuard a device is bound if nothing else is said: who has no key of it is refused,
    whatever way he knows to its address."""
    t.need("wg")
    t.need_module("wireguard")
    with home(t) as here, contextlib.ExitStack() as stack:
        sh("ip", "link", "add", "rswg", "type", "wireguard")
        stack.callback(sh, "ip", "link", "del", "rswg")
        stack.callback(t.reap)
        for addr in (TUNNEL4 + "/24", TUNNEL6 + "/64"):
            sh("ip", "addr", "add", addr, "dev", "rswg")
        sh("ip", "link", "set", "rswg", "up")
        t.topo.add_link(TUNNEL, "rswg")
        for addr, via in ((TUNNEL4, FIRST4), (TUNNEL6, FIRST6)):
            sh("ip", "route", "add", addr, "via", via, netns=OTHER_NS)
        for listener, addr in ((ANY4, TUNNEL4), (TUNNEL4, TUNNEL4), (ANY6, TUNNEL6),
                               (TUNNEL6, TUNNEL6)):
            with t.sub("a listener on %s, by another interface" % listener):
                server, port = serve(t, here, listener)
                closed(addr, port)
                refused(t, here, server, port, addr)
            with t.sub("a listener on %s, from this side" % listener):
                belongs(t, here, server, port, addr, TUNNEL, None, "-I", addr)
            t.reap()
        with t.sub("it is shown"):
            found = [setting(dev, "bind_netdev") for dev in (TUNNEL, FIRST, SECOND)]
            if found != ["on", "off", "off"]:
                raise Fail("the settings are %s" % found)


@test("bound-device-tls", cost=12, limit=300, only_type="rsiw")
def with_tls(t):
    """With TLS a device is bound if nothing else is said: a service that listens on all of them
    does not serve in the clear, by another device, who comes by its interface."""
    tls.need(t)
    with home(t) as here:
        again(t, here, FIRST, "rs0", tls.X509)
        if (setting(FIRST, "tls"), setting(FIRST, "bind_netdev")) != ("x509", "on"):
            raise Fail("the settings are not shown")
        for wildcard, others in ((ANY4, (SECOND4, INNER4)), (ANY6, (SECOND6, INNER6))):
            with t.sub("a listener on " + wildcard):
                server, port = serve(t, here, wildcard)
                for addr in others:
                    closed(addr, port)
                    refused(t, here, server, port, addr)
            t.reap()
        with t.sub("with TLS over another one"):
            again(t, here, FIRST, "rs0", tls.OFF)
            again(t, here, SECOND, "rs2", tls.X509)
            for listener in (ANY4, SECOND4):
                server, port = serve(t, here, listener)
                closed(SECOND4, port)
                server.reap(10)


@test("bound-device-nvme", cost=10, only_type="rsiw")
def of_nvme(t):
    """The kernel's NVMe target on the wildcard, with a bound device."""
    for module in ("nvme-rdma", "nvmet-rdma", "null_blk"):
        t.need_module(module)
    with home(t) as here:
        again(t, here, SECOND, "rs2", ON)
        with nvme.Target(LOCAL, ANY4):
            with t.sub("by another interface"):
                closed(SECOND4, nvme.PORT, ADMIN_QUEUE)
            with t.sub("from this side"), nvme.Host(LOCAL, SECOND4):
                pass


@test("bound-device-filter", cost=8, only_type="rsiw", packaged=True)
def filtered(t):
    """What the page for secure networks says for devices that are not bound: nftables refuses who
    comes by another interface, and nobody else."""
    t.need("nft")
    with home(t, HERE_NS) as here:
        block, = (b for b in docs.blocks() if b.test == "bound-device-filter")
        here.sh("sh", "-ec", block.text)
        server, port = serve(t, here, ANY6)
        for addr, dev in OWN:
            belongs(t, here, server, port, addr, dev, OTHER_NS)
        for addr, dev in OTHERS:
            with inside(OTHER_NS), socket.socket(family_of(addr)) as conn:
                conn.settimeout(3)
                try:
                    conn.connect((addr, int(port)))
                except TimeoutError:
                    pass
                else:
                    raise Fail("%s is reached by another interface" % addr)
            belongs(t, here, server, port, addr, dev, here.netns, "-I", addr)
