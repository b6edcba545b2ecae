# SPDX-License-Identifier: GPL-2.0
"""A second machine, in which an agent does what the tests ask for.

The agent is `run --agent`; it speaks XML-RPC over the network between the
two guests and offers the methods of Machine and of Agent.
"""

import socket
import time
import xmlrpc.client
import xmlrpc.server

from . import kmsg
from .core import Fail, TimedOut
from .machine import Machine
from .proc import Proc, is_calling, listening

# Where a test names a network namespace: the other guest.
PEER = "@peer"
AGENT_PORT = 4791


def plain(text):
    """Text as XML can carry it, which knows no control characters."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?"
                   for c in text)


class Agent(Machine):
    """What the agent can do beyond Machine."""

    def __init__(self, link_type, results):
        self.type = link_type
        self.results = results
        self.procs = {}
        self.log = kmsg.Kmsg()
        self.ended = False

    def hello(self):
        """The link type of this side."""
        return self.type

    def start(self, argv, name, env, cwd):
        """Starts a program; its process id."""
        proc = Proc(argv, "%s/%s" % (self.results, name), None, env or None,
                    cwd or None)
        self.procs[proc.pid] = proc
        return proc.pid

    def poll(self, pid):
        """Exit status in a list, which is empty while it runs."""
        status = self.procs[pid].poll()
        return [] if status is None else [status]

    def output(self, pid):
        return plain(self.procs[pid].output())

    def listeners(self, pid, port):
        return listening(pid, port)

    def is_calling(self, pid):
        return is_calling(pid)

    def kill(self, pid, sig):
        self.procs[pid].kill(sig)

    def reap(self, pid):
        return self.procs[pid].reap()

    def forget(self, pid):
        self.procs.pop(pid).forget()

    def kernel(self):
        """What the kernel has said since the last call."""
        return [plain(line) for line in self.log.read()]

    def stacks(self, name):
        kmsg.dump_stacks("%s/%s.stacks" % (self.results, name), self.log)

    def end(self):
        self.ended = True


class _Server(xmlrpc.server.SimpleXMLRPCServer):
    address_family = socket.AF_INET

    def _dispatch(self, method, params):
        try:
            return super()._dispatch(method, params)
        except Fail as err:
            raise xmlrpc.client.Fault(1, str(err)) from None


def serve(link_type, addr, results):
    """Runs the agent until it is told to end."""
    agent = Agent(link_type, results)
    with _Server((addr, AGENT_PORT), logRequests=False,
                 allow_none=True) as server:
        server.register_instance(agent)
        while not agent.ended:
            server.handle_request()
    for proc in agent.procs.values():
        proc.reap()
    return 0


class Peer:
    """The agent, as the tests see it: a Machine, and more."""

    def __init__(self, addr, timeout=180):
        self.addr = addr
        self._proxy = xmlrpc.client.ServerProxy(
            "http://%s:%d" % (addr, AGENT_PORT), allow_none=True)
        end = time.monotonic() + timeout
        while True:
            try:
                self.type = self._proxy.hello()
                return
            except OSError as err:
                if time.monotonic() > end:
                    raise Fail("no agent at %s: %s" % (addr, err)) from None
                time.sleep(1)

    def __getattr__(self, name):
        def call(*args, **options):
            # Options of Machine's methods are times, which the agent knows.
            del options
            try:
                return getattr(self._proxy, name)(*args)
            except xmlrpc.client.Fault as err:
                raise Fail("peer: " + err.faultString) from None
            except OSError as err:
                raise Fail("the peer does not answer: %s" % err) from None
        return call


class RemoteProc(Proc):
    """A program in the other guest."""

    slow = 1

    def __init__(self, peer, argv, name, env=None, cwd=None):
        self.argv = [str(a) for a in argv]
        self.peer = peer
        self.pid = peer.start(self.argv, name, env or {}, cwd or "")

    def __str__(self):
        return "peer's " + super().__str__()

    def poll(self):
        status = self.peer.poll(self.pid)
        return status[0] if status else None

    def output(self):
        return self.peer.output(self.pid)

    def wait(self, timeout):
        end = time.monotonic() + timeout
        while True:
            status = self.poll()
            if status is not None:
                return status
            if time.monotonic() > end:
                raise TimedOut("%s does not end within %.0f s; its output:\n%s"
                               % (self, timeout, self.tail()))
            time.sleep(0.2)

    def listeners(self, port):
        return self.peer.listeners(self.pid, port)

    def is_calling(self):
        return self.peer.is_calling(self.pid)

    def kill(self, sig=9):
        self.peer.kill(self.pid, sig)

    def reap(self, timeout=10):
        return self.peer.reap(self.pid)

    def forget(self):
        self.peer.forget(self.pid)
