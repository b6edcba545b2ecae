# SPDX-License-Identifier: GPL-2.0
"""A wire within the first network namespace, for kernel services.

The NVMe drivers open their connections there and nowhere else. A packet from
one end of a veth pair to the other would take the short cut over `lo`, were
there not rules that ask for the routes below before the local addresses.
"""

import json

from .core import Fail
from .machine import wait_until
from .topo import Path, sh, status

IF_S, IF_C = "rsulp0", "rsulp1"
S4, C4 = "10.79.1.1", "10.79.1.2"
TABLE_S, TABLE_C = "7901", "7902"


def meet():
    """Has the client's end know the link address of the server's.

    An answer that comes before the RDMA core has begun to wait for it, as it may over
    veth, is lost on it (rdma_resolve_ip): it looks again when the time of its consumer
    is over. With rtrs, that is when the attempt is given up.
    """
    sh("ping", "-c", "1", "-W", "5", S4)


class Wire:
    """Server and client device on a veth pair in this namespace; the pair alone for the
    link type "tcp"."""

    def __init__(self, t):
        self.topo = t.topo
        self.dev_s, self.dev_c = t.type + "_s", t.type + "_c"
        self.path = Path("services", None, None, self.dev_s, self.dev_c,
                         S4, None, C4)

    def __enter__(self):
        self.drop()
        sh("ip", "link", "add", IF_S, "mtu", "1500", "type", "veth", "peer",
           "name", IF_C, "mtu", "1500")
        for netdev, addr in ((IF_S, S4), (IF_C, C4)):
            conf = "net.ipv4.conf.%s." % netdev
            sh("sysctl", "-q", conf + "rp_filter=0", conf + "accept_local=1")
            sh("ip", "addr", "add", addr + "/32", "dev", netdev)
            sh("ip", "link", "set", netdev, "up")
        for netdev, pref in ((IF_S, "10"), (IF_C, "11")):
            sh("ip", "rule", "add", "pref", pref, "iif", netdev, "lookup",
               "local")
        for netdev, to, src, table in ((IF_S, C4, S4, TABLE_S),
                                       (IF_C, S4, C4, TABLE_C)):
            sh("ip", "rule", "add", "pref", "20", "to", to, "lookup", table)
            sh("ip", "route", "add", to, "dev", netdev, "src", src, "table",
               table)
        sh("ip", "rule", "add", "pref", "100", "lookup", "local")
        sh("ip", "rule", "del", "pref", "0")
        if self.topo.type != "tcp":
            self.topo.add_link(self.dev_s, IF_S)
            self.topo.add_link(self.dev_c, IF_C)
        return self

    def __exit__(self, failure, *_):
        left = "" if failure else self.leftovers()
        self.drop()
        if left:
            raise Fail("left behind: " + left)

    def up(self, netdev, on):
        """Takes an end of the wire up or down."""
        sh("ip", "link", "set", netdev, "up" if on else "down")
        if on:
            # The routes went with the link.
            to, src, table = (C4, S4, TABLE_S) if netdev == IF_S \
                else (S4, C4, TABLE_C)
            sh("ip", "route", "replace", to, "dev", netdev, "src", src,
               "table", table)

    def leftovers(self):
        """What the devices still hold when all services have left them. Of
        completion queues the core keeps a stock for the next connection."""
        def now():
            held = []
            for res in json.loads(sh("rdma", "-j", "resource", "show")):
                if res["ifname"] in (self.dev_s, self.dev_c):
                    held += ["%s: %s %d" % (res["ifname"], k, res[k])
                             for k in ("qp", "cm_id", "mr", "pd", "srq")
                             if res.get(k)]
            return held
        try:
            wait_until("", 10, lambda: not now())
        except Fail:
            pass
        return ", ".join(now())

    def drop(self):
        """Takes down whatever is there of it."""
        links = self.topo.links()
        for dev in (self.dev_s, self.dev_c):
            if dev in links:
                sh("rdma", "link", "del", dev, timeout=60)
        status("ip", "link", "del", IF_S)
        if "lookup local" not in sh("ip", "rule", "show", "pref", "0"):
            sh("ip", "rule", "add", "pref", "0", "lookup", "local")
        for pref in ("10", "11", "20", "20", "100"):
            status("ip", "rule", "del", "pref", pref)
        for table in (TABLE_S, TABLE_C):
            status("ip", "route", "flush", "table", table)
