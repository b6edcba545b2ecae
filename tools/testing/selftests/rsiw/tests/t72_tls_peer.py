# SPDX-License-Identifier: GPL-2.0
"""Peers that speak TLS below MPA by themselves, record by record: how streams end, and in which
order connections are told of."""

import contextlib
import os
import random
import socket
import ssl
import struct
import subprocess
import time

from rsiwtest import kmsg, mpa, stats, tls
from rsiwtest.core import Fail, test
from rsiwtest.faults import failing_calls, text_like, text_of
from rsiwtest.machine import LOCAL, wait_until
from rsiwtest.tlspeer import DATA, ERROR, FATAL, HEADER, INIT, NONE, Listener, Stream, record
from rsiwtest.tools import ping_client, rounds_done
from rsiwtest.topo import sh, status
from rsiwtest.wire import C4, IF_C, S4

from .t71_tls import AT_ONCE, anew, dial, keys


class Meeting:
    """A verbs program that listens, and peers in Python that connect to it."""

    def __init__(self, t, secret):
        self.t, self.secret, self.port, self.slot = t, secret, t.port(), 0
        self.program = Listener(t, S4, self.port)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.program.__exit__(*args)

    def dial(self, **how):
        """A peer that has done the handshake."""
        return Stream(dial(self.port, self.t.left(20)), tls.FRIEND, self.secret, **how)

    def accept(self, port, *options, wait_ms=None):
        """The program takes the request that comes from this port."""
        self.slot = (self.slot + 1) % 8
        if wait_ms is None:
            wait_ms = int(1000 * self.t.left(20))
        self.program.say("serve", self.slot, wait_ms, port, *options)

    def answered(self, conn, *options):
        """The program accepts, the peer has the Reply, and its first message arrives."""
        self.accept(conn.sock.getsockname()[1], *options)
        mpa.take_reply(conn)
        mpa.send(conn, 1, b"hello")
        self.received(0, 5)

    def received(self, number, octets):
        """A message of the peer's has arrived, in the receive with this number."""
        found = self.program.say("wc", self.slot, "r", int(1000 * self.t.left(10)))
        if found.split()[:4] != [str(number), "0", "128", str(octets)]:
            raise Fail("the message: " + found)

    def connected(self, *options):
        """A peer whose connection is there."""
        conn = self.dial()
        mpa.request(conn)
        self.answered(conn, *options)
        return conn

    def ended(self, state, event):
        self.program.ended(self.slot, state, event)


def closes(t, meeting):
    """Ends in good order, by either side."""
    with t.sub("the peer closes"), meeting.connected() as conn:
        conn.finish()
        conn.fin()
        if (how := conn.end(t.left(10))) != "closed":
            raise Fail("the driver's stream is " + how)
        meeting.ended(INIT, NONE)
    with t.sub("the program closes"), meeting.connected() as conn:
        meeting.program.say("disconnect", meeting.slot)
        if (how := conn.end(t.left(10))) != "closed":
            raise Fail("the driver's stream is " + how)
        conn.finish()
        conn.fin()
        meeting.ended(INIT, NONE)


def at_once(t, meeting):
    """What is behind the last message is there when that is read."""
    for name, end, state, event in (
            ("a message, close_notify and FIN at once", good, INIT, NONE),
            ("a message and close_notify at once, then a FIN", Stream.finish, INIT, NONE),
            ("a message and a FIN at once", Stream.fin, ERROR, FATAL),
            ("a message and a fatal alert at once", Stream.fatal, ERROR, FATAL)):
        with t.sub(name), meeting.connected() as conn:
            with conn.held():
                mpa.send(conn, 2, b"last")
                end(conn)
            meeting.received(1, 4)
            if end is Stream.finish:
                # The FIN is not to come together with what announces it.
                time.sleep(0.5)
                conn.fin()
            how = conn.end(t.left(10))
            meeting.ended(state, event)
            if state == INIT and how != "closed":
                raise Fail("the driver's stream is " + how)


def after_the_programs(t, meeting):
    """Ends of the peer's stream when the program has ended its own."""
    for name, end in (("a FIN without close_notify", Stream.fin), ("a reset", Stream.reset)):
        with t.sub("the program closes, then " + name), meeting.connected() as conn:
            meeting.program.say("disconnect", meeting.slot)
            if (how := conn.end(t.left(10))) != "closed":
                raise Fail("the driver's stream is " + how)
            end(conn)
            meeting.ended(ERROR, FATAL)


def short_records(t, meeting):
    """What ends behind more records than are taken in at a time."""
    octets = os.urandom(1400)
    for name, end, state, event in (("a good end", good, INIT, NONE),
                                    ("a FIN without close_notify", Stream.fin, ERROR, FATAL),
                                    ("a reset", Stream.reset, ERROR, FATAL)):
        with t.sub("records of one octet at once, and " + name), \
                meeting.connected("recv=16", "rsize=1400") as conn:
            with conn.held():
                for octet in mpa.fpdu(2, octets):
                    conn.sendall(bytes((octet,)))
                if end is not Stream.reset:
                    end(conn)
            if end is Stream.reset:
                conn.reset()
            else:
                meeting.received(1, len(octets))
                conn.end(t.left(10))
            meeting.ended(state, event)


def nothing(conn):
    """What is no record."""
    conn.sock.sendall(os.urandom(64))


def version(conn):
    """A header of another version of the record layer."""
    conn.sock.sendall(record(DATA, os.urandom(64), version=b"\0\0"))


def unreadable(conn):
    """A record that nobody can read."""
    conn.sock.sendall(record(DATA, os.urandom(64)))


def huge(conn):
    """A record that is too long."""
    conn.sock.sendall(record(DATA, os.urandom(20000)))


def half(conn):
    """Half a record."""
    conn.sock.sendall(record(DATA, bytes(64))[:HEADER + 20])
    conn.fin()


def good(conn):
    """A close_notify and a FIN."""
    conn.finish()
    conn.fin()


# All other ends are as a reset is.
BAD_ENDS = {"a FIN without close_notify": Stream.fin, "a fatal alert": Stream.fatal,
            "a record that nobody can read": unreadable, "what is no record": nothing,
            "a header of another version": version, "a record that is too long": huge,
            "half a record": half, "a reset": Stream.reset}
ENDS = {"a good end": good, **BAD_ENDS}


def cut_off(t, meeting):
    """Ends of a connection that are none in good order."""
    for name, end in BAD_ENDS.items():
        with t.sub(name), meeting.connected() as conn:
            end(conn)
            meeting.ended(ERROR, FATAL)
            if end is not Stream.reset:
                conn.end(t.left(10))


def before_request(t, meeting):
    """Ends between the handshake and the MPA Request, and in that: nobody hears of them."""
    for sent in (0, 10):
        with t.sub("ends behind %d octets of a Request" % sent):
            for end in ENDS.values():
                with meeting.dial() as conn:
                    if sent:
                        conn.sendall(mpa.frame()[:sent])
                    end(conn)
                    if end is not Stream.reset:
                        conn.end(t.left(10))
            # The next one is the first that it hears of.
            meeting.connected().sock.close()


def answers(t, secret):
    """Who connects meets all kinds of ends in place of a Reply."""
    port = t.port()
    with socket.create_server((S4, port)) as listener:
        listener.settimeout(0.2)
        for name, end in ENDS.items():
            with t.sub("in place of a Reply, " + name):
                client = ping_client(t, S4, port, 1)
                with t.within(AT_ONCE, "the attempt"):
                    while client.poll() is None:
                        t.left()
                        with contextlib.suppress(TimeoutError):
                            sock, _ = listener.accept()
                            with sock:
                                sock.settimeout(t.left(10))
                                conn = Stream(sock, tls.FRIEND, secret, server=True)
                                mpa.take_request(t, conn)
                                with contextlib.suppress(ConnectionError):
                                    end(conn)
                                if end is not Stream.reset:
                                    conn.end(t.left(10))
                if rounds_done(client) or "cma event" not in client.output():
                    raise Fail("it goes on:\n" + client.tail())


def any_cuts(t, meeting):
    """Records end anywhere in messages, and have several."""
    count, seed = 12, random.randrange(1 << 32)
    rng = random.Random(seed)
    with t.sub("records of all sizes, seed %d" % seed):
        for most in (3, 50, 5000):
            messages = [rng.randbytes(rng.randrange(1400)) for _ in range(count)]
            stream_of = b"".join(mpa.fpdu(i, octets) for i, octets in enumerate(messages, 2))
            with meeting.connected("recv=16", "rsize=1400") as conn:
                while stream_of:
                    cut = rng.randrange(1, most + 1)
                    conn.sendall(stream_of[:cut])
                    stream_of = stream_of[cut:]
                for i, octets in enumerate(messages, 1):
                    meeting.received(i, len(octets))
                    at = (1 << 19) + 1400 * i
                    found = meeting.program.say("peek", meeting.slot, at, len(octets))
                    if octets and bytes.fromhex(found) != octets:
                        raise Fail("message %d is another one" % i)
                good(conn)
                meeting.ended(INIT, NONE)


def in_order(t, meeting):
    """Who has connected first is told of first, also if its handshake takes longer; a peer that
    stops in the middle of one holds up others from its address for a while only."""
    with t.sub("a handshake that takes longer"), meeting.dial(greets_only=True) as slow, \
            meeting.dial() as quick:
        mpa.request(quick)
        # So that the younger one would be told of if it were not to wait.
        time.sleep(1)
        slow.shake()
        mpa.request(slow)
        meeting.answered(quick)
        # The program has been told of the older one before, so that there is no need to wait.
        meeting.accept(slow.sock.getsockname()[1], wait_ms=0)
    with t.sub("a handshake that does not end"), meeting.dial(greets_only=True), \
            meeting.dial() as quick, t.within(2 * AT_ONCE, "the younger one"):
        mpa.request(quick)
        meeting.answered(quick)


def key_used_up(t, meeting, dev):
    """A key that has encrypted enough is not used any more: the stream ends in good order, which is
    counted."""
    log, before = kmsg.rested(), stats.of_device(dev)["tls_keys_used_up"]
    with failing_calls(text_of("rsiw"), {"rsiw_helper_tls_aes_octets": 1 << 38}) as calls, \
            meeting.connected() as conn:
        calls.arm(0)
        # Whatever has it look there.
        mpa.send(conn, 2, b"last")
        if (how := conn.end(t.left(10))) != "closed":
            raise Fail("the driver's stream is " + how)
        if not calls.disarm():
            raise Fail("nobody has asked")
        conn.fin()
        meeting.ended(ERROR, FATAL)
    lines = log.read()
    os.close(log.fd)
    if not kmsg.says(lines, "the key of TLS has encrypted enough"):
        raise Fail("the log says nothing of it: %s" % "\n".join(lines))
    if stats.of_device(dev)["tls_keys_used_up"] != before + 1:
        raise Fail("it is not counted")


# Not in the module socket.
SO_SNDBUFFORCE = 32
TCP_MEM = "/proc/sys/net/ipv4/tcp_mem"


@contextlib.contextmanager
def tcp_full():
    """TCP has much on its way between two sockets. Gives what makes all that it may have, or not."""
    before = LOCAL.read(TCP_MEM)
    with contextlib.ExitStack() as socks:
        # Each processor has a reserve of a MiB, which TCP's count does not have.
        for _ in range(2 + 2 * os.cpu_count()):
            ends = socks.enter_context(tcp_pair())
            ends[0].setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 20)
            ends[0].setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    ends[0].send(bytes(65536))
        try:
            yield lambda is_full: LOCAL.write(TCP_MEM, "1 1 1" if is_full else before)
        finally:
            LOCAL.write(TCP_MEM, before)


@contextlib.contextmanager
def tcp_pair():
    """Two sockets that are connected."""
    with socket.create_server(("127.0.0.1", 0)) as listener, \
            socket.create_connection(listener.getsockname()) as one:
        with listener.accept()[0] as other:
            yield one, other


def without_memory(t, meeting, full):
    """The driver's stream ends while TCP gets no memory: in good order when it has some, and as one
    that is cut if that takes too long."""
    def ends(conn):
        # What the driver has sent by now, it has sent without memory.
        time.sleep(1)
        full(False)
        status("tc", "qdisc", "del", "dev", IF_C, "root")
        if (how := conn.end(t.left(20))) != "closed":
            raise Fail("the driver's stream is " + how)
        conn.finish()
        conn.fin()

    with t.sub("nothing is on its way"), meeting.connected() as conn:
        full(True)
        meeting.program.say("disconnect", meeting.slot)
        ends(conn)
        meeting.ended(INIT, NONE)
    # With one of these, TLS still has memory for its record, and TCP none for that.
    for size in (1400, 1600, 1800, 2000):
        with t.sub("%d octets are on their way" % size), meeting.connected() as conn:
            sh("tc", "qdisc", "add", "dev", IF_C, "root", "netem", "loss", "100%")
            meeting.program.say("send", meeting.slot, 7, 2, 0, size)
            # So that the message is on its way, and has had its memory.
            time.sleep(0.2)
            full(True)
            meeting.program.say("disconnect", meeting.slot)
            ends(conn)
            meeting.ended(INIT, NONE)
    with t.sub("the program does not wait for that"), meeting.connected() as conn:
        full(True)
        meeting.program.say("disconnect", meeting.slot)
        meeting.program.say("destroy", meeting.slot)
        ends(conn)
    with t.sub("it gets none for long"), meeting.connected() as conn:
        full(True)
        meeting.program.say("disconnect", meeting.slot)
        if (how := conn.end(t.left(20))) != "cut off":
            raise Fail("the driver's stream is " + how)
        full(False)
        # After that it announces nothing, either.
        conn.fin()
        meeting.ended(ERROR, FATAL)


# Not in the module socket, either: a look at the numbers of TCP.
TCP_REPAIR, TCP_REPAIR_QUEUE, TCP_QUEUE_SEQ = 19, 20, 21
RECV_QUEUE, SEND_QUEUE, OFF_WITHOUT_PROBE = 1, 2, -1


def segment(conn, skip, octets):
    """Sends octets that TCP does not know of, so many behind those that it has sent."""
    def number(queue):
        conn.sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, queue)
        return conn.sock.getsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ) % (1 << 32)

    conn.sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    seq, ack = number(SEND_QUEUE), number(RECV_QUEUE)
    conn.sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, OFF_WITHOUT_PROBE)
    (source, own), (dest, port) = conn.sock.getsockname(), conn.sock.getpeername()

    def with_sum(value):
        return struct.pack("!HHIIBBHHH", own, port, (seq + skip) % (1 << 32), ack, 5 << 4, 0x18,
                           512, value, 0) + octets

    summed = socket.inet_aton(source) + socket.inet_aton(dest) + struct.pack(
        "!HH", socket.IPPROTO_TCP, len(with_sum(0))) + with_sum(0)
    summed += bytes(len(summed) % 2)
    value = sum(struct.unpack("!%dH" % (len(summed) // 2), summed)) % 0xffff
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP) as raw:
        raw.bind((source, 0))
        raw.sendto(with_sum(value ^ 0xffff), (dest, 0))


def found_later(t, meeting):
    """TLS has no memory for a record when the driver reads, and finds it by itself later. It takes
    memory for one whose segments overlap."""
    octets = os.urandom(1000)
    with t.sub("no memory for the last record"), meeting.connected() as conn, \
            failing_calls(text_like("tls", "^tls_strp_"), {"alloc_pages_noprof": 0}) as failing:
        conn.holds = True
        mpa.send(conn, 2, octets)
        conn.holds = False
        sealed = conn.out.read()
        failing.arm(0)
        segment(conn, 0, sealed[:500])
        segment(conn, 400, sealed[400:])
        meeting.received(1, len(octets))
        if not failing.disarm():
            raise Fail("nobody has asked for memory")
        # The driver's TCP has them.
        conn.sock.sendall(sealed)
        good(conn)
        meeting.ended(INIT, NONE)


def key_update(t, meeting):
    """By openssl, as Python cannot ask for one."""
    own, said = t.port(), b""
    peer = subprocess.Popen(
        ["openssl", "s_client", "-connect", "%s:%d" % (S4, meeting.port), "-bind",
         "%s:%d" % (C4, own), "-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256",
         "-psk_identity", tls.FRIEND, "-psk", meeting.secret.hex()],
        bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    os.set_blocking(peer.stdout.fileno(), False)

    def says(what):
        nonlocal said
        said += peer.stdout.read() or b""
        return what in said

    try:
        peer.stdin.write(mpa.frame())
        meeting.accept(own)
        wait_until(lambda: "a Reply: %s" % said, 10, lambda: says(b"MPA ID Rep Frame"))
        # A command, as it is the first of what comes at a time.
        peer.stdin.write(b"K\n")
        meeting.ended(ERROR, FATAL)
        wait_until(lambda: "KEYUPDATE: %s" % said, 5, lambda: says(b"KEYUPDATE"))
    finally:
        peer.kill()
        peer.wait()
        peer.stdin.close()
        peer.stdout.close()


@test("tls-key-used-up", cost=10, limit=200, only_type="rsiw", packaged=True)
def used_up(t):
    """The end of a key of AES."""
    tls.need(t)
    with keys() as (secret, both, *_), tls.Agent(t), tls.TlsWire(t, both, both) as wire, \
            Meeting(t, secret) as meeting:
        key_used_up(t, meeting, wire.dev_s)


@test("tls-no-memory", cost=40, limit=200, only_type="rsiw")
def no_memory(t):
    """A record for which TLS has no memory, and a stream that ends when TCP gets none."""
    tls.need(t)
    with keys() as (secret, both, *_), tls.Agent(t), tls.TlsWire(t, both, both), \
            Meeting(t, secret) as meeting:
        found_later(t, meeting)
        with tcp_full() as full:
            without_memory(t, meeting, full)


@test("tls-peer", cost=40, limit=400, only_type="rsiw")
def peers(t):
    """A peer that speaks TLS by itself: records of one octet, ends of all kinds."""
    tls.need(t)
    with keys() as (secret, both, *_), tls.Agent(t), tls.TlsWire(t, both, both):
        with Meeting(t, secret) as meeting:
            closes(t, meeting)
            with t.sub("a record for each octet"), meeting.dial() as conn:
                for octet in mpa.frame(b"private"):
                    conn.sendall(bytes((octet,)))
                meeting.answered(conn)
                conn.finish()
                conn.fin()
                meeting.ended(INIT, NONE)
            any_cuts(t, meeting)
            at_once(t, meeting)
            after_the_programs(t, meeting)
            short_records(t, meeting)
            cut_off(t, meeting)
            before_request(t, meeting)
            with t.sub("a key update"):
                key_update(t, meeting)
            in_order(t, meeting)
            with t.sub("one among many who say nothing"), contextlib.ExitStack() as silent:
                for _ in range(40):
                    silent.enter_context(dial(meeting.port, t.left(10)))
                with t.within(AT_ONCE, "a connection"):
                    meeting.connected().sock.close()
            with t.sub("another one connects"), meeting.connected() as conn:
                pass
        answers(t, secret)
        with t.sub("the module goes"):
            anew(t)
