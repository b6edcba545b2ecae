# SPDX-License-Identifier: GPL-2.0
"""Of which packages files come, under which licences, and where the sources of these are:
what goes with a file that has parts of them. As a program it tells that of all packages of
a root."""

import glob
import gzip
import os
import re
import sys

# Keeps the source of each version that Debian has had.
SOURCES = "https://snapshot.debian.org/package/{}/{}/"
COMMON = re.compile(r"/usr/share/common-licenses/([\w.-]*\w)")


def paragraphs(path):
    """Of dpkg's list of what is installed."""
    with open(path, encoding="utf-8") as f:
        for text in f.read().split("\n\n"):
            fields = dict(re.findall(r"^([\w-]+): (.*)$", text, re.M))
            if fields.get("Status", "").endswith(" installed"):
                yield fields


def licences(text):
    """Those that a copyright file names: in its fields, or where it tells of Debian's copies."""
    names = []
    if "copyright-format/1" in text[:1000]:
        names = re.findall(r"^License:[ \t]*(\S.*?)[ \t]*$", text, re.M)
    return sorted(set(names or COMMON.findall(text))) or ["as in its copyright file"]


class Package:
    """A package, its source, and what its copyright file says."""

    def __init__(self, name, version, source, source_version, used, copyright_file):
        self.name, self.version, self.used = name, version, used
        self.source, self.source_version = source, source_version
        with open(copyright_file, encoding="utf-8", errors="replace") as f:
            self.copyright = f.read()

    def __str__(self):
        built = f"Built-Using: {self.used}\n" if self.used else ""
        return (f"Package: {self.name}\nVersion: {self.version}\n"
                f"Source: {self.source} ({self.source_version})\n"
                f"Sources: {SOURCES.format(self.source, self.source_version)}\n"
                f"{built}Licences: {'; '.join(licences(self.copyright))}\n")


def installed(root=""):
    """All packages of a root by name."""
    found = {}
    for p in paragraphs(f"{root}/var/lib/dpkg/status"):
        source, _, version = p.get("Source", p["Package"]).partition(" ")
        used = [p[key] for key in ("Built-Using", "Static-Built-Using") if key in p]
        found[p["Package"]] = Package(
            p["Package"], p["Version"], source, version.strip("()") or p["Version"],
            ", ".join(used), f"{root}/usr/share/doc/{p['Package']}/copyright")
    return found


def kernel(release):
    """The kernel, which is unpacked and not installed."""
    for path in sorted(glob.glob(f"/usr/share/doc/linux-*{release}*/copyright")):
        with gzip.open(f"{os.path.dirname(path)}/changelog.Debian.gz", "rt", encoding="utf-8") as f:
            source, version = re.match(r"(\S+) \((\S+)\)", f.readline()).groups()
        return Package(f"linux-image-{release}", version, source, version, "", path)
    raise FileNotFoundError(f"no copyright file of Linux {release}")


def packages_of(files, release):
    """The packages of these files."""
    owners = {}
    for path in glob.glob("/var/lib/dpkg/info/*.list"):
        name = os.path.basename(path)[:-len(".list")].partition(":")[0]
        with open(path, encoding="utf-8") as f:
            for line in f:
                owners[os.path.realpath(os.path.dirname(line.strip())) + "/" +
                       os.path.basename(line.strip())] = name
    known, found = installed(), {}
    for path in map(os.path.realpath, files):
        if path.startswith(("/usr/lib/modules/", "/boot/")):
            found["linux"] = kernel(release)
        else:
            found[owners[path]] = known[owners[path]]
    return sorted(found.values(), key=lambda p: p.name)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print("usage: contents.py ROOT    lists the packages of a root, their sources and licences")
        sys.exit(sys.argv[1:] != ["--help"])
    print("\n".join(str(p) for _, p in sorted(installed(sys.argv[1]).items())), end="")


if __name__ == "__main__":
    main()
