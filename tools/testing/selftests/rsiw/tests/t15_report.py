# SPDX-License-Identifier: GPL-2.0
"""The tool that collects what a report of a problem should have."""

import os
import shutil

from rsiwtest import libraries
from rsiwtest.core import Fail, test
from rsiwtest.tools import pinging

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                    "../../../../rsiw-report")


PROVIDERS = "/usr/lib/x86_64-linux-gnu/libibverbs"


def library(t, before):
    """A provider for another version of libibverbs is not silent."""
    ours = libraries.file_of(t.env.library)
    if "of rsiw, for version" in before:
        raise Fail("there is one already")
    for version, said in (("34", "is used"), ("99", "is not used: libibverbs has 34")):
        provider = "%s/librsiw-rdmav%s.so" % (PROVIDERS, version)
        shutil.copy(ours, provider)
        try:
            text = t.run(TOOL)
        finally:
            os.unlink(provider)
        want = "%s: of rsiw, for version %s of the interface, %s" % (provider, version, said)
        if want not in text.splitlines():
            raise Fail("no '%s' in:\n%s" % (want, text))


@test("report", cost=10, only_type="rsiw")
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
    with t.sub("whether programs use our library"):
        library(t, text)
    with t.sub("nothing but what was asked for"):
        t.run(TOOL, "--no-such-option", expect=2)
    with t.sub("without the module's devices"):
        # Nothing there is no reason to fail.
        t.run(TOOL, "--out", os.path.join(t.env.results, "report.txt"),
              "--netns", "no-such-namespace")
