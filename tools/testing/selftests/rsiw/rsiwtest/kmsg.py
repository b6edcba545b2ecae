# SPDX-License-Identifier: GPL-2.0
"""The kernel's log as part of the verdict, and stacks when a test hangs."""

import errno
import os
import re
import sys
import time

BAD = re.compile(
    r"KASAN|UBSAN|\bBUG\b|WARNING|refcount|possible (circular|recursive)|"
    r"INFO: task|\bhung\b|leaked|unregister_netdevice: waiting|"
    r"general protection|\bOops\b|Call Trace|rcu.*stall|restrack|"
    r"inconsistent lock state|suspicious RCU|sleeping function")

# How reports begin that may say nothing about us.
STARTS = re.compile(r"possible circular locking|vmalloc error|WARNING.* ib_cq_pool_cleanup\+")

# What one burst of the driver's rate limit lets through, and how often, in s.
BURST, INTERVAL = 10, 5


class Kmsg:
    """A reader of /dev/kmsg that starts at the end of the log."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def read(self):
        """The records since the last call, as text."""
        lines = []
        while True:
            try:
                record = os.read(self.fd, 16384).decode(errors="replace")
            except BlockingIOError:
                return lines
            except BrokenPipeError:
                lines.append("(records overwritten before they were read)")
                continue
            head, _, body = record.partition(";")
            stamp = head.split(",")[2] if head.count(",") >= 2 else "0"
            lines.append("[%.3f] %s" % (int(stamp) / 1e6,
                                        body.split("\n")[0]))


def rested():
    """A reader, once the driver may say something that is limited in rate: what earlier tests
    provoked counts for the same interval."""
    # The interval of the limit.
    time.sleep(INTERVAL + 1)
    return Kmsg()


def is_foreign(report, waited):
    """Whether a report is one that says nothing about us; `waited`: in the same test, the removal
    of a device had to wait for consumers before it.

    Of lockdep: nvmet takes nvmet_config_sem in handlers of rdma_cm, and waits
    under it for those of another connection, which lockdep cannot tell apart.
    Of completion queues: the core waits for consumers to give up their identifiers, and some
    return their completion queues after that.
    Of vmalloc: a test has the stack of a new thread fail, which the kernel
    allocates in a way that it complains about."""
    text = "\n".join(report)
    if "vmalloc error" in report[0]:
        return "dup_task_struct" in text
    if "ib_cq_pool_cleanup" in report[0]:
        return waited
    return ("nvmet_config_sem" in text and "handler_mutex" in text and
            "[rsiw]" not in text)


def without_foreign(lines):
    """The lines but for such reports."""
    out, report, waited = [], None, False
    for line in lines:
        if "rsiw-selftest: begin " in line:
            waited = False
        elif "removal waits for consumers" in line:
            waited = True
        if STARTS.search(line):
            report = []
        if report is None:
            out.append(line)
            continue
        report.append(line)
        if "</TASK>" in line:
            if not is_foreign(report, waited):
                out += report
            report = None
    return out + (report or [])


def bad_lines(lines, around=12):
    """The lines that fail a test, with what follows the first of them."""
    lines = without_foreign(lines)
    hits = [i for i, line in enumerate(lines) if BAD.search(line)]
    if not hits:
        return []
    shown = set(hits)
    shown.update(range(hits[0], min(len(lines), hits[0] + around)))
    return [lines[i] for i in sorted(shown)]


def says(lines, *words):
    """Whether there is a line with all of these words."""
    return any(all(word in line for word in words) for line in lines)


def error(name):
    """How the driver's lines have an error: by its name, or the number where the kernel has no
    names."""
    with open("/proc/kallsyms", encoding="utf-8") as f:
        has_names = any(line.split()[2] == "errname" for line in f)
    return name if has_names else "Error(%d)" % getattr(errno, name)


class Quiet:
    """Counts the driver's lines in the log of a `with` block (T-44); `authors`: how many of
    those who can cause lines do so, each on one device."""

    def __init__(self, t, what, authors=1):
        self.t, self.what, self.authors = t, what, authors

    def __enter__(self):
        self.log, self.start = Kmsg(), time.monotonic()
        return self

    def __exit__(self, failure, *_):
        took = time.monotonic() - self.start
        lines = [li for li in self.log.read() if "rsiw" in li and
                 "rsiw-selftest" not in li]
        os.close(self.log.fd)
        # One more line tells how many were left out.
        most = (BURST + 1) * (int(took / INTERVAL) + 2) * self.authors
        name = "T-44 %s: %d lines in %.0f s" % (self.what, len(lines), took)
        good = len(lines) <= most
        self.t.subtests.append((name, good,
                                "" if good else "\n".join(lines[-40:])))


def say(text):
    """Puts a line into the kernel's log."""
    try:
        with open("/dev/kmsg", "w") as f:
            f.write("rsiw-selftest: %s\n" % text)
    except OSError:
        pass


def _proc(path):
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return ""


def dump_stacks(path, kmsg):
    """Writes the kernel stacks of all tasks to the file `path`."""
    with open(path, "w") as out:
        for pid in sorted((p for p in os.listdir("/proc") if p.isdigit()),
                          key=int):
            try:
                tasks = os.listdir("/proc/%s/task" % pid)
            except OSError:
                continue
            for tid in tasks:
                base = "/proc/%s/task/%s/" % (pid, tid)
                stat = _proc(base + "stat")
                state = stat.rpartition(")")[2].split()[:1]
                out.write("== %s/%s %s state %s\n%s" % (
                    pid, tid, _proc(base + "comm").strip(),
                    "".join(state), _proc(base + "stack")))
        # Blocked tasks with their locks, and what the CPUs do.
        level = _proc("/proc/sys/kernel/printk").split()
        for key in "wl":
            try:
                if level:
                    with open("/proc/sys/kernel/printk", "w") as f:
                        f.write("1")
                with open("/proc/sysrq-trigger", "w") as f:
                    f.write(key)
                # The kernel writes by itself.
                time.sleep(0.5)
                out.write("== sysrq-%s\n%s\n" % (key, "\n".join(kmsg.read())))
            except OSError as err:
                out.write("== sysrq-%s: %s\n" % (key, err))
            finally:
                if level:
                    with open("/proc/sys/kernel/printk", "w") as f:
                        f.write(level[0])


def main():
    """Copies a log from stdin to stdout, without foreign reports, for tools/vm/check-log."""
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    for line in without_foreign(line.rstrip("\n") for line in sys.stdin):
        print(line)


if __name__ == "__main__":
    main()
