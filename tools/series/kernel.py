# SPDX-License-Identifier: GPL-2.0
"""The series for the kernel: what each patch takes of the project, and what is built with it."""

import glob
import os
import re
import shutil

from series import Failed, Patch, Tree, reason, run

DRIVER = "drivers/infiniband/sw/rsiw"
FFI = f"{DRIVER}/ffi"
DOCS = "Documentation/infiniband"
TESTS = "tools/testing/selftests/rsiw"
IWCM = "drivers/infiniband/core"
ABI = "include/uapi/rdma/rsiw-abi.h"
IDS = "include/uapi/rdma/ib_user_ioctl_verbs.h"
SAMPLE = "samples/rust"

MAKE = ("make", "CC=x86_64-linux-gnu-gcc-14", "LOCALVERSION=", "-j%d" % (os.cpu_count() or 1))
MAINTAINERS = """SOFT-IWARP DRIVER IN RUST (rsiw)
L:	linux-rdma@vger.kernel.org
L:	rust-for-linux@vger.kernel.org
S:	Maintained
"""
# A released sparse does not know __typeof_unqual__, and the kernel refuses one that does not. It is
# typeof without the qualifiers of the type.
SPARSE = "sparse -D__typeof_unqual__=__typeof__"
# Nor that the length of a string is a constant, which these macros of the kernel assert.
NOT_CONSTANT = re.compile(r"^(\S+):(\d+):\d+: error: bad constant expression$")
MODULE_INFO = re.compile(r"(__)?(MODULE|module)_")
WARNING = re.compile(r"(warning|error)\b[:\[]")

# What patches change of the tree.
TOUCHED = (*(f"{IWCM}/{name}" for name in ("iwcm.c", "netlink.c", "iwpm_msg.c", "iwpm_util.c",
                                           "iwpm_util.h")),
           f"{SAMPLE}/Kconfig", f"{SAMPLE}/Makefile", IDS, "MAINTAINERS", f"{DOCS}/index.rst",
           "drivers/infiniband/Kconfig", "drivers/infiniband/sw/Makefile",
           "tools/testing/selftests/Makefile")
# As in the tree's check of the driver: one entry of MAINTAINERS is for whole folders.
IGNORED = ("MISSING_SIGN_OFF", "FILE_PATH_CHANGES")

# TRACE_EVENT is written so.
OF_TRACES = ("OPEN_ENDED_LINE", "PARENTHESIS_ALIGNMENT")
# Programs of user space have neither the macros of the kernel nor its meaning of ENOSYS; what a
# test says may contain the name of the function that says it, and a command of the shell the same
# word twice; initializers of structures within arguments are no statements; the scripts have no
# suffix.
OF_TESTS = ("ARRAY_SIZE", "BIT_MACRO", "CAMELCASE", "ENOSYS", "PREFER_DEFINED_ATTRIBUTE_MACRO",
            "PREFER_FALLTHROUGH", "EMBEDDED_FUNCTION_NAME", "REPEATED_WORD", "ASSIGN_IN_IF",
            "MULTIPLE_ASSIGNMENTS", "LINE_SPACING", "OPEN_ENDED_LINE", "PARENTHESIS_ALIGNMENT",
            "LONG_LINE", "LONG_LINE_COMMENT", "LONG_LINE_STRING", "EXECUTE_PERMISSIONS")

# The modules of ffi/ that know nothing of RDMA, with their C functions; the rest is for RDMA, or
# for this driver.
NET = ("hash", "mm", "module", "net", "raw", "sync", "task", "time", "workqueue")
# What all of it counts with, a module beside ffi/.
NUMBERS = "num"
NET_HELPERS = ("copy", "counts", "keys", "mem", "module", "net", "netdev", "process", "tls", "udp")
RDMA_HELPERS = ("dmabuf", "rdma")
OF_RDMA = r"helpers/(?:dmabuf|rdma)\.c"
# The layers of the driver (tools/lint/layers.py), from the bottom up: a patch each, with the
# modules of which it consists.
LAYERS = (
    ("wire", ("wire",)),
    ("proto", ("proto",)),
    ("edge", ("ffi",)),
    ("rings", ("abi", "counts", "limits", "log", "notes", "queue")),
    ("regions", ("cq", "mr", "device")),
    ("queue-pairs", ("srq", "qp")),
    ("datagrams", ("ud", "gids")),
    ("connections", ("cm",)),
)
LAST = ("rnic", "verbs", "link", "kunit", "rsiw_main")
# What is about the driver; other pages are about the project's tools.
PAGES = ("rsiw", "rsiw-abi", "rsiw-adding", "rsiw-connections", "rsiw-consumers", "rsiw-design",
         "rsiw-ffi", "rsiw-locking", "rsiw-observing", "rsiw-reference", "rsiw-secure",
         "rsiw-threats", "rsiw-tricks")

SAMPLE_KCONFIG = """config SAMPLE_RUST_RDMA_NULL
	tristate "RDMA driver that does nothing"
	depends on 64BIT && (X86_64 || ARM64)
	depends on SPARSEMEM_VMEMMAP || FLATMEM
	depends on INET && INFINIBAND && INFINIBAND_USER_ACCESS
	depends on INFINIBAND_VIRT_DMA && m
	select CRC32
	select NEED_TASKS_RCU
	help
	  This option builds a driver whose RDMA devices have protection
	  domains, completion queues and memory regions, and refuse the rest.
	  Whoever wants to write an RDMA driver in Rust begins there.

	  To compile this as a module, choose M here:
	  the module will be called rust_rdma_null.

	  If unsure, say N.

"""
SAMPLE_MAKEFILE = """
rust_rdma_null-y := rdma_null.o rdma_null_helpers.o
ffi-user := $(obj)/rdma_null.o
ffi-dir := $(src)/../../drivers/infiniband/sw/rsiw/ffi
ffi-header := $(ffi-dir)/bindings_helper.h
ffi-bindgen-parameters := $(ffi-dir)/bindgen_parameters
CFLAGS_REMOVE_rdma_null_helpers.o = -Wmissing-prototypes -Wmissing-declarations
include $(ffi-dir)/bindings.mk
"""
PART_KBUILD = """obj-m += part.o
part-y := part_main.o {objects}
"""
PART_FFI = """ccflags-y += {include}
CFLAGS_REMOVE_ffi/helpers.o = -Wmissing-prototypes -Wmissing-declarations
ffi-user := $(obj)/part_main.o
ffi-dir := $(src)/ffi
ffi-header := $(ffi-dir)/{own}bindings_helper.h
ffi-bindgen-parameters := $(ffi-dir)/bindgen_parameters {more}
include $(ffi-dir)/bindings.mk
"""
PART_MAIN = """// SPDX-License-Identifier: GPL-2.0
//! What there is of the driver so far.
#![allow(dead_code, unused_imports, unused_macros, reason = "what uses it comes later")]

use kernel::prelude::*;

module! {
    type: Part,
    name: "part",
    authors: ["rsiw developers"],
    description: "Part of a series",
    license: "GPL",
}

struct Part;

impl kernel::Module for Part {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}

"""


# A line of a comment, and what no line before it may be joined to.
COMMENT = re.compile(r"(\s*(?:///|//!|//|\*|#) +)(\S.*)$")
NOT_TEXT = re.compile(r"\| |- |\* |\d+\. |#|```|\[")
WIDTH = 100
# As scripts/spelling.txt of the tree wants it.
SPELLING = {"cknowledgement": "cknowledgment"}


def kernel_style(text, is_code):
    """Comments of code of the width that checkpatch wants, and words as its list spells them: both
    are mechanical, and the project's files need not have them."""
    for old, new in SPELLING.items():
        text = text.replace(old, new)
    if not is_code:
        return text
    lines = text.split("\n")
    n = 0
    while n < len(lines):
        found = COMMENT.match(lines[n])
        if found and found[2][0] != "|" and len(lines[n].expandtabs(8)) > WIDTH:
            front, words, over = found[1], found[2].split(" "), []
            while len(words) > 1 and len((front + " ".join(words)).expandtabs(8)) > WIDTH:
                over.insert(0, words.pop())
            lines[n] = front + " ".join(words)
            behind = COMMENT.match(lines[n + 1]) if n + 1 < len(lines) else None
            if behind and behind[1] == front and not NOT_TEXT.match(behind[2]):
                lines[n + 1] = front + " ".join([*over, behind[2]])
            elif over:
                lines.insert(n + 1, front + " ".join(over))
        n += 1
    return "\n".join(lines)


def stage(top, ours):
    """Takes what belongs to the series, and makes of it what it is within the tree: without what is
    for older kernels, with a number of its own instead of siw's, and in the style of the tree."""
    os.makedirs(ours)
    tree = Tree(ours, top)
    tree.take(DRIVER, "include", f"{DOCS}/rsiw*.rst", "samples", TESTS, "user")
    run(["rm", "-r", f"{ours}/{DRIVER}/compat"])
    for name in ("Makefile", "rsiw_main.rs"):
        tree.drop_paragraphs(f"{DRIVER}/{name}", "compat")
    # Only modules beside the tree have headers of their own.
    tree.replace(f"{DRIVER}/Makefile", " -I$(src)/../../../../include", "")
    tree.replace(f"{DRIVER}/Makefile", "obj-$(or $(CONFIG_RDMA_RSIW),m)", "obj-$(CONFIG_RDMA_RSIW)")
    own_number(tree)
    sample = "samples/kernel/rdma_null.rs"
    tree.replace(sample, "modprobe rsiw_null", "modprobe rust_rdma_null")
    tree.replace(sample, "see `Kbuild`", "see `Makefile`")
    for name in glob.glob("**/*", root_dir=ours, recursive=True):
        if name.endswith((".rs", ".c", ".h", ".mk", ".rst", ".py")):
            is_code = not name.endswith((".rst", ".py"))
            tree.write(name, kernel_style(tree.read(name), is_code))
    return tree


def own_number(tree):
    """Takes away what there is because siw has the same number."""
    tree.drop_paragraphs(f"{FFI}/raw.rs", r"mod absent|absent::\*")
    tree.replace(f"{FFI}/rdma/driver.rs", "    /// The number of rsiw if the kernel has one, else"
                 " that of [`Self::SIW`].\n", "")
    tree.drop_lines(f"{FFI}/rdma/driver.rs", "const SIW: Self")
    cut(tree, f"{FFI}/rdma/driver.rs", "\n    /// Returns whether the two name one provider.",
        "    }\n")
    tree.drop_paragraphs(f"{FFI}/module.rs", "pub.*fn is_loaded")
    tree.drop_lines(f"{FFI}/module.rs", r"^use kernel::str::CStr;$")
    cut(tree, f"{FFI}/helpers/module.c", "/*\n * Loaded modules are the kobjects", "\n}\n\n")
    tree.drop_paragraphs(f"{FFI}/rsiw/params.c", "siw_link_type")
    tree.drop_lines(f"{FFI}/rsiw/rsiw_params.h", "siw_link_type")
    cut(tree, f"{FFI}/rsiw.rs", "\n        /// Whether the link type `siw`", "siw_link_type;\n")
    link = f"{DRIVER}/link.rs"
    tree.drop_paragraphs(link, r"const IS_SIWS|fn refuse_siw")
    tree.drop_lines(link, r"siw: Option<|DriverId|Returns `EBUSY` if siw")
    tree.replace(link, "refuse_siw().and_then(|()| SharedQueues::new(loaded))?",
                 "SharedQueues::new(loaded)?")
    tree.replace(link, "use crate::ffi::module::{\n    self,\n", "use crate::ffi::module::{\n")
    cut(tree, link, "            siw: if IS_SIWS", "            },\n")
    tree.drop_lines(f"{DRIVER}/Kconfig", r"With siw built in|depends on !RDMA_SIW")
    cut(tree, f"{DRIVER}/Kconfig", " User programs use it through rdma-core's siw",
        "while siw is loaded.\n", " User programs use\n	  it through rdma-core.\n")
    tree.replace(ABI, "(ABI version 1; driver id RDMA_DRIVER_SIW, as long as the kernel has\n"
                      " * none for rsiw)", "(ABI version 1; driver id RDMA_DRIVER_RSIW)")
    tree.drop_paragraphs(f"{DOCS}/rsiw-reference.rst",
                         r"^``siw_link_type``|^The module does not load while ``siw``")
    cut(tree, f"{DOCS}/rsiw-tricks.rst", "``THIS_MODULE->mkobj", "refuses the second driver.\n")


def cut(tree, name, begin, end, instead=""):
    """Cuts what is from `begin` to the next `end` out of a file."""
    text = tree.read(name)
    if text.count(begin) != 1:
        raise Failed(f"{name} has {text.count(begin)} times: {begin.strip()}")
    front, _, rest = text.partition(begin)
    _, found, behind = rest.partition(end)
    if not found:
        raise Failed(f"{name} has no {end.strip()} behind {begin.strip()}")
    tree.write(name, front + instead + behind)


def maintainers(tree, *paths):
    """Adds paths to the entry of MAINTAINERS, which is made if there is none."""
    name = "MAINTAINERS"
    if "(rsiw)" not in tree.read(name):
        tree.insert(name, "SOFT-ROCE DRIVER (rxe)", f"{MAINTAINERS}\n")
    text = tree.read(name)
    entry = re.search(r"(SOFT-IWARP DRIVER IN RUST[^\n]*\n(?:[A-EG-Z]:[^\n]*\n)*)"
                      r"((?:F:[^\n]*\n)*)\n", text)
    lines = {*entry[2].splitlines(keepends=True), *(f"F:\t{path}\n" for path in paths)}
    tree.write(name, text[:entry.start(2)] + "".join(sorted(lines)) + text[entry.end(2):])


def modules(tree, names):
    """Takes modules of the driver: a file, and the folder of its name if there is one."""
    for name in names:
        found = [f"{DRIVER}/{part}" for part in (f"{name}.rs", name)
                 if os.path.exists(f"{tree.ours}/{DRIVER}/{part}")]
        tree.take(*found)


def make_net(tree):
    modules(tree, [NUMBERS, *(f"ffi/{name}" for name in NET)])
    tree.take(*(f"{FFI}/helpers/{name}.c" for name in NET_HELPERS),
              *(f"{FFI}/{name}" for name in ("helpers.c", "bindings.mk", "bindings_helper.h",
                                             "bindgen_parameters")))
    tree.drop_lines(f"{FFI}/helpers.c", OF_RDMA)
    tree.drop_lines(f"{FFI}/bindings_helper.h", r"rsiw_verbs\.h|rsiw_debugfs\.h")
    tree.drop_paragraphs(f"{FFI}/bindgen_parameters", "# Files of numbers")
    maintainers(tree, f"{DRIVER}/")


def make_rdma(tree):
    modules(tree, ["ffi/rdma"])
    tree.take(*(f"{FFI}/helpers/{name}.c" for name in RDMA_HELPERS), "include/rdma/rsiw_verbs.h",
              *(f"{FFI}/{name}" for name in ("helpers.c", "bindings_helper.h",
                                             "bindgen_parameters")), f"{DOCS}/rsiw-ffi.rst")
    tree.drop_lines(f"{FFI}/bindings_helper.h", r"rsiw_debugfs\.h")
    tree.drop_paragraphs(f"{FFI}/bindgen_parameters", "# Files of numbers")
    # The driver's number comes with its ABI.
    tree.drop_lines(f"{FFI}/rdma/driver.rs", "RDMA_DRIVER_RSIW")
    pages(tree, "rsiw-ffi")
    maintainers(tree, f"{DOCS}/rsiw*", "include/rdma/rsiw_verbs.h")


def make_sample(tree):
    tree.take("samples/kernel/rdma_null*", to=SAMPLE)
    tree.insert(f"{SAMPLE}/Kconfig", "config SAMPLE_RUST_HOSTPROGS", SAMPLE_KCONFIG)
    name = "obj-$(CONFIG_SAMPLE_RUST_SOC)"
    tree.insert(f"{SAMPLE}/Makefile", name,
                "obj-$(CONFIG_SAMPLE_RUST_RDMA_NULL)\t\t+= rust_rdma_null.o\n")
    tree.write(f"{SAMPLE}/Makefile", tree.read(f"{SAMPLE}/Makefile") + SAMPLE_MAKEFILE)
    maintainers(tree, f"{SAMPLE}/rdma_null*")


def make_abi(tree):
    tree.take(ABI)
    text = tree.read(IDS)
    ids = re.search(r"enum rdma_driver_id \{.*?\n\};\n", text, re.S)
    tree.write(IDS, text[:ids.end() - 3] + "\tRDMA_DRIVER_RSIW,\n" + text[ids.end() - 3:])
    tree.take(f"{FFI}/rdma/driver.rs", f"{DOCS}/rsiw-abi.rst")
    pages(tree, "rsiw-abi")
    maintainers(tree, ABI)


def make_layer(names):
    def make(tree):
        if names == ("ffi",):
            tree.take(f"{FFI}.rs", f"{FFI}/rsiw.rs", f"{FFI}/rsiw", f"{FFI}/debugfs.*",
                      f"{FFI}/rsiw_debugfs.h", f"{FFI}/bindings_helper.h",
                      f"{FFI}/bindgen_parameters")
        else:
            modules(tree, names)
    return make


def make_driver(tree):
    modules(tree, LAST)
    tree.take(f"{DRIVER}/Makefile", f"{DRIVER}/Kconfig")
    tree.insert("drivers/infiniband/Kconfig", 'source "drivers/infiniband/sw/siw/Kconfig"',
                f'source "{DRIVER}/Kconfig"\n')
    tree.insert("drivers/infiniband/sw/Makefile", "obj-$(CONFIG_RDMA_SIW)",
                "obj-$(CONFIG_RDMA_RSIW)\t\t+= rsiw/\n")


def pages(tree, *names):
    """Lists pages of the documentation in its index."""
    name = f"{DOCS}/index.rst"
    text = tree.read(name)
    has = re.findall(r"^   (rsiw\S*)$", text, re.M)
    text = re.sub(r"^   rsiw.*\n", "", text, flags=re.M)
    tree.write(name, text)
    tree.insert(name, "   sysfs", "".join(f"   {page}\n" for page in sorted({*has, *names})))


def make_docs(tree):
    tree.take(*(f"{DOCS}/{page}.rst" for page in PAGES))
    pages(tree, *PAGES)


def make_tests(tree):
    tree.take(TESTS)
    # The library's headers, which the tests use, do not have the number yet.
    ids = re.findall(r"^\t(RDMA_DRIVER_\w+),", tree.read(IDS), re.M)
    behind = ids.index("RDMA_DRIVER_RSIW") - ids.index("RDMA_DRIVER_SIW")
    tree.replace(f"{TESTS}/lib/raw.c", ".num_attrs = n, .driver_id = RDMA_DRIVER_SIW,",
                 ".num_attrs = n,\n\t\t\t/* RDMA_DRIVER_RSIW, which the library may lack */\n"
                 f"\t\t\t.driver_id = RDMA_DRIVER_SIW + {behind},")
    tree.insert("tools/testing/selftests/Makefile", "TARGETS += rtc", "TARGETS += rsiw\n")
    maintainers(tree, f"{TESTS}/")


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


class Builder:
    """Builds folders of the tree with the patches so far, as modules (M=): that leaves the rest of
    the kernel alone. `here` is a folder for what is not of the tree."""

    def __init__(self, src, build, here, release, log):
        self.src, self.build, self.here, self.log = src, build, here, log
        self.make = [*MAKE, f"KERNELRELEASE={release}"]

    def tree(self):
        return Tree(self.src, None)

    def targets(self, folder, *argv):
        """Builds targets in a folder; a warning is a failure."""
        status, text = run([*self.make, "W=1", f"M={folder}", *argv], self.log, check=False,
                           cwd=self.build)
        bad = list(findings(text))
        if status or bad:
            raise Failed("; ".join(bad[:3]) or "make: " + reason(text))

    def configure(self, *wanted):
        """Does Kconfig let symbols have these values, each set in turn?"""
        config = f"{self.here}/config"
        os.makedirs(self.here, exist_ok=True)
        run(["cp", f"{self.build}/.config", config])
        argv = [f"{self.src}/scripts/config", "--file", config]
        for name, value in wanted:
            argv += ["--set-val", name, value]
        run(argv, self.log)
        run([*self.make, f"KCONFIG_CONFIG={config}", "olddefconfig"], self.log, cwd=self.build)
        with open(config, encoding="utf-8") as f:
            lines = f.read().splitlines()
        for name, value in wanted:
            if f"CONFIG_{name}={value}" not in lines:
                raise Failed(f"CONFIG_{name} does not become {value}")

    def core(self, _tree):
        """The objects of the RDMA core's port mapper."""
        objects = [f"{name}.o" for name in ("iwcm", "iwpm_msg", "iwpm_util", "netlink")]
        self.targets(f"{self.src}/{IWCM}", *objects)
        return f"{len(objects)} objects with W=1"

    def part(self, names, ffi_modules=()):
        """Compiles a crate of modules: what is there of the driver so far."""
        folder = f"{self.src}/{DRIVER}"
        has_ffi = ffi_modules or "ffi" in names
        own = "ffi" in names
        c_files = ["ffi/helpers.c"] if has_ffi else []
        if own:
            c_files += [*sorted(glob.glob("ffi/rsiw/*.c", root_dir=folder)), "ffi/debugfs.c"]
        inner = "".join(f"    pub(crate) mod {name};\n" for name in ffi_modules)
        files = {
            # In front of the driver's own Makefile, until that is there.
            "Kbuild": PART_KBUILD.format(
                objects=" ".join(name[:-2] + ".o" for name in c_files)) +
                      (PART_FFI.format(own="rsiw/" if own else "",
                                       include="-I$(src)/ffi/rsiw" if own else "",
                                       more="$(ffi-dir)/rsiw/bindgen_parameters" if own else "")
                       if has_ffi else ""),
            "part_main.rs": PART_MAIN + f"mod {NUMBERS};\n" + (f"mod ffi {{\n{inner}}}\n" if ffi_modules else "") +
                            "".join(f"mod {name};\n" for name in names),
        }
        for name, text in files.items():
            with open(f"{folder}/{name}", "w", encoding="utf-8") as f:
                f.write(text)
        objects = ["part_main.o", *(name[:-2] + ".o" for name in c_files)]
        self.targets(folder, *objects)
        for name in files:
            os.unlink(f"{folder}/{name}")
        return f"{len(objects)} objects with W=1"

    def net(self, _tree):
        return self.part((), NET)

    def rdma(self, _tree):
        return self.part((), (*NET, "rdma"))

    def layer(self, names):
        def layer(_tree):
            return self.part(names)
        return layer

    def sample(self, _tree):
        self.configure(("SAMPLES", "y"), ("SAMPLES_RUST", "y"), ("SAMPLE_RUST_RDMA_NULL", "m"))
        self.targets(f"{self.src}/{SAMPLE}", "CONFIG_SAMPLE_RUST_RDMA_NULL=m", "modules")
        if not os.path.exists(f"{self.src}/{SAMPLE}/rust_rdma_null.ko"):
            raise Failed("there is no rust_rdma_null.ko")
        return "rust_rdma_null.ko with W=1"

    def abi(self, tree):
        """The headers as user space gets them, in its C, and a user of them in the core."""
        uapi = f"{self.here}/uapi/rdma"
        os.makedirs(f"{self.here}/scripts", exist_ok=True)
        os.makedirs(uapi, exist_ok=True)
        # Where the script looks for it.
        run(["gcc-14", "-O2", "-w", "-o", f"{self.here}/scripts/unifdef",
             f"{self.src}/scripts/unifdef.c"], self.log)
        for name in ("rsiw-abi.h", "ib_user_ioctl_verbs.h", "ib_user_ioctl_cmds.h"):
            run(["sh", f"{self.src}/scripts/headers_install.sh",
                 f"{self.src}/include/uapi/rdma/{name}", f"{uapi}/{name}"],
                self.log, cwd=self.here)
            run(["gcc-14", "-std=c90", "-Wall", "-Werror", "-fsyntax-only", f"-I{self.here}/uapi",
                 "-x", "c", f"{uapi}/{name}"], self.log)
        self.targets(f"{self.src}/{IWCM}", "uverbs_ioctl.o")
        return "3 headers for user space, uverbs_ioctl.o; " + self.rdma(tree)

    def driver(self, _tree):
        self.configure(("RDMA_RSIW", "m"), ("RDMA_SIW", "m"))
        folder = f"{self.src}/{DRIVER}"
        self.targets(folder, "CONFIG_RDMA_RSIW=m", "modules")
        objects = glob.glob(f"{folder}/**/*.o", recursive=True)
        if not os.path.exists(f"{folder}/rsiw.ko"):
            raise Failed("there is no rsiw.ko")
        run(["cp", f"{folder}/rsiw.ko", os.path.dirname(self.log)])
        return f"rsiw.ko of {len(objects)} objects with W=1, beside siw"

    def docs(self, _tree):
        """Each page is one of reStructuredText, whatever Sphinx makes of it."""
        names = sorted(glob.glob(f"{self.src}/{DOCS}/rsiw*.rst"))
        for name in names:
            status, text = run(["rst2html", "--report=2", "--halt=2", "--syntax-highlight=none",
                                name, "/dev/null"], self.log, check=False)
            if status:
                raise Failed(text.strip().splitlines()[0])
        return f"{len(names)} pages"

    def tests(self, _tree):
        uapi = f"{self.here}/uapi/rdma"
        os.makedirs(uapi, exist_ok=True)
        run(["cp", f"{self.src}/{ABI}", f"{self.src}/{IDS}", uapi])
        out = f"{self.here}/selftests"
        status, text = run(["make", "-s", "-C", TESTS, f"O={out}", f"UAPI=-I{self.here}/uapi"],
                           self.log, check=False, cwd=self.src)
        bad = list(findings(text))
        if status or bad:
            raise Failed("; ".join(bad[:3]) or "make: " + reason(text))
        return f"{len([p for p in os.listdir(out) if p != 'lib'])} programs"

    def whole(self, tree):
        """The tests, and the driver as a part of the tree, where sparse looks at its C."""
        told = self.tests(tree)
        # Without what was built in it as a module.
        shutil.rmtree(f"{self.src}/{DRIVER}")
        shutil.copytree(f"{self.here}.git/{DRIVER}", f"{self.src}/{DRIVER}")
        run([f"{self.src}/scripts/config", "--file", f"{self.build}/.config", "--disable",
             "RDMA_SIW", "--module", "RDMA_RSIW"])
        run([*self.make, "olddefconfig"], self.log, cwd=self.build)
        argv = [*self.make, "W=1", "C=1", f"CHECK={SPARSE}", f"{DRIVER}/"]
        status, text = run(argv, self.log, check=False, cwd=self.build)
        bad = list(findings(text, DRIVER))
        objects = glob.glob(f"{self.build}/{DRIVER}/**/*.o", recursive=True)
        if status or bad:
            raise Failed("; ".join(bad[:3]) or "make: " + reason(text))
        if f"{self.build}/{DRIVER}/rsiw.o" not in objects:
            raise Failed("there is no rsiw.o in the tree")
        argv = ["perl", "scripts/get_maintainer.pl", "--no-git", "--no-git-fallback",
                "--nokeywords", "-f", f"{DRIVER}/qp.rs"]
        if MAINTAINERS.partition(" (")[0] not in run(argv, self.log, False, cwd=self.src)[1]:
            raise Failed("get_maintainer.pl does not find the entry")
        return f"{told}; in the tree {len(objects)} objects with W=1, {checked(text)}"


def checked(text):
    """What sparse has looked at. The kernel does without one that is too old for it."""
    if "not up to date" in text:
        return "sparse is too old for it"
    files = len(re.findall(rf"^  CHECK +.*{DRIVER}", text, re.M))
    if not files:
        raise Failed("sparse has looked at nothing")
    return f"{files} files with C=1"


def patches(top, builder):
    """The patches in order."""
    def message(name):
        return f"{top}/tools/series/kernel/{name}.txt"

    yield from (Patch(path, build=builder.core)
                for path in sorted(glob.glob(f"{top}/tools/vm/patches/core/*.patch")))
    # READ_ONCE(pointer to a function)(arguments), a pointer to a lock of somebody else, and rows of
    # a table.
    yield Patch(message("net"), make_net, builder.net,
                ("UNNECESSARY_PARENTHESES", "UNCOMMENTED_DEFINITION", "LONG_LINE_COMMENT"))
    yield Patch(message("rdma"), make_rdma, builder.rdma)
    yield Patch(message("sample"), make_sample, builder.sample)
    yield Patch(message("abi"), make_abi, builder.abi)
    so_far = []
    for name, names in LAYERS:
        so_far += names
        yield Patch(message(name), make_layer(names),
                    builder.layer(tuple(so_far)),
                    OF_TRACES if name == "edge" else ())
    # A message of the log is in one line, so that it is found; checkpatch knows C's only.
    yield Patch(message("driver"), make_driver, builder.driver, ("LONG_LINE_STRING",))
    yield Patch(message("docs"), make_docs, builder.docs)
    yield Patch(message("tests"), make_tests, builder.whole, OF_TESTS)
