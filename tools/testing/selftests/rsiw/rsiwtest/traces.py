# SPDX-License-Identifier: GPL-2.0
"""The driver's trace events, through tracefs."""

import os
import re

from .core import Fail
from .machine import LOCAL
from .topo import sh

BASE = "/sys/kernel/tracing"
OURS = BASE + "/events/rsiw"


def empty():
    """Empties the trace. Opening it for a new beginning does that, what is written does not."""
    # Nothing is added until that is looked at.
    LOCAL.write(BASE + "/tracing_on", "0")
    with open(BASE + "/trace", "w"):
        pass
    left = [line for line in LOCAL.read(BASE + "/trace").splitlines()
            if line and not line.startswith("#")]
    LOCAL.write(BASE + "/tracing_on", "1")
    if left:
        raise Fail("%d lines stay in the trace: %s" % (len(left), left[:5]))


class Session:
    """While it lasts, events are recorded: those of these names, or all. `only`: a filter of
    the kernel's for the events of these names."""

    def __init__(self, *names, only=None):
        self.names, self.only = names, only

    def __enter__(self):
        if not os.path.ismount(BASE):
            sh("mount", "-t", "tracefs", "tracefs", BASE)
        # Room for what a short test does, on each processor.
        LOCAL.write(BASE + "/buffer_size_kb", "16384")
        empty()
        for name in self.names if self.only else ():
            LOCAL.write(os.path.join(OURS, name, "filter"), self.only)
        for name in self.names or [""]:
            LOCAL.write(os.path.join(OURS, name, "enable"), "1")
        return self

    def __exit__(self, *_):
        LOCAL.write(OURS + "/enable", "0")
        if self.only:
            LOCAL.write(OURS + "/filter", "0")
        empty()
        LOCAL.write(BASE + "/buffer_size_kb", "1408")

    def events(self, name):
        """What was recorded of an event, as dictionaries."""
        found = []
        for line in LOCAL.read(BASE + "/trace").splitlines():
            match = re.search(r" %s: (.*)$" % name, line)
            if match:
                found.append(fields(match.group(1)))
        return found


def fields(text):
    """name=value pairs, of which values may have spaces."""
    parts = re.split(r"(?:^| )(\w+)=", text)[1:]
    return dict(zip(parts[::2], parts[1::2]))


def names():
    """The events that there are."""
    return sorted(n for n in LOCAL.listdir(OURS)
                  if os.path.isdir(os.path.join(OURS, n)))


def expect(events, **want):
    """One of the events has these values."""
    for event in events:
        if all(event.get(k) == str(v) for k, v in want.items()):
            return event
    raise Fail("no event with %s; the first of %d: %s" % (
        want, len(events), events[:5]))
