# SPDX-License-Identifier: GPL-2.0
"""TLS below MPA, which the kernel does with keys of tlshd's: what works in the clear works, nobody
else reads it or gets in, and tlshd holds nothing up."""

import contextlib
import os
import secrets
import signal
import socket
import ssl
import time

from rsiwtest import docs, kmsg, mpa, secure, stats, tls
from rsiwtest.core import Fail, test
from rsiwtest.machine import wait_until
from rsiwtest.probes import watched
from rsiwtest.tlspeer import Stream
from rsiwtest.tools import (Perftest, all_rounds, perftest, ping, ping_client, pinging,
                            rounds_done, rping)
from rsiwtest.topo import B4, IF_B, NS_A, NS_B, sh, status
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
    with t.sub("16 queue pairs whose numbers count"):
        # Each end connects the queue pair with a number to that of the other's with the same one.
        perftest(t, path, "ib_send_bw", 4096, 20, qps=16)
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


@test("tls-psk", cost=60, limit=900, only_type="rsiw", packaged=True)
def with_keys(t):
    """TLS with pre-shared keys below MPA: programs, NVMe, data of all sizes."""
    tls.need(t)
    secure.need(t)
    with keys() as (_, both, *_):
        with tls.Agent(t) as agent, tls.TlsWire(t, both, both) as wire:
            secure.works(t, wire, "tls-psk", secure.PLAIN)
            with t.sub("it is shown"):
                shown(t, wire.path)
            with t.sub("rstream"):
                stream(t, "rstream", wire.path, "-T", "v", "-S", 4096, "-C", 20, "-I", 5)
            with t.sub("queue pairs by number"):
                perftest(t, wire.path, "ib_send_bw", 4096, 50, qps=4, gid=1)
            with t.sub("queue pairs by number, while the daemon takes its time"):
                agent.signal(signal.SIGSTOP)
                pair = Perftest(t, wire.path, "ib_write_bw", "-s", 4096, "-n", 50, gid=1)
                pair.connect()
                # Longer than a peer may take that does not answer.
                time.sleep(4)
                agent.signal(signal.SIGCONT)
                pair.finish()
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


# GFP_NOIO, by which sockets of the driver are known.
NO_IO = 0xc00


@test("task-fragment", cost=10, only_type="rsiw", packaged=True)
def task_fragment(t):
    """No socket of the driver sends from the page fragment of the task, which may be within a
    send of its own."""
    tls.need(t)
    members = {"gfp": "sk->sk_allocation", "task": "sk->sk_use_task_frag"}

    def send(path, function):
        with watched(members, function) as calls:
            # Either side sends.
            perftest(t, path, "ib_send_bw", 4096, 5, "-b")
            ours = [call for call in calls() if int(call["gfp"], 0) == NO_IO]
        t.reap()
        if not ours:
            raise Fail("nobody is seen to call " + function)
        from_task = [call for call in ours if int(call["task"], 0)]
        if from_task:
            raise Fail("%d of %d calls of %s" % (len(from_task), len(ours), function))

    with t.sub("in the clear"):
        send(t.topo.wire, "tcp_sendmsg_locked")
    with keys() as (_, both, *_), tls.Agent(t), tls.TlsWire(t, both, both) as wire, \
            t.sub("with TLS"):
        send(wire.path, "tls_sw_sendmsg")


@test("tls-many", cost=30, limit=500, only_type="rsiw", packaged=True, long=True)
def many_keys(t):
    """Many connections with TLS: more at once than the kernel takes handshakes."""
    tls.need(t)
    with keys() as (_, both, *_), tls.Agent(t), tls.TlsWire(t, both, both) as wire:
        many(t, wire.path)


@test("tls-unplug", cost=60, limit=400, only_type="rsiw", packaged=True, long=True)
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


@test("tls-x509", cost=20, limit=600, only_type="rsiw", packaged=True)
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


@test("tls-chacha", cost=8, limit=300, only_type="rsiw", packaged=True)
def without_aes(t):
    """What the manual says to have no cipher whose key has a limit."""
    tls.need(t)
    block, = (b for b in docs.blocks() if b.test == t.test.name)
    config = os.path.join(t.env.results, "gnutls.conf")
    with open(config, "w", encoding="ascii") as f:
        f.write(block.text + "\n")
    with tls.Authority() as authority, \
            tls.Agent(t, authority=authority,
                      env={"GNUTLS_SYSTEM_PRIORITY_FILE": config}) as agent, \
            tls.TlsWire(t, tls.X509, tls.X509) as wire:
        rping(t, wire.path, count=5)
        if "CHACHA20-POLY1305)" not in agent.proc.output():
            raise Fail("another cipher:\n" + agent.proc.tail())


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


@test("tls-refused", cost=40, limit=400, only_type="rsiw")
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


@test("tls-whose-key", cost=30, limit=300, only_type="rsiw", long=True)
def whose_key(t):
    """Who has a key is let in if that key is in the keyring of the device, and only then; tlshd
    looks into others, too."""
    tls.need(t)
    with keys() as (_, right, ring, others), tls.Keyring("rsiw-inner") as inner, \
            tls.Agent(t, ring=";".join((tls.RING, others.name, inner.name))):
        os.close(kmsg.rested().fd)

        def is_refused(server, client):
            with tls.TlsWire(t, server, client) as wire:
                lines = refused(t, AT_ONCE)
                if not kmsg.says(lines, "rsiw: %s: no TLS on a connection" % wire.dev_s):
                    raise Fail("the log says nothing of it: %s" % "\n".join(lines))

        sh("keyctl", "link", str(inner.serial), str(ring.serial))
        # The name of each begins as no other one does.
        for name, where in (("in .nvme", tls.Keyring.found(".nvme")), ("in another", others),
                            ("in one within", inner)):
            # Who has it in a keyring of his own may say who else may use it.
            key = others.add(name[3:] + "-rsiw")
            if where is not others:
                sh("keyctl", "link", str(key), str(where.serial))
                others.remove(key)
            try:
                with t.sub(name):
                    is_refused(right, tls.psk(ring, key))
            finally:
                where.remove(key)
        with t.sub("no keyring"):
            is_refused({**right, "tls_keyring": 0}, right)
        with t.sub("what is no keyring"), \
                tls.settings({**right, "tls_keyring": right["tls_key"]}):
            sh("ip", "link", "add", IF_S, "type", "dummy")
            try:
                code, _ = status("rdma", "link", "add", "rsiw_none", "type", "rsiw", "netdev",
                                 IF_S)
            finally:
                sh("ip", "link", "del", IF_S)
            if not code:
                raise Fail("there is a device")
        key = ring.add("gone-rsiw")
        with t.sub("one that is revoked"), tls.TlsWire(t, right, tls.psk(ring, key)) as wire:
            rping(t, wire.path, count=2)
            t.forget()
            sh("keyctl", "revoke", str(key))
            refused(t, AT_ONCE)
        with t.sub("the right one"), tls.TlsWire(t, right, right) as wire:
            rping(t, wire.path, count=2)


def serve(t, path, *args):
    """An rping that listens; its port."""
    port = t.port()
    server = t.start("rping", "-s", *args, "-a", path.addr4, "-p", port, netns=path.server_ns)
    server.wait_listening(port)
    return port


# Of Python: connections to a listener from an address, so many a second, as long as it runs; most of
# them stay open. They say nothing, or begin as a ClientHello does.
FLOOD = """\
import itertools, socket, sys, time
addr, port, source, rate, says = sys.argv[1:]
held = []
for n in itertools.count():
    sock = socket.socket()
    sock.bind((source, 0))
    sock.setblocking(False)
    sock.connect_ex((addr, int(port)))
    held.append(sock)
    if len(held) > 400:
        held.pop(0).close()
    if len(held) > 50:
        try:
            held[-50].send(bytes.fromhex(says))
        except OSError:
            pass
    if n == 300:
        print("flooding", flush=True)
    time.sleep(1 / int(rate))
"""
# The address of a stranger on the friend's host.
B4_TOO = "10.77.0.200"


@contextlib.contextmanager
def flooded(t, path, port, says):
    """A stranger opens connections to a port all the time, and says no more than that on each."""
    stranger = t.start("python3", "-c", FLOOD, path.addr4, port, B4_TOO, 60, says,
                       netns=path.client_ns)
    stranger.wait_output("flooding", t.left(60))
    yield
    stranger.kill()
    t.reap()


@contextlib.contextmanager
def with_stranger(t):
    """A device that asks who is there, and an address from which a stranger can come."""
    tls.need(t)
    with keys() as (_, both, *_), tls.between_namespaces(t, both) as agent:
        sh("ip", "addr", "add", B4_TOO + "/24", "dev", IF_B, netns=NS_B)
        yield agent, t.topo.wire


@test("tls-flood", cost=60, limit=400, only_type="rsiw")
def flood(t):
    """A stranger who opens many connections and says nothing costs no process, and keeps nobody
    out."""
    with with_stranger(t) as (agent, path):
        for name, says in (("says nothing", ""), ("begins and stops", "1603010200010001fc0303")):
            with t.sub("who " + name):
                port = serve(t, path, "-P")
                with flooded(t, path, port, says):
                    most = 0
                    for _ in range(3):
                        client = ping_client(t, path.addr4, port, 2, netns=path.client_ns)
                        with t.within(AT_ONCE, "a connection"):
                            while client.poll() is None:
                                t.left()
                                most = max(most, len(agent.children()))
                                time.sleep(0.05)
                        all_rounds(client, t.left(5))
                if most > 4:
                    raise Fail("%d processes of tlshd" % most)


@test("tls-firewall", cost=15, limit=400, only_type="rsiw", packaged=True)
def firewall(t):
    """What the manual has a firewall do about such a stranger."""
    t.need("nft")
    with with_stranger(t) as (_, path):
        port = serve(t, path, "-P")
        block, = (b for b in docs.blocks() if b.test == t.test.name)
        rules = block.text.replace("4420", str(port)).replace("192.0.2.0/28", B4)
        sh("sh", "-ec", rules, netns=path.server_ns)
        with flooded(t, path, port, ""):
            ping(t, path.addr4, port, 2, netns=path.client_ns, timeout=AT_ONCE)
            busy = sh("nft", "list", "set", "inet", "rsiw", "busy", netns=path.server_ns)
            if B4_TOO not in busy or B4 + " " in busy:
                raise Fail("who is known to be busy:\n" + busy)


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


@test("tls-agent", cost=90, limit=900, only_type="rsiw", long=True)
def agents(t):
    """Without tlshd nobody connects; when it hangs or dies, nothing waits for it."""
    tls.need(t)
    with keys() as (_, both, *_):
        wire = tls.TlsWire(t, both, both)
        with t.sub("none: a connect fails at once"), wire:
            refused(t, AT_ONCE)
        with t.sub("none: who comes is sent away"), wire:
            port = serve(t, wire.path)
            with dial(port, t.left(AT_ONCE)) as conn:
                conn.settimeout(t.left(AT_ONCE))
                Stream(conn, tls.FRIEND, bytes(32), greets_only=True)
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
