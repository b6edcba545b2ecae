# SPDX-License-Identifier: GPL-2.0
"""rsiw-link: a device has all that its file asks for, at each boot and reload, or there is none."""

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
import threading

from rsiwtest import tls
from rsiwtest.core import Fail, test
from rsiwtest.machine import LOCAL, wait_until
from rsiwtest.tools import rping
from rsiwtest.topo import NS_A, devices, inside, sh, status
from rsiwtest.wire import IF_C, IF_S, Wire

from .t42_bound_device import setting

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../rsiw-link")
PSK = "tls=psk\ntls_keyring=%s\ntls_key=%s\n" % (tls.RING, tls.FRIEND)
MADE = "rsiw_" + IF_S
NAMES = ("tls", "tls_keyring", "tls_key", "bind_netdev", "port_map")


def parameters():
    """What they are now."""
    return {name: LOCAL.read(tls.PARAMETERS + name).strip() for name in NAMES}


class Etc:
    """A folder of settings, and one of keys."""

    def __init__(self, stack):
        self.path = stack.enter_context(tempfile.TemporaryDirectory(prefix="rsiw-etc-"))
        self.keys = os.path.join(self.path, "keys")
        os.mkdir(self.keys)

    def write(self, name, text, mode=0o644):
        """A file of it, as bytes or text; its path."""
        path = os.path.join(self.path, name)
        with open(path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        os.chmod(path, mode)
        return path

    def add(self, netdev=IF_S):
        """Makes the device; status, and what was said."""
        return status(TOOL, "--etc", self.path, "add", netdev, timeout=60)


def made(etc, netdev=IF_S, **want):
    """The device is made, with these settings, and the parameters are what they were."""
    before = parameters()
    rv, said = etc.add(netdev)
    if rv or said:
        raise Fail("status %d: %s" % (rv, said))
    found = {name: setting("rsiw_" + netdev, name) for name in want}
    if found != want:
        raise Fail("made with %s, not %s" % (found, want))
    if parameters() != before:
        raise Fail("the parameters are %s, and were %s" % (parameters(), before))


def not_made(etc, *words):
    """There is no device, for a reason that is said, and the parameters are what they were."""
    before = parameters()
    rv, said = etc.add()
    if not rv or MADE in devices():
        sh("rdma", "link", "del", MADE, check=False)
        raise Fail("it is made, with status %d: %s" % (rv, said))
    for word in words:
        if word not in said:
            raise Fail("'%s' is not said: %s" % (word, said))
    if parameters() != before:
        raise Fail("the parameters are %s, and were %s" % (parameters(), before))


def forget_keys():
    """As a boot does."""
    rv, ring = status("keyctl", "search", "@u", "keyring", tls.RING)
    if not rv:
        sh("keyctl", "clear", ring.strip())
        sh("keyctl", "unlink", ring.strip(), "@u")


def has_key():
    """Whether the last one of the files of keys is loaded."""
    return not status("keyctl", "search", "@u", "psk", tls.FRIEND)[0]


def add_both(t, etc):
    """Makes both devices at the same time: the processes that do."""
    return [t.start(TOOL, "--etc", etc.path, "add", netdev) for netdev in (IF_S, IF_C)]


@contextlib.contextmanager
def place(t):
    """A folder of settings, and interfaces for which they are."""
    with contextlib.ExitStack() as stack:
        wire = Wire(t)
        wire.add_device = lambda *_: None
        stack.enter_context(wire)
        etc = Etc(stack)
        stack.callback(lambda: [sh("rdma", "link", "del", dev) for dev in
                                ("rsiw_" + IF_S, "rsiw_" + IF_C) if dev in devices()])
        yield wire, etc


ENTRIES = "/proc/sys/net/core/rps_sock_flow_entries"


@test("link-rfs", cost=3, limit=60, only_type="rsiw")
def link_rfs(t):
    """A file may ask for Receive Flow Steering, which leaves alone what others have set."""
    queue = "/sys/class/net/%s/queues/rx-0/" % IF_S
    flows, mask = queue + "rps_flow_cnt", queue + "rps_cpus"

    def found():
        return [LOCAL.read(name).strip() for name in (ENTRIES, flows)] + [
            int(LOCAL.read(mask).strip().replace(",", ""), 16)]

    with place(t) as (_, etc):
        cpus = sum(1 << cpu for cpu in os.sched_getaffinity(0))
        try:
            with t.sub("off"):
                etc.write(IF_S + ".conf", "rfs=off\n")
                made(etc)
                if found() != ["0", "0", 0]:
                    raise Fail("%s" % found())
                sh("rdma", "link", "del", MADE)
            etc.write(IF_S + ".conf", "rfs=on\n")
            for before, want in ((["0", "0", 0], ["32768", "32768", cpus]),
                                 (["1024", "256", 1], ["1024", "256", 1])):
                with t.sub("on, %s before" % before):
                    for name, value in zip((ENTRIES, flows, mask), before):
                        LOCAL.write(name, "%s" % value)
                    made(etc)
                    sh("rdma", "link", "del", MADE)
                    if found() != want:
                        raise Fail("%s" % found())
            with t.sub("neither"):
                etc.write(IF_S + ".conf", "rfs=perhaps\n")
                not_made(etc, "rfs is on or off")
        finally:
            LOCAL.write(ENTRIES, "0")


@test("link-fails-closed", cost=20, limit=300, only_type="rsiw", packaged=True, long=True)
def fails_closed(t):
    """Whatever is missing of what a file asks for, there is no device."""
    tls.need(t)
    file = IF_S + ".conf"
    with place(t) as (_, etc):
        for name, text, *words in (
                ("no such setting", "tsl=psk\n", "no such setting: tsl=psk"),
                ("no value", "tls=\n", "no value"),
                ("no sense", "have tls\n", "not NAME=VALUE"),
                ("an unknown kind", "tls=yes\n", "tls is off, psk or x509"),
                ("a value that the module does not take", "bind_netdev=perhaps\n",
                 "does not take bind_netdev=perhaps"),
                ("no name of a key", "tls=psk\ntls_keyring=x\n", "needs tls_keyring and tls_key"),
                ("no keyring", PSK, "no keyring '%s'" % tls.RING),
                ("no configuration of tlshd", "tls=x509\ntlshd_conf=/nonexistent\n",
                 "needs /nonexistent")):
            with t.sub(name):
                etc.write(file, text)
                not_made(etc, *words)
        with t.sub("what is said for all others"):
            os.unlink(os.path.join(etc.path, file))
            default = etc.write("default.conf", PSK)
            not_made(etc, "no keyring")
            os.unlink(default)
        with t.sub("a port mapper in another namespace"):
            etc.write(file, "port_map=on\n")
            sh("ip", "-n", NS_A, "link", "add", IF_S, "type", "dummy")
            try:
                with inside(NS_A):
                    not_made(etc, "port_map=Y goes only in the first network namespace")
            finally:
                sh("ip", "-n", NS_A, "link", "del", IF_S)
        with t.sub("others may write the file"):
            etc.write(file, "bind_netdev=on\n", 0o666)
            not_made(etc, "others than root may write it")
        with tls.Keyring(tls.RING) as ring:
            etc.write(file, PSK)
            with t.sub("no key"):
                ring.add(tls.STRANGER)
                not_made(etc, "no key '%s'" % tls.FRIEND)
            with t.sub("a key with a longer name"):
                ring.add(tls.FRIEND + "s")
                not_made(etc, "no key '%s'" % tls.FRIEND)
                ring.add(tls.FRIEND)
                not_made(etc, "tlshd confuses them")
        with tls.Keyring(tls.RING) as ring:
            ring.add(tls.FRIEND)
            with t.sub("no tlshd"):
                not_made(etc, "needs tlshd")
            posing_as_tlshd(t, etc)
            with t.sub("somebody else writes the parameters"), tls.Agent(t):
                changed_meanwhile(etc)
        with t.sub("others may read a key"), tls.Agent(t):
            etc.write(file, PSK + "tls_key_files=%s\n" % etc.keys)
            etc.write("keys/" + tls.FRIEND, secrets.token_bytes(32), 0o644)
            not_made(etc, "others than root may read it")
        with t.sub("anybody's certificate"), tls.Authority() as authority:
            conf = etc.write("tlshd.conf", "".join(
                tls.CERTIFICATES % (side, authority.trusted, authority.certificate,
                                    authority.private) for side in ("client", "server")))
            whole = LOCAL.read(conf)
            etc.write(file, "tls=x509\ntlshd_conf=%s\n" % conf)
            for line in sorted(set(whole.splitlines())):
                if "=" in line:
                    etc.write("tlshd.conf", whole.replace(line + "\n", "", 1))
                    not_made(etc, "needs " + line.partition("=")[0])
            etc.write("tlshd.conf", whole.replace(authority.trusted, "/nonexistent"))
            not_made(etc, "no file /nonexistent")
        forget_keys()


def posing_as_tlshd(t, etc):
    """What somebody else runs by that name, or what another program is called, does not count."""
    os.chmod(etc.path, 0o755)
    for name, place, user in (("somebody's tlshd", shutil.copy, 65534),
                              ("another program by its name", os.symlink, 0)):
        with t.sub(name):
            path = os.path.join(etc.path, "tlshd")
            place(shutil.which("sleep"), path)
            with subprocess.Popen([path, "600"], user=user) as posing:
                try:
                    not_made(etc, "needs tlshd")
                finally:
                    posing.kill()
                    os.unlink(path)


def changed_meanwhile(etc):
    """Whoever writes a parameter at the wrong time has the device removed."""
    done = threading.Event()

    def write():
        while not done.is_set():
            LOCAL.write(tls.PARAMETERS + "tls", "off")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        rv, said = etc.add()
    finally:
        done.set()
        writer.join()
    # It may have come just too late: then the device has what it is to have.
    if MADE in devices() and (rv or setting(MADE, "tls") != "psk"):
        raise Fail("status %d, and a device with tls=%s: %s" % (rv, setting(MADE, "tls"), said))
    sh("rdma", "link", "del", MADE, check=False)


@test("link-psk", cost=20, limit=300, only_type="rsiw", packaged=True)
def with_keys(t):
    """TLS with keys, named in files: the same after the module, and all keys, have gone."""
    tls.need(t)
    with place(t) as (wire, etc), tls.Agent(t) as agent:
        for netdev in (IF_S, IF_C):
            etc.write(netdev + ".conf", "# Who may connect.\n\n" + PSK +
                      "tls_key_files=%s\nbind_netdev=auto\n" % etc.keys)
        friend = etc.write("keys/" + tls.FRIEND, secrets.token_bytes(32), 0o644)
        etc.write("keys/" + tls.STRANGER, secrets.token_bytes(32), 0o400)
        wire.path.server_dev, wire.path.client_dev = MADE, "rsiw_" + IF_C
        try:
            with t.sub("the keyring is left by one that failed"):
                not_made(etc, "others than root may read it")
                os.chmod(friend, 0o600)
                for _ in range(2):
                    not_made(etc, "start tlshd anew")
                forget_keys()
            for name in ("at first", "the module again", "all again"):
                with t.sub(name):
                    if name != "the module again":
                        # tlshd has not seen the keyring.
                        not_made(etc, "start tlshd anew")
                        agent.stop()
                        agent.start()
                    for netdev in (IF_S, IF_C):
                        made(etc, netdev, tls="psk", bind_netdev="on")
                    rping(t, wire.path, count=20)
                    if "%s: tls=psk bind_netdev=on" % MADE not in t.run(TOOL, "show"):
                        raise Fail("it is not shown")
                t.unload()
                t.load()
                if name == "the module again":
                    forget_keys()
            with t.sub("at the same time, and before tlshd"):
                for _ in range(t.rounds(2)):
                    forget_keys()
                    agent.stop()
                    procs = add_both(t, etc)
                    wait_until(lambda: "the keys are loaded", t.left(60), has_key)
                    agent.start()
                    for proc in procs:
                        proc.expect(t.left(60))
                    rping(t, wire.path, count=20)
                    for netdev in (IF_S, IF_C):
                        t.run(TOOL, "del", netdev)
        finally:
            forget_keys()
        t.topo.ensure()


@test("link-x509", cost=15, limit=300, only_type="rsiw")
def with_certificates(t):
    """TLS with certificates; devices that are made at the same time have what each is to have."""
    tls.need(t)
    with place(t) as (_, etc), tls.Authority() as authority, \
            tls.Agent(t, authority=authority) as agent:
        etc.write(IF_S + ".conf", "tls=x509\ntlshd_conf=%s.conf\nbind_netdev=off" % agent.base)
        etc.write(IF_C + ".conf", "tls=off\nbind_netdev=on\nport_map=N\n")
        made(etc, IF_S, tls="x509", bind_netdev="off")
        made(etc, IF_C, tls="off", bind_netdev="on")
        with t.sub("at the same time"):
            for _ in range(t.rounds(4)):
                for netdev in (IF_S, IF_C):
                    t.run(TOOL, "del", netdev)
                for proc in add_both(t, etc):
                    proc.expect(t.left(60))
                found = [setting("rsiw_" + netdev, name) for netdev in (IF_S, IF_C)
                         for name in ("tls", "bind_netdev")]
                if found != ["x509", "off", "off", "on"]:
                    raise Fail("the settings are %s" % found)


@test("link-plain", cost=4, only_type="rsiw")
def plain(t):
    """Without a file, a device has what the parameters say."""
    with place(t) as (_, etc):
        made(etc, bind_netdev="off")
        t.run(TOOL, "del", IF_S)
        if MADE in devices():
            raise Fail("it is still there")
        with tls.settings({"bind_netdev": "on"}):
            made(etc, bind_netdev="on")
        t.run(TOOL, "del", IF_S)
        # As the module takes them, which says Y or N of each.
        for word in ("1", "y", "on", "True", "0", "N", "off"):
            with t.sub("port_map=" + word):
                etc.write(IF_S + ".conf", "port_map=%s\n" % word)
                made(etc)
                t.run(TOOL, "del", IF_S)
        with t.sub("port_map=perhaps"):
            etc.write(IF_S + ".conf", "port_map=perhaps\n")
            not_made(etc, "does not take port_map=perhaps")
