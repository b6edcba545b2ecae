# SPDX-License-Identifier: GPL-2.0
"""Module parameters."""

import os

from rsiwtest.core import Fail, test
from rsiwtest.machine import LOCAL
from rsiwtest.tools import pinging, rping
from rsiwtest.topo import status

from .t13_resources import details

PARAMETERS = "/sys/module/rsiw/parameters"


def value(name):
    """What a parameter is now."""
    return LOCAL.read(os.path.join(PARAMETERS, name)).strip()


def crc_of_connection(t):
    """Whether a new connection has CRCs, as `rdma resource` says."""
    _, client = pinging(t, t.topo.wire)
    crc = details("qp", pid=client.pid)[0]["drv_crc"]
    t.reap()
    return crc


@test("params", cost=5, only_type="rsiw")
def params(t):
    """Parameters change at run time, for new connections; the last of several counts."""
    with t.sub("at run time"):
        if crc_of_connection(t) != "yes":
            raise Fail("no CRCs by default")
        LOCAL.write(PARAMETERS + "/mpa_crc", "N")
        try:
            if crc_of_connection(t) != "no":
                raise Fail("CRCs although both sides do without")
        finally:
            LOCAL.write(PARAMETERS + "/mpa_crc", "Y")
        rping(t, t.topo.wire, count=20)
    with t.sub("given twice"):
        t.unload()
        t.load("mpa_crc=1", "siw_link_type=0", "mpa_crc=0", "siw_link_type=1")
        found = value("mpa_crc"), value("siw_link_type")
        t.unload()
        t.load()
        if found != ("N", "Y"):
            raise Fail("not the last values: %s" % (found,))
    with t.sub("nonsense"):
        t.unload()
        rv, out = t.try_load("mpa_crc=perhaps")
        if not rv:
            raise Fail("loaded with mpa_crc=perhaps: %s" % out)
        t.load()
        for name, wrong in (("direct", "3"), ("rnr_wait_ms", "60001"),
                            ("rnr_wait_ms", "-1"), ("tls", "perhaps"), ("tls_key", "x"),
                            ("bind_netdev", "perhaps")):
            before = value(name)
            rv, _ = status("sh", "-c", "echo %s > %s/%s" % (wrong, PARAMETERS, name))
            if not rv or value(name) != before:
                raise Fail("%s: %s is taken" % (name, wrong))
