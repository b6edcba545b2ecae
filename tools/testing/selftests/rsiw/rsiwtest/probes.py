# SPDX-License-Identifier: GPL-2.0
"""Calls of functions of the kernel, counted per task."""

import contextlib
import os
import re

from .core import Skip
from .machine import LOCAL

TRACING = "/sys/kernel/tracing"
EVENTS = TRACING + "/kprobe_events"


class Probes:
    """Functions that are being counted."""

    def __init__(self, names):
        self.names = names

    def calls(self, pid):
        """How often the task has called each of them so far."""
        calls = {}
        for name in self.names:
            hist = LOCAL.read("%s/events/rsiw/%s/hist" % (TRACING, name))
            hits = re.findall(r"common_pid:\s*(\d+) .*hitcount:\s*(\d+)", hist)
            calls[name] = sum(int(n) for who, n in hits if int(who) == pid)
        return calls


@contextlib.contextmanager
def counted(*names):
    """Counts the calls of these functions while it lasts."""
    if not os.path.exists(EVENTS):
        raise Skip("no kprobe events here")
    made = []
    try:
        for name in names:
            LOCAL.write(EVENTS, "p:rsiw/%s %s" % (name, name))
            made.append(name)
            LOCAL.write("%s/events/rsiw/%s/trigger" % (TRACING, name),
                        "hist:keys=common_pid")
        yield Probes(names)
    finally:
        for name in made:
            LOCAL.write("%s/events/rsiw/%s/trigger" % (TRACING, name),
                        "!hist:keys=common_pid")
            LOCAL.write(EVENTS, "-:rsiw/" + name)

