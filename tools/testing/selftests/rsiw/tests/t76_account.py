# SPDX-License-Identifier: GPL-2.0
"""What many objects of one process cost others."""

import signal

from rsiwtest.core import Fail, test
from rsiwtest.probes import counted


def hoard(t, kind, count, *args, group=None):
    """The program that makes objects of a kind, started; in a cgroup."""
    argv = [t.bin("hoard"), *t.topo.loopback.args(), "--port", t.port(),
            "--kind", kind, "--count", count, "--limit", int(t.left()), *args]
    if group:
        argv = ["sh", "-c", "echo $$ >%s/cgroup.procs && exec \"$@\"" % group,
                "sh", *argv]
    return t.start(*argv)


WAITS = ("synchronize_rcu", "synchronize_rcu_expedited", "rcu_barrier")


@test("many-qps", cost=8)
def many_qps(t):
    """Queue pairs end without a grace period each, given back or not."""
    count = t.rounds(1000)
    for end in ("given back", "left behind"):
        with t.sub("%d queue pairs, %s" % (count, end)), \
                counted(*WAITS) as probes:
            proc = hoard(t, "qp", count, "--hold")
            proc.wait_output("all %d: asked for" % count, t.left())
            before = probes.calls(proc.pid)
            if end == "given back":
                proc.kill(signal.SIGUSR1)
                proc.wait_output("given back", t.left())
            else:
                proc.reap(t.left())
            waits = {name: calls - before[name]
                     for name, calls in probes.calls(proc.pid).items()}
            proc.reap()
            if sum(waits.values()) > count // 20:
                raise Fail("for %d queue pairs: %s" % (count, waits))
