# SPDX-License-Identifier: GPL-2.0
"""The guests' initramfs: busybox, guest-init and the modules that it needs."""

import os
import subprocess

# To reach the disk image, the shares and the console.
MODULES = ["virtio_pci", "virtio_blk", "erofs", "overlay", "9pnet_virtio", "9p",
           "virtio_console", "virtio_rng"]
TOOLS = ["sh", "mount", "mkdir", "cp", "cat", "insmod", "sleep", "poweroff", "switch_root"]


def module_files(release):
    """Paths of MODULES and what they depend on, in load order."""
    files = []
    for name in MODULES:
        out = subprocess.run(["modprobe", "--show-depends", "-S", release, name],
                             stdout=subprocess.PIPE, check=True, text=True).stdout
        for line in out.splitlines():
            word = line.split()
            if word[0] == "insmod" and word[1] not in files:
                files.append(word[1])
    return files


class Cpio:
    """A newc archive, written as it grows."""

    def __init__(self, out):
        self.out = out
        self.ino = 0

    def _entry(self, name, mode, data=b""):
        self.ino += 1
        path = name.encode() + b"\0"
        fields = [self.ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0]
        header = b"070701" + b"".join(b"%08x" % f for f in fields)
        self.out.write(header + path + b"\0" * (-(len(header) + len(path)) % 4))
        self.out.write(data + b"\0" * (-len(data) % 4))

    def directory(self, name):
        self._entry(name, 0o40755)

    def file(self, name, data, mode=0o644):
        self._entry(name, 0o100000 | mode, data)

    def link(self, name, target):
        self._entry(name, 0o120777, target.encode())

    def end(self):
        self._entry("TRAILER!!!", 0)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def add_tree(cpio, top, prefix):
    """The files below top, under prefix in the archive."""
    cpio.directory(prefix)
    for where, dirs, files in os.walk(top):
        rel = os.path.relpath(where, top)
        base = prefix if rel == "." else f"{prefix}/{rel}"
        for d in sorted(dirs):
            cpio.directory(f"{base}/{d}")
        for f in sorted(files):
            cpio.file(f"{base}/{f}", read(os.path.join(where, f)))


def write(path, release, texts, updates=None):
    """texts: files to add by name. updates: a tree to put over the guest's root."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(path, "wb") as out:
        cpio = Cpio(out)
        for d in ("dev", "proc", "sys", "bin", "modules", "image", "layer", "rw", "newroot"):
            cpio.directory(d)
        cpio.file("bin/busybox", read("/usr/bin/busybox"), 0o755)
        for tool in TOOLS:
            cpio.link(f"bin/{tool}", "busybox")
        files = module_files(release)
        for f in files:
            cpio.file("modules/" + os.path.basename(f), read(f))
        names = "".join(os.path.basename(f) + "\n" for f in files)
        cpio.file("modules/list", names.encode())
        for name, text in texts.items():
            cpio.file(name, text.encode())
        if updates:
            add_tree(cpio, updates, "updates")
        cpio.file("init", read(os.path.join(here, "guest-init")), 0o755)
        cpio.end()
