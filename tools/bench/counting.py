# SPDX-License-Identifier: GPL-2.0
"""What native/count.c has counted: by function, subtracted, per message.

Runs in the Debian root, whose binutils and programs are those of the guest.
"""

import bisect
import collections
import re
import subprocess

KERNEL = 1 << 63
# What compilers append to a function's name.
SUFFIX = re.compile(r"\.(constprop|isra|part|cold|llvm|lto_priv)(\.\w+)*$")
# The hash of a crate in a demangled name.
CRATE_HASH = re.compile(r"\[[0-9a-f]{8,16}\]")

Function = collections.namedtuple("Function", "name home")
Function.__doc__ = """A function: `home` is its kernel module, "vmlinux", or the
file of a program or library, which begins with "/"; "" when unknown."""

Count = collections.namedtuple("Count", "all polled")
Count.__doc__ = "Instructions in all, and those of them that polled."


class Bad(Exception):
    """Results that make no sense."""


def spans(lines):
    """The spans in a file of the plugin's: of each a list of (address,
    instructions, count, polled) per block. Without one that has no end."""
    now = None
    for line in lines:
        word = line.split()
        if word[0] == "span":
            now = []
        elif word[0] == "end":
            yield now
            now = None
        elif now is not None:
            now.append((int(word[0], 16), *map(int, word[1:4])))


class Symbols:
    """Functions of the kernel and its modules, of /proc/kallsyms."""

    def __init__(self, lines):
        by_address = {}
        for line in lines:
            word = line.split()
            address = int(word[0], 16)
            if word[1] not in "tTwW" or address < KERNEL:
                continue
            home = word[3].strip("[]") if len(word) > 3 else "vmlinux"
            old = by_address.get(address)
            # Of several names the one that sources have: __pfx_ and __pi_ are
            # made up, local labels begin with a dot.
            if old is None or old.name.startswith(("__pi_", ".", "__pfx_")):
                by_address[address] = Function(word[2], home)
        if not by_address:
            raise Bad("no addresses in the kernel's symbols")
        self.addresses = sorted(by_address)
        self.functions = [by_address[a] for a in self.addresses]

    def index(self, address):
        """Of the function at an address in `functions`; -1 if there is none."""
        return bisect.bisect_right(self.addresses, address) - 1

    def at(self, address):
        i = self.index(address)
        return self.functions[i] if i >= 0 else Function(hex(address), "")


def output(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL, check=False).stdout


class Binary:
    """Functions of a program or library without debugging symbols: exported
    names, and limits from its unwind tables for the others."""

    FRAME = re.compile(r" FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)")

    def __init__(self, path):
        self.path = path
        self.loads = []
        for line in output("readelf", "-lW", path).splitlines():
            word = line.split()
            if word[:1] == ["LOAD"]:
                self.loads.append(tuple(int(w, 16) for w in word[1:5]))
        starts = {}
        for line in output("readelf", "--debug-dump=frames", path).splitlines():
            found = self.FRAME.search(line)
            if found:
                starts[int(found.group(1), 16)] = None
        for line in output("nm", "-D", "--defined-only", path).splitlines():
            word = line.split()
            if len(word) == 3 and word[1] in "TtWwi":
                starts[int(word[0], 16)] = word[2].split("@")[0]
        self.addresses = sorted(starts)
        self.names = [starts[a] for a in self.addresses]

    def at(self, offset):
        """Name of what is at an offset of the file."""
        for file, virtual, _, size in self.loads:
            if file <= offset < file + size:
                i = bisect.bisect_right(self.addresses,
                                        offset - file + virtual) - 1
                if i >= 0:
                    return self.names[i] or "+0x%x" % self.addresses[i]
        return "+0x%x" % offset


class Maps:
    """What processes had mapped, by texts of /proc/PID/maps: where they differ
    an earlier one is right."""

    def __init__(self, texts, binaries):
        self.binaries = binaries    # known Binary objects by path
        self.processes = [sorted(self.areas(text)) for text in texts]

    @staticmethod
    def areas(text):
        """Begin, end, offset in the file and path of what is executable."""
        for line in text.splitlines():
            word = line.split()
            if "x" in word[1]:
                begin, end = (int(w, 16) for w in word[0].split("-"))
                path = word[5] if len(word) > 5 else ""
                yield begin, end, int(word[2], 16), path

    def at(self, address):
        for areas in self.processes:
            i = bisect.bisect_right(areas, (address, KERNEL)) - 1
            if i >= 0 and address < areas[i][1]:
                return self.function(address, areas[i])
        return Function("other programs", "")

    def function(self, address, area):
        begin, _, offset, path = area
        if not path.startswith("/"):
            return Function(path or "generated code", "")
        if path not in self.binaries:
            self.binaries[path] = Binary(path)
        return Function(self.binaries[path].at(address - begin + offset), path)


def by_function(blocks, symbols, maps):
    """A span's blocks as {Function: Count}; what is in neither is a program's
    that was not of the test."""
    found = {}
    for address, instructions, count, polled in blocks:
        f = symbols.at(address) if address >= KERNEL else maps.at(address)
        old = found.get(f, Count(0, 0))
        found[f] = Count(old.all + instructions * count,
                         old.polled + instructions * polled)
    return found


def per_message(short, long, messages):
    """The difference of two runs, `long` of so many more messages."""
    if messages <= 0:
        raise Bad("the long run is not longer than the short one")
    out = {}
    for f in short.keys() | long.keys():
        a, b = (x.get(f, Count(0, 0)) for x in (short, long))
        out[f] = Count((b.all - a.all) / messages,
                       (b.polled - a.polled) / messages)
    return out


def base_name(name):
    """A C function's name as its source has it."""
    return SUFFIX.sub("", name)


def demangle(names):
    """Readable names of Rust functions (v0), in the same order; others stay as
    they are."""
    names = list(names)
    rust = [SUFFIX.sub("", n) for n in names if n.startswith("_R")]
    if not rust:
        return names
    done = subprocess.run(["c++filt", "-s", "rust"], input="\n".join(rust) + "\n",
                          stdout=subprocess.PIPE, text=True, check=True)
    readable = iter(CRATE_HASH.sub("", line)
                    for line in done.stdout.splitlines())
    return [next(readable) if n.startswith("_R") else n for n in names]
