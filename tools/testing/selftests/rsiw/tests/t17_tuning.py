# SPDX-License-Identifier: GPL-2.0
"""What of the data path can be turned, in debugfs."""

import errno
import os

from rsiwtest.core import Fail, test
from rsiwtest.machine import LOCAL
from rsiwtest.tools import perftest, rping
from rsiwtest.topo import sh, status

DIRECTORY = "/sys/kernel/debug/rsiw"

# The default, the least and the most.
KNOBS = {
    "rx_softirq_octets": (262144, 4096, 1048576),
    "rx_work_octets": (1048576, 4096, 4194304),
    "tx_batch_octets": (131072, 4096, 131072),
    "tx_run_octets": (1048576, 4096, 1048576),
}


def directory(dev, netns=None):
    """Where a device has its numbers: its own number in `rdma dev show`."""
    shown = sh("rdma", "dev", "show", dev, netns=netns)
    return os.path.join(DIRECTORY, shown.split(":")[0].strip())


def values(where):
    """All numbers of a device."""
    return {name: int(LOCAL.read(os.path.join(where, name)))
            for name in os.listdir(where)}


def refused(path, text):
    """Why this cannot be written; 0 if it can."""
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError as error:
        return error.errno
    return 0


@test("tuning", cost=20, only_type="rsiw")
def tuning(t):
    """Budgets are read and written; data gets through with any."""
    topo = t.topo
    wheres = [directory(topo.dev_a), directory(topo.dev_b)]
    where = wheres[0]
    with t.sub("defaults"):
        for each in wheres:
            if values(each) != {name: knob[0] for name, knob in KNOBS.items()}:
                raise Fail("%s: %s" % (each, values(each)))
        for name in KNOBS:
            mode = os.stat(os.path.join(where, name)).st_mode & 0o777
            if mode != 0o600:
                raise Fail("%s: mode %o" % (name, mode))
    with t.sub("what is no value"):
        for name, (default, least, most) in KNOBS.items():
            path = os.path.join(where, name)
            bad = ["\n", "many", "-1", str(most + 1), str(1 << 32)]
            for text in bad + ([str(least - 1)] if least else []):
                if refused(path, text) != errno.EINVAL:
                    raise Fail("%s takes %r" % (name, text))
            if int(LOCAL.read(path)) != default:
                raise Fail("%s was changed" % name)
    for index, what in ((1, "the least"), (2, "the most")):
        with t.sub(what):
            topo.changed = True
            for each in wheres:
                for name, knob in KNOBS.items():
                    LOCAL.write(os.path.join(each, name), str(knob[index]))
                if values(each) != {n: knob[index] for n, knob in KNOBS.items()}:
                    raise Fail("%s: %s" % (each, values(each)))
            rping(t, topo.wire, count=200, size=4096)
            perftest(t, topo.wire, "ib_send_bw", 64, 500)
            perftest(t, topo.wire, "ib_write_bw", 1 << 20, 10)
            perftest(t, topo.wire, "ib_read_bw", 65536, 30, events=True)
            perftest(t, topo.wire, "ib_send_lat", 65536, 20)
    with t.sub("a new name"):
        sh("rdma", "dev", "set", topo.dev_a, "name", "rsiw_renamed")
        try:
            if directory("rsiw_renamed") != where or not os.path.isdir(where):
                raise Fail("the directory is another one")
        finally:
            sh("rdma", "dev", "set", "rsiw_renamed", "name", topo.dev_a)
    with t.sub("removed with a file open"):
        with open(os.path.join(where, "tx_run_octets"), "r+b", buffering=0) as file:
            sh("rdma", "link", "del", topo.dev_a)
            if os.path.exists(where):
                raise Fail("%s is still there" % where)
            for use in (lambda: file.read(16), lambda: file.write(b"1")):
                try:
                    use()
                except OSError:
                    continue
                raise Fail("a file of a removed device can be used")
            # The file keeps the module.
            if not status("modprobe", "-r", t.env.module)[0]:
                raise Fail("the module went although a file is open")
    with t.sub("the module goes"):
        t.unload()
        if os.path.exists(DIRECTORY):
            raise Fail("%s is still there" % DIRECTORY)
        t.load()
