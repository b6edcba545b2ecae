# SPDX-License-Identifier: GPL-2.0
"""A peer that speaks TLS 1.3 by itself, octet by octet below the records, and the verbs program
that it talks to."""

import contextlib
import os
import socket
import ssl
import struct
import subprocess

from .core import Fail, TimedOut
from . import topo

# Types of records (RFC 8446 section 5.1).
ALERT, DATA = 21, 23
# What of it is the record's header.
HEADER = 5


def record(kind, octets, version=b"\3\3"):
    """A record as it is on the wire."""
    return bytes((kind,)) + version + len(octets).to_bytes(2, "big") + octets


class Stream:
    """TLS with a pre-shared key, or with nothing to show if there is none, over a socket that is
    connected. `recv`, `sendall` and `settimeout` are as those of a socket; each call of `sendall`
    makes one record at least."""

    def __init__(self, sock, identity=None, secret=None, server=False, greets_only=False):
        """`greets_only`: sends a ClientHello, and leaves the rest of the handshake to `shake`."""
        self.sock, self.holds, self.fin_follows = sock, False, False
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else
                                 ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if server:
            # Tickets come behind the handshake, in records that are not data.
            context.num_tickets = 0
            context.set_psk_server_callback(
                lambda name: secret if name == identity else b"")
        else:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            if secret:
                context.set_psk_client_callback(lambda _: (identity, secret))
        self.come, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.come, self.out, server_side=server)
        if greets_only:
            with contextlib.suppress(ssl.SSLWantReadError):
                self.tls.do_handshake()
            self.flush()
        else:
            self.shake()

    def shake(self):
        """Does the handshake, or the rest of it."""
        self.until(self.tls.do_handshake)

    def flush(self):
        """Sends what TLS has made."""
        if self.out.pending and not self.holds:
            self.sock.sendall(self.out.read())

    def until(self, call):
        """Repeats a call while it wants to read."""
        while True:
            try:
                done = call()
                self.flush()
                return done
            except ssl.SSLWantReadError:
                self.flush()
                octets = self.sock.recv(65536)
                if octets:
                    self.come.write(octets)
                else:
                    self.come.write_eof()
            except ssl.SSLError:
                # It may have something to say to the peer.
                self.flush()
                raise

    def settimeout(self, seconds):
        self.sock.settimeout(seconds)

    def sendall(self, octets):
        self.tls.write(octets)
        self.flush()

    def recv(self, count):
        """Octets, or none after a close_notify."""
        try:
            return self.until(lambda: self.tls.read(count))
        except ssl.SSLZeroReturnError:
            return b""

    @contextlib.contextmanager
    def held(self):
        """What is sent within this goes to TCP at its end, in one piece, and a FIN with it."""
        self.holds, self.fin_follows = True, False
        yield
        self.holds = False
        # TCP waits for more, and the FIN is that.
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        self.flush()
        if self.fin_follows:
            self.fin()
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)

    def finish(self):
        """Sends a close_notify."""
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        self.flush()

    def fin(self):
        """Closes this side of TCP's stream."""
        if self.holds:
            self.fin_follows = True
            return
        # The peer may have reset the connection before.
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def fatal(self):
        """Sends a fatal alert: that of TLS for a record that it cannot read."""
        self.come.write(record(DATA, os.urandom(64)))
        try:
            self.tls.read(1)
        except ssl.SSLError:
            pass
        else:
            raise Fail("TLS takes garbage for a record")
        if not self.out.pending:
            raise Fail("TLS says nothing about garbage")
        self.flush()

    def end(self, seconds):
        """Waits for the end of the peer's stream: "closed" in good order, with a close_notify,
        "cut off" without, or "reset"."""
        self.settimeout(seconds)
        try:
            while self.tls_read():
                pass
        except ssl.SSLZeroReturnError:
            return "closed"
        except (ssl.SSLError, ConnectionError) as err:
            return "reset" if isinstance(err, ConnectionError) else "cut off"
        except TimeoutError:
            raise TimedOut("the peer's stream does not end within %.0f s" % seconds) from None
        return "closed"

    def tls_read(self):
        return self.until(lambda: self.tls.read(65536))

    def reset(self):
        """Ends TCP's connection at once."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()


# Of what the program says: states of queue pairs, and asynchronous events.
INIT, ERROR = 1, 6
NONE, FATAL = -1, 1


class Listener:
    """The verbs program peer_ep, which listens, and does what lines say."""

    def __init__(self, t, addr, port):
        self.t = t
        self.log = os.path.join(t.env.results, "%s.peer_ep.log" % t.test.name)
        with open(self.log, "ab") as log:
            self.popen = subprocess.Popen(
                [t.bin("peer_ep"), "--addr", addr, "--port", str(port), "--limit",
                 str(int(t.left()))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                text=True, env={**os.environ, **t.variables})
        self.answer("listen")

    def answer(self, what):
        """The answer to a line; it fails if that is an error."""
        said = self.popen.stdout.readline().rstrip()
        if not said.startswith("ok"):
            raise Fail("%s: peer_ep says '%s'" % (what, said))
        return said[3:]

    def say(self, *words):
        line = " ".join(str(word) for word in words)
        self.popen.stdin.write(line + "\n")
        self.popen.stdin.flush()
        return self.answer(line)

    def event(self, slot, ms=15000):
        """The next event of a connection, or none."""
        return self.say("event", slot, ms * topo.slow).split()[0]

    def ended(self, slot, state, event):
        """How a connection has ended: told once, in this state, with this event or none."""
        events = []
        while (name := self.event(slot, 100 if "DISCONNECTED" in events else 15000)) != "none":
            events.append(name)
        if events not in (["DISCONNECTED"], ["ESTABLISHED", "DISCONNECTED"]):
            raise Fail("events: %s" % events)
        found = int(self.say("async", slot, 100 if event == NONE else 5000))
        if found != event:
            raise Fail("asynchronous event %d, not %d" % (found, event))
        found = int(self.say("state", slot).split()[0])
        if found != state:
            raise Fail("state %d, not %d" % (found, state))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.popen.stdin.close()
        try:
            self.popen.wait(20 * topo.slow)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait(10)
            raise TimedOut("peer_ep does not end") from None
        finally:
            self.popen.stdout.close()
