# SPDX-License-Identifier: GPL-2.0
"""The counters of a device, and of queue pairs, as rdma(8) shows them."""

import json

from .topo import sh

# What rdma says besides the counters.
_LABELS = {"ifindex", "ifname", "port", "cntn", "mode", "pid", "comm", "lqpn",
           "qp-type", "type"}


def _counts(entry):
    return {k: v for k, v in entry.items() if k not in _LABELS}


def of_device(dev):
    """The counters of a device by name."""
    shown = json.loads(sh("rdma", "-j", "statistic", "show", "link", dev + "/1"))
    return _counts(shown[0])


def of_counters(dev):
    """The counters that queue pairs of a device are bound to: their entries,
    with the counts apart."""
    shown = json.loads(sh("rdma", "-j", "statistic", "qp", "show", "link",
                          dev + "/1") or "[]")
    return [(e, _counts(e)) for e in shown]


class Since:
    """What devices have counted since this was made."""

    def __init__(self, *devs):
        self.before = {dev: of_device(dev) for dev in devs}

    def of(self, dev):
        """Differences by name, without zeros."""
        before = self.before[dev]
        return {k: v - before[k] for k, v in of_device(dev).items()
                if v != before[k]}
