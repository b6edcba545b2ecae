# SPDX-License-Identifier: GPL-2.0
"""What the guest's parts of the benchmarks have in common."""

import os
import select
import sys


def wait_still(proc, seconds):
    """Waits for its end without waking up, which would be counted."""
    fd = os.pidfd_open(proc.pid)
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.poll(seconds * 1000)
    os.close(fd)


def prepare_counting():
    """Same addresses in all programs, the kernel's own can be read, and nothing
    that works now and then on its own account."""
    for name, value in (
            ("/proc/sys/kernel/randomize_va_space", 0),
            ("/proc/sys/kernel/kptr_restrict", 0),
            ("/sys/kernel/mm/transparent_hugepage/khugepaged/"
             "scan_sleep_millisecs", 4000000000)):
        try:
            with open(name, "w") as f:
                f.write("%d\n" % value)
        except OSError as err:
            print("%s: %s" % (name, err), file=sys.stderr)
