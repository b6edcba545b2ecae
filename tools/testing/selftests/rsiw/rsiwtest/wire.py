# SPDX-License-Identifier: GPL-2.0
"""A wire within the first network namespace, for kernel services.

The NVMe drivers open their connections there and nowhere else. A packet from
one end of a veth pair to the other would take the short cut over `lo`, were
there not rules that ask for the routes below before the local addresses.
"""


from .core import Fail
from .machine import wait_until
from .topo import Path, objects, sh, status

IF_S, IF_C = "rsulp0", "rsulp1"
S4, C4 = "10.79.1.1", "10.79.1.2"
TABLE_S, TABLE_C = "7901", "7902"
# Of rules: what comes in over an end, what goes to the other one, and all else.
PREF_IN, PREF_OUT, PREF_LOCAL = "10", "20", "100"


def meet():
    """Has the client's end know the link address of the server's.

    An answer that comes before the RDMA core has begun to wait for it, as it may over
    veth, is lost on it (rdma_resolve_ip): it looks again when the time of its consumer
    is over. With rtrs, that is when the attempt is given up.
    """
    sh("ping", "-c", "1", "-W", "5", S4)


class Pair:
    """Two interfaces of this namespace, server's and client's, whose addresses reach each
    other over them."""

    def __init__(self, netdevs, addrs, tables):
        self.netdevs = netdevs
        # Of each interface: the other's address, its own, and its table of routes.
        self.ways = {netdevs[0]: (addrs[1], addrs[0], tables[0]),
                     netdevs[1]: (addrs[0], addrs[1], tables[1])}

    def add_veth(self):
        """The interfaces as the ends of a virtual cable."""
        server, client = self.netdevs
        sh("ip", "link", "add", server, "mtu", "1500", "type", "veth", "peer",
           "name", client, "mtu", "1500")

    def start(self):
        """Addresses, rules and routes of interfaces that are there."""
        for netdev, (to, own, table) in self.ways.items():
            conf = "net.ipv4.conf.%s." % netdev
            sh("sysctl", "-q", conf + "rp_filter=0", conf + "accept_local=1")
            sh("ip", "addr", "add", own + "/32", "dev", netdev)
            sh("ip", "link", "set", netdev, "up")
            sh("ip", "rule", "add", "pref", PREF_IN, "iif", netdev, "lookup", "local")
            sh("ip", "rule", "add", "pref", PREF_OUT, "to", to, "lookup", table)
            self.route(netdev)

    def route(self, netdev):
        """The way to the other one; it goes whenever the interface is down."""
        to, own, table = self.ways[netdev]
        sh("ip", "route", "replace", to, "dev", netdev, "src", own, "table", table)

    def drop(self):
        """Takes down whatever is there of it."""
        for netdev, (_, _, table) in self.ways.items():
            status("ip", "link", "del", netdev)
            status("ip", "route", "flush", "table", table)
            for pref in (PREF_IN, PREF_OUT):
                status("ip", "rule", "del", "pref", pref)


class Wire:
    """Server and client device on a veth pair in this namespace; the pair alone for the
    link type "tcp"."""

    def __init__(self, t):
        self.topo = t.topo
        self.dev_s, self.dev_c = t.type + "_s", t.type + "_c"
        self.pair = Pair((IF_S, IF_C), (S4, C4), (TABLE_S, TABLE_C))
        self.path = Path("services", None, None, self.dev_s, self.dev_c,
                         S4, None, C4)

    def __enter__(self):
        self.drop()
        self.add_interfaces()
        self.pair.start()
        sh("ip", "rule", "add", "pref", PREF_LOCAL, "lookup", "local")
        sh("ip", "rule", "del", "pref", "0")
        if self.topo.type != "tcp":
            self.add_device(self.dev_s, IF_S)
            self.add_device(self.dev_c, IF_C)
        return self

    def add_interfaces(self):
        """What the devices are on."""
        self.pair.add_veth()

    def add_device(self, dev, netdev):
        """One of the two devices."""
        self.topo.add_link(dev, netdev)

    def __exit__(self, failure, *_):
        left = "" if failure else self.leftovers()
        self.drop()
        if left:
            raise Fail("left behind: " + left)

    def up(self, netdev, on):
        """Takes an end of the wire up or down."""
        sh("ip", "link", "set", netdev, "up" if on else "down")
        if on:
            self.pair.route(netdev)

    def leftovers(self):
        """What the devices still hold when all services have left them. Of
        completion queues the core keeps a stock for the next connection."""
        def now():
            held = []
            for res in objects():
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
        if "lookup local" not in sh("ip", "rule", "show", "pref", "0"):
            sh("ip", "rule", "add", "pref", "0", "lookup", "local")
        status("ip", "rule", "del", "pref", PREF_LOCAL)
        self.pair.drop()
