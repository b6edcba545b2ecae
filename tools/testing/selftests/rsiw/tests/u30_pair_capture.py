# SPDX-License-Identifier: GPL-2.0
"""Two guests: what is on the wire between them.

The captures stay in the results directory; `dissect` judges them once the
guests are gone, where tshark takes seconds instead of minutes.
"""

from rsiwtest import fio, nfs
from rsiwtest.core import test
from rsiwtest.tools import perftest, rping
from tests.u10_pair import both, capture
from tests.u20_pair_services import nvme

SMALL = (("4k", "64k"), ("64k", "256k"))


def captured(t, path, work):
    """Does the work, captured."""
    capture(t, path.name, lambda: work(t, path))


def programs(t, path):
    """rping and perftest, with messages of many segments."""
    rping(t, path, count=5, size=60000)
    for op in ("send", "write", "read"):
        perftest(t, path, "ib_%s_bw" % op, 65536, 5)


@test("pair-capture-user", cost=30, pair=True)
def capture_user(t):
    """rping and perftest, captured."""
    both(t, captured, programs)


@test("pair-capture-short", cost=40, pair=True, only_type="rsiw")
def capture_short(t):
    """The same where this side wants FPDUs to fit segments."""
    with t.loaded_with("large_fpdus=0"):
        both(t, captured, programs)


@test("pair-capture-nvme", cost=30, pair=True)
def capture_nvme(t):
    """NVMe-oF, captured."""
    def work(t, path):
        target, host = nvme(t, path)
        with target, host:
            fio.verify(t, host.disk(), SMALL, netns=path.client_ns)

    both(t, captured, work)


@test("pair-capture-nfs", cost=40, pair=True)
def capture_nfs(t):
    """NFS, captured."""
    def work(t, path):
        with nfs.Server(t, t.machine(path.server_ns), path.addr4, None,
                        path.server_ns), \
                nfs.Mount(t.machine(path.client_ns), path.addr4) as mount:
            fio.verify(t, mount.path, SMALL, netns=path.client_ns)

    both(t, captured, work)
