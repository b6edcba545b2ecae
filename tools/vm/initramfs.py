# SPDX-License-Identifier: GPL-2.0
"""The guests' initramfs: busybox, guest-init and the modules that it needs."""

import os
import subprocess

from cpio import Cpio, add_tree, read

# To reach the disk image, the shares and the console.
MODULES = ["virtio_pci", "virtio_blk", "erofs", "overlay", "9pnet_virtio", "9p",
           "virtio_console", "virtio_rng"]
TOOLS = ["sh", "mount", "mkdir", "cp", "cat", "insmod", "sleep", "poweroff", "switch_root"]


def module_files(release, modules):
    """Paths of modules and what they depend on, in load order."""
    files = []
    for name in modules:
        out = subprocess.run(["modprobe", "--show-depends", "-S", release, name],
                             stdout=subprocess.PIPE, check=True, text=True).stdout
        for line in out.splitlines():
            word = line.split()
            if word[0] == "insmod" and word[1] not in files:
                files.append(word[1])
    return files


def base(cpio, release, modules, init, busybox="/usr/bin/busybox"):
    """What any guest begins with: busybox, the modules, and init as /init."""
    for d in ("dev", "proc", "sys", "bin", "modules", "image", "rw", "newroot"):
        cpio.directory(d)
    cpio.file("bin/busybox", read(busybox), 0o755)
    for tool in TOOLS:
        cpio.link(f"bin/{tool}", "busybox")
    files = module_files(release, modules)
    for f in files:
        cpio.file("modules/" + os.path.basename(f), read(f))
    names = "".join(os.path.basename(f) + "\n" for f in files)
    cpio.file("modules/list", names.encode())
    cpio.file("init", read(init), 0o755)


def write(path, release, busybox, texts, updates=None):
    """texts: files to add by name. updates: a tree to put over the guest's root."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(path, "wb") as out:
        cpio = Cpio(out)
        base(cpio, release, MODULES, os.path.join(here, "guest-init"), busybox)
        cpio.directory("layer")
        for name, text in texts.items():
            cpio.file(name, text.encode())
        if updates:
            add_tree(cpio, updates, "updates")
        cpio.end()
