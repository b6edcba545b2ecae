# SPDX-License-Identifier: GPL-2.0
"""TLS below MPA, which the kernel does with keys of tlshd's: what works in the clear works, nobody
else reads it or gets in, and tlshd holds nothing up."""

import contextlib
import os
import random
import secrets
import signal
import socket
import ssl
import subprocess
import time

from rsiwtest import kmsg, mpa, secure, stats, tls
from rsiwtest.core import Fail, test
from rsiwtest.machine import wait_until
from rsiwtest.tlspeer import DATA, ERROR, FATAL, HEADER, INIT, NONE, Listener, Stream, record
from rsiwtest.tools import Perftest, perftest, ping_client, pinging, rounds_done, rping
from rsiwtest.topo import NS_A, NS_B, sh
from rsiwtest.wire import C4, IF_C, IF_S, S4

from . import t90_netdev
from .t13_resources import details
from .t50_rsocket import stream

# Until somebody is refused who speaks otherwise, or when there is nobody to do a handshake.
AT_ONCE = 8
# Until an attempt ends: TCP has 20 s, what comes then 30 s.
SET_UP = 55
# What waits for nobody.
SOON = 5


@contextlib.contextmanager
def keys():
    """A key that both sides have, and what a device of theirs is told; where others are kept."""
    with tls.Keyring(tls.RING) as ring, tls.Keyring("others-rsiw") as others:
        secret = secrets.token_bytes(32)
        yield secret, tls.psk(ring, ring.add(tls.FRIEND, secret)), ring, others


def anew(t):
    """The module goes and comes: nobody has kept anything of it."""
    t.reap()
    with t.within(20, "unloading"):
        t.unload()
    t.load()
    t.topo.ensure()


# ---- what works ------------------------------------------------------------------


def shown(t, path):
    """What rdma(8) says of a connection."""
    _, client = pinging(t, path)
    found = [(qp["drv_tls"], qp["drv_crc"]) for qp in details("qp", pid=client.pid)]
    t.reap()
    if found != [("yes", "no")]:
        raise Fail("TLS and CRC: %s" % found)


def many(t, path):
    """Connections one after the other, and at once."""
    with t.sub("connections one after the other"):
        for _ in range(t.rounds(50)):
            rping(t, path, count=2)
            t.forget()
    for side in ("client", "server", "both"):
        with t.sub("32 at once, ended by " + side):
            t.own("conns", path, "--count", t.rounds(64), "--parallel", 32, "--disconnect",
                  side, timeout=200)
    with t.sub("16 queue pairs"):
        perftest(t, path, "ib_write_bw", 4096, 20, qps=16)


def over_outage(t, size):
    """A process ends during an outage, with a send buffer of `size` octets: what it has sent
    arrives, and its stream ends in good order."""
    for ns in (NS_A, NS_B):
        sh("sh", "-c", "echo 4096 %d %d >/proc/sys/net/ipv4/tcp_wmem" % (size, size), netns=ns)
    log = kmsg.Kmsg()
    t90_netdev.over_outage(t, fits=False)
    lines = [line for line in log.read() if "TLS ends" in line]
    os.close(log.fd)
    if lines:
        raise Fail("with %d octets the peer says: %s" % (size, lines))


@test("tls-psk", cost=60, limit=900, only_type="rsiw", packaged=True, optional=True)
def with_keys(t):
    """TLS with pre-shared keys below MPA: programs, NVMe, data of all sizes."""
    tls.need(t)
    secure.need(t)
    with keys() as (_, both, *_):
        with tls.Agent(t), tls.TlsWire(t, both, both) as wire:
            secure.works(t, wire, "tls-psk", secure.PLAIN)
            with t.sub("it is shown"):
                shown(t, wire.path)
            with t.sub("rstream"):
                stream(t, "rstream", wire.path, "-T", "v", "-S", 4096, "-C", 20, "-I", 5)
            with t.sub("data of all sizes"):
                t.own("integrity", wire.path, "--only", "random", "--seconds", 8)
            with t.sub("data of all small sizes"):
                t.own("integrity", wire.path, "--only", "random", "--seconds", 4,
                      "--max-size", 200, "--depth", 4)
            with t.sub("data of all sizes over a way that loses packets"):
                for netdev in (IF_S, IF_C):
                    sh("tc", "qdisc", "add", "dev", netdev, "root", "netem", "delay", "2ms",
                       "1ms", "loss", "2%")
                t.own("integrity", wire.path, "--only", "random", "--seconds", 8)
        with t.sub("between namespaces"), tls.between_namespaces(t, both):
            rping(t, t.topo.wire, count=50, size=10000)
            perftest(t, t.topo.wire, "ib_read_bw", 16384, 20)
            for size in (24576, 32768):
                over_outage(t, size)


@test("tls-many", cost=30, limit=500, only_type="rsiw", packaged=True, optional=True)
def many_keys(t):
    """Many connections with TLS: more at once than the kernel takes handshakes."""
    tls.need(t)
    with keys() as (_, both, *_), tls.Agent(t), tls.TlsWire(t, both, both) as wire:
        many(t, wire.path)


@test("tls-unplug", cost=60, limit=400, only_type="rsiw", packaged=True, optional=True)
def unplugged(t):
    """Devices, interfaces and processes that go in the middle of traffic over TLS."""
    tls.need(t)
    with keys() as (_, both, *_), tls.Agent(t):
        wire = tls.TlsWire(t, both, both)
        for tool in ("ib_write_bw", "ib_read_bw"):
            for what, end in (
                    ("the server's device", lambda _: sh("rdma", "link", "del", wire.dev_s)),
                    ("the client's device", lambda _: sh("rdma", "link", "del", wire.dev_c)),
                    ("the pair of interfaces", lambda _: sh("ip", "link", "del", IF_S)),
                    ("the server", lambda pair: pair.server.kill()),
                    ("the client", lambda pair: pair.client.kill())):
                with t.sub("%s: %s goes" % (tool, what)), wire:
                    pair = Perftest(t, wire.path, tool, "-s", 65536, "-D", 60)
                    pair.connect()

                    def is_flowing():
                        pair.ensure_running()
                        return sum(stats.of_device(dev)["rx_fpdus"]
                                   for dev in (wire.dev_c, wire.dev_s)) > 50

                    wait_until("traffic", 20, is_flowing)
                    with t.within(SOON, "the end"):
                        end(pair)
                    # Programs may wait for ever for one that is gone; nothing of them stays.
                    time.sleep(1)
                    with t.within(SOON, "the end of both processes"):
                        t.reap()
        with t.sub("the module goes"):
            anew(t)


@test("tls-x509", cost=20, limit=600, only_type="rsiw", packaged=True, optional=True)
def with_certificates(t):
    """TLS with certificates below MPA."""
    tls.need(t)
    with tls.Authority() as authority:
        with tls.Agent(t, authority=authority), \
                tls.TlsWire(t, tls.X509, tls.X509) as wire:
            for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
                with t.sub(tool):
                    perftest(t, wire.path, tool, 16384, 20)
            with t.sub("rping"):
                rping(t, wire.path, count=50, size=10000)
        with t.sub("between namespaces"), \
                tls.between_namespaces(t, tls.X509, authority=authority):
            rping(t, t.topo.wire, count=50)


# ---- who does not get in ---------------------------------------------------------


def refused(t, seconds):
    """A program that connects is refused in this time, and nobody has heard of it: the listener
    listens on, and ends at once when it is to. What the kernel said of it."""
    log, port = kmsg.Kmsg(), t.port()
    server = t.start("rping", "-s", "-a", S4, "-p", port)
    server.wait_listening(port)
    with t.within(seconds, "the refusal"):
        client = ping_client(t, S4, port, 1)
        client.wait(t.left(SET_UP + 10))
    if rounds_done(client) or "cma event" not in client.output():
        raise Fail("%s is not refused:\n%s" % (client, client.tail()))
    if server.poll() is not None:
        raise Fail("%s ends with status %s:\n%s" % (server, server.poll(), server.tail()))
    with t.within(SOON, "the end of the listener"):
        server.reap()
    lines = log.read()
    os.close(log.fd)
    return lines


def nobody(t, wire):
    """Who shows nothing is not let in, whatever TLS says to that."""
    with dial(serve(t, wire.path), t.left(10)) as sock:
        conn = Stream(sock)
        with contextlib.suppress(ConnectionError):
            mpa.request(conn)
        try:
            reply = conn.recv(600)
        except (ssl.SSLError, ConnectionError):
            reply = b""
        if reply:
            raise Fail("it is answered: %s" % reply)
    t.reap()


@test("tls-refused", cost=40, limit=400, only_type="rsiw", optional=True)
def strangers(t):
    """Who speaks without TLS, with another key, or without a certificate, is refused."""
    tls.need(t)
    with keys() as (_, right, ring, others), tls.Authority() as authority, \
            tls.Authority() as elsewhere, tls.Agent(t, authority=authority) as agent:
        wrong = tls.psk(ring, others.add(tls.FRIEND))
        unknown = tls.psk(ring, others.add(tls.STRANGER))
        no_tls, no_request = "no TLS on a connection", "bad MPA Request"
        cases = (("in the clear against a key", right, tls.OFF, no_tls),
                 ("in the clear against a certificate", tls.X509, tls.OFF, no_tls),
                 ("a key against who has no TLS", tls.OFF, right, no_request),
                 ("a certificate against who has no TLS", tls.OFF, tls.X509, no_request),
                 ("another key", right, wrong, no_tls),
                 ("an identity that nobody knows", right, unknown, no_tls),
                 ("a key against a certificate", tls.X509, right, no_tls),
                 ("a certificate against a key", right, tls.X509, no_tls))
        # There are few lines for each case; those of tests before count, too.
        os.close(kmsg.rested().fd)
        for name, server, client, words in cases:
            with t.sub(name), tls.TlsWire(t, server, client) as wire:
                lines = refused(t, AT_ONCE)
                if not kmsg.says(lines, "rsiw: %s: %s" % (wire.dev_s, words)):
                    raise Fail("the log says nothing of it: %s" % "\n".join(lines))
        with t.sub("no certificate"), tls.TlsWire(t, tls.X509, tls.OFF) as wire:
            nobody(t, wire)
        agent.stop()
        with tls.Authority(("192.0.2.1",)) as misplaced, tls.Agent(t, authority=misplaced), \
                t.sub("a certificate of another host"), tls.TlsWire(t, tls.X509, tls.X509):
            refused(t, AT_ONCE)
        with t.sub("a certificate of another authority"), \
                tls.between_namespaces(t, tls.X509, authority, elsewhere):
            client = ping_client(t, t.topo.wire.addr4, serve(t, t.topo.wire), 1,
                                 netns=t.topo.wire.client_ns)
            with t.within(AT_ONCE, "the refusal"):
                client.wait(t.left(SET_UP + 10))
            if rounds_done(client):
                raise Fail("it is let in:\n" + client.tail())
            t.reap()
        with t.sub("the module goes"):
            anew(t)


def serve(t, path):
    """An rping that listens; its port."""
    port = t.port()
    server = t.start("rping", "-s", "-a", path.addr4, "-p", port, netns=path.server_ns)
    server.wait_listening(port)
    return port


# ---- tlshd that is not there, hangs, or dies -------------------------------------


def dial(port, seconds):
    """TCP to the server's device, from where the client's is."""
    return socket.create_connection((S4, port), seconds, source_address=(C4, 0))


def silent_peer(t):
    """A socket that listens, and a program that connects to it; both."""
    port = t.port()
    listener = socket.create_server((S4, port))
    return listener, ping_client(t, S4, port, 1)


def unanswered(t, agent, wire):
    """What ends while tlshd does not answer."""
    for what, end in (
            ("the connecting device", lambda: sh("rdma", "link", "del", wire.dev_c)),
            ("the listening device", lambda: sh("rdma", "link", "del", wire.dev_s))):
        with t.sub("stopped: " + what + " goes"), wire:
            agent.signal(signal.SIGSTOP)
            try:
                client = ping_client(t, S4, serve(t, wire.path), 1)
                # One that gives up has done so by then.
                time.sleep(1)
                if client.poll() is not None:
                    raise Fail("it does not wait for tlshd:\n" + client.tail())
                with t.within(SOON, "the removal"):
                    end()
                client.wait(t.left(SET_UP + 10))
                with t.within(SOON, "the end of the listener"):
                    t.reap()
            finally:
                agent.signal(signal.SIGCONT)
    with t.sub("stopped: the processes go"), wire:
        agent.signal(signal.SIGSTOP)
        try:
            client = ping_client(t, S4, serve(t, wire.path), 1)
            # In the midst of the handshake, most likely.
            time.sleep(1)
            with t.within(SOON, "the end of both"):
                t.reap()
            with dial(serve(t, wire.path), t.left(10)):
                # As above.
                time.sleep(1)
                with t.within(SOON, "the end of the listener"):
                    t.reap()
            with t.within(SOON, "the removal of both devices"):
                wire.drop()
        finally:
            agent.signal(signal.SIGCONT)


def in_the_midst(t, agent, wire):
    """What ends while tlshd is in the middle of a handshake, whose peer is silent."""
    with t.sub("killed in the middle"), wire:
        listener, client = silent_peer(t)
        with listener:
            wait_until("a handshake", 10, agent.children)
            agent.stop()
            client.wait(t.left(SET_UP + 10))
        agent.start()
        rping(t, wire.path, count=5)
    with t.sub("stopped in the middle: the module goes"), wire:
        listener, client = silent_peer(t)
        with listener:
            wait_until("a handshake", 10, agent.children)
            agent.signal(signal.SIGSTOP)
            with t.within(SOON, "the end of the process"):
                t.reap()
            with t.within(SOON, "the removal of both devices"):
                wire.drop()
            try:
                # With lockdep the kernel keeps the module as long as the socket, which tlshd
                # has: the names of the socket's locks are strings of the module.
                if not os.path.exists("/proc/lockdep"):
                    anew(t)
            finally:
                agent.signal(signal.SIGCONT)
        wait_until("the end of the handshake", 20, lambda: not agent.children())
        anew(t)
    with t.sub("a peer that says nothing"), wire:
        listener, client = silent_peer(t)
        with listener, t.within(SET_UP, "the attempt"):
            client.wait(t.left(SET_UP + 10))
        port = serve(t, wire.path)
        with dial(port, t.left(10)) as silent:
            silent.settimeout(t.left(SET_UP))
            ends(silent)
        t.reap()


def ends(sock):
    """Waits until the peer closes, or resets."""
    try:
        while sock.recv(4096):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        raise Fail("the connection does not end") from None


@test("tls-agent", cost=90, limit=900, only_type="rsiw", optional=True)
def agents(t):
    """Without tlshd nobody connects; when it hangs or dies, nothing waits for it."""
    tls.need(t)
    with keys() as (_, both, *_):
        wire = tls.TlsWire(t, both, both)
        with t.sub("none: a connect fails at once"), wire:
            refused(t, AT_ONCE)
        with t.sub("none: who comes is sent away"), wire:
            port = serve(t, wire.path)
            # The reset may come before the connect returns.
            with contextlib.suppress(ConnectionResetError), dial(port, t.left(AT_ONCE)) as conn:
                conn.settimeout(t.left(AT_ONCE))
                ends(conn)
            t.reap()
        with tls.Agent(t) as agent:
            with t.sub("stopped: a connect ends in time"), wire:
                agent.signal(signal.SIGSTOP)
                try:
                    refused(t, SET_UP)
                finally:
                    agent.signal(signal.SIGCONT)
            unanswered(t, agent, wire)
            in_the_midst(t, agent, wire)
            with t.sub("it goes on"), wire:
                rping(t, wire.path, count=5)
        with t.sub("the module goes"):
            anew(t)


# ---- a peer of our own -----------------------------------------------------------


class Meeting:
    """A verbs program that listens, and peers in Python that connect to it."""

    def __init__(self, t, secret):
        self.t, self.secret, self.port, self.slot = t, secret, t.port(), 0
        self.program = Listener(t, S4, self.port)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.program.__exit__(*args)

    def dial(self):
        """A peer that has done the handshake."""
        return Stream(dial(self.port, self.t.left(20)), tls.FRIEND, self.secret)

    def accept(self, port, *options):
        """The program takes the request that comes from this port."""
        self.slot = (self.slot + 1) % 8
        self.program.say("serve", self.slot, int(1000 * self.t.left(20)), port, *options)

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


@test("tls-peer", cost=40, limit=400, only_type="rsiw", optional=True)
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
