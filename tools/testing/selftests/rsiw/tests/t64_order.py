# SPDX-License-Identifier: GPL-2.0
"""In which order the octets of a message come to memory, on processors with fast string
instructions and without: `tools/vm/check` boots a guest of either kind."""

from rsiwtest.core import test


@test("order", limit=600, cost=40, only_type="rsiw")
def order(t):
    """Who sees the last octet of a message sees all of it."""
    for value, paths in ((0, t.topo.paths), (2, [t.topo.loopback])):
        with t.loaded_with("direct=%d" % value):
            for path in paths:
                with t.sub("direct=%d, %s" % (value, path.name)):
                    t.own("order", path)
