# SPDX-License-Identifier: GPL-2.0
"""libibverbs' examples, which connect by number or send datagrams."""

from rsiwtest.machine import wait_until
from rsiwtest.topo import IF_A, IF_B, NS_A, NS_B, sh


def gid_of(dev, index):
    """A GID of a device, as /sys has it."""
    with open("/sys/class/infiniband/%s/ports/1/gids/%d" % (dev, index)) as gid:
        return gid.read().strip()


class Pingpong:
    """Both sides of one of libibverbs' examples."""

    def __init__(self, t, path, tool="ibv_rc_pingpong", gid=1, *args):
        self.t = t
        self.path = path
        self.port = t.port()
        self.args = [tool, "-p", self.port, "-g", gid, *args]
        self.server = t.start(*self.args, "-d", path.server_dev, netns=path.server_ns)
        self.server.wait_listening(self.port)
        self.client = t.start(*self.args, "-d", path.client_dev, path.addr4,
                              netns=path.client_ns)

    def finish(self):
        """Waits for both to end well."""
        self.client.expect(self.t.left(60))
        self.server.expect(self.t.left(30))


def pingpongs(t, path, tool):
    """The example with each GID, polling, then sleeping."""
    # That of index 0 is no address of lo: another one stands in for it.
    for gid in (0, 1) if path is t.topo.loopback else (0, 1, 2):
        with t.sub("%s, %s, GID %d: %s" % (tool, path.name, gid, gid_of(path.server_dev, gid))):
            Pingpong(t, path, tool, gid, "-n", t.rounds(1000), "-c").finish()
    with t.sub("sleeping, %s" % path.name):
        Pingpong(t, path, tool, 1, "-e", "-n", t.rounds(500)).finish()


def wait_link_local():
    """Waits until the addresses that GIDs of index 0 are may be used."""
    for netdev, netns in ((IF_A, NS_A), (IF_B, NS_B)):
        wait_until("the address of the link", 10, lambda: "fe80" in sh(
            "ip", "-6", "addr", "show", "dev", netdev, "scope", "link", "-tentative",
            netns=netns))
