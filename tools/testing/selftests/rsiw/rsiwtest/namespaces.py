# SPDX-License-Identifier: GPL-2.0
"""Network namespaces that have RDMA devices of their own."""

import contextlib

from .machine import wait_until
from .topo import sh, status

# The name of the first one, for `rdma dev set`.
INIT = "rsiw-first"


def set_mode(mode):
    """Says who sees RDMA devices: all namespaces, or the one that each belongs to.

    The core refuses while there are other namespaces. One that is deleted stays for as
    long as TCP keeps a connection in it that a program has left: a minute for the FIN
    of a peer (net.ipv4.tcp_fin_timeout).
    """
    wait_until("the namespaces to be gone", 90, lambda: not status(
        "rdma", "system", "set", "netns", mode)[0])


@contextlib.contextmanager
def exclusive(t):
    """Each device belongs to one namespace within this; the topology is made anew."""
    t.topo.drop()
    set_mode("exclusive")
    try:
        sh("ip", "netns", "attach", INIT, "1")
        t.topo.ensure()
        yield
    finally:
        t.reap()
        t.topo.drop()
        sh("ip", "netns", "del", INIT)
        set_mode("shared")


def move(dev, to, netns=None):
    """Moves a device that `netns` sees to another namespace."""
    sh("rdma", "dev", "set", dev, "netns", to, netns=netns)


# A container: its own /dev with the RDMA nodes only, its own processes and /sys, no
# privilege whatever.
_CONTAINER = """
set -e
mount --make-rprivate /
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /mnt
mkdir /mnt/infiniband
mount --bind /dev/infiniband /mnt/infiniband
mount --move /mnt /dev
exec setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all \
	--inh-caps=-all --no-new-privs -- "$@"
"""


def container(group, *argv):
    """The command that runs a program in a container of a control group; the network
    namespace is the caller's."""
    return group.within(["unshare", "--mount", "--pid", "--fork", "--kill-child",
                         "sh", "-c", _CONTAINER, "sh", *argv])
