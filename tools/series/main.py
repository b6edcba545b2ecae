# SPDX-License-Identifier: GPL-2.0
"""In the Debian root: makes both series, and has them checked. Leaves in OUT a folder of mails for
each, and a log of what was built. The sources stay as they are.
"""

import argparse
import os
import shutil
import sys

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "lint"))

import kernel
import rdmacore
from cover import cover
from series import Failed, Series, Tree, run

HERE = "/tmp/series"
PACKAGES = ("gcc-14", "rustc", "bindgen")


def versions():
    """What it is built with, in words that change when that changes."""
    with open("/var/lib/dpkg/status", encoding="utf-8") as f:
        packages = dict.fromkeys(PACKAGES)
        name = None
        for line in f:
            key, _, value = line.strip().partition(": ")
            if key == "Package":
                name = value
            elif key == "Version" and name in packages:
                packages[name] = value
    return " ".join(f"{name} {version}" for name, version in packages.items())


def overlay(tree, name):
    """Lets a tree be written to from here on, in its own place: it stays as it is for others. What
    was built by another path would be built again."""
    up, work = f"{HERE}/{name}.up", f"{HERE}/{name}.work"
    os.makedirs(up)
    os.makedirs(work)
    options = f"lowerdir={tree},upperdir={up},workdir={work}"
    run(["mount", "-t", "overlay", "-o", options, "series", tree])


def kernel_series(arguments, top):
    source = os.path.realpath(f"{arguments.kdir}/../src")
    log = f"{arguments.out}/kernel.log"
    builder = kernel.Builder(source, arguments.kdir, f"{HERE}/kernel", arguments.release, log)

    def prepare():
        overlay(source, "src")
        overlay(arguments.kdir, "build")
        return builder.tree()

    series = Series(
        name="kernel", prefix="PATCH", base=f"Linux {arguments.release}", source=source,
        touched=kernel.TOUCHED, patches=list(kernel.patches(top, builder)),
        cover=lambda made: cover(top, made, f"{HERE}/ours"),
        checkpatch=f"{source}/scripts/checkpatch.pl", tree=f"--root={source}",
        ignored=kernel.IGNORED,
        author=tuple(arguments.author.split("\n")))
    return series, prepare, os.path.basename(os.path.dirname(arguments.kdir))


def rdma_core_series(arguments, top):
    src = arguments.rdma_core
    builder = rdmacore.Builder(src, f"{HERE}/rdma-core.out", f"{arguments.out}/rdma-core.log")

    def prepare():
        overlay(src, "rdma-core")
        return Tree(src, None)

    with open(f"{arguments.rdma_core}/../version", encoding="utf-8") as f:
        version = f.read().strip()
    series = Series(
        name="rdma-core", prefix="PATCH rdma-core", base=f"rdma-core {version}",
        source=arguments.rdma_core, touched=rdmacore.TOUCHED,
        patches=list(rdmacore.patches(top, builder)),
        cover=lambda made: cover(top, made, f"{HERE}/ours"),
        checkpatch=os.path.realpath(f"{arguments.kdir}/../src/scripts/checkpatch.pl"),
        ignored=rdmacore.IGNORED, author=tuple(arguments.author.split("\n")))
    return series, prepare, version


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kdir", required=True, help="the kernel's build tree")
    parser.add_argument("--release", required=True, help="the kernel's name")
    parser.add_argument("--rdma-core", required=True, help="the source of rdma-core")
    parser.add_argument("--stamps", required=True, help="where it is kept what was built")
    parser.add_argument("--author", required=True, help="name, address, date: a line each")
    parser.add_argument("--build", choices=("each", "last"), help="steps that are built")
    parser.add_argument("--kernel", action="store_true", help="the kernel's series only")
    parser.add_argument("out", help="where the series go")
    arguments = parser.parse_args()
    top = os.getcwd()
    shutil.rmtree(arguments.out, ignore_errors=True)
    os.makedirs(arguments.out)
    os.makedirs(HERE)
    passed = failed = 0
    try:
        ours = kernel.stage(top, f"{HERE}/ours").root
    except Failed as why:
        print(f"FAILED: {why}\n0 passed, 1 failed, 0 skipped")
        return 1
    for what in (kernel_series,) if arguments.kernel else (kernel_series, rdma_core_series):
        series, prepare, more = what(arguments, top)
        print(f"{series.name}, against {series.base}:", flush=True)

        def show(number, word, series=series):
            print(f"  {number:2}/{len(series.patches)} {series.subject(number)}: {word}",
                  flush=True)

        try:
            series.make(f"{HERE}/{series.name}.git", ours, f"{arguments.out}/{series.name}")
            good, bad = series.check(prepare, arguments.stamps, f"{versions()} {more}", show,
                                     arguments.build)
            passed, failed = passed + good, failed + bad
        except (Failed, OSError) as why:
            print(f"  FAILED: {why}")
            failed += 1
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
