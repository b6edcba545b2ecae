#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs User Mode Linux in the Debian root, which is its root; started by uml."""

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import time

import qemu
from machine import starved, tsc_khz

HERE = os.path.dirname(os.path.abspath(__file__))
# Modules lie behind the memory, and Rust's addresses in them have 32 bits with a
# sign: the first 2 GiB, of which the kernel begins at 1.5 GiB.
MEMORY = "340M"


def parse():
    p = argparse.ArgumentParser(add_help=False, usage="see uml --help")
    p.add_argument("--kernel", required=True)
    p.add_argument("--release", required=True)
    p.add_argument("--results", required=True)
    p.add_argument("--module", action="append", default=[])
    p.add_argument("--append", action="append", default=[])
    p.add_argument("--time", type=float, default=600)
    p.add_argument("command", nargs=argparse.REMAINDER)
    args = p.parse_args()
    if args.command[:1] == ["--"]:
        args.command = args.command[1:]
    if not args.command:
        p.error("no command given")
    args.results = os.path.abspath(args.results)
    return args


def prepare(args):
    """Leaves in the results what the guest is to do."""
    khz = tsc_khz()
    env = {"RSIW_CWD": os.getcwd(), "RSIW_COMMAND": shlex.join(args.command),
           "RSIW_TSC_KHZ": str(khz)}
    with open(os.path.join(args.results, "env"), "w", encoding="utf-8") as f:
        f.write("".join(f"export {k}={shlex.quote(v)}\n" for k, v in env.items()))
    # Its own does not say how fast the processor is. What asks for that wants to
    # know what the time stamp counter counts.
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        one = f.read().split("\n\n")[0] + "\n\n"
    one = re.sub(r"(cpu MHz\s*: ).*", rf"\g<1>{khz / 1000:.3f}", one)
    with open(os.path.join(args.results, "cpuinfo"), "w", encoding="utf-8") as f:
        f.write(one)
    qemu.install_modules(args)


def command_line(args):
    return [args.kernel, f"mem={MEMORY}", "root=/dev/root", "rootfstype=hostfs",
            "rootflags=/", "rw", f"init={HERE}/uml-guest", f"RSIW_RESULTS={args.results}",
            "stderr=1", "console=stderr0", "con=null", "con0=null,fd:1",
            "seccomp=auto", "panic=-1", *args.append]


def watch(proc, seconds):
    """Waits for its end; which part of the time it waited for a processor, %."""
    begin, waited = time.monotonic(), 0
    while True:
        try:
            proc.wait(timeout=0.1)
            return 100 * waited / (time.monotonic() - begin)
        except subprocess.TimeoutExpired:
            waited = max(waited, starved(proc.pid))
            if time.monotonic() - begin > seconds:
                raise


def main():
    args = parse()
    status = os.path.join(args.results, ".status")
    console = os.path.join(args.results, "console.log")
    if os.path.exists(status):
        os.unlink(status)
    prepare(args)
    # The kernel and each of its processes are processes here, which take turns. On two processors
    # each turn would wait for the other processor to wake.
    one = [max(os.sched_getaffinity(0))]
    with open(console, "w", encoding="utf-8") as log:
        proc = subprocess.Popen(command_line(args), start_new_session=True,
                                stdin=subprocess.DEVNULL, stderr=log,
                                preexec_fn=lambda: os.sched_setaffinity(0, one),
                                env={**os.environ, "TMPDIR": "/tmp"})
        try:
            share = watch(proc, args.time)
        except subprocess.TimeoutExpired:
            print(f"uml: no end after {args.time:.0f} s, see {console}", file=sys.stderr)
            return 124
        finally:
            try:
                os.killpg(proc.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            proc.wait()
    with open(os.path.join(args.results, "waited"), "w", encoding="utf-8") as f:
        f.write(f"{share:.1f}\n")
    try:
        with open(status, encoding="utf-8") as f:
            return int(f.read())
    except (FileNotFoundError, ValueError):
        print(f"uml: User Mode Linux died, see {console}", file=sys.stderr)
        return 126


if __name__ == "__main__":
    sys.exit(main())
