# SPDX-License-Identifier: GPL-2.0
"""Kernel verbs, by our own kernel consumer (tools/testing/kverbs)."""

import signal

from rsiwtest.core import ANY_PATH, Fail, test
from rsiwtest.kmsg import error, rested, says
from rsiwtest.kverbs import Held, complaint, loaded
from rsiwtest.machine import wait_until
from rsiwtest.portmap import poser
from rsiwtest.topo import objects

FAMILIES = {
    "reg": "registering by the send queue",
    "map": "page lists",
    "inv": "invalidating",
    "order": "fences and order",
    "status": "statuses of failed requests",
    "ctx": "posting from everywhere, and who sends then",
    "state": "states, flushes, draining",
    "cq": "arming",
    "event": "asynchronous events",
    "dma": "the DMA key",
    "mw": "memory windows",
    "mw1": "memory windows of type 1",
    "object": "devices, queues and what queries tell of them",
    "request": "work requests of all kinds",
    "busy": "what is taken away or changed while it is used",
    "apart": "what must not get in each other's way",
    "depth": "depths of queues, and who posts more than it counted",
    "imm": "immediate data",
    "atomic": "atomic operations",
    "first": "a responder whose peer has not sent anything",
}
# What only this driver has.
OURS = ("imm", "atomic")


def run_family(t, family):
    with loaded(t) as cases:
        cases = [c for c in cases if c[0] == family]
        if not cases:
            raise Fail("no cases")
        for _, name, rows in cases:
            with t.sub("%s %s" % (name, rows)):
                error = complaint(name)
                if error:
                    raise Fail(error)


def _register(family, what):
    def run(t):
        run_family(t, family)

    run.__doc__ = "Kernel verbs: %s." % what
    only = {"only_type": "rsiw"} if family in OURS else {}
    test("kverbs-" + family, cost=10, **only)(run)


for _family, _what in FAMILIES.items():
    _register(_family, _what)


@test("kverbs-atomic-tcp", cost=15, only_type="rsiw", tcp=ANY_PATH)
def atomic_tcp(t):
    """Kernel verbs: atomic operations whose requests and responses TCP carries."""
    run_family(t, "atomic")


@test("kverbs-ctx-tcp", cost=15, only_type="rsiw", tcp=ANY_PATH)
def ctx_tcp(t):
    """Kernel verbs: posting from everywhere, and who sends then, through TCP."""
    run_family(t, "ctx")


@test("owner-kernel", cost=8, only_type="rsiw")
def owner_kernel(t):
    """A process does not get hold of a queue pair of the kernel's."""
    path, port, _ = t.topo.loopback, t.port(), t.port()
    with loaded(t), Held() as held:
        thief = t.start(t.bin("foreign"), *path.args(), "--port", port,
                        "--num", held.num, "--limit", int(t.left(60)))
        thief.wait_output("LOOPING", t.left(30))
        with t.sub("V-PRIV-2 the kernel connects its own queue pair"):
            held.connect()
        thief.popen.send_signal(signal.SIGTERM)
        thief.expect(t.left(30))


def tried(t, num, mapper):
    """A process that would connect queue pair `num`, once it was refused or waits for `mapper`."""
    thief = t.start(t.bin("foreign"), *t.topo.loopback.args(), "--port", t.port(),
                    "--num", num, "--only-connect", "--limit", int(t.left(60)))
    wait_until("an answer to " + str(thief), t.left(30), lambda: "LOOPING" in thief.output() or
               "ASKED for a peer" in mapper.output())
    return thief


@test("owner-silent", cost=25, only_type="rsiw")
def owner_silent(t):
    """A process that connects another's queue pair does not keep it, though the port mapper, whom
    iw_cm asks meanwhile, says nothing."""
    with loaded(t), poser(t, "--silent") as mapper:
        log = rested()
        with t.sub("V-PRIV-2 a queue pair of the kernel's"), Held() as held:
            thief = tried(t, held.num, mapper)
            with t.within(3, "to destroy it"):
                held.file.close()
            thief.popen.send_signal(signal.SIGTERM)
            thief.expect(t.left(60))
            if not says(log.read(), "QP %d: cannot connect: %s: the QP is not the caller's" % (
                    held.num, error("EINVAL"))):
                raise Fail("the log does not say why")
        with t.sub("V-PRIV-2 a queue pair of another process"):
            owner = t.start(t.bin("hoard"), *t.topo.loopback.args(), "--port", t.port(),
                            "--kind", "qp", "--count", 1, "--hold", "--limit", int(t.left()))
            owner.wait_output("all 1", t.left(30))
            num, = (qp["lqpn"] for qp in objects("qp") if qp.get("pid") == owner.pid)
            thief = tried(t, num, mapper)
            with t.within(3, "to destroy it"):
                owner.kill(signal.SIGUSR1)
                owner.wait_output("given back", t.left(60))
            thief.popen.send_signal(signal.SIGTERM)
            thief.expect(t.left(60))
