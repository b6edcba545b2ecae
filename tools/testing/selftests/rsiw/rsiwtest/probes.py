# SPDX-License-Identifier: GPL-2.0
"""Calls of functions of the kernel, counted per task."""

import contextlib
import os
import re

from . import traces
from .core import Skip
from .machine import LOCAL

EVENTS = traces.BASE + "/kprobe_events"


class Probes:
    """Functions whose calls are counted, once it is known for which task."""

    def __init__(self, names):
        self.names = names
        self.pid = None

    def count(self, pid):
        """Counts the calls of a task from here on."""
        self.pid = pid
        traces.empty()
        for name in self.names:
            event = "%s/events/rsiw/%s" % (traces.BASE, name)
            LOCAL.write(event + "/filter", "common_pid == %d" % pid)
            LOCAL.write(event + "/enable", "1")

    def calls(self):
        """How often the task has called each of them since."""
        trace = LOCAL.read(traces.BASE + "/trace")
        return {name: len(re.findall(r"-%d .*: %s: " % (self.pid, name), trace))
                for name in self.names}


@contextlib.contextmanager
def probed(*names):
    """Has probes of these functions while it lasts."""
    if not os.path.exists(EVENTS):
        raise Skip("no kprobe events here")
    made = []
    try:
        for name in names:
            LOCAL.write(EVENTS, "p:rsiw/%s %s" % (name, name))
            made.append(name)
        yield Probes(names)
    finally:
        for name in made:
            LOCAL.write("%s/events/rsiw/%s/enable" % (traces.BASE, name), "0")
            LOCAL.write(EVENTS, "-:rsiw/" + name)
