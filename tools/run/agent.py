# SPDX-License-Identifier: GPL-2.0
"""Runs commands on another machine of rsiw-run, for "on". Client and server send
each other frames: a letter, the length of what follows, and that. The client's first
one (c) is the command; then come i(nput) and s(ignal), back come o(utput), e(rrors),
and x, the status. An empty i, o or e is the end of that."""

import json
import os
import signal
import socket
import socketserver
import struct
import subprocess
import sys
import threading

PORT = 514
SIGNALS = ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2")


def send(sock, lock, kind, data):
    with lock:
        sock.sendall(struct.pack("!cI", kind, len(data)) + data)


def frames(stream):
    while len(head := stream.read(5)) == 5:
        kind, size = struct.unpack("!cI", head)
        yield kind, stream.read(size)


def relay(fd, sock, lock, kind):
    """What comes from fd, until its end."""
    while True:
        try:
            data = os.read(fd, 65536)
        except OSError:
            data = b""
        send(sock, lock, kind, data)
        if not data:
            return


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
        outputs = [threading.Thread(target=relay, args=(f.fileno(), self.request, lock, kind))
                   for f, kind in ((child.stdout, b"o"), (child.stderr, b"e"))]
        inputs = threading.Thread(target=self.feed, args=(stream, child), daemon=True)
        for thread in outputs + [inputs]:
            thread.start()
        for thread in outputs:
            thread.join()
        status = child.wait()
        send(self.request, lock, b"x", str(status if status >= 0 else 128 - status).encode())

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
        try:
            os.killpg(child.pid, signal.SIGHUP)
        except ProcessLookupError:
            pass


def user():
    """The words before a command that is to run as this one's user."""
    if os.getuid() == 0:
        return []
    groups = ",".join(str(g) for g in os.getgroups())
    return ["/run/rsiw/as-user", str(os.getuid()), str(os.getgid()), groups]


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
        threading.Thread(target=relay, args=(0, sock, lock, b"i"), daemon=True).start()
        for kind, data in frames(sock.makefile("rb")):
            if kind == b"x":
                return int(data)
            while data:
                data = data[os.write(1 if kind == b"o" else 2, data):]
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
