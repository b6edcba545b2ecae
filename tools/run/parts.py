# SPDX-License-Identifier: GPL-2.0
"""The file that rsiw-run boots: a header that "head -n 7" shows, and the parts that
it tells of, each at a multiple of SECTOR."""

import hashlib
import os
import sys

SECTOR = 4096
PARTS = ("kernel", "initramfs", "root")
MAGIC = "rsiw-run image 1"


def symbols(image):
    """The file that is made with an image, and has the symbols of its rsiw.ko: beside it, or
    where packages have them."""
    path = os.path.join(os.path.dirname(os.path.abspath(image)), "rsiw.ko.debug")
    packaged = f"/usr/lib/debug{path}"
    return packaged if os.path.exists(packaged) else path


def header(version, commit, release, parts):
    """parts: by name, where each begins, its size, and its SHA-256."""
    lines = [MAGIC, f"version {version}", f"commit {commit}", f"release {release}"]
    lines += ["{} {} {} {}".format(name, *parts[name]) for name in PARTS]
    return ("\n".join(lines) + "\n").encode().ljust(SECTOR, b"\0")


class Image:
    """The file at path, whose header makes sense."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as f:
            lines = f.read(SECTOR).rstrip(b"\0").decode("utf-8", "replace").split("\n")
        try:
            if lines[0] != MAGIC:
                raise ValueError
            words = {line.split()[0]: line.split()[1:] for line in lines[1:] if line}
            self.version, self.release = words["version"][0], words["release"][0]
            self.commit = words.get("commit", ["unknown"])[0]
            self.parts = {name: (int(words[name][0]), int(words[name][1]), words[name][2])
                          for name in PARTS}
        except (ValueError, KeyError, IndexError):
            raise ValueError(f"{path} is no image for this rsiw-run") from None

    def read(self, name):
        """A part that is known to be what was built."""
        position, size, digest = self.parts[name]
        with open(self.path, "rb") as f:
            f.seek(position)
            data = f.read(size)
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError(f"the {name} in {self.path} is damaged")
        return data

    def check(self):
        """All of them."""
        for name in PARTS:
            self.read(name)


if __name__ == "__main__":
    try:
        Image(sys.argv[1]).check()
    except (OSError, ValueError) as e:
        sys.exit(f"parts.py: {e}")
