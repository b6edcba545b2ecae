# SPDX-License-Identifier: GPL-2.0
"""UCX, which takes devices of InfiniBand only: queue pairs by number, and datagrams."""

from rsiwtest.core import Fail, test

# Of what UCX does: transfers, and how many octets each has.
ALL = (("tag_lat", 64), ("tag_bw", 200000), ("ucp_put_bw", 8192), ("ucp_get", 8192),
       ("stream_bw", 4096), ("ucp_am_bw", 200000))
FEW = (("tag_lat", 64), ("tag_bw", 20000), ("ucp_get", 8192))


class Ucx:
    """Both ends of `ucx_perftest` over a path, with these transports only."""

    def __init__(self, t, path, transports):
        self.t, self.path, self.transports = t, path, transports

    def start(self, netns, dev, *args):
        """One end. It wants a terminal."""
        env = {"UCX_TLS": self.transports, "UCX_NET_DEVICES": dev + ":1", "UCX_IB_GID_INDEX": "1",
               "UCX_VFS_ENABLE": "n"}
        words = " ".join(str(arg) for arg in ("ucx_perftest", *args))
        return self.t.start("script", "-qec", words, "/dev/null", netns=netns, env=env)

    def run(self, what, size):
        port, path = self.t.port(), self.path
        server = self.start(path.server_ns, path.server_dev, "-p", port)
        server.wait_listening(port)
        client = self.start(path.client_ns, path.client_dev, "-p", port, path.addr4, "-t", what,
                            "-s", size, "-n", self.t.rounds(100), "-w", 5)
        client.expect(self.t.left(60))
        server.expect(self.t.left(30))
        if "Final:" not in client.output():
            raise Fail("%s prints no result:\n%s" % (client, client.tail()))


@test("ucx", cost=60, only_type="rsiw")
def ucx(t):
    """Messages, streams, and access to memory."""
    t.need("ucx_perftest")
    with t.library("rsiw-infiniband"):
        for transports, path, kinds in (("rc_verbs,ud_verbs", t.topo.wire, ALL),
                                        ("rc_verbs,ud_verbs", t.topo.loopback, FEW),
                                        ("ud_verbs", t.topo.wire, FEW)):
            for what, size in kinds:
                with t.sub("%s of %d octets, %s, %s" % (what, size, transports, path.name)):
                    Ucx(t, path, transports).run(what, size)


@test("ucx-unaware", cost=3, only_type="rsiw")
def unaware(t):
    """Without the variable there is no device for UCX."""
    t.need("ucx_info")
    for name, wanted in (("stock", 0), ("rsiw", 0), ("rsiw-infiniband", 3)):
        with t.sub("library: " + name), t.library(name):
            proc = t.start("ucx_info", "-d")
            said = proc.expect(t.left(60))
            found = said.count("Transport: rc_verbs")
            if found != wanted or "Transport: tcp" not in said:
                raise Fail("%d devices instead of %d:\n%s" % (found, wanted, proc.tail()))
