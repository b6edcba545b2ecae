# SPDX-License-Identifier: GPL-2.0
"""Counters: what is shown is what was sent and received."""

import os

from rsiwtest import stats
from rsiwtest.core import Fail, test
from rsiwtest.machine import wait_until
from rsiwtest.tools import connected_qps, pinging, rping
from rsiwtest.topo import sh

# Octets of what rping sends: an address, a key and a length.
INFO = 16
# By name of what one side sends, how the other one counts it.
PAIRS = ("send_requests", "send_bytes", "write_requests", "write_bytes",
         "read_requests", "read_responses", "read_response_bytes", "fpdus")


def expect(what, found, want):
    """What was counted is what is wanted; other counters do not matter."""
    wrong = {k: (found.get(k, 0), v) for k, v in want.items()
             if found.get(k, 0) != v}
    if wrong:
        raise Fail("%s: %s (found, wanted) of %s" % (what, wrong, found))


def mirrored(sender, receiver):
    """What one side sent the other one has received."""
    for name in PAIRS:
        sent = sender.get("tx_" + name, 0)
        received = receiver.get("rx_" + name, 0)
        if sent != received:
            raise Fail("%s: %d sent, %d received" % (name, sent, received))


@test("counters", cost=4, only_type="rsiw")
def counters(t):
    """Counters of a device after known traffic are exact."""
    wire, count, size = t.topo.wire, t.rounds(100), 1000
    server, client = wire.server_dev, wire.client_dev
    since = stats.Since(server, client)
    rping(t, wire, count, size)
    a, b = since.of(server), since.of(client)
    with t.sub("messages and octets"):
        # Each round the client offers twice, the server reads, writes, and
        # answers both.
        expect("server", a, {
            "tx_send_requests": 2 * count, "tx_send_bytes": 2 * count * INFO,
            "tx_write_requests": count, "tx_write_bytes": count * size,
            "tx_read_requests": count, "rx_send_bytes": 2 * count * INFO,
            "rx_read_responses": count, "rx_read_response_bytes": count * size,
        })
        expect("client", b, {
            "tx_send_requests": 2 * count, "tx_send_bytes": 2 * count * INFO,
            "tx_read_responses": count, "tx_read_response_bytes": count * size,
            "rx_write_bytes": count * size, "rx_read_requests": count,
        })
    with t.sub("what one sends the other receives"):
        mirrored(a, b)
        mirrored(b, a)
    with t.sub("connections"):
        expect("server", a, {"conn_requested": 1, "conn_accepted": 1,
                             "conn_established": 1, "conn_asked": 0})
        expect("client", b, {"conn_asked": 1, "conn_established": 1,
                             "conn_requested": 0, "conn_lost": 0})
    with t.sub("who sends"):
        for side in (a, b):
            if not any(k.startswith("tx_batches_") for k in side):
                raise Fail("nobody has sent: %s" % side)
    with t.sub("nobody listens"):
        since = stats.Since(server, client)
        refused = t.start("rping", "-c", "-a", wire.addr4, "-p", t.port(),
                          "-C", 1, netns=wire.client_ns)
        refused.wait(t.left(30))
        expect("client", since.of(client), {"conn_asked": 1, "conn_refused": 1,
                                            "conn_established": 0})
    with t.sub("sysfs shows the same"):
        base = "/sys/class/infiniband/%s/ports/1/hw_counters/" % server
        with open(base + "tx_write_bytes") as f:
            shown = int(f.read())
        if shown != stats.of_device(server)["tx_write_bytes"]:
            raise Fail("%d" % shown)


# Those of a port, as InfiniBand has them, and what they are made of.
PORT = {"port_xmit_data": ("tx_send_bytes", "tx_write_bytes", "tx_read_response_bytes"),
        "port_rcv_data": ("rx_send_bytes", "rx_write_bytes", "rx_read_response_bytes"),
        "port_xmit_packets": ("tx_fpdus",), "port_rcv_packets": ("rx_fpdus",)}


def of_port(dev):
    """What a monitor reads of the port's "counters": all files are numbers."""
    base = "/sys/class/infiniband/%s/ports/1/counters" % dev
    found = {}
    for name in os.listdir(base):
        with open(os.path.join(base, name)) as f:
            found[name] = int(f.read())
    return found


@test("counters-port", cost=6, only_type="rsiw")
def port(t):
    """The counters of a port that monitors look for at every adapter."""
    wire = t.topo.wire

    def same(dev):
        shown, device = of_port(dev), stats.of_device(dev)
        for name, parts in PORT.items():
            want = sum(device[part] for part in parts)
            if shown[name] != (want // 4 if name.endswith("_data") else want):
                raise Fail("%s of %s: %d, of %d" % (name, dev, shown[name], want))
        return shown

    devs = (wire.server_dev, wire.client_dev)
    before = {dev: of_port(dev) for dev in devs}
    with t.sub("all traffic"):
        rping(t, wire, t.rounds(50), 4000)
        for dev in devs:
            if any(count <= before[dev][name] for name, count in same(dev).items()):
                raise Fail("%s does not count: %s" % (dev, of_port(dev)))
    with t.sub("also of queue pairs that are bound to counters"):
        link = wire.server_dev + "/1"
        before = of_port(wire.server_dev)
        sh("rdma", "statistic", "qp", "set", "link", link, "auto", "type", "on")
        try:
            rping(t, wire, t.rounds(50), 4000)
        finally:
            sh("rdma", "statistic", "qp", "set", "link", link, "auto", "off")
        wait_until("the counter is gone", 10,
                   lambda: not stats.of_counters(wire.server_dev))
        if same(wire.server_dev)["port_xmit_data"] < \
                before["port_xmit_data"] + t.rounds(50) * 4000 // 4:
            raise Fail("they do not count")


@test("counters-direct", cost=8, only_type="rsiw")
def direct(t):
    """What goes without TCP is counted as such, message by message."""
    # Longer than what one segment carries.
    wire, count, size = t.topo.wire, t.rounds(16), 65400
    server, client = wire.server_dev, wire.client_dev
    names = ("tx_direct_segments", "tx_direct_messages", "tx_direct_bytes",
             "rx_direct_segments")
    with t.loaded_with("direct=1"):
        since = stats.Since(server, client)
        rping(t, wire, count, size)
        with t.sub("between namespaces"):
            for dev in (server, client):
                expect(dev, since.of(dev), dict.fromkeys(names, 0))
    with t.loaded_with("direct=2"):
        since = stats.Since(server, client)
        rping(t, wire, count, size)
        a, b = since.of(server), since.of(client)
        with t.sub("messages and octets"):
            # The server reads, writes, and answers twice a round; the first
            # segment of the client is no message.
            expect("server", a, {"tx_direct_messages": 4 * count,
                                 "tx_direct_bytes": count * (2 * INFO + size)})
            # Its first Send goes through TCP if the server is not running yet.
            first = count * (2 * INFO + size) - b["tx_direct_bytes"]
            if first not in (0, INFO) or b["tx_direct_messages"] + bool(first) \
                    not in (3 * count, 3 * count + 1):
                raise Fail("client: %s" % b)
        with t.sub("segments"):
            for tx, rx in ((a, b), (b, a)):
                if tx["tx_direct_segments"] != rx["rx_direct_segments"]:
                    raise Fail("%s, %s" % (tx, rx))
            # A Write, or a Read Response, takes two.
            for side in (a, b):
                if side["tx_direct_segments"] != \
                        side["tx_direct_messages"] + count:
                    raise Fail("%s" % side)


@test("counters-errors", cost=12, only_type="rsiw")
def errors(t):
    """Refused accesses, missing receives and Terminates are counted."""
    path = t.topo.loopback
    since = stats.Since(path.server_dev)
    t.own("errors", path)
    both = since.of(path.server_dev)
    with t.sub("errors"):
        for name in ("resp_remote_access_errors", "out_of_buffer",
                     "req_cqe_error", "req_cqe_flush_error", "resp_cqe_error"):
            if not both.get(name):
                raise Fail("%s: none of %s" % (name, both))
    with t.sub("Terminates"):
        for layer in ("rdmap", "ddp", "mpa"):
            sent = both.get("tx_terminate_" + layer, 0)
            received = both.get("rx_terminate_" + layer, 0)
            # One may cross the end of its connection.
            if received > sent or (sent and not received):
                raise Fail("%s: %d sent, %d received" % (layer, sent, received))
        if not both.get("rx_terminate_ddp"):
            raise Fail("none of DDP: %s" % both)


def endless(t, path):
    """An rping that runs until it is ended; the number of its client's QP."""
    _, client = pinging(t, path)
    return connected_qps(path.client_ns, pid=client.pid)[0]["lqpn"]


def moving(dev):
    """A counter of the device exists, is bound, and counts."""
    def sent():
        return [counts["tx_send_requests"] for _, counts in
                stats.of_counters(dev)]

    before = wait_until("a counter", 10, sent)
    wait_until("what is counted", 10, lambda: sent()[0] > before[0])


@test("counters-qp", cost=6, only_type="rsiw")
def of_qp(t):
    """Counters that queue pairs are bound to, by hand and automatically."""
    path = t.topo.wire
    dev, link = path.client_dev, path.client_dev + "/1"
    with t.sub("bound"):
        num = endless(t, path)
        sh("rdma", "statistic", "qp", "bind", "link", link, "lqpn", str(num))
        entry, _ = stats.of_counters(dev)[0]
        if entry.get("lqpn") != [num]:
            raise Fail("bound is %s" % entry)
        moving(dev)
        total = stats.of_device(dev)["tx_send_requests"]
        bound = stats.of_counters(dev)[0][1]["tx_send_requests"]
        # The device's count has that of its counters in it.
        if bound > stats.of_device(dev)["tx_send_requests"]:
            raise Fail("%d of %d" % (bound, total))
        sh("rdma", "statistic", "qp", "unbind", "link", link, "cntn",
           str(entry["cntn"]), "lqpn", str(num))
        if stats.of_counters(dev):
            raise Fail("still there: %s" % stats.of_counters(dev))
        # What it has counted is the device's now.
        after = stats.of_device(dev)["tx_send_requests"]
        if after < total:
            raise Fail("%d after %d" % (after, total))
    with t.sub("two at once"):
        nums = [num, endless(t, path)]
        for one in nums:
            sh("rdma", "statistic", "qp", "bind", "link", link, "lqpn", str(one))
        moving(dev)
        found = [entry for entry, _ in stats.of_counters(dev)]
        if sorted(e.get("lqpn") for e in found) != sorted([n] for n in nums) or \
                found[0]["cntn"] == found[1]["cntn"]:
            raise Fail("bound are %s" % found)
    t.reap()
    with t.sub("automatic"):
        sh("rdma", "statistic", "qp", "set", "link", link, "auto", "type", "on")
        try:
            before = stats.of_device(dev)["tx_send_requests"]
            endless(t, path)
            moving(dev)
            if stats.of_device(dev)["tx_send_requests"] <= before:
                raise Fail("the device does not have it")
        finally:
            t.reap()
            sh("rdma", "statistic", "qp", "set", "link", link, "auto", "off")
        wait_until("the counter is gone", 10, lambda: not stats.of_counters(dev))
