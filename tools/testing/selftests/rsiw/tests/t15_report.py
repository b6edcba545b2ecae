# SPDX-License-Identifier: GPL-2.0
"""The tool that collects what a report of a problem should have."""

import glob
import os
import re
import shutil
import stat

from rsiwtest import libraries
from rsiwtest.core import Fail, test
from rsiwtest.tools import pinging

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                    "../../../../rsiw-report")


# Libraries are in a folder by the name of the machine.
PROVIDERS = glob.glob("/usr/lib/*-linux-gnu/libibverbs")[0]


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


# What would be addresses but for what follows them.
ENDS = ("rsiw: report: 192.0.2.77:7174: closed", "rsiw: report: by 192.0.2.77.",
        "rsiw: report: 2001:db8::77: 2001:db8::")
# One MAC, with colons, in names and in what cards make of theirs; and a number.
MACS = ("rsiw: report: 02:00:5e:00:53:77 enx02005e005377: rsiw_wlx02005e005377_lo "
        "portid 02005e005377 sent 123456789012")


def within_lines(t):
    """Addresses in front of a colon or a full stop, and in names."""
    with open("/dev/kmsg", "w", encoding="ascii") as f:
        for line in (*ENDS, MACS):
            print(line, file=f, flush=True)
    text = t.run(TOOL)
    if "192.0.2.77" in text or "2001:db8" in text:
        raise Fail(text)
    if not re.search(r"rsiw: report: (address-\d+) enx\1: rsiw_wlx\1_lo portid \1 "
                     "sent 123456789012$", text, re.M):
        raise Fail(text)
    names = dict.fromkeys(re.findall(r"rsiw: report: (?:by )?(address-\d+)(?::7174: closed|\.)$",
                                     text, re.M))
    if len(names) != 1 or not re.search(r"rsiw: report: address-\d+: address-\d+$", text, re.M):
        raise Fail(text)


def settings(t):
    """Those of modprobe, wherever packages and users put them."""
    for folder in ("/etc", "/run", "/usr/lib"):
        folder += "/modprobe.d"
        os.makedirs(folder, exist_ok=True)
        line = "# rsiw: a setting in %s" % folder
        path = os.path.join(folder, "rsiw-report.conf")
        with open(path, "w", encoding="ascii") as f:
            print(line, file=f)
        try:
            text = t.run(TOOL)
        finally:
            os.unlink(path)
        if "%s:%s" % (path, line) not in text:
            raise Fail(text)


# What is for the owner of a connection or region only.
SECRET = re.compile(r" (\w*[rl]key|iova|drv_base|\S*msn|\S*psn|\S*_nxt) (?!\(left out\))")


def out_file(t):
    """--out makes a file, and only that."""
    folder = os.path.join("/tmp", "rsiw-report")
    os.mkdir(folder, 0o777)
    target, out = os.path.join(folder, "target"), os.path.join(folder, "out")
    # Nothing there is no reason to fail.
    t.run(TOOL, "--out", out, "--netns", "no-such-namespace")
    if stat.S_IMODE(os.stat(out).st_mode) != 0o600:
        raise Fail("others may read it")
    with open(out, encoding="utf-8") as f:
        before = f.read()
    if "==== end" not in before:
        raise Fail(before)
    t.run(TOOL, "--out", out, expect=1)
    with open(out, encoding="utf-8") as f:
        if f.read() != before:
            raise Fail("a file that was there has changed")
    link = os.path.join(folder, "link")
    os.symlink(target, link)
    t.run(TOOL, "--out", link, expect=1)
    if os.path.exists(target):
        raise Fail("a link that leads nowhere was followed")
    # A shell that is told not to overwrite files does write to a device.
    os.mknod(target, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    t.run(TOOL, "--out", link, expect=1)


@test("report", cost=14, only_type="rsiw")
def report(t):
    """tools/rsiw-report shows a running connection and nothing that helps to forge."""
    path, port = t.topo.wire, t.port()
    pinging(t, path, port=port)
    text = t.run(TOOL, "--netns", path.server_ns)
    for want in ("==== versions", "parm:           mpa_crc", path.server_dev,
                 "rx_softirq_octets: 262144",
                 "tx_send_requests", "drv_iwarp_state RTS", "state LISTEN",
                 "network namespace " + path.server_ns, ":%d" % port,
                 "==== CRC", "instructions of the processor for it: ", "==== log", "==== end"):
        if want not in text:
            raise Fail("no '%s' in:\n%s" % (want, text))
    with t.sub("nothing that helps to forge"):
        if "local_dma_lkey (left out)" not in text or "sq-psn (left out)" not in text:
            raise Fail("not what is looked for:\n%s" % text)
        for line in text.splitlines():
            if SECRET.search(line):
                raise Fail(line)
    with t.sub("addresses only if they are asked for"):
        if path.addr4 in text or "address-1" not in text:
            raise Fail(text)
        if path.addr4 not in t.run(TOOL, "--netns", path.server_ns, "--addresses"):
            raise Fail("not even then")
        within_lines(t)
    with t.sub("settings"):
        settings(t)
    with t.sub("files of its own only"):
        out_file(t)
    with t.sub("whether programs use our library"):
        library(t, text)
    with t.sub("nothing but what was asked for"):
        t.run(TOOL, "--no-such-option", expect=2)
