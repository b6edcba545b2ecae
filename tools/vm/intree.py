# SPDX-License-Identifier: GPL-2.0
"""In the Debian root: copies the driver into an overlay of the kernel's tree, as a
series of patches would, builds it there, and has the kernel's checks look at it.

Leaves in OUT a log of each step, and a summary. The tree stays as it is.
"""

import glob
import os
import re
import shutil
import subprocess
import sys

HERE = "/tmp/in-tree"
DRIVER = "drivers/infiniband/sw/rsiw"
TESTS = "tools/testing/selftests/rsiw"
DOCS = "Documentation/infiniband"
MAKE = ("make", "CC=x86_64-linux-gnu-gcc-14", "LOCALVERSION=", "-j%d" % (os.cpu_count() or 1))
MAINTAINERS = f"""SOFT-IWARP DRIVER IN RUST (rsiw)
L:	linux-rdma@vger.kernel.org
L:	rust-for-linux@vger.kernel.org
S:	Maintained
F:	{DOCS}/rsiw*
F:	{DRIVER}/
F:	include/rdma/rsiw_verbs.h
F:	include/uapi/rdma/rsiw-abi.h
F:	{TESTS}/

"""
# What is copied, to the same place.
FOLDERS = (DRIVER, TESTS)
FILES = ("include/rdma/rsiw_verbs.h", "include/uapi/rdma/rsiw-abi.h", f"{DOCS}/rsiw*.rst")
# As in tools/lint/checkpatch, where the reasons are. The names of new files are in MAINTAINERS.
DRIVER_IGNORES = "FILE_PATH_CHANGES,LINUX_VERSION_CODE,PREFER_DEFINED_ATTRIBUTE_MACRO"
# A released sparse does not know __typeof_unqual__, and the kernel refuses one that does not. It is
# typeof without the qualifiers of the type.
SPARSE = "sparse -D__typeof_unqual__=__typeof__"
# Nor that the length of a string is a constant, which these macros of the kernel assert.
NOT_CONSTANT = re.compile(r"^(\S+):(\d+):\d+: error: bad constant expression$")
MODULE_INFO = re.compile(r"(__)?(MODULE|module)_")
WARNING = re.compile(r"(warning|error)\b[:\[]")


class Failed(Exception):
    """A step that did not go well, with a word about it."""


class Skipped(Exception):
    """A step that cannot be taken here, with the reason."""


def overlay(lower, to):
    """Mounts a folder that can be written to over one that stays as it is."""
    for part in ("up", "work"):
        os.makedirs(f"{to}.{part}")
    os.makedirs(to)
    options = f"lowerdir={lower},upperdir={to}.up,workdir={to}.work"
    subprocess.run(["mount", "-t", "overlay", "-o", options, "in-tree", to], check=True)


def insert(path, before, text):
    """Puts `text` in front of the first line of a file that begins with `before`."""
    with open(path, encoding="utf-8") as f:
        lines = f.readlines()
    at = next((n for n, line in enumerate(lines) if line.startswith(before)), None)
    if at is None:
        raise Failed(f"{path} has no line that begins with {before}")
    lines.insert(at, text)
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(lines)


def leave_out(path, word):
    """Drops the paragraphs of a file that hold a word."""
    with open(path, encoding="utf-8") as f:
        paragraphs = f.read().removesuffix("\n").split("\n\n")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n\n".join(p for p in paragraphs if word not in p) + "\n")


def run(out, name, argv, cwd):
    """Runs a command with its output in a log; returns whether it succeeded, and the output."""
    with open(os.path.join(out, name + ".log"), "w", encoding="utf-8") as log:
        done = subprocess.run(argv, cwd=cwd, stdout=log, stderr=subprocess.STDOUT, check=False)
    with open(log.name, encoding="utf-8", errors="replace") as f:
        return done.returncode == 0, f.read()


def copy(top, src):
    """Copies the driver and all that goes with it, and makes the tree know of it."""
    count = 0
    for folder in FOLDERS:
        skip = shutil.ignore_patterns("__pycache__", "bin", "*.pyc", "compat")
        shutil.copytree(os.path.join(top, folder), os.path.join(src, folder), ignore=skip)
        count += sum(len(names) for _, _, names in os.walk(os.path.join(src, folder)))
    # Older kernels have their own tree.
    for name in ("Makefile", "rsiw_main.rs"):
        leave_out(f"{src}/{DRIVER}/{name}", "compat")
    docs = []
    for pattern in FILES:
        for path in sorted(glob.glob(os.path.join(top, pattern))):
            to = os.path.relpath(path, top)
            shutil.copy(path, os.path.join(src, to))
            count += 1
            if to.startswith(DOCS):
                docs.append(os.path.basename(to).removesuffix(".rst"))
    insert(f"{src}/drivers/infiniband/Kconfig", 'source "drivers/infiniband/sw/siw/Kconfig"',
           f'source "{DRIVER}/Kconfig"\n')
    insert(f"{src}/drivers/infiniband/sw/Makefile", "obj-$(CONFIG_RDMA_SIW)",
           "obj-$(CONFIG_RDMA_RSIW)\t\t+= rsiw/\n")
    insert(f"{src}/{DOCS}/index.rst", "   sysfs", "".join(f"   {doc}\n" for doc in docs))
    insert(f"{src}/MAINTAINERS", "SOFT-ROCE DRIVER (rxe)", MAINTAINERS)
    insert(f"{src}/tools/testing/selftests/Makefile", "TARGETS += rtc", "TARGETS += rsiw\n")
    return f"{count} files, Kconfig, Makefile, MAINTAINERS, index of the documentation, selftests"


def configure(out, build, release):
    """Asks for the driver as a module, without the one that it cannot be beside."""
    config = f"{build}/.config"
    subprocess.run([f"{build}/source/scripts/config", "--file", config, "--disable", "RDMA_SIW",
                    "--module", "RDMA_RSIW"], check=True)
    good, _ = run(out, "config", [*MAKE, f"KERNELRELEASE={release}", "olddefconfig"], build)
    with open(config, encoding="utf-8") as f:
        if not good or "CONFIG_RDMA_RSIW=m\n" not in f.readlines():
            raise Failed("CONFIG_RDMA_RSIW does not become m")
    return "CONFIG_RDMA_RSIW=m"


def findings(text, where=""):
    """The compilers' warnings and errors about files of a folder."""
    lines = text.splitlines()
    for n, line in enumerate(lines):
        # C's compilers say the file in the same line, Rust's in the next one.
        if WARNING.search(line) and any(where in about for about in lines[n:n + 2]):
            if not (m := NOT_CONSTANT.match(line)) or not is_module_info(m[1], int(m[2])):
                yield line


def is_module_info(path, number):
    """Does a line of a file begin with one of the macros that sparse cannot read?"""
    with open(path, encoding="utf-8") as f:
        return MODULE_INFO.match(f.readlines()[number - 1]) is not None


def compile_driver(out, build, release):
    """Builds the driver with more warnings than usual, and has sparse look at the C files."""
    argv = [*MAKE, f"KERNELRELEASE={release}", "W=1", "C=1", f"CHECK={SPARSE}",
            f"{DRIVER}/"]
    good, text = run(out, "build", argv, build)
    bad = list(findings(text, DRIVER))
    objects = glob.glob(f"{build}/{DRIVER}/**/*.o", recursive=True)
    if not good or bad:
        raise Failed("; ".join(bad[:3]) or "see build.log")
    if not os.path.exists(f"{build}/{DRIVER}/rsiw.o"):
        raise Failed("there is no rsiw.o")
    return f"{len(objects)} objects with W=1 and C=1, no warning"


def sparse(out):
    """Has sparse looked at the C files? The kernel does without one that is too old for it."""
    if not shutil.which("sparse"):
        raise Skipped("it could not be installed")
    with open(os.path.join(out, "build.log"), encoding="utf-8", errors="replace") as f:
        text = f.read()
    if "not up to date" in text:
        raise Skipped("the kernel (scripts/checker-valid.sh) wants a newer one than Debian's")
    checked = len(re.findall(rf"^  CHECK +.*{DRIVER}", text, re.M))
    if not checked:
        raise Failed("it has looked at nothing")
    return f"{checked} files, no warning"


def compile_tests(out, src):
    """Builds the programs of the selftests; of the tree's headers they see the driver's only."""
    os.makedirs(f"{HERE}/uapi/rdma")
    abi = "rdma/rsiw-abi.h"
    shutil.copy(f"{src}/include/uapi/{abi}", f"{HERE}/uapi/{abi}")
    argv = ["make", "-s", "-C", TESTS, f"O={HERE}/selftests", f"UAPI=-I{HERE}/uapi"]
    good, text = run(out, "selftests", argv, src)
    bad = list(findings(text))
    if not good or bad:
        raise Failed("; ".join(bad[:3]) or "see selftests.log")
    programs = [p for p in os.listdir(f"{HERE}/selftests") if p != "lib"]
    return f"{len(programs)} programs, no warning"


def checkpatch(out, src):
    """Has checkpatch look at what is the kernel's."""
    files = [path for pattern in (f"{DRIVER}/**/*", "include/rdma/rsiw_verbs.h",
                                  "include/uapi/rdma/rsiw-abi.h", f"{DOCS}/rsiw*.rst")
             for path in sorted(glob.glob(pattern, root_dir=src, recursive=True))
             if os.path.isfile(os.path.join(src, path))]
    argv = ["perl", "scripts/checkpatch.pl", "--terse", "--no-summary", "--quiet",
            "--max-line-length=100", "--ignore", DRIVER_IGNORES, "-f", *files]
    good, text = run(out, "checkpatch", argv, src)
    if not good or text.strip():
        raise Failed(f"{len(text.splitlines())} findings, see checkpatch.log")
    return f"{len(files)} files, no finding"


def maintainers(out, src):
    """Is the driver's entry found?"""
    argv = ["perl", "scripts/get_maintainer.pl", "--no-git", "--no-git-fallback", "--nokeywords",
            "-f", f"{DRIVER}/qp.rs"]
    _, text = run(out, "maintainers", argv, src)
    if "SOFT-IWARP DRIVER IN RUST" not in text:
        raise Failed("see maintainers.log")
    return "get_maintainer.pl finds the entry"


def self_test():
    text = f"a.c:1:2: warning: x\nwarning: y\n  --> {DRIVER}/b.rs:1:2\n{DRIVER}/c.c:1:2: error: z\n"
    assert len(list(findings(text))) == 3
    assert len(list(findings(text, DRIVER))) == 2


def main():
    if len(sys.argv) != 4:
        print("usage: intree.py KDIR RELEASE OUT    (in the checkout, in the Debian root)")
        return 0 if sys.argv[1:] == ["--help"] else 2
    self_test()
    kdir, release, out = sys.argv[1], sys.argv[2], os.path.abspath(sys.argv[3])
    src, build = f"{HERE}/src", f"{HERE}/build"
    overlay(os.path.realpath(f"{kdir}/../src"), src)
    overlay(os.path.realpath(kdir), build)
    steps = (
        ("copied", lambda: copy(os.getcwd(), src)),
        ("configured", lambda: configure(out, build, release)),
        ("built", lambda: compile_driver(out, build, release)),
        ("sparse", lambda: sparse(out)),
        ("selftests", lambda: compile_tests(out, src)),
        ("checkpatch", lambda: checkpatch(out, src)),
        ("MAINTAINERS", lambda: maintainers(out, src)),
    )
    count = {"passed": 0, "failed": 0, "skipped": 0}
    with open(os.path.join(out, "summary"), "w", encoding="utf-8") as summary:
        print(f"In the tree of Linux {release}:", file=summary)
        for name, step in steps:
            try:
                print(f"  {name}: {step()}", file=summary)
                count["passed"] += 1
            except Skipped as why:
                print(f"  {name}: skipped: {why}", file=summary)
                count["skipped"] += 1
            except (Failed, OSError, subprocess.CalledProcessError) as e:
                print(f"  {name}: FAILED: {e}", file=summary)
                count["failed"] += 1
        print(", ".join(f"{n} {what}" for what, n in count.items()), file=summary)
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
