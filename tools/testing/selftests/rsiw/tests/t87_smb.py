# SPDX-License-Identifier: GPL-2.0
"""SMB Direct on the devices: the kernel's own server and client."""

import re

from rsiwtest import fio, kmsg, smb
from rsiwtest.core import Fail, test

# Each request is more than a hundred RDMA Writes of the server, or registers as
# much memory for its Reads.
LARGE = (("4m", "16m"),)


# What is said when a connection is given up; the client would connect again.
LOST = re.compile("failed to post|ends the stream|disconnect", re.IGNORECASE)


@test("smb-verify", limit=600, cost=90, long=True, only_type="rsiw")
def smb_verify(t):
    """Jobs that write and read 4 MiB at a time, all at once, verified."""
    t.need("fio", "ksmbd.mountd", "ksmbd.adduser", "mount.cifs")
    for name in smb.MODULES:
        t.need_module(name)
    with smb.Wire(t), smb.Server(t), smb.Mount() as mount:
        log = kmsg.Kmsg()
        for rw in ("write", "randrw"):
            fio.start(t, mount.path, rw, LARGE, depth=4,
                      extra=("--numjobs=4",)).expect(t.left(300))
        lost = [line for line in log.read() if LOST.search(line)]
        if lost:
            raise Fail("a connection is lost:\n" + "\n".join(lost[:10]))
