# SPDX-License-Identifier: GPL-2.0
"""Mixed, verified traffic for long, while everything around it changes."""

import random
import time

from rsiwtest.core import Fail, TimedOut, test
from rsiwtest.tools import all_rounds, came_too_early
from rsiwtest.topo import A6, B6, IF_A, IF_B, NS_A, NS_B, objects, sh

# What a round may take, beyond its traffic.
ROUND_LIMIT = 120
# KiB that may be gone after an unload against the first one.
DRIFT = 48 << 10


class Load:
    """One pair of programs, which look at all that they get."""

    def __init__(self, what, path, procs):
        self.what, self.path, self.procs = what, path, procs
        self.spared = True          # has to end well
        self.away = False           # its interface was away meanwhile

    def __str__(self):
        return "%s on %s" % (self.what, self.path.name)

    def runs(self):
        return all(proc.poll() is None for proc in self.procs)

    def had_no_way(self):
        """Whether perftest made its second connection while the interface was away: the
        first one is all that tells whether it is connected."""
        return self.away and "ERRNO: Network is unreachable" in self.procs[-1].output()

    def end(self, seconds):
        """Waits; what was meant to end well must, unless perftest lost a race
        of its own."""
        if self.spared:
            self.procs[-1].wait(seconds)
        if self.what == "perftest" and (came_too_early(self.procs[-1]) or self.had_no_way()):
            self.spared = False
        for proc in reversed(self.procs):
            if self.spared:
                proc.expect(seconds)
        if self.spared and self.what == "rping":
            all_rounds(self.procs[-1], seconds)
        for proc in self.procs:
            if not proc.reap():
                raise TimedOut("%s cannot be killed" % proc)


def children(pid):
    """The processes that `pid` has forked; none if it is gone."""
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return [int(child) for child in f.read().split()]
    except OSError:
        return []


class Soak:
    """A run of rounds, each with its traffic and one disturbance."""

    def __init__(self, t, seed):
        self.t = t
        self.rng = random.Random(seed)
        self.rounds = {}
        self.free = None

    # ---- traffic ------------------------------------------------------

    def integrity(self, path, seconds):
        t = self.t
        return [t.start(t.bin("integrity"), *path.args(), "--port",
                        t.port(), "--only", "random", "--seconds", seconds,
                        "--max-size", self.rng.choice((200, 5000, 200000)),
                        "--seed", self.rng.randrange(1, 1 << 32),
                        "--limit", int(seconds + 60 * t.env.slow))]

    def pair(self, path, server, client, port):
        """Two programs, the second one when the first one listens."""
        t = self.t
        first = t.start(*server, netns=path.server_ns)
        first.wait_listening(port, t.left(30))
        return [first, t.start(*client, netns=path.client_ns)]

    def perftest(self, path, seconds):
        port = self.t.port()
        tool = self.rng.choice(("ib_send_bw", "ib_write_bw", "ib_read_bw"))
        size = self.rng.choice((64, 4096, 65536, 1 << 20))
        args = [tool, "-R", "-F", "-p", port, "-s", size, "-D", seconds]
        return self.pair(path, args + ["-d", path.server_dev],
                         args + ["-d", path.client_dev, path.addr4], port)

    def rping(self, path, seconds):
        port = self.t.port()
        size = self.rng.choice((64, 4097, 65535))
        # The client prints all that it sends.
        count = min(60 * seconds, (8 << 20) // size)
        args = ["rping", "-a", path.addr4, "-p", port, "-V", "-C", count, "-S", size]
        return self.pair(path, args + ["-s"], args + ["-c", "-v"], port)

    def rstream(self, path, seconds):
        port = self.t.port()
        args = ["rstream", "-p", port, "-T", "v", "-S",
                self.rng.choice((64, 4096, 65536)), "-C", 20 * seconds,
                "-I", 10]
        # At an address, as it polls when it listens (see wait_listening).
        return self.pair(path, args + ["-b", path.addr4], args + ["-s", path.addr4], port)

    def start(self, seconds):
        """Verified traffic on both paths, connected when this returns."""
        loads, kinds = [], ("integrity", "perftest", "rping", "rstream")
        for path in self.t.topo.paths:
            for what in self.rng.sample(kinds, 2):
                procs = getattr(self, what)(path, seconds)
                loads.append(Load(what, path, procs))
        end = time.monotonic() + self.t.left(30)
        # Some may be at their end already when others are not connected yet.
        while not self.connected(lo for lo in loads if lo.runs()):
            if time.monotonic() > end:
                raise TimedOut("not connected: %s" % ", ".join(
                    map(str, loads)))
            time.sleep(0.1)
        return loads

    def connected(self, loads):
        """Whether each process of `loads` has a connection: perftest's have two,
        so that their number says nothing."""
        cms = objects("cm_id")
        pids = {c.get("pid") for c in cms if c.get("state") == "CONNECT"}
        return all(pid in pids for load in loads for proc in load.procs
                   for pid in [proc.pid] + children(proc.pid))

    # ---- disturbances -------------------------------------------------

    def nothing(self, loads):
        """No disturbance."""

    def flap(self, loads):
        """The interface of one side is away for a while; TCP goes on."""
        ns, netdev, v6 = self.rng.choice(((NS_A, IF_A, A6), (NS_B, IF_B, B6)))
        for load in loads:
            load.away = load.path is self.t.topo.wire
        for _ in range(self.rng.randrange(1, 4)):
            sh("ip", "link", "set", netdev, "down", netns=ns)
            # By the seed, as all here.
            time.sleep(self.rng.uniform(0.05, 0.8))
            sh("ip", "link", "set", netdev, "up", netns=ns)
            sh("ip", "addr", "replace", v6 + "/64", "dev", netdev, "nodad",
               netns=ns)
            # As above.
            time.sleep(self.rng.uniform(0.05, 0.5))

    def kill(self, loads):
        """Some processes die."""
        for load in self.rng.sample(loads, self.rng.randrange(1, len(loads))):
            load.spared = False
            self.rng.choice(load.procs).kill()

    def remove(self, loads):
        """`rdma link del` of a device in use."""
        topo = self.t.topo
        dev = self.rng.choice((topo.dev_lo, topo.dev_a, topo.dev_b))
        for load in loads:
            if dev in (load.path.server_dev, load.path.client_dev):
                load.spared = False
        sh("rdma", "link", "del", dev, timeout=60)
        topo.changed = True

    def unplug(self, loads):
        """The interfaces go away under their devices."""
        for load in loads:
            load.spared = load.path is not self.t.topo.wire
        sh("ip", "link", "del", IF_A, netns=NS_A, timeout=60)
        self.t.topo.changed = True

    def reload(self, loads):
        """The traffic ends, the module goes and comes."""
        for load in loads:
            load.end(self.t.left(ROUND_LIMIT))
        loads.clear()
        self.settled()
        self.t.unload()
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("3")
        free = available()
        self.free = free if self.free is None else self.free
        if free < self.free - DRIFT:
            raise Fail("%d KiB less than after the first unload" % (
                self.free - free))
        self.t.load()

    # ---- rounds -------------------------------------------------------

    def settled(self):
        """Nothing is left of programs that have ended."""
        end = time.monotonic() + self.t.left(10)
        while self.t.topo.leftovers():
            if time.monotonic() > end:
                raise Fail("left behind: %s" % self.t.topo.leftovers())
            time.sleep(0.1)

    def round(self, what):
        self.t.topo.ensure()
        loads = self.start(self.rng.randrange(2, 9))
        # In the midst of what they do.
        time.sleep(self.rng.uniform(0, 2))
        getattr(self, what)(loads)
        for load in loads:
            try:
                load.end(self.t.left(ROUND_LIMIT))
            except Fail as err:
                raise type(err)("%s in a round with '%s': %s" % (
                    load, what, err)) from None
        self.settled()
        self.t.reap()
        self.t.forget()
        self.rounds[what] = self.rounds.get(what, 0) + 1

    def run(self, seconds):
        kinds = ("nothing", "flap", "kill", "remove", "unplug", "reload")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            # All kinds, each time in another order.
            for what in self.rng.sample(kinds, len(kinds)):
                self.round(what)
                if time.monotonic() > end:
                    break


def available():
    """KiB of memory that is free or can be had."""
    with open("/proc/meminfo") as f:
        return int(f.read().split("MemAvailable:")[1].split()[0])


@test("soak", limit=260, cost=100, only_type="rsiw", long=True)
def soak(t):
    """Mixed verified traffic, flaps, kills, removals, reloads."""
    seconds = t.env.seconds or 60
    seed = t.env.seed or random.randrange(1, 1 << 32)
    print("# soak: %d s with --seed %d" % (seconds, seed), flush=True)
    run = Soak(t, seed)
    try:
        run.run(seconds)
    finally:
        print("# soak: rounds: %s" % ", ".join(
            "%s %d" % r for r in sorted(run.rounds.items())), flush=True)
    t.unload()
    t.load()
