# SPDX-License-Identifier: GPL-2.0
"""The network between two guests: one interface and one device in each."""

import contextlib
import json

from .machine import LOCAL
from .peer import PEER
from .topo import Path, Topology

NETDEV = "eth0"
# This guest, in which the tests run, and the other one.
HERE4, HERE6 = "10.90.0.1", "fd90::1"
PEER4, PEER6 = "10.90.0.2", "fd90::2"


def set_up(machine, v4, v6):
    """Addresses of one side."""
    machine.modprobe("virtio_net")
    machine.sh("ip", "link", "set", NETDEV, "up")
    machine.sh("ip", "addr", "replace", v4 + "/24", "dev", NETDEV)
    machine.sh("ip", "addr", "replace", v6 + "/64", "dev", NETDEV, "nodad")


@contextlib.contextmanager
def no_more_connections(machine, port):
    """Nobody from the other side connects to `port` of TCP within this."""
    machine.modprobe("cls_flower", "act_gact", "sch_ingress")
    machine.sh("tc", "qdisc", "add", "dev", NETDEV, "clsact")
    try:
        machine.sh("tc", "filter", "add", "dev", NETDEV, "ingress", "protocol", "ip",
                   "flower", "ip_proto", "tcp", "dst_port", str(port),
                   "tcp_flags", "0x02/0x12", "action", "drop")
        yield
    finally:
        machine.sh("tc", "qdisc", "del", "dev", NETDEV, "clsact")


class PairTopology(Topology):
    """Takes the place of Topology in tests with a peer. `paths` are the two
    ways to have the server on one side and the client on the other."""

    def __init__(self, link_type, peer):
        super().__init__(link_type)
        self.peer = peer
        self.dev = link_type + "_eth"
        self.peer_dev = peer.type + "_eth"
        self.to_peer = Path("server-peer", PEER, None, self.peer_dev,
                            self.dev, PEER4, PEER6, HERE4)
        self.from_peer = Path("server-here", None, PEER, self.dev,
                              self.peer_dev, HERE4, HERE6, PEER4)
        self.paths = (self.to_peer, self.from_peer)
        self.wire = self.to_peer

    def is_alike(self):
        """Whether the other guest has the same driver."""
        return self.peer.type == self.type

    def sides(self):
        return ((LOCAL, self.type, self.dev),
                (self.peer, self.peer.type, self.peer_dev))

    def ensure(self):
        if self.baseline is not None and not self.changed:
            return
        self.drop()
        if not self.is_alike():
            # Not every driver looks for what came before it began to listen
            # to the socket: a wire of some length keeps the order.
            LOCAL.status("tc", "qdisc", "replace", "dev", NETDEV, "root",
                         "netem", "delay", "20ms", "limit", "100000")
        for machine, link_type, dev in self.sides():
            machine.sh("rdma", "link", "add", dev, "type", link_type,
                       "netdev", NETDEV)
            machine.nodes()
        self.baseline = self.resources()

    def drop(self):
        self.baseline, self.changed = None, False
        for machine, _, dev in self.sides():
            machine.status("rdma", "link", "del", dev)

    def resources(self):
        """As in Topology, of both sides. What another driver keeps is its own affair,
        as is what its kernel complains of."""
        found = {}
        for side, (machine, link_type, _) in zip(("here", "peer"), self.sides()):
            if link_type != self.type:
                continue
            for res in json.loads(machine.sh("rdma", "-j", "resource",
                                             "show") or "[]"):
                found["%s: %s" % (side, res["ifname"])] = {
                    k: v for k, v in res.items()
                    # The core keeps completion queues for kernel services.
                    if k not in ("ifindex", "ifname", "cq")}
        return found
