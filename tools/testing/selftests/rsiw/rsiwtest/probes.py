# SPDX-License-Identifier: GPL-2.0
"""Calls of functions of the kernel: counted per task, or with members of their arguments."""

import contextlib
import os
import re

from . import traces
from .core import Skip
from .machine import LOCAL

EVENTS = traces.BASE + "/kprobe_events"
FUNCTIONS = traces.BASE + "/dynamic_events"


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


@contextlib.contextmanager
def watched(members, *names):
    """Traces calls of these functions with members of their arguments, which are C expressions by
    name. Gives a function that returns what was seen: a dictionary for each call."""
    if not os.path.exists(FUNCTIONS):
        raise Skip("no dynamic events here")
    made = []
    try:
        for name in names:
            LOCAL.write(FUNCTIONS, "f:rsiw/%s %s %s" % (name, name, " ".join(
                "%s=%s" % member for member in members.items())))
            made.append(name)
        traces.empty()
        for name in names:
            LOCAL.write("%s/events/rsiw/%s/enable" % (traces.BASE, name), "1")
        pattern = r" (?:%s): .*?" % "|".join(names) + "".join(
            r" %s=(?P<%s>\S+)" % (name, name) for name in members)
        yield lambda: [m.groupdict() for m in
                       re.finditer(pattern, LOCAL.read(traces.BASE + "/trace"))]
    finally:
        for name in made:
            LOCAL.write("%s/events/rsiw/%s/enable" % (traces.BASE, name), "0")
            LOCAL.write(FUNCTIONS, "-:rsiw/" + name)
