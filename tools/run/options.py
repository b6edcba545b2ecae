# SPDX-License-Identifier: GPL-2.0
"""What rsiw-run is asked for."""
# usage: rsiw-run [options] [--] COMMAND...
# usage: Runs COMMAND in a virtual machine with RDMA devices, made by rsiw. It sees the
# usage: caller's files, environment and working directory; what it writes is gone with
# usage: the machine. Its input, output, errors and status are those of rsiw-run, and so
# usage: are the signals INT, TERM, HUP, QUIT, USR1 and USR2.
# usage:   --hosts N        N hosts (host1, host2...) in the machine, each with a network
# usage:                    and devices (rsiw1, rsiw2...) of its own; COMMAND runs on host1
# usage:   --machines N     N machines (host1, host2...) with a device rsiw0 each
# usage:   --net delay=1ms,jitter=100us,loss=0.1%,reorder=1%,duplicate=1%,corrupt=0.1%,
# usage:         rate=1gbit,mtu=9000
# usage:                    how the network of several hosts or machines is, each way; any
# usage:                    of these
# usage:   --device DRIVER  the driver of the devices: rsiw, rxe or siw (default: rsiw); or
# usage:                    several, as in "rxe,rsiw": devices of each, in this order
# usage:   --param NAME=VALUE
# usage:                    a parameter of the module rsiw; repeatable
# usage:   --stock          programs use rdma-core's provider for rsiw, and not its own one,
# usage:                    which can do more
# usage:   --writable DIR   DIR is written to in earnest ("." is the working directory);
# usage:                    repeatable
# usage:   -n               COMMAND's input is empty; otherwise what is there is taken from
# usage:                    rsiw-run's, whether COMMAND reads it or not
# usage:   --shell          COMMAND (default: $SHELL) gets the terminal
# usage:   --root           COMMAND runs as root, not as the caller
# usage:   --modules A,B    modules of the kernel to load as well
# usage:   --expect-rdma    status 123 if COMMAND succeeds and has sent nothing by RDMA
# usage:   --accel kvm|tcg  (default: kvm where it works)
# usage:   --own-time       if the processor is emulated, the clock counts its instructions:
# usage:                    limits of time hold however slow it is; one processor
# usage:   --cpus N         processors of a machine (default 2)
# usage:   --memory SIZE    of a machine (default 2G)
# usage:   --gdb            the first machine's kernel waits for a debugger, at a UNIX socket
# usage:                    of the caller's that is told: (gdb) target remote PATH
# usage:   --console FILE   keeps the log of the first machine's kernel
# usage:   --image FILE     (default: $RSIW_RUN_IMAGE, or that which was built or installed)
# usage:   --quiet          tells neither how the machine runs nor what was sent by RDMA
# usage:   --version        tells the versions, and the commits, of rsiw-run and the image
# usage: In the machine, "on [-n] HOST COMMAND..." runs COMMAND on another host; with --machines
# usage: it reads its input even if COMMAND does not, so that -n may be needed.
# usage: Programs of rdma-core, perftest and iproute2 are there if the caller's system lacks
# usage: them.
# usage: Status: that of COMMAND, 128 and the signal's number if one has ended it; 2 if the
# usage: options are wrong; 123 see --expect-rdma; 125 if there is no machine, 126 if it died
# usage: while COMMAND ran. Three INT, TERM or QUIT within ten seconds end the machine.

import argparse
import contextlib
import os
import re
import sys

DRIVERS = ("rsiw", "rxe", "siw")
NO_RDMA, NO_MACHINE, DIED = 123, 125, 126
# What would be hidden in the machine, or changed by it, if it were mounted there.
MACHINES_OWN = re.compile(r"/|/(dev|dev/pts|etc|run)|/(proc|sys|run/rsiw|run/rsiw\.d)(/.*)?")
# Folders of the caller that the machine does not show.
NOT_SHOWN = re.compile(r"(/(?:dev|proc|run|sys))(?:/.*)?")
TIME, PERCENT = r"\d+(\.\d+)?(s|ms|us)", r"\d+(\.\d+)?%?"
# What --net takes: what it looks like, and an example.
NET = {"delay": (TIME, "5ms"), "jitter": (TIME, "100us"), "loss": (PERCENT, "0.1%"),
       "reorder": (PERCENT, "1%"), "duplicate": (PERCENT, "1%"), "corrupt": (PERCENT, "0.1%"),
       "rate": (r"\d+(\.\d+)?([kmgt]i?)?(bit|bps)", "1gbit"), "mtu": (r"\d+", "9000")}


def tell(line):
    """A line among the errors. That nobody reads it, or that it has no place, changes no status:
    sys.stderr would keep the line, and fail once more when Python ends."""
    octets = f"{line}\n".encode(errors="surrogateescape")
    with contextlib.suppress(OSError):
        while octets:
            octets = octets[os.write(2, octets):]


def say(text):
    tell(f"rsiw-run: {text}")


def fail(text, status=NO_MACHINE):
    say(text)
    sys.exit(status)


def network(text):
    """What --net says: netem's arguments and an MTU."""
    said = {}
    for word in text.split(",") if text else []:
        key, _, value = word.partition("=")
        if key not in NET:
            raise argparse.ArgumentTypeError(f"not {word!r}, but any of {', '.join(NET)}")
        look, example = NET[key]
        if not re.fullmatch(look, value):
            raise argparse.ArgumentTypeError(f"not {word!r}, but as in {key}={example}")
        said[key] = value
    for key in ("jitter", "reorder"):
        if key in said and "delay" not in said:
            raise argparse.ArgumentTypeError(f"{key} is about delayed packets: it needs a delay")
    mtu = int(said.pop("mtu", 1500))
    if "jitter" in said:
        said["delay"] += " " + said.pop("jitter")
    return " ".join(f"{key} {value}" for key, value in said.items()), mtu


def drivers(text):
    """What --device says: names of drivers."""
    names = text.split(",")
    for name in names:
        if name not in DRIVERS or names.count(name) > 1:
            raise argparse.ArgumentTypeError(f"not {text!r}, but any of {', '.join(DRIVERS)}")
    if {"rsiw", "siw"} <= set(names):
        raise argparse.ArgumentTypeError("rsiw and siw are never loaded together")
    return names


def parameter(text):
    if not re.fullmatch(r"[a-z][a-z0-9_]*=[\w.:+-]+", text):
        raise argparse.ArgumentTypeError(f"not {text!r}, but as in mpa_crc=N")
    return text


def parser():
    p = argparse.ArgumentParser(add_help=False, usage="see rsiw-run --help", allow_abbrev=False)
    p.add_argument("--help", action="store_true")
    p.add_argument("--hosts", type=int, default=1)
    p.add_argument("--machines", type=int, default=1)
    p.add_argument("--net", type=network, default=network(""))
    p.add_argument("--device", type=drivers, default=["rsiw"])
    p.add_argument("--param", type=parameter, action="append", default=[])
    p.add_argument("--stock", action="store_true")
    p.add_argument("--writable", action="append", default=[])
    p.add_argument("-n", dest="no_input", action="store_true")
    p.add_argument("--shell", action="store_true")
    p.add_argument("--root", action="store_true")
    p.add_argument("--modules", default="")
    p.add_argument("--expect-rdma", action="store_true")
    p.add_argument("--accel", choices=["kvm", "tcg"])
    p.add_argument("--own-time", action="store_true")
    p.add_argument("--cpus", type=int, default=2)
    p.add_argument("--memory", default="2G")
    p.add_argument("--gdb", action="store_true")
    p.add_argument("--console")
    p.add_argument("--image", default=os.environ.get("RSIW_RUN_IMAGE"))
    p.add_argument("--quiet", action="store_true")
    p.add_argument("--version", action="store_true")
    p.add_argument("command", nargs=argparse.REMAINDER)
    return p


def parse():
    p = parser()
    args = p.parse_args()
    if args.gdb and re.fullmatch(r"[0-9]+", "".join(args.command[:1])):
        p.error("--gdb takes no port: it tells the path of a socket, for gdb's \"target remote\"")
    if args.command[:1] == ["--"]:
        args.command = args.command[1:]
    if args.help:
        with open(__file__, encoding="utf-8") as f:
            print(re.sub("# usage: ?", "", "".join(x for x in f if x.startswith("# usage:"))), end="")
        sys.exit()
    if args.version:
        return args
    if args.shell and not args.command:
        args.command = [os.environ.get("SHELL", "/bin/sh")]
    if not args.command:
        p.error("no command given")
    if not (1 <= args.hosts < 255 and 1 <= args.machines < 255):
        p.error("too few or too many hosts")
    if args.hosts > 1 and args.machines > 1:
        p.error("either --hosts or --machines")
    if args.net != network("") and args.hosts == args.machines == 1:
        p.error("--net needs --hosts or --machines: there is no network on the way to oneself")
    if args.net != network("") and args.hosts > 1 and "direct=2" in args.param:
        p.error("--net or --param direct=2: with that, what hosts send does not pass a network")
    if args.hosts > 1 and args.device != ["rsiw"]:
        p.error("--hosts is for rsiw only, whose devices belong to hosts: --machines is for all")
    if args.param and "rsiw" not in args.device:
        p.error("--param is for rsiw, which --device leaves out")
    if args.expect_rdma and args.device == ["siw"]:
        p.error("--expect-rdma looks at counters, which siw does not have")
    if args.shell and not os.isatty(0):
        p.error("--shell needs a terminal")
    if args.shell and args.no_input:
        p.error("either --shell or -n")
    add_folders(p, args)
    return args


def add_folders(p, args):
    """The working directory, and those that are written to."""
    try:
        args.folder = os.getcwd()
    except OSError as e:
        fail(f"the working directory: {e.strerror}")
    args.writable = [os.path.realpath(d) for d in args.writable]
    for d in args.writable:
        if not os.path.isdir(d):
            p.error(f"no directory {d}")
        if MACHINES_OWN.fullmatch(d):
            p.error(f"{d} cannot be written to: the machine has one of its own")
    own = NOT_SHOWN.fullmatch(args.folder)
    if own and not any(f"{args.folder}/".startswith(f"{d}/") for d in args.writable):
        fail(f"the working directory {args.folder} is not in the machine, which has a {own[1]} of its "
             "own" + ("; --writable . would show it there" if not MACHINES_OWN.fullmatch(args.folder)
                      else ""))
