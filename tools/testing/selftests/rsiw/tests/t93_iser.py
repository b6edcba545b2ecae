# SPDX-License-Identifier: GPL-2.0
"""iSCSI over RDMA, with the target's one port for TCP and RDMA.

Not on the debugging kernel, which has no iSER and is too slow for it: the core
follows a null pointer if the port mapper's daemon answers before the core has noted
what it asked (iwpm_register_pid).
"""

from rsiwtest import fio
from rsiwtest.core import Fail, test
from rsiwtest.iscsi import PORT, Initiator, Session, Target
from rsiwtest.machine import LOCAL
from rsiwtest.portmap import daemon
from rsiwtest.topo import sh
from rsiwtest.wire import Wire


@test("iser", cost=30, only_type="rsiw", packaged=True, last=True)
def iser(t):
    """LIO serves one port over TCP and RDMA; verified I/O through RDMA."""
    t.need("iscsid", "iscsiadm")
    with t.loaded_with("port_map=1"), Wire(t) as wire, \
            daemon(t, wire.path.addr4), \
            Target(LOCAL, wire.path.addr4), Initiator(t, LOCAL), \
            Session(LOCAL, wire.path.addr4) as session:
        if ":%d " % PORT not in sh("ss", "-Htln"):
            raise Fail("the target does not listen for TCP")
        if "iser" not in LOCAL.sh("iscsiadm", "-m", "session"):
            raise Fail("the session is none of iSER")
        fio.verify(t, session.disk(), fio.FEW)
