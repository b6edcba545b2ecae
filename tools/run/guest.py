# SPDX-License-Identifier: GPL-2.0
"""One machine of rsiw-run."""

import ctypes
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

from cpio import Cpio
from machine import MACHINES, accelerator, clock, debugger, kill, share

# Where the kernel's log begins to say what ended the machine, or what is wrong with it. That it
# had to wait for a processor is not.
FAULT = re.compile(r"\bBUG:(?! soft lockup)|\bOops\b|\bWARNING: |Kernel panic|general protection fault|"
                   r"KASAN: |UBSAN: ")


def command_script(args):
    """The shell script that becomes COMMAND."""
    env = dict(os.environ)
    env["PATH"] = env.get("PATH", "/usr/bin:/bin") + ":/run/rsiw/bin"
    if args.libraries.drivers:
        env["RDMAV_DRIVERS"] = args.libraries.drivers
    words = ["/usr/bin/env", "-i"] + [f"{k}={v}" for k, v in env.items()] + args.command
    if os.getuid() != 0 and not args.root:
        groups = ",".join(str(g) for g in os.getgroups())
        words = ["/run/rsiw/as-user", str(os.getuid()), str(os.getgid()), groups] + words
    if args.hosts > 1:
        words = ["/run/rsiw/bin/on", "host1"] + words
    mask = os.umask(0)
    os.umask(mask)
    return f"umask {mask:03o}\ncd {shlex.quote(args.folder)} || exit 126\nexec {shlex.join(words)}\n"


def settings(args, number, end):
    netem, mtu = args.net
    size = os.get_terminal_size(0) if args.shell else (80, 24)
    modules = [m for m in args.modules.split(",") if m]
    if args.machines > 1:
        modules.append("virtio_net")
    if netem:
        modules.append("sch_netem")
    values = {"HOSTS": args.hosts, "MACHINES": args.machines, "MACHINE": number, "MTU": mtu,
              "NETEM": netem, "DEVICES": " ".join(args.device), "PARAMS": " ".join(args.param),
              "MODULES": " ".join(modules), "END": end,
              "SHELL": "yes" if args.shell else "no", "COLS": size[0], "ROWS": size[1],
              "PYTHON": os.path.realpath(sys.executable),
              "LIBRARIES": "yes" if args.libraries.image else "",
              "DRIVERS": args.libraries.drivers, "IMAGE_DRIVERS": args.libraries.image_drivers,
              "GDB": "yes" if args.gdb and number == 1 else "",
              "COUNT": "yes" if args.expect_rdma or not args.quiet else ""}
    return "".join(f"RUN_{k}={shlex.quote(str(v))}\n" for k, v in values.items())


class Guest:
    """One machine. What it has of sockets are these programs' ends."""

    def __init__(self, args, image, work, number):
        self.args, self.image, self.number = args, image, number
        self.work = f"{work}/{number}"
        os.mkdir(self.work)
        self.console = f"{self.work}/console"
        if args.console and number == 1:
            self.console = os.path.abspath(args.console)
        # Nobody else gets into this folder.
        self.gdb = f"{self.work}/gdb" if args.gdb and number == 1 else None
        self.end = secrets.token_hex(8)
        self.proc = None
        self.sockets, self.others = {}, []

    def _write_initramfs(self):
        with open(f"{self.work}/initramfs", "wb") as out:
            out.write(self.image.read("initramfs"))
            cpio = Cpio(out)
            cpio.directory("config")
            cpio.file("config/settings", settings(self.args, self.number, self.end).encode())
            cpio.file("config/command", os.fsencode(command_script(self.args)))
            cpio.file("config/writable", os.fsencode("".join(
                f"writable{i} {d}\n" for i, d in enumerate(self.args.writable))))
            cpio.end()
        with open(f"{self.work}/kernel", "wb") as out:
            out.write(self.image.read("kernel"))

    def _ports(self):
        opts = ["-device", "virtio-serial-pci"]
        for number, name in enumerate(("in", "out", "err", "control"), 1):
            self.sockets[name], other = socket.socketpair()
            self.others.append(other)
            opts += ["-chardev", f"socket,id={name},fd={other.fileno()}",
                     "-device", f"virtserialport,nr={number},chardev={name}"]
        if self.args.shell and self.number == 1:
            opts += ["-chardev", "stdio,id=terminal,signal=off",
                     "-device", "virtconsole,nr=0,chardev=terminal"]
        return opts

    def _links(self):
        """The network of several machines: a hub in the first one's QEMU."""
        if self.args.machines == 1:
            return []
        nic = ["-device", f"virtio-net-pci,netdev=nic,mac=52:54:00:52:44:{self.number:02x}"]
        folder = os.path.dirname(self.work)
        if self.number > 1:
            return ["-netdev", "stream,id=nic,server=off,addr.type=unix,"
                    f"addr.path={folder}/link{self.number}"] + nic
        opts = ["-netdev", "hubport,id=nic,hubid=0"]
        for n in range(2, self.args.machines + 1):
            opts += ["-netdev", f"stream,id=link{n},server=on,addr.type=unix,addr.path={folder}/link{n}",
                     "-netdev", f"hubport,id=hub{n},hubid=0,netdev=link{n}"]
        return opts + nic

    def _command(self, accel):
        position, size, _ = self.image.parts["root"]
        disk = {"driver": "raw", "node-name": "image", "read-only": True, "offset": position,
                "size": size, "file": {"driver": "file", "filename": os.path.abspath(self.image.path),
                                       "read-only": True, "locking": "off"}}
        machine = MACHINES["amd64"]
        # The console shows warnings as well: what ends a machine may begin with one.
        kernel_args = [f"console={machine.console}",
                       "ignore_loglevel" if self.args.console else "loglevel=5",
                       "panic=-1", "oops=panic", "net.ifnames=0", "mitigations=off"]
        # A debugger looks where the symbols say.
        kernel_args += ["nokaslr"] if self.args.gdb else []
        icount = "sleep=on" if self.args.own_time and accel == "tcg" else None
        kernel_args += [] if icount else clock(accel)
        cmd = machine.command + ["-nodefaults", "-no-user-config",
               "-no-reboot", "-display", "none", "-m", self.args.memory,
               "-kernel", f"{self.work}/kernel", "-initrd", f"{self.work}/initramfs",
               "-append", " ".join(kernel_args),
               "-serial", f"file:{self.console}",
               "-blockdev", json.dumps(disk), "-device", "virtio-blk-pci,drive=image"]
        cmd += self._ports() + self._links() + accelerator(accel, self.args.cpus, icount)
        cmd += share("host", "ro", "/")
        for i, d in enumerate(self.args.writable):
            cmd += share(f"writable{i}", "rw", d)
        if self.gdb:
            cmd += debugger(self.gdb)
        return cmd

    def start(self, accel):
        self._write_initramfs()
        cmd = self._command(accel)
        libc = ctypes.CDLL(None)
        # The terminal's signals are for the command; and no machine outlives rsiw-run.
        with open(f"{self.work}/qemu", "wb") as errors:
            self.proc = subprocess.Popen(
                cmd, start_new_session=True, pass_fds=[s.fileno() for s in self.others],
                stdin=None if self.args.shell and self.number == 1 else subprocess.DEVNULL,
                stdout=None if self.args.shell and self.number == 1 else errors, stderr=errors,
                preexec_fn=lambda: libc.prctl(1, signal.SIGKILL))
        for s in self.others:
            s.close()
        self.others = []

    def errors(self):
        with open(f"{self.work}/qemu", encoding="utf-8", errors="replace") as f:
            return f.read().strip()

    def is_stuck(self):
        """Whether KVM has given up, which QEMU says, and goes on to wait for somebody to help."""
        return "KVM internal error" in self.errors()

    def refused(self):
        """Whether QEMU or guest-init has said no. A QEMU that a signal ended has not: emulated
        by several threads, it aborts now and then while the kernel comes up."""
        log = self.log()
        return (any("guest-init: " in line for line in log) or
                self.proc and (self.proc.poll() or 0) > 0 and not log)

    def log(self):
        try:
            with open(self.console, encoding="utf-8", errors="replace") as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return []

    def fault(self):
        """The log from the first line on that tells of one."""
        log = self.log()
        return next((log[n:] for n, line in enumerate(log) if FAULT.search(line)), [])

    def keep_log(self):
        """A file that has the log when this is over, or nothing."""
        if self.console == os.path.abspath(self.args.console or "") or not self.log():
            return self.args.console
        fd, path = tempfile.mkstemp(prefix="rsiw-run-", suffix=".log")
        try:
            with open(self.console, "rb") as log, open(fd, "wb") as out:
                shutil.copyfileobj(log, out)
        except OSError:
            os.unlink(path)
            raise
        return path

    def stop(self):
        if self.proc:
            kill(self.proc)
        for s in self.sockets.values():
            s.close()
