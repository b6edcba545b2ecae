# SPDX-License-Identifier: GPL-2.0
"""The samples do what their page says."""

import socket

from rsiwtest import kmsg, mpa
from rsiwtest.core import Fail, test
from rsiwtest.topo import LO4, sh

PORTS = {"kernel": 7471, "program": 7472}
MODULE = "rsiw_consumer"


@test("sample-verbs", cost=4)
def sample_verbs(t):
    """The verbs program: its words reach the server, and come back."""
    words = "some words"
    for path in t.topo.paths:
        with t.sub(path.name):
            server = t.start(t.bin("rsiw_verbs"), path.addr4,
                             netns=path.server_ns)
            server.wait_listening(PORTS["program"])
            client = t.start(t.bin("rsiw_verbs"), path.addr4, words,
                             netns=path.client_ns)
            if words not in client.expect(t.left(30)):
                raise Fail("the client has read:\n" + client.tail())
            if words not in server.expect(t.left(30)):
                raise Fail("the server has:\n" + server.tail())


@test("sample-kernel", cost=4)
def sample_kernel(t):
    """The kernel consumer: asks itself; nobody answers; its device goes away."""
    t.need_module(MODULE)
    log = kmsg.Kmsg()
    with t.sub("asks itself"):
        for _ in range(3):
            sh("modprobe", MODULE, "connect=" + LO4)
            sh("modprobe", "-r", MODULE)
        words = [line for line in log.read() if "greetings from" in line]
        if len(words) != 3:
            raise Fail("the log says %s" % words)
    with t.sub("an address that nobody has"):
        try:
            sh("modprobe", MODULE, "connect=10.79.79.79")
        except Fail:
            pass
        else:
            sh("modprobe", "-r", MODULE)
            raise Fail("it is connected")
    with t.sub("its device goes away under a connection"):
        sh("modprobe", MODULE)
        # An initiator of revision 1, which says no more.
        with socket.create_connection((LO4, PORTS["kernel"]), 20) as conn:
            mpa.ask(conn)
            with t.within(20, "the removal"):
                sh("rdma", "link", "del", t.topo.dev_lo)
        sh("modprobe", "-r", MODULE)
        t.topo.changed = True
