# SPDX-License-Identifier: GPL-2.0
"""TLS below MPA: keys, certificates, the daemon that does the handshakes, and devices that
want it."""

import contextlib
import os
import secrets
import subprocess
import tempfile

from .core import Fail
from .machine import LOCAL, wait_until
from .proc import Proc
from .topo import A4, B4, NS_A, NS_B, sh, status
from .wire import C4, IF_C, S4, Wire

PARAMETERS = "/sys/module/rsiw/parameters/"
# Who those are that may connect. A key of the type "psk" is found by the beginning of its name,
# so no name of these begins with another.
FRIEND, STRANGER = "rsiw-friend", "other-rsiw"
# In which tlshd looks for the keys of those who connect.
RING = "rsiw-tls"
# All that the possessor may, the owner may: processes find the keys by number, too, in whatever
# session they are.
ALL_TO_OWNER = "0x3f3f0000"
ADDRESSES = (S4, C4, A4, B4)


class Keyring:
    """A keyring of this user, and the keys in it; both go with the `with` block."""

    def __init__(self, name):
        self.name, self.serial = name, 0

    @classmethod
    def found(cls, name):
        """One that the kernel has, by its name."""
        ring = cls(name)
        for line in LOCAL.read("/proc/keys").splitlines():
            row = line.split(None, 8)
            if row[7] == "keyring" and row[8].rsplit(":", 1)[0] == name:
                ring.serial = int(row[0], 16)
                return ring
        raise Fail("no keyring " + name)

    def remove(self, key):
        """Takes a key out, if it is there."""
        status("keyctl", "unlink", str(key), str(self.serial))

    def __enter__(self):
        self.serial = int(sh("keyctl", "newring", self.name, "@u"))
        sh("keyctl", "setperm", str(self.serial), ALL_TO_OWNER)
        return self

    def add(self, identity, secret=None):
        """A key for pre-shared use, random if nothing is said; its number."""
        done = subprocess.run(["keyctl", "padd", "psk", identity, str(self.serial)],
                              input=secret or secrets.token_bytes(32), capture_output=True,
                              timeout=30, check=False)
        if done.returncode:
            raise Fail("no key '%s': %s" % (identity, done.stderr.decode()))
        serial = int(done.stdout)
        sh("keyctl", "setperm", str(serial), ALL_TO_OWNER)
        return serial

    def __exit__(self, *_):
        sh("keyctl", "clear", str(self.serial))
        sh("keyctl", "unlink", str(self.serial), "@u")


# Of openssl: what it asks for, and what the two kinds of certificates say.
REQUEST = """\
[req]
distinguished_name = name
prompt = no
[name]
CN = rsiw
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign
[host]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
subjectAltName = %s
"""


class Authority:
    """Who signs certificates, in a folder of its own, and one of these, for a host that has all
    of these addresses."""

    def __init__(self, addresses=ADDRESSES):
        self.folder = tempfile.TemporaryDirectory(prefix="rsiw-tls-")
        self.request = self.file("request")
        with open(self.request, "w", encoding="ascii") as f:
            f.write(REQUEST % ",".join("IP:" + addr for addr in addresses))
        self.trusted = self.sign("authority")
        self.certificate = self.sign("host", "-CA", self.trusted, "-CAkey",
                                     self.key("authority"))
        self.private = self.key("host")

    def file(self, name):
        return os.path.join(self.folder.name, name)

    def key(self, name):
        return self.file(name + ".key")

    def sign(self, name, *by):
        """A new key, and a certificate of it; where that is."""
        path = self.file(name + ".pem")
        sh("openssl", "req", "-x509", "-config", self.request, "-extensions", name, *by,
           "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc",
           "-keyout", self.key(name), "-out", path, "-days", "2")
        os.chmod(path, 0o644)
        return path

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()


# With what it says of each handshake; the names of files are empty where there are none.
CONFIGURATION = """\
[debug]
loglevel=1
[authenticate]
keyrings=%s
"""
CERTIFICATES = """\
[authenticate.%s]
x509.truststore=%s
x509.certificate=%s
x509.private_key=%s
"""


class Agent:
    """tlshd in a network namespace, with a configuration of its own. It is none of the test's
    processes: it survives what fails in a subtest."""

    count = 0

    def __init__(self, t, netns=None, authority=None, ring=RING, env=None):
        self.t, self.netns, self.env, self.proc = t, netns, env, None
        Agent.count += 1
        self.base = os.path.join(t.env.results, "%s.tlshd%d" % (t.test.name, Agent.count))
        text = CONFIGURATION % ring
        if authority:
            for side in ("client", "server"):
                text += CERTIFICATES % (side, authority.trusted, authority.certificate,
                                        authority.private)
        with open(self.base + ".conf", "w", encoding="ascii") as f:
            f.write(text)

    def start(self):
        """Starts it; the kernel knows of it then."""
        self.proc = Proc(["tlshd", "-s", "-c", self.base + ".conf"], self.base + ".log",
                         self.netns, self.env, slow=self.t.env.slow)
        wait_until(lambda: "tlshd is there:\n" + self.proc.tail(), 15, self.is_there)

    def is_there(self):
        """Whether it is told of handshakes: its netlink socket is in a group."""
        pid = self.proc.pid
        if self.proc.poll() is not None:
            raise Fail("tlshd ends with status %s:\n%s" % (self.proc.poll(), self.proc.tail()))
        rows = [row.split() for row in
                LOCAL.read("/proc/%d/net/netlink" % pid).splitlines()[1:]]
        # Its port is the process, with a number above that.
        return any(int(row[2]) & 0x3fffff == pid and int(row[3], 16) for row in rows)

    def children(self):
        """Its processes that do a handshake now."""
        # Not every kernel has the file of /proc that lists them.
        _, text = status("pgrep", "-P", str(self.proc.pid))
        return [int(pid) for pid in text.split()]

    def signal(self, sig):
        """To all of its processes."""
        self.proc.kill(sig)

    def stop(self):
        """Ends it, if it runs."""
        if self.proc and not self.proc.reap():
            raise Fail("tlshd cannot be killed")
        self.proc = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()


@contextlib.contextmanager
def settings(values):
    """Devices that are made within this have these values of the module's parameters."""
    before = {name: LOCAL.read(PARAMETERS + name).strip() for name in values}
    try:
        for name, value in values.items():
            LOCAL.write(PARAMETERS + name, str(value))
        yield
    finally:
        for name, value in before.items():
            LOCAL.write(PARAMETERS + name, value)


def psk(ring, key):
    """The parameters of a device that knows the keys of a keyring, and shows this one."""
    return {"tls_keyring": ring.serial, "tls_key": key, "tls": "psk"}


OFF, X509 = {"tls": "off"}, {"tls": "x509"}


class TlsWire(Wire):
    """Server and client device on a veth pair, each with settings of its own."""

    # Where packets are as others see them.
    outside = IF_C

    def __init__(self, t, server, client):
        super().__init__(t)
        self.settings = {self.dev_s: server, self.dev_c: client}

    def add_device(self, dev, netdev):
        with settings(self.settings[dev]):
            super().add_device(dev, netdev)


@contextlib.contextmanager
def between_namespaces(t, values, authority=None, clients=None):
    """The devices of the two namespaces anew, with these values, and a tlshd in each; that of
    the client's has its certificate from somebody else if `clients` says so. Gives the server's
    tlshd."""
    with Agent(t, NS_A, authority) as agent, Agent(t, NS_B, clients or authority):
        t.topo.changed = True
        for dev in (t.topo.dev_a, t.topo.dev_b):
            sh("rdma", "link", "del", dev)
        with settings(values):
            t.topo.add_wire_links()
        yield agent


def need(t):
    """Skips the test where the agent, or what it needs of the kernel, is missing."""
    t.need("tlshd", "keyctl", "openssl")
    for module in ("tls", "nvme-keyring"):
        t.need_module(module)
        sh("modprobe", module)
