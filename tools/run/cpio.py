# SPDX-License-Identifier: GPL-2.0
"""Archives in the form that the kernel takes for an initramfs."""

import os


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
