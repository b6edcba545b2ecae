# SPDX-License-Identifier: GPL-2.0
"""How the packaged RDMA programs are run as pairs."""

import contextlib
import json
import re
import signal
import time

from .core import Fail, TimedOut
from .machine import wait_until
from .peer import PEER
from .portmap import serve
from .topo import objects, sh


def rounds_done(client):
    """How many rounds an rping client with -v has done."""
    # What it says of the end is written in between.
    said = client.output().replace("client DISCONNECT EVENT...\n", "")
    return said.count("rdma-ping-")


def all_rounds(client, seconds):
    """Waits for the good end of an rping client with -v, after all of its rounds. Its
    status does not tell: it is 0 too when the connection ends early."""
    client.expect(seconds)
    count = int(client.argv[client.argv.index("-C") + 1])
    done = rounds_done(client)
    if done != count:
        raise Fail("%s did %d rounds:\n%s" % (client, done, client.tail()))


def ping_client(t, addr, port, count, *args, netns=None):
    """Starts an rping client, for `all_rounds`."""
    return t.start("rping", "-c", "-v", "-a", addr, "-p", port, "-C", count, *args,
                   netns=netns)


def ping(t, addr, port, count, *args, netns=None, timeout=None):
    """Runs an rping client with a server that listens; it must do all of its rounds."""
    all_rounds(ping_client(t, addr, port, count, *args, netns=netns), t.left(timeout))


def rping_ends(t, path, *args, port=None, v6=False, mapped=False):
    """Starts an rping server and, when it listens, a client; both. `mapped`:
    the port mapper may choose the port that TCP uses."""
    port = port or t.port()
    args = ["-a", path.addr6 if v6 else path.addr4, "-p", port, *args]
    if mapped:
        server = serve(t, "rping", "-s", *args, netns=path.server_ns)
    else:
        server = t.start("rping", "-s", *args, netns=path.server_ns)
        server.wait_listening(port)
    return server, t.start("rping", "-c", *args, netns=path.client_ns)


def rping(t, path, count=1000, size=64, **ends):
    """rping with validation; both ends must end well, after all rounds. `ends`: as for
    `rping_ends`."""
    # Each prints all that it sends: fewer of large ones.
    count = min(t.rounds(count), (1 << 20) // size)
    server, client = rping_ends(t, path, "-V", "-v", "-C", count, "-S", size, **ends)
    all_rounds(client, t.left())
    server.expect(t.left(30))


def connected_qps(netns=None, **having):
    """The connected queue pairs that a network namespace sees and that have
    these values."""
    return [qp for qp in objects("qp", netns) if qp["state"] == "RTS" and
            all(qp.get(name) == value for name, value in having.items())]


def pinging(t, path, **ends):
    """An rping that runs until it is ended, once it is connected: its server
    and its client. `ends`: as for `rping_ends`."""
    server, client = rping_ends(t, path, "-C", 100000000, **ends)
    wait_until("a connection", 20, lambda: connected_qps(
        path.client_ns, pid=client.pid))
    return server, client


# One line per size: #bytes #iterations and figures.
# perftest finds the clock's rate by sampling. Where a busy host spoils that, -F
# makes it go on, with "inf" or zeros for figures; only the count is looked at.
_ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+(inf|[\d.]+)", re.M)


def has_events(tool):
    """Whether a perftest program can wait for events. There are none for RDMA
    Writes. The sender of ib_send_bw also needs credit, which none announces:
    it sleeps for ever once the receiver is two thirds of the messages behind."""
    return not tool.startswith("ib_write") and tool != "ib_send_bw"


def perftest(t, path, tool, size, iters, *extra, qps=1, events=False,
             v6=False, gid=None):
    """One run of a perftest program; the client's output. `gid`: as for `Perftest`."""
    iters = t.rounds(iters)
    args = ["-s", size, "-n", iters, *extra]
    if qps > 1:
        args += ["-q", qps]
    if events:
        args += ["-e"]
    if v6:
        args += ["--ipv6-addr"]
    pair = Perftest(t, path, tool, *args, v6=v6, gid=gid)
    pair.connect()
    out = pair.finish()
    rows = [r for r in _ROW.findall(out) if int(r[0]) == size]
    if not rows:
        raise Fail("%s prints no result:\n%s" % (
            pair.client, pair.client.tail()))
    if int(rows[-1][1]) < iters:
        raise Fail("%s did %s of %d iterations:\n%s" % (
            pair.client, rows[-1][1], iters, pair.client.tail()))
    return out


@contextlib.contextmanager
def unrefused(port):
    """Within, who comes to a port of this network namespace at which nobody listens is not told
    so, and comes again a second later, as TCP does without an answer."""
    table = ("inet", "rsiw_unrefused")
    sh("nft", "add", "table", *table)
    try:
        sh("nft", "add", "chain", *table, "out", "{ type filter hook output priority filter; }")
        # The answer to a SYN has no number of its own.
        sh("nft", "add", "rule", *table, "out", "tcp sport %d tcp sequence 0" % port,
           "tcp flags & rst == rst drop")
        yield
    finally:
        sh("nft", "delete", "table", *table)


def came_too_early(client):
    """Whether a perftest client crashed as it came too early for its server,
    which listens anew between the two connections that they make. Nothing
    keeps the client from being faster (create_rdma_cm_connection). Refused, it
    tries again, and crashes: rdma_cm_destroy_cma() has freed what it uses then.
    A refusal that is not of this kind ends otherwise."""
    # As a shell says it, too.
    return (client.poll() in (-signal.SIGSEGV, 128 + signal.SIGSEGV) and
            "RDMA_CM_EVENT_REJECTED; error: -111" in client.output())


class Perftest:
    """Both sides of a perftest program, over rdma_cm."""

    def __init__(self, t, path, tool, *args, v6=False, group=None, gid=None):
        """`group`: of the client's processes. `gid`: the ends connect by number, and have GIDs of
        this index."""
        self.t = t
        self.group = group
        self.path = path
        self.port = t.port()
        how = ["-R"] if gid is None else ["-x", gid]
        self.args = [tool, *how, "-F", "-p", self.port, *args]
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
        argv = [*self.args, "-d", self.path.client_dev, self.addr]
        if self.group:
            argv = self.group.within(argv)
        self.client = self.t.start(*argv, netns=self.path.client_ns)

    def ensure_running(self):
        """Fails if one of them has ended, but for a client that came too early."""
        both = (self.server, self.client)
        if any(proc.poll() is not None for proc in both) and not self.lost_its_race():
            raise Fail("\n".join("%s, status %s, ends too early:\n%s" % (
                proc, proc.poll(), proc.tail()) for proc in both))

    def lost_its_race(self):
        """Whether the client came too early; both are started again then."""
        if not came_too_early(self.client):
            return False
        self.server.reap()
        self.serve()
        self.connect()
        return True

    def finish(self):
        """Waits for both to end well; the client's output."""
        self.client.wait(self.t.left())
        while self.lost_its_race():
            self.client.wait(self.t.left())
        out = self.client.expect(self.t.left())
        self.server.expect(self.t.left(30))
        return out

    def wait_flowing(self):
        """Waits until there is data on the way, not only a connection; both
        ways if the program is told to send both ways."""
        is_flowing = flowing(self.t, self.path.server_ns, "-b" in self.args)
        end = time.monotonic() + self.t.left(30)
        while not is_flowing():
            self.ensure_running()
            if time.monotonic() > end:
                raise TimedOut("no data flows:\n%s\n%s" % (
                    self.server.tail(), self.client.tail()))
            time.sleep(0.1)


def is_connected(machine):
    """Whether a machine has a connection."""
    qps = json.loads(machine.sh("rdma", "-j", "resource", "show", "qp"))
    return any(qp["state"] == "RTS" for qp in qps)


def wait_connected(t, path):
    """Waits until both ends, which are in two guests, have a connection."""
    for netns in (path.server_ns, path.client_ns):
        wait_until("a connection", 20, lambda: is_connected(t.machine(netns)))


def octets(t, netns):
    """What IPv4 received and sent in a network namespace, or on the peer."""
    path = "/proc/net/netstat"
    text = t.machine(netns).read(path) if netns == PEER else \
        sh("cat", path, netns=netns)
    names, values = (line.split() for line in text.splitlines()
                     if line.startswith("IpExt:"))
    return [int(values[names.index(name)])
            for name in ("InOctets", "OutOctets")]


def past_tcp():
    """Octets that all devices have sent without TCP."""
    links = json.loads(sh("rdma", "-j", "statistic", "show", "link"))
    return sum(link.get("tx_direct_bytes", 0) for link in links)


def flowing(t, netns, both_ways=False):
    """A function that says whether a MiB went by since, in or out, or both."""
    # Nothing goes past TCP to another guest.
    if t.env.peer is None and t.env.direct >= (1 if netns is None else 2):
        least = past_tcp() + ((2 if both_ways else 1) << 20)
        return lambda: past_tcp() >= least
    enough = all if both_ways else any
    before = octets(t, netns)
    return lambda: enough(now - then >= 1 << 20
                          for now, then in zip(octets(t, netns), before))


def stream(t, path, tool, seconds, *extra):
    """A perftest that runs for long, returned when its data flows."""
    pair = Perftest(t, path, tool, "-s", 65536, "-D", seconds, *extra)
    pair.connect()
    pair.wait_flowing()
    return pair.server, pair.client
