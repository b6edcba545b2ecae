# SPDX-License-Identifier: GPL-2.0
"""Runs commands on another machine of rsiw-run, for "on". Client and server send
each other frames: a letter, the length of what follows, and that. The client's first
one (c) is the command; then come i(nput) and s(ignal), back come o(utput), e(rrors),
and x, the status. An empty i is the end of that. What the command has left running may
write on: o and e come behind x as well."""

import contextlib
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


def send(sock, lock, kind, data):
    with lock:
        sock.sendall(struct.pack("!cI", kind, len(data)) + data)


def frames(stream):
    while len(head := stream.read(5)) == 5:
        kind, size = struct.unpack("!cI", head)
        yield kind, stream.read(size)


def relay(sock, lock):
    """Standard input, until its end."""
    while True:
        try:
            data = os.read(0, 65536)
        except OSError:
            data = b""
        send(sock, lock, b"i", data)
        if not data:
            return


def write(kind, data):
    try:
        while data:
            data = data[os.write(1 if kind == b"o" else 2, data):]
    except BrokenPipeError:
        # As the command itself would end.
        os._exit(128 + signal.SIGPIPE)


class Server(socketserver.StreamRequestHandler):
    """One command."""

    def handle(self):
        lock = threading.Lock()
        stream = frames(self.rfile)
        wanted = json.loads(next(stream)[1])
        try:
            child = subprocess.Popen(
                wanted["command"], cwd=wanted["cwd"], env=wanted["env"], start_new_session=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        except OSError as e:
            send(self.request, lock, b"e", f"on: {e}\n".encode())
            send(self.request, lock, b"x", b"127")
            return
        threading.Thread(target=self.feed, args=(stream, child), daemon=True).start()
        with contextlib.suppress(ConnectionError):
            self.answer(lock, child)

    def answer(self, lock, child):
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
                    send(self.request, lock, kind, data)
                else:
                    del outputs[fd]
            if end in ready:
                end.close()
                status = child.wait()
                send(self.request, lock, b"x", str(status if status >= 0 else 128 - status).encode())
        self.request.shutdown(socket.SHUT_WR)

    @staticmethod
    def feed(stream, child):
        for kind, data in stream:
            try:
                if kind == b"s":
                    os.killpg(child.pid, int(data))
                elif data:
                    child.stdin.write(data)
                else:
                    child.stdin.close()
            except (OSError, ValueError):
                pass
        # The client is gone.
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGHUP)


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
    lock = threading.Lock()
    try:
        sock = socket.create_connection((host, PORT))
    except OSError:
        print(f"on: no host {host}", file=sys.stderr)
        return 255
    with sock:
        send(sock, lock, b"c", json.dumps({
            "command": user() + command, "cwd": os.getcwd(), "env": dict(os.environ)}).encode())
        for name in SIGNALS:
            signal.signal(getattr(signal, "SIG" + name),
                          lambda number, _: send(sock, lock, b"s", str(number).encode()))
        threading.Thread(target=relay, args=(sock, lock), daemon=True).start()
        answers = frames(sock.makefile("rb"))
        for kind, data in answers:
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
