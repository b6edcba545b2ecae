# SPDX-License-Identifier: GPL-2.0
"""The tool that collects what a report of a problem should have."""

import os

from rsiwtest.core import Fail, test
from rsiwtest.tools import pinging

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                    "../../../../rsiw-report")


@test("report", cost=4, only_type="rsiw")
def report(t):
    """tools/rsiw-report shows a running connection and no keys."""
    path, port = t.topo.wire, t.port()
    pinging(t, path, port=port)
    text = t.run(TOOL, "--netns", path.server_ns)
    for want in ("==== versions", "parm:           mpa_crc", path.server_dev,
                 "rx_softirq_octets: 262144",
                 "tx_send_requests", "drv_iwarp_state RTS", "state LISTEN",
                 "network namespace " + path.server_ns, ":%d" % port,
                 "==== log", "==== end"):
        if want not in text:
            raise Fail("no '%s' in:\n%s" % (want, text))
    for line in text.splitlines():
        for key in (" rkey ", " lkey "):
            if key in line and key + "(left out)" not in line:
                raise Fail("a key: %s" % line)
    with t.sub("nothing but what was asked for"):
        t.run(TOOL, "--no-such-option", expect=2)
    with t.sub("without the module's devices"):
        # Nothing there is no reason to fail.
        t.run(TOOL, "--out", os.path.join(t.env.results, "report.txt"),
              "--netns", "no-such-namespace")
