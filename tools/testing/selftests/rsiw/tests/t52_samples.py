# SPDX-License-Identifier: GPL-2.0
"""The samples do what their page says."""

import ctypes
import errno
import mmap
import os
import socket
import struct

from rsiwtest import kmsg, mpa
from rsiwtest.core import Fail, test
from rsiwtest.machine import wait_until
from rsiwtest.topo import LO4, devices, make_nodes, sh

PORTS = {"kernel": 7471, "program": 7472, "first": 7474}
MODULE = "rsiw_consumer"


@test("sample-verbs", cost=4)
def sample_verbs(t):
    """The verbs program: its words reach the server, and come back."""
    words = "some words"
    for path in t.topo.paths:
        with t.sub(path.name):
            server = t.start(t.bin("rsiw_verbs"), path.addr4,
                             netns=path.server_ns)
            server.wait_listening(PORTS["program"])
            client = t.start(t.bin("rsiw_verbs"), path.addr4, words,
                             netns=path.client_ns)
            if words not in client.expect(t.left(30)):
                raise Fail("the client has read:\n" + client.tail())
            if words not in server.expect(t.left(30)):
                raise Fail("the server has:\n" + server.tail())


@test("sample-first", cost=5)
def sample_first(t):
    """The server and the client of rsiw-first.rst: all messages come back; then a device goes."""
    for path in t.topo.paths:
        with t.sub(path.name):
            server = t.start(t.bin("first_server"), netns=path.server_ns)
            server.wait_listening(PORTS["first"])
            client = t.start(t.bin("first_client"), path.addr4, "3", netns=path.client_ns)
            if "message 3, back after" not in client.expect(t.left(30)):
                raise Fail("the client says:\n" + client.tail())
            if 'server: 3 messages, then "Work Request Flushed' not in server.expect(t.left(30)):
                raise Fail("the server says:\n" + server.tail())


@test("sample-kernel", cost=4)
def sample_kernel(t):
    """The kernel consumer: asks itself; nobody answers; its device goes away."""
    t.need_module(MODULE)
    log = kmsg.Kmsg()
    with t.sub("asks itself"):
        for _ in range(3):
            sh("modprobe", MODULE, "connect=" + LO4)
            sh("modprobe", "-r", MODULE)
        words = [line for line in log.read() if "greetings from" in line]
        if len(words) != 3:
            raise Fail("the log says %s" % words)
    with t.sub("an address that nobody has"):
        try:
            sh("modprobe", MODULE, "connect=10.79.79.79")
        except Fail:
            pass
        else:
            sh("modprobe", "-r", MODULE)
            raise Fail("it is connected")
    with t.sub("its device goes away under a connection"):
        sh("modprobe", MODULE)
        # An initiator of revision 1, which says no more.
        with socket.create_connection((LO4, PORTS["kernel"]), 20) as conn:
            mpa.ask(conn)
            with t.within(20, "the removal"):
                sh("rdma", "link", "del", t.topo.dev_lo)
        sh("modprobe", "-r", MODULE)
        t.topo.changed = True


NULL_MODULE = "rsiw_null"
CLASS = "/sys/class/infiniband_verbs"
# Commands of uverbs (<rdma/ib_user_verbs.h>): number, fields behind the address of the
# response, fields of the response.
GET_CONTEXT = (0, "", "II")
ALLOC_PD = (3, "", "I")
DEALLOC_PD = (4, "I", "")
REG_MR = (9, "QQQII", "III")
DEREG_MR = (13, "I", "")
CREATE_CQ = (18, "QIIiI", "II")
DESTROY_CQ = (20, "II", "II")
CREATE_QP = (24, "Q9I4B", "12I")
CREATE_SRQ = (31, "Q4I", "4I")


class Verbs:
    """What a process asks of a device that no library knows."""

    def __init__(self, dev):
        for name in os.listdir(CLASS):
            path = os.path.join(CLASS, name, "ibdev")
            if os.path.exists(path):
                with open(path) as f:
                    if f.read().strip() == dev:
                        self.fd = os.open("/dev/infiniband/" + name, os.O_RDWR)
                        return
        raise Fail("uverbs does not have " + dev)

    def ask(self, command, *args):
        """Gives a command; returns the fields of the response."""
        number, fields, answer = command
        out = ctypes.create_string_buffer(max(struct.calcsize("=" + answer), 1))
        body = struct.pack("=" + fields, *args)
        if answer:
            body = struct.pack("=Q", ctypes.addressof(out)) + body
        head = struct.pack("=IHH", number, (len(body) + 8) // 4,
                           struct.calcsize("=" + answer) // 4)
        os.write(self.fd, head + body)
        return struct.unpack("=" + answer, out.raw) if answer else ()

    def refuses(self, command, *args):
        """Whether a command is not offered."""
        try:
            self.ask(command, *args)
        except OSError as e:
            return e.errno == errno.EOPNOTSUPP
        return False


def use_null(dev):
    """Makes what the device has, and asks for what it does not have."""
    verbs = Verbs(dev)
    verbs.ask(GET_CONTEXT)
    pd, = verbs.ask(ALLOC_PD)
    cq, entries = verbs.ask(CREATE_CQ, 0, 16, 0, -1, 0)
    if entries < 16:
        raise Fail("a queue of %d entries" % entries)
    with mmap.mmap(-1, 2 * mmap.PAGESIZE) as mem:
        at = ctypes.addressof(ctypes.c_char.from_buffer(mem))
        keys = set()
        for _ in range(3):
            mr, lkey, _ = verbs.ask(REG_MR, at, len(mem), at, pd, 1)
            keys.add(lkey)
            verbs.ask(DEREG_MR, mr)
        if len(keys) != 3:
            raise Fail("three regions have the keys %s" % keys)
        if not verbs.refuses(CREATE_QP, 0, pd, cq, cq, 0, 1, 1, 1, 1, 0, 0, 2, 0, 0):
            raise Fail("it makes queue pairs")
        if not verbs.refuses(CREATE_SRQ, 0, pd, 1, 1, 0):
            raise Fail("it makes shared receive queues")
    verbs.ask(DESTROY_CQ, cq, 0)
    return verbs


@test("sample-null", cost=4)
def sample_null(t):
    """The driver in Rust that does nothing: what it has works, the rest is refused."""
    t.need_module(NULL_MODULE)
    sh("ip", "link", "add", "nulldev", "type", "dummy")
    sh("modprobe", NULL_MODULE)
    add = ("rdma", "link", "add", "null0", "type", "null", "netdev", "nulldev")
    try:
        with t.sub("a device is made, used and removed"):
            sh(*add)
            make_nodes()
            verbs = use_null("null0")
            os.close(verbs.fd)
            sh("rdma", "link", "del", "null0")
        with t.sub("it goes with its interface, in use or not"):
            sh(*add)
            make_nodes()
            verbs = use_null("null0")
            sh("ip", "link", "del", "nulldev")
            wait_until("the device goes", t.left(20), lambda: "null0" not in devices())
            os.close(verbs.fd)
        with t.sub("devices go with the module"):
            sh("ip", "link", "add", "nulldev", "type", "dummy")
            sh(*add)
            sh("modprobe", "-r", NULL_MODULE)
            if "null0" in devices():
                raise Fail("the device is still there")
    finally:
        sh("ip", "link", "del", "nulldev", check=False)
        sh("modprobe", "-r", NULL_MODULE, check=False)
