# SPDX-License-Identifier: GPL-2.0
"""What tests of storage services share: something goes away for good under I/O.

The I/O must end in errors, the removal must not wait for it, nothing may be
left, and once what went away is back, a new client must be served.
"""

import contextlib

from . import fio
from .core import test
from .topo import sh
from .wire import IF_C, IF_S


class Kind:
    """A kind of storage service: what is particular to it."""

    name = ""                   # with which its tests begin
    client, server = "client", "server"
    cost = 20                   # seconds that such a test takes
    removal = 30                # seconds that a removal may wait for it
    patience = 40               # seconds until I/O without a server fails
    sizes = fio.SIZES
    only = {}                   # what test() is told of where it runs

    def service(self, t):
        """A context: the wire, and a server that can serve() and stop()."""
        raise NotImplementedError

    def use(self, wire):
        """A context: a client whose I/O fails when its server is gone."""
        raise NotImplementedError

    def target(self, client):
        """What fio works on."""
        raise NotImplementedError

    def wait_given_up(self, client):
        """Waits until the client has given its server up."""

    def impatient(self, t):
        """A context: clients give up soon although nothing tells them to."""
        return contextlib.nullcontext()

    def works(self, t, wire):
        """A new client is served."""
        raise NotImplementedError


def taken_away(t, kind, action, again):
    """`action` takes something away under I/O, `again` brings it back, if it
    can be."""
    with kind.service(t) as (wire, server):
        with kind.use(wire) as client:
            job = fio.running(t, kind.target(client), 100, sizes=kind.sizes)
            with t.within(kind.removal, "the removal"):
                action(t, wire, server)
            kind.wait_given_up(client)
            fio.expect_errors(t, job, kind.patience)
        if again:
            server.stop()
            again(t, wire)
            server.serve()
            kind.works(t, wire)


def del_link(dev):
    """rdma link del."""
    sh("rdma", "link", "del", dev, timeout=90)


def register(kind):
    """The tests of this kind: a device, both with their interface, the server."""
    def add(name, doc, action, again):
        def run(t):
            with contextlib.nullcontext() if again else kind.impatient(t):
                taken_away(t, kind, action, again)

        run.__doc__ = doc
        test("%s-%s" % (kind.name, name), cost=kind.cost, long=True,
             **kind.only)(run)

    add("unplug-" + kind.client,
        "rdma link del of the %s's device under I/O." % kind.client,
        lambda t, wire, server: del_link(wire.dev_c),
        lambda t, wire: t.topo.add_link(wire.dev_c, IF_C))
    add("unplug-" + kind.server,
        "rdma link del of the %s's device under I/O." % kind.server,
        lambda t, wire, server: del_link(wire.dev_s),
        lambda t, wire: t.topo.add_link(wire.dev_s, IF_S))
    add("unplug-netdev",
        "ip link del of the wire under I/O takes both devices at once.",
        lambda t, wire, server: sh("ip", "link", "del", IF_S, timeout=90), None)
    add(kind.server + "-gone",
        "The %s goes in mid-transfer for good: I/O ends in errors." % kind.server,
        lambda t, wire, server: server.stop(), lambda t, wire: None)
