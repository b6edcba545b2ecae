#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs one guest in QEMU. Runs in the Debian root, started by boot."""
# usage: boot [options] [--] COMMAND...    boots a guest and runs COMMAND in it
# usage:   --results DIR     writable in the guest; the console goes to DIR/console.log
# usage:                     (default: a new directory build/results-XXXXXX)
# usage:   --share DIR       another directory that is writable in the guest
# usage:   --module FILE     a module (.ko) to install beside the kernel's own; repeatable
# usage:   --load NAME       a module to load before COMMAND; repeatable
# usage:   --time SECONDS    limit for COMMAND (default 600); beyond it the guest's tasks
# usage:                     are dumped to the console and the guest is killed: status 124
# usage:   --cpus N          processors (default 2)
# usage:   --memory SIZE     (default 4G)
# usage:   --icount          one processor whose clock counts instructions
# usage:   --accel kvm|tcg   (default: kvm where it works)
# usage:   --other-strings   a processor with fast string instructions (erms, fsrm), by
# usage:                     which the kernel copies, if it had none otherwise, or without
# usage:   --packages        each processor is in a package of its own
# usage:   --append ARG      a kernel argument; repeatable
# usage:   --qemu ARG        a QEMU argument; repeatable
# usage:   --link-server PATH, --link-client PATH
# usage:                     a network to another guest over the socket PATH
# usage:   --gdb             waits for a debugger, at the UNIX socket "gdb" in the results
# usage:   --interactive     COMMAND (default: a shell) gets the terminal
# usage:   --kernel FILE --release NAME --layer DIR
# usage:                     another kernel: DIR is laid over the root and holds
# usage:                     usr/lib/modules/NAME; FILE is the image's path in it
# usage:   --arch amd64|arm64   (default: amd64)
# usage:   --busybox FILE    of that architecture (default: the root's)
# usage:   --initrd FILE     the disk image is a whole system: it is started with this
# usage:                     and runs what it runs, without COMMAND, modules and checkout
# usage: Status: that of COMMAND; 124 out of time, 125 no boot, 126 the guest died.

import argparse
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f"{HERE}/../run")

import initramfs
from machine import BOOT_TRIES, MACHINES, Watch, accelerator, clock, debugger, kill, share

# Nobody else has a folder of that name, wherever the checkout is.
WORK = tempfile.mkdtemp()
QMP = f"{WORK}/qmp.sock"
UPDATES = f"{WORK}/updates"
INITRAMFS = f"{WORK}/initramfs"
# A whole system, with an init and an initramfs of its own, takes a minute.
SYSTEM_FACTOR = 4


def parse():
    p = argparse.ArgumentParser(add_help=False, usage="see boot --help")
    p.add_argument("--results", required=True)
    p.add_argument("--kernel", required=True)
    p.add_argument("--release", required=True)
    p.add_argument("--layer", required=True)
    p.add_argument("--initrd")
    p.add_argument("--image", required=True)
    p.add_argument("--checkout", required=True)
    p.add_argument("--share")
    p.add_argument("--module", action="append", default=[])
    p.add_argument("--load", action="append", default=[])
    p.add_argument("--time", type=float, default=600)
    p.add_argument("--cpus", type=int, default=2)
    p.add_argument("--memory", default="4G")
    p.add_argument("--icount", action="store_true")
    p.add_argument("--accel", choices=["kvm", "tcg"], required=True)
    p.add_argument("--other-strings", action="store_true")
    p.add_argument("--packages", action="store_true")
    p.add_argument("--arch", choices=list(MACHINES), default="amd64")
    p.add_argument("--busybox", default="/usr/bin/busybox")
    p.add_argument("--append", action="append", default=[])
    p.add_argument("--qemu", action="append", default=[])
    p.add_argument("--link-server")
    p.add_argument("--link-client")
    p.add_argument("--gdb", action="store_true")
    p.add_argument("--interactive", action="store_true")
    p.add_argument("command", nargs=argparse.REMAINDER)
    args = p.parse_args()
    if args.command[:1] == ["--"]:
        args.command = args.command[1:]
    if not args.command and not args.interactive and not args.initrd:
        p.error("no command given")
    args.results = os.path.abspath(args.results)
    args.shares = [("results", "rw", args.results)]
    if not args.initrd:
        args.shares = [("layer", "ro", args.layer), ("checkout", "ro", args.checkout)] + args.shares
    if args.share:
        args.shares.append(("share", "rw", os.path.abspath(args.share)))
    return args


def install_modules(args):
    """The modules given, and module tables that know them, as a tree to be put
    over the guest's root; modprobe and autoloading then find them."""
    if not args.module:
        return
    modules = f"/usr/lib/modules/{args.release}"
    os.makedirs(f"{UPDATES}{modules}/updates")
    os.makedirs(f"{modules}/updates")
    for path in args.module:
        shutil.copy(path, f"{UPDATES}{modules}/updates")
        shutil.copy(path, f"{modules}/updates")
    subprocess.run(["depmod", args.release], check=True)
    for name in os.listdir(modules):
        if name.startswith("modules.") and name.endswith(".bin"):
            shutil.copy(f"{modules}/{name}", f"{UPDATES}{modules}")


def network(args):
    opts = []
    for path, server in ((args.link_server, "on"), (args.link_client, "off")):
        if path:
            retry = "" if server == "on" else ",reconnect-ms=500"
            mac = "52:54:00:12:34:" + ("01" if server == "on" else "02")
            opts += ["-netdev", f"stream,id=link,server={server},addr.type=unix,"
                     f"addr.path={path}{retry}",
                     "-device", f"virtio-net-pci,netdev=link,mac={mac}"]
    return opts


def guest_env(args):
    size = os.get_terminal_size() if args.interactive else (80, 24)
    command = shlex.join(args.command) or "bash -i"
    values = {"RSIW_RESULTS": args.results, "RSIW_LOAD": " ".join(args.load),
              "RSIW_CWD": os.getcwd(), "RSIW_COMMAND": command,
              "RSIW_INTERACTIVE": "yes" if args.interactive else "no",
              "RSIW_COLS": str(size[0]), "RSIW_ROWS": str(size[1])}
    return "export " + " ".join(f"{k}={shlex.quote(v)}" for k, v in values.items()) + "\n"


def write_initramfs(args):
    # What guest-init mounts besides the layer.
    texts = {"shares": "".join(f"{tag} {mode} {path}\n" for tag, mode, path in args.shares[1:]),
             "run-path": f"{HERE}/guest-run"}
    install_modules(args)
    os.makedirs(UPDATES, exist_ok=True)
    with open(f"{UPDATES}/run-env", "w", encoding="utf-8") as f:
        f.write(guest_env(args))
    initramfs.write(INITRAMFS, args.release, args.busybox, texts, UPDATES)


def command_line(args):
    machine = MACHINES[args.arch]
    kernel_args = [f"console={machine.console}", "ignore_loglevel", "printk.devkmsg=on", "panic=-1",
                   "net.ifnames=0", "sysrq_always_enabled", "mitigations=off"]
    if args.initrd:
        kernel_args += ["root=/dev/vda", "rw"]
    kernel_args += ([] if args.icount else clock(args.accel, args.arch)) + args.append
    cmd = machine.command + ["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
           "-m", args.memory, "-kernel", args.kernel, "-initrd", args.initrd or INITRAMFS,
           "-append", " ".join(kernel_args),
           "-serial", f"file:{args.console}",
           "-qmp", f"unix:{QMP},server=on,wait=off",
           "-device", "virtio-rng-pci",
           "-drive", f"file={args.image},format=raw,if=none,id=image,"
                     + ("snapshot=on" if args.initrd else "readonly=on"),
           "-device", "virtio-blk-pci,drive=image",
           "-chardev", "stdio,id=out,signal=off", "-device", "virtio-serial-pci",
           "-device", "virtconsole,chardev=out"]
    for one in args.shares:
        cmd += share(*one)
    cmd += accelerator(args.accel, args.cpus, "sleep=off" if args.icount else None,
                       args.other_strings, args.arch)
    if args.packages:
        cmd += ["-smp", f"{args.cpus},sockets={args.cpus}"]
    cmd += network(args)
    if args.gdb:
        cmd += debugger(f"{args.results}/gdb")
    return cmd + args.qemu


def qmp(path, *commands):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(10)
        s.connect(path)
        f = s.makefile("rw")
        f.readline()
        for c in ({"execute": "qmp_capabilities"},) + commands:
            f.write(json.dumps(c) + "\n")
            f.flush()
            f.readline()


def dump_tasks():
    """Alt-SysRq-W and -T on the emulated keyboard: works while interrupts do."""
    try:
        for key in ("w", "t"):
            keys = [{"type": "qcode", "data": k} for k in ("alt", "sysrq", key)]
            qmp(QMP, {"execute": "send-key", "arguments": {"keys": keys}})
            time.sleep(3)
    except (OSError, ValueError) as e:
        print(f"boot: cannot ask the guest for its tasks: {e}", file=sys.stderr)


def run_once(args, cmd):
    """One guest: whether it booted, and its status."""
    proc = subprocess.Popen(cmd, start_new_session=True,
                            stdin=subprocess.PIPE)
    begin = time.monotonic()
    watch = Watch(args.console, proc.pid, SYSTEM_FACTOR if args.initrd else 1)
    try:
        while True:
            try:
                proc.wait(timeout=0.25)
                watch.look()
                return watch.up, guest_status(args)
            except subprocess.TimeoutExpired:
                pass
            if not watch.up:
                if watch.look():
                    start = time.monotonic()
                    print(f"{f'boot Linux {args.release} ({args.accel})':44} "
                          f"{start - begin:.0f} s", file=sys.stderr)
                elif watch.hopeless() and not args.gdb:
                    return False, 125
            elif time.monotonic() - start > args.time:
                print(f"boot: no end after {args.time:.0f} s, the guest's tasks are in "
                      f"{args.console}", file=sys.stderr)
                dump_tasks()
                return True, 124
    finally:
        kill(proc)


def guest_status(args):
    try:
        with open(args.status, encoding="utf-8") as f:
            return int(f.read())
    except (FileNotFoundError, ValueError):
        print(f"boot: the guest died, see {args.console}", file=sys.stderr)
        return 126


def main():
    args = parse()
    args.console = os.path.join(args.results, "console.log")
    args.status = os.path.join(args.results, ".status")
    if not args.initrd:
        write_initramfs(args)
    cmd = command_line(args)
    for attempt in range(1, BOOT_TRIES + 1):
        for stale in (args.console, args.status):
            if os.path.exists(stale):
                os.unlink(stale)
        if args.interactive:
            subprocess.run(cmd, check=False)
            return guest_status(args)
        up, status = run_once(args, cmd)
        if up:
            return status
        if os.path.exists(args.console):
            shutil.copy(args.console, f"{args.console}.noboot{attempt}")
        print("boot: no sign of life, "
              f"{'booting again' if attempt < BOOT_TRIES else 'giving up'}", file=sys.stderr)
    return 125


if __name__ == "__main__":
    sys.exit(main())
