# SPDX-License-Identifier: GPL-2.0
"""Makes the file that rsiw-run boots. Runs in the Debian root with the kernel's
layer, started by image."""

import argparse
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.normpath(f"{HERE}/../..")
sys.path.insert(0, f"{HERE}/../vm")

import contents
import initramfs
from cpio import Cpio
from parts import PARTS, SECTOR, header

LIB = "/usr/lib/x86_64-linux-gnu"
# Until the root stands; virtio itself, its console and virtiofs are built in.
BOOT_MODULES = ["virtio_blk", "erofs", "9pnet_virtio", "9p", "overlay"]
# What may be wanted in the guest, with all that these depend on: the RDMA core and
# its consumers, networks, network file systems, storage without hardware.
MODULES = re.compile(r"""kernel/(
    (arch/x86/)?crypto/ | lib/ | block/ |
    fs/(9p|configfs|erofs|ext4|fuse|lockd|netfs|nfs|nfsd|nfs_common|nls|overlayfs|smb)/ |
    net/(?!(6lowpan|9p/.*xen|appletalk|ax25|batman-adv|bluetooth|can|ceph|hsr|ieee802154|llc2|
            mac80211|mac802154|netrom|nfc|openvswitch|qrtr|rfkill|rose|rxrpc|wireless|x25)) |
    drivers/(block/(brd|loop|nbd|null_blk|rnbd)|infiniband/(core|sw|ulp)|nvme|target)/? |
    drivers/net/(bonding|dummy|geneve|ifb|ipvlan|macvlan|netkit|nlmon|tap|team|tun|veth|vrf|vxlan|
                 virtio_net|wireguard)
    )""", re.VERBOSE)
# Programs of the root; their libraries come along. Patterns.
PROGRAMS = [
    "/usr/bin/ib*_*", "/usr/bin/ib_*", "/usr/bin/raw_ethernet_*", "/usr/bin/run_perftest_*",
    "/usr/bin/rping", "/usr/bin/udaddy", "/usr/bin/ucmatose", "/usr/bin/mckey", "/usr/bin/cmtime",
    "/usr/bin/rdma_*", "/usr/bin/rstream", "/usr/bin/riostream", "/usr/bin/rcopy", "/usr/bin/udpong",
    "/usr/bin/qperf", "/usr/bin/fi_info", "/usr/bin/fi_pingpong",
    "/usr/bin/rdma", "/usr/bin/ip", "/usr/sbin/tc", "/usr/bin/ss", "/usr/bin/nstat",
    "/usr/sbin/ethtool",
    "/usr/bin/ping", "/usr/bin/strace", "/usr/bin/tcpdump", "/usr/bin/setpriv", "/usr/bin/iperf3",
]
# For programs of a system that lacks them: rdma-core's libraries, and what these need.
LIBRARIES = ["libibverbs.so.1", "librdmacm.so.1", "libibumad.so.3", "libnl-3.so.200",
             "libnl-route-3.so.200", "rsocket/librspreload.so"]
# And the providers of the drivers.
PROVIDERS = ("siw", "rxe")

# What the image has of other projects.
taken = set()


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--kernel", required=True)
    p.add_argument("--release", required=True)
    p.add_argument("--module", required=True)
    p.add_argument("--siw", required=True, help="the module, which Debian does not build")
    p.add_argument("--library", required=True, help="without suffix")
    p.add_argument("--version", required=True)
    p.add_argument("--commit", required=True)
    p.add_argument("--out", required=True)
    return p.parse_args()


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def copy(path, to, mode=None):
    os.makedirs(os.path.dirname(to), exist_ok=True)
    shutil.copy(os.path.realpath(path), to)
    if not os.path.realpath(path).startswith(f"{TOP}/"):
        taken.add(path)
    if mode:
        os.chmod(to, mode)


def provider(name):
    return f"{LIB}/libibverbs/lib{name}-rdmav34.so"


def add_modules(args, root):
    """The kernel's modules that MODULES wants, rsiw, and the tables of modprobe."""
    source = f"/usr/lib/modules/{args.release}"
    target = f"{root}/usr/lib/modules/{args.release}"
    needs = {}
    with open(f"{source}/modules.dep", encoding="ascii") as f:
        for line in f:
            name, _, rest = line.partition(":")
            needs[name] = rest.split()
    for name in sorted({n for m, rest in needs.items() if MODULES.match(m) for n in [m] + rest}):
        copy(f"{source}/{name}", f"{target}/{name}")
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        copy(f"{source}/{name}", f"{target}/{name}")
    # siw is of the kernel's source, patched so that programs on a busy machine go on.
    os.makedirs(f"{target}/extra")
    for module in (args.module, args.siw):
        shutil.copy(module, f"{target}/extra")
        run("strip", "--strip-debug", f"{target}/extra/{os.path.basename(module)}")
    run("depmod", "-b", root, "-m", "/usr/lib/modules", args.release)


def add_programs(args, root):
    """Programs that bring their own libraries: bin/NAME runs exec/NAME with lib."""
    os.makedirs(f"{root}/bin")
    programs = sorted({p for pattern in PROGRAMS for p in glob.glob(pattern)})
    libraries = {provider(name) for name in PROVIDERS}
    for path in programs:
        name = os.path.basename(path)
        with open(path, "rb") as f:
            if f.read(4) != b"\x7fELF":
                continue
        copy(path, f"{root}/exec/{name}", 0o755)
        os.symlink("../lib/run", f"{root}/bin/{name}")
        libraries.update(re.findall(r"(/\S+) \(0x", run("ldd", path)))
    for path in sorted(libraries):
        copy(path, f"{root}/lib/{os.path.basename(path)}")
    shutil.copy(f"{args.library}-rdmav34.so", f"{root}/lib")
    copy(f"{HERE}/with-libraries", f"{root}/lib/run", 0o755)
    copy(f"{TOP}/tools/rsiw-report", f"{root}/bin/rsiw-report", 0o755)
    copy(f"{HERE}/on", f"{root}/bin/on", 0o755)
    os.symlink("on", f"{root}/bin/rsh")


def add_libraries(root):
    """A layer for the caller's file system. Links to lib where the files are there."""
    for path in [f"{LIB}/{name}" for name in LIBRARIES] + [provider(name) for name in PROVIDERS]:
        copy(path, f"{root}/rdma{path}")
    config = f"{root}/rdma/etc/libibverbs.d"
    os.makedirs(config)
    for name in PROVIDERS:
        with open(f"{config}/{name}.driver", "w", encoding="ascii") as f:
            f.write(f"driver {name}\n")


def add_guest(root):
    """What runs the guest: busybox and our scripts."""
    copy("/usr/bin/busybox", f"{root}/busybox", 0o755)
    for name in ("guest-run", "guest-host", "guest-count", "as-user", "agent.py"):
        copy(f"{HERE}/{name}", f"{root}/{name}", 0o755)
    os.symlink("busybox", f"{root}/modprobe")


def add_licences(args, root):
    """Which packages these are of, their copyright files, and the same list beside the image."""
    os.mkdir(f"{root}/licences")
    packages = contents.packages_of(taken | {args.kernel}, args.release)
    for package in packages:
        with open(f"{root}/licences/{package.name}", "w", encoding="utf-8") as f:
            f.write(package.copyright)
    text = f"Package: rsiw\nVersion: {args.version}\nCommit: {args.commit}\n"
    text += f"Sources: rsiw-{args.version}.tar.xz\nLicences: GPL-2; the library also Linux-OpenIB\n\n"
    text += "\n".join(map(str, packages))
    for path in (f"{root}/packages", f"{args.out.removesuffix('.img')}.packages"):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


def make_root(args, work):
    root = f"{work}/root"
    add_modules(args, root)
    add_programs(args, root)
    add_libraries(root)
    add_guest(root)
    add_licences(args, root)
    run("mkfs.erofs", "-d0", "-T0", "-U", "00000000-0000-0000-0000-000000000000", "--all-root",
        "-zlz4hc", "-C65536", "-Ededupe", f"{work}/root.erofs", root)
    return f"{work}/root.erofs"


def make_initramfs(args, work):
    with open(f"{work}/initramfs", "wb") as out:
        cpio = Cpio(out)
        initramfs.base(cpio, args.release, BOOT_MODULES, f"{HERE}/guest-init")
        cpio.directory("host")
        cpio.end()
    return f"{work}/initramfs"


def main():
    args = parse()
    with tempfile.TemporaryDirectory() as work:
        files = {"kernel": args.kernel, "initramfs": make_initramfs(args, work),
                 "root": make_root(args, work)}
        parts, position = {}, SECTOR
        for part in PARTS:
            with open(files[part], "rb") as f:
                digest = hashlib.sha256(f.read()).hexdigest()
            size = os.path.getsize(files[part])
            parts[part] = (position, size, digest)
            position += size + -size % SECTOR
        with open(args.out + ".new", "wb") as out:
            out.write(header(args.version, args.commit, args.release, parts))
            for part in PARTS:
                out.seek(parts[part][0])
                with open(files[part], "rb") as f:
                    shutil.copyfileobj(f, out)
            out.truncate(position)
    # For a debugger; what the image has of the module is the same without these.
    beside = os.path.join(os.path.dirname(args.out), "rsiw.ko.debug")
    run("objcopy", "--only-keep-debug", args.module, beside + ".new")
    os.rename(beside + ".new", beside)
    os.rename(args.out + ".new", args.out)


if __name__ == "__main__":
    main()
