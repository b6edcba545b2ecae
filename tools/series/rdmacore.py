# SPDX-License-Identifier: GPL-2.0
"""The series for rdma-core: faults of the provider siw, and the provider rsiw."""

import glob
import os
import re

from series import Failed, Patch, run

PROVIDER = "providers/rsiw"
IDS = "kernel-headers/rdma/ib_user_ioctl_verbs.h"
HEADERS = "kernel-headers/CMakeLists.txt"
TOUCHED = ("providers/siw/siw.c", "providers/siw/siw.h", IDS, HEADERS, "CMakeLists.txt",
           "README.md", "MAINTAINERS", "debian/control", "debian/copyright")
# Programs of user space have the types of C, and functions of libibverbs return errors without a
# sign. Designated initializers within a condition are no assignments.
IGNORED = ("MISSING_SIGN_OFF", "FILE_PATH_CHANGES", "PREFER_KERNEL_TYPES", "USE_NEGATIVE_ERRNO",
           "ASSIGN_IN_IF")


def make_headers(tree):
    """The kernel's numbers of drivers up to the new one, and its header."""
    text = tree.read(IDS)
    ids = re.search(r"enum rdma_driver_id \{.*?\n\};\n", text, re.S)
    more = "".join(f"\t{name},\n" for name in ("RDMA_DRIVER_IONIC", "RDMA_DRIVER_RSIW")
                   if f"\t{name},\n" not in ids[0])
    tree.write(IDS, text[:ids.end() - 3] + more + text[ids.end() - 3:])
    tree.take("include/uapi/rdma/rsiw-abi.h", to="kernel-headers/rdma")
    text = tree.read(HEADERS)
    if text.count("  rdma/siw-abi.h\n") != 2:
        raise Failed(f"{HEADERS} does not list siw-abi.h twice")
    text = re.sub(r"(?m)^  rdma/rvt-abi\.h\n", r"  rdma/rsiw-abi.h\n\g<0>", text, count=1)
    # The second list has no rvt-abi.h.
    front, last, back = text.rpartition("  rdma/siw-abi.h\n")
    tree.write(HEADERS, f"{front}  rdma/rsiw-abi.h\n{last}{back}")


def make_provider(tree):
    """The library of the project, which knows its devices by the number of its own here."""
    tree.take("user/librsiw/*.c", "user/librsiw/*.h", to=PROVIDER)
    text = tree.read(f"{PROVIDER}/rsiw.c")
    if text.count("RDMA_DRIVER_SIW") != 2:
        raise Failed("user/librsiw/rsiw.c does not name the driver's number twice")
    text = text.replace("RDMA_DRIVER_SIW", "RDMA_DRIVER_RSIW")
    tree.write(f"{PROVIDER}/rsiw.c", text)
    tree.replace(f"{PROVIDER}/rsiw.c", " * Provider of rdma-core for rsiw, and for siw: contexts,",
                 " * Provider of rdma-core for rsiw: contexts,")
    sources = sorted(os.path.basename(name) for name in glob.glob(tree.path(f"{PROVIDER}/*.c")))
    tree.write(f"{PROVIDER}/CMakeLists.txt",
               "add_definitions(-D_GNU_SOURCE)\n\nrdma_provider(rsiw\n" +
               "".join(f"  {name}\n" for name in sources) + ")\n")
    tree.insert("CMakeLists.txt", "add_subdirectory(providers/rxe)",
                f"add_subdirectory({PROVIDER})\n")
    tree.insert("README.md", " - siw.ko", " - rsiw.ko\n")
    tree.insert("debian/control", "  - rxe: ", "  - rsiw: A software implementation of the iWarp "
                                              "protocol in Rust\n")
    tree.insert("debian/copyright", "Files: providers/rxe/*",
                f"Files: {PROVIDER}/*\nCopyright: 2026, the rsiw developers.\n"
                "License: BSD-MIT or GPL-2\n\n")
    tree.insert("MAINTAINERS", "RXE SOFT ROCEE",
                "RSIW SOFT IWARP USERSPACE PROVIDER (for rsiw.ko)\n"
                "L:\tlinux-rdma@vger.kernel.org\nS:\tSupported\n"
                f"F:\t{PROVIDER}/\n\n")


class Builder:
    """Builds the providers with the patches so far."""

    def __init__(self, src, build, log):
        self.src, self.build, self.log = src, build, log

    def targets(self, *names):
        """Builds the providers by their names; a warning is a failure."""
        if not os.path.exists(f"{self.build}/build.ninja"):
            os.makedirs(self.build, exist_ok=True)
            run(["cmake", "-GNinja", "-DNO_PYVERBS=1", "-DNO_MAN_PAGES=1",
                 "-DENABLE_RESOLVE_NEIGH=0", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", self.src],
                self.log, cwd=self.build)
        # The target of the library that is loaded has the name of its file.
        wanted = [f"lib/lib{name}-rdmav34.so" for name in names]
        _, text = run(["ninja", *wanted], self.log, cwd=self.build)
        if bad := [line for line in text.splitlines() if "warning:" in line]:
            raise Failed("; ".join(bad[:3]))
        return ", ".join(os.path.basename(name) for name in wanted)

    def siw(self, _tree):
        return self.targets("siw")

    def both(self, _tree):
        return self.targets("siw", "rsiw")


def patches(top, builder):
    """The patches in order."""
    folder = f"{top}/tools/series/rdma-core"
    yield from (Patch(path, build=builder.siw) for path in sorted(glob.glob(f"{folder}/*.patch")))
    yield Patch(f"{folder}/headers.txt", make_headers, builder.siw, ("BIT_MACRO",))
    yield Patch(f"{folder}/provider.txt", make_provider, builder.both,
                ("ARRAY_SIZE", "PREFER_FALLTHROUGH", "MACRO_ARG_REUSE"))
