# SPDX-License-Identifier: GPL-2.0
"""How the packaged RDMA programs are run as pairs."""

import json
import re
import signal
import time

from .core import Fail, TimedOut
from .topo import sh


def rping(t, path, count=1000, size=64, v6=False, timeout=60):
    """rping with validation; both ends must end well."""
    addr, port = path.addr6 if v6 else path.addr4, t.port()
    count = t.rounds(count)
    args = ["-a", addr, "-p", port, "-V", "-C", count, "-S", size]
    # Its status is 0 too when the connection ends early: count, if there is
    # not too much to print.
    counted = count * size <= 1 << 20
    if counted:
        args += ["-v"]
    server = t.start("rping", "-s", *args, netns=path.server_ns)
    server.wait_listening(port)
    client = t.start("rping", "-c", *args, netns=path.client_ns)
    out = client.expect(t.left(timeout))
    server.expect(t.left(10))
    # What it says of the end is written in between.
    done = out.replace("client DISCONNECT EVENT...\n", "").count("rdma-ping-")
    if counted and done != count:
        raise Fail("rping did %d of %d:\n%s" % (done, count, client.tail()))


# One line per size: #bytes #iterations and figures.
# perftest finds the clock's rate by sampling. Where a busy host spoils that, -F
# makes it go on, with "inf" or zeros for figures; only the count is looked at.
_ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+(inf|[\d.]+)", re.M)


def has_events(tool):
    """Whether a perftest program can wait for events. There are none for RDMA
    Writes. The sender of ib_send_bw also needs credit, which none announces:
    it sleeps for ever once the receiver is two thirds of the messages behind."""
    return not tool.startswith("ib_write") and tool != "ib_send_bw"


def perftest(t, path, tool, size, iters, *extra, qps=1, events=False, v6=False,
             timeout=60):
    """One run of a perftest program over rdma_cm; the client's output."""
    iters = t.rounds(iters)
    args = ["-s", size, "-n", iters, *extra]
    if qps > 1:
        args += ["-q", qps]
    if events:
        args += ["-e"]
    if v6:
        args += ["--ipv6-addr"]
    pair = Perftest(t, path, tool, *args, v6=v6)
    pair.connect()
    out = pair.finish(timeout)
    rows = [r for r in _ROW.findall(out) if int(r[0]) == size]
    if not rows:
        raise Fail("%s prints no result:\n%s" % (
            pair.client, pair.client.tail()))
    if int(rows[-1][1]) < iters:
        raise Fail("%s did %s of %d iterations:\n%s" % (
            pair.client, rows[-1][1], iters, pair.client.tail()))
    return out


class Perftest:
    """Both sides of a perftest program over rdma_cm."""

    def __init__(self, t, path, tool, *args, v6=False):
        self.t = t
        self.path = path
        self.port = t.port()
        self.args = [tool, "-R", "-F", "-p", self.port, *args]
        self.addr = path.addr6 if v6 else path.addr4
        self.client = None
        self.serve()

    def serve(self):
        """Starts the server."""
        self.server = self.t.start(*self.args, "-d", self.path.server_dev,
                                   netns=self.path.server_ns)

    def connect(self):
        """Starts the client, once the server listens."""
        self.server.wait_listening(self.port)
        self.client = self.t.start(*self.args, "-d", self.path.client_dev,
                                   self.addr, netns=self.path.client_ns)

    def lost_its_race(self):
        """Whether the client came too early for its server, which listens anew
        between the two connections that they make; both are started again
        then. Nothing keeps the client from being faster
        (create_rdma_cm_connection). Refused, it tries again, and crashes:
        rdma_cm_destroy_cma() has freed what it uses then. A refusal that is not
        of this kind ends otherwise."""
        if (self.client.poll() != -signal.SIGSEGV or
                "RDMA_CM_EVENT_REJECTED; error: -111"
                not in self.client.output()):
            return False
        self.server.reap()
        self.serve()
        self.connect()
        return True

    def finish(self, timeout):
        """Waits for both to end well; the client's output."""
        self.client.wait(self.t.left(timeout))
        self.lost_its_race()
        out = self.client.expect(self.t.left(timeout))
        self.server.expect(self.t.left(15))
        return out

    def wait_connected(self):
        """Waits until both have their connections."""
        for proc in (self.server, self.client):
            wait_connected(self.t, proc)


def stream(t, path, tool, seconds, *extra):
    """A perftest that runs for long, returned when its data flows."""
    pair = Perftest(t, path, tool, "-s", 65536, "-D", seconds, *extra)
    pair.connect()
    try:
        pair.wait_connected()
    except Fail:
        if not pair.lost_its_race():
            raise
        pair.wait_connected()
    # So that there is data on the way, not only a connection.
    time.sleep(0.5)
    for proc in (pair.server, pair.client):
        if proc.poll() is not None:
            raise Fail("%s ended early:\n%s" % (proc, proc.tail()))
    return pair.server, pair.client


def wait_connected(t, proc, timeout=20):
    """Waits until a perftest has its connections: one to agree, one for data."""
    end = time.monotonic() + t.left(timeout)
    while True:
        cms = json.loads(sh("rdma", "-j", "resource", "show", "cm_id"))
        if sum(c.get("pid") == proc.pid and c.get("state") == "CONNECT"
               for c in cms) >= 2:
            return
        if proc.poll() is not None:
            raise Fail("%s ends with status %s instead of connecting:\n%s" % (
                proc, proc.poll(), proc.tail()))
        if time.monotonic() > end:
            raise TimedOut("%s does not connect:\n%s" % (proc, proc.tail()))
        time.sleep(0.1)
