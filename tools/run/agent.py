# SPDX-License-Identifier: GPL-2.0
"""Runs commands on another machine of rsiw-run, for "on". Client and server send
each other frames: a letter, the length of what follows, and that. The client's first
one (c) is the command; then come frames of i(nput), back come n, a number for the
command, o(utput), e(rrors), and x, the status. An empty i is the end of that. What the
command has left running may write on: o and e come behind x as well. A second connection,
which begins with n, is for s(ignals): they do not wait behind input that nobody reads."""

import contextlib
import itertools
import json
import os
import select
import signal
import socket
import socketserver
import struct
import subprocess
import sys
import threading
import warnings

PORT = 514
# As much as a pipe may hold.
PIPE_SIZE = 1 << 20
SIGNALS = ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2")


def send(sock, kind, data):
    sock.sendall(struct.pack("!cI", kind, len(data)) + data)


def frames(stream):
    while len(head := stream.read(5)) == 5:
        kind, size = struct.unpack("!cI", head)
        yield kind, stream.read(size)


def read_input():
    try:
        return os.read(0, 65536)
    except OSError:
        return b""


def relay(sock):
    """Standard input, until its end."""
    # That the other machine is gone is told elsewhere.
    with contextlib.suppress(OSError):
        while data := read_input():
            send(sock, b"i", data)
        send(sock, b"i", b"")


def relay_signals(sock, caught):
    """Those whose numbers come by a pipe."""
    with contextlib.suppress(OSError):
        while True:
            for number in os.read(caught, 64):
                send(sock, b"s", str(number).encode())


def write(kind, data):
    try:
        while data:
            data = data[os.write(1 if kind == b"o" else 2, data):]
    except BrokenPipeError:
        # As the command itself would end.
        os._exit(128 + signal.SIGPIPE)


class Server(socketserver.StreamRequestHandler):
    """One command, or the signals for one."""

    numbers = itertools.count()
    # Commands that have not ended, whose clients have not gone.
    running = {}

    def handle(self):
        stream = frames(self.rfile)
        kind, data = next(stream)
        with contextlib.suppress(ConnectionError):
            if kind == b"n":
                self.pass_signals(stream, int(data))
            else:
                self.run(stream, json.loads(data))

    def run(self, stream, wanted):
        try:
            child = subprocess.Popen(
                wanted["command"], cwd=wanted["cwd"], env=wanted["env"], start_new_session=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        except OSError as e:
            send(self.request, b"e", f"on: {e}\n".encode())
            send(self.request, b"x", b"127")
            return
        number = next(self.numbers)
        self.running[number] = child
        threading.Thread(target=self.feed, args=(stream, child, number), daemon=True).start()
        send(self.request, b"n", str(number).encode())
        self.answer(child, number)

    def answer(self, child, number):
        """The status as soon as the command has ended, behind all that it has written."""
        outputs = {child.stdout.fileno(): b"o", child.stderr.fileno(): b"e"}
        for fd in outputs:
            os.set_blocking(fd, False)
        end = open(os.pidfd_open(child.pid), "rb", buffering=0)
        while outputs or not end.closed:
            ready, _, _ = select.select([*outputs] if end.closed else [*outputs, end], [], [])
            # What it has written before it ended is read by now or here.
            for fd, kind in list(outputs.items()):
                try:
                    data = os.read(fd, PIPE_SIZE)
                except BlockingIOError:
                    continue
                if data:
                    send(self.request, kind, data)
                else:
                    del outputs[fd]
            if end in ready:
                end.close()
                # Before another process can have its place.
                self.running.pop(number, None)
                status = child.wait()
                send(self.request, b"x", str(status if status >= 0 else 128 - status).encode())
        self.request.shutdown(socket.SHUT_WR)

    def pass_signals(self, stream, number):
        for _, data in stream:
            if child := self.running.get(number):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, int(data))
        self.hang_up(number)

    def hang_up(self, number):
        """The client is gone, which the end of either connection tells."""
        if child := self.running.pop(number, None):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGHUP)

    def feed(self, stream, child, number):
        for _, data in stream:
            with contextlib.suppress(OSError, ValueError):
                if data:
                    child.stdin.write(data)
                else:
                    child.stdin.close()
        self.hang_up(number)


def user():
    """The words before a command that is to run as this one's user."""
    if os.getuid() == 0:
        return []
    groups = ",".join(str(g) for g in os.getgroups())
    return ["/run/rsiw/as-user", str(os.getuid()), str(os.getgid()), groups]


def in_background():
    """Goes on as two processes. Whether this is the one that nobody waits for."""
    # That of a fork beside a thread, which is not needed there.
    warnings.simplefilter("ignore")
    if os.fork():
        return False
    os.closerange(0, 1)
    for name in SIGNALS:
        signal.signal(getattr(signal, "SIG" + name), signal.SIG_DFL)
    return True


def client(host, command):
    try:
        sock = socket.create_connection((host, PORT))
    except OSError:
        print(f"on: no host {host}", file=sys.stderr)
        return 255
    # What a handler itself would send could get into the middle of something else.
    caught, catch = os.pipe()
    os.set_blocking(catch, False)
    with sock:
        send(sock, b"c", json.dumps({
            "command": user() + command, "cwd": os.getcwd(), "env": dict(os.environ)}).encode())
        signal.set_wakeup_fd(catch, warn_on_full_buffer=False)
        for name in SIGNALS:
            signal.signal(getattr(signal, "SIG" + name), lambda *_: None)
        answers = frames(sock.makefile("rb"))
        for kind, data in answers:
            if kind == b"n":
                try:
                    signals = socket.create_connection((host, PORT))
                    send(signals, b"n", data)
                except OSError:
                    break
                threading.Thread(target=relay_signals, args=(signals, caught), daemon=True).start()
                threading.Thread(target=relay, args=(sock,), daemon=True).start()
                continue
            if kind == b"x":
                if in_background():
                    for late in answers:
                        write(*late)
                return int(data)
            write(kind, data)
    print(f"on: {host} has gone", file=sys.stderr)
    return 255


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        # The shell that starts it in the background has two of them ignored.
        for each in SIGNALS:
            signal.signal(getattr(signal, "SIG" + each), signal.SIG_DFL)
        socketserver.ThreadingTCPServer.allow_reuse_address = True
        server = socketserver.ThreadingTCPServer((sys.argv[2], PORT), Server)
        print("ready", flush=True)
        server.serve_forever()
    # Nothing is worth waiting for: a thread may still read what nobody needs.
    os._exit(client(sys.argv[1], sys.argv[2:]))
