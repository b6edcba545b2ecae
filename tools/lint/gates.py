#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Rules of this tree that no other tool knows. Run at the top of the checkout."""

import os
import re
import subprocess
import sys

from source import main

DRIVER = "drivers/infiniband/sw/rsiw"
# Where unsafe code may be.
UNSAFE_HOMES = (f"{DRIVER}/ffi/", f"{DRIVER}/ffi.rs", f"{DRIVER}/rsiw_main.rs",
                f"{DRIVER}/compat/")
# What older kernels lack: one that needs more is not worth it.
COMPAT, COMPAT_LINES = f"{DRIVER}/compat/", 600
# Safe code that macros of the kernel add unsafe code to.
UNSAFE_MACROS = (f"{DRIVER}/kunit.rs",)
MAX_LINES = 800
# A file of the driver has a subject of its own: the least lines, and why some have fewer. Files
# that only list and explain the others of their folder are short by nature.
MIN_LINES = 60
SHORT = {
    "ffi/hash.rs": "three functions of the kernel's library that belong to nothing else here",
    "mr/permute.rs": "pure, and tested by itself",
    "proto/tuning.rs": "the numbers that an engineer may adjust, for all of the protocol",
    "wire/tls.rs": "one format",
}
# Whole texts of others, generated files and test inputs.
NOT_OURS = re.compile(r"(^LICENSE|Cargo\.lock|/corpus/.*|/snapshots/.*|\.(json|pcap|png|svg))$")
LICENSED = re.compile(r"(\.(rs|py|sh|c|h|toml)|/?(Makefile|Kbuild|Kconfig))$")
# What is loaded into programs of others, or compiled into them, has the licences of rdma-core's
# own providers, by the beginning of the path.
LICENCES = {
    "user/": "GPL-2.0 OR Linux-OpenIB",
    "include/uapi/": "((GPL-2.0 WITH Linux-syscall-note) OR Linux-OpenIB)",
}
# A program of more rights than its caller's takes no orders from its environment; and a thread
# that spins keeps the one that it waits for from the processor.
LIBRARY_CALLS = re.compile(r"\b(getenv|pthread_spin_\w+)\(")
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX)\b|\b(unimplemented|todo)!")
# What copies in whatever order suits the processor. Octets that a consumer waits for are
# placed in order, by the functions of the one home of copies; all others who may copy,
# none of them to memory of a consumer, have a reason.
COPY = re.compile(r"\b(mem(?:cpy|move|set)|(?:skb_)?copy_(?:from_|to_)?nonoverlapping|skb_copy_\w+|"
                  r"write_bytes|copy_(?:to|from)_iter|copy_page)(?:_\w+)?\s*\(|\bptr::(copy)\(")
COPIES = {
    f"{DRIVER}/ffi/mm/page.rs": {"memcpy"},  # one of them, and the way out of such memory
    f"{DRIVER}/ffi/helpers/copy.c": {"memmove"},  # the other
    f"{DRIVER}/ffi/net/skb.rs": {"skb_copy_bits"},  # to the stack
    f"{DRIVER}/ffi/net/batch.rs": {"copy_from_nonoverlapping"},  # to pages of the driver's
    f"{DRIVER}/ffi/rdma/callbacks/queue.rs": {"write_bytes"},  # a structure of the core
    f"{DRIVER}/ffi/helpers/netdev.c": {"memcpy"},  # a hardware address
    f"{DRIVER}/ffi/rsiw/rsiw_trace.h": {"memcpy"},  # an entry of the trace
}
# A file of the driver or of its tests that a document names, as a word or at the front of a line
# of reasons; and where the kernel's own ones are.
NAMED = re.compile(r"(?:``|^)([\w./-]+\.rs)(?:``|:)", re.M)
KERNELS = ("rust/", "scripts/")
# A module, as documents and comments name it.
MODULE = re.compile(r"`((?:cm|cq|ffi|mr|proto|qp|queue|wire)(?:/|::)[a-z_]+)(?=`|::)")
# A string or a comment, to be dropped before looking for code.
RUST_NOISE = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.S)


def files():
    for where, dirs, names in os.walk("."):
        dirs[:] = [d for d in dirs if d not in (".git", "build", "target", "__pycache__")]
        for name in names:
            path = os.path.relpath(os.path.join(where, name), ".")
            if not NOT_OURS.search(path) and os.path.isfile(path):
                yield path


def check(path, text):
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        yield f"{len(lines)} lines, at most {MAX_LINES}"
    if LICENSED.search(path) and not any("SPDX-License-Identifier:" in x for x in lines[:3]):
        yield "no SPDX-License-Identifier in its first lines"
    for where, licence in LICENCES.items():
        if path.startswith(where) and LICENSED.search(path):
            if not re.search(re.escape(f"Identifier: {licence}") + r"( \*/)?$", lines[0]):
                yield f"its licence is not {licence}"
    if path.startswith("user/"):
        for n, line in enumerate(lines, 1):
            if found := LIBRARY_CALLS.search(line):
                yield f"line {n}: {found[1]} has no place in a library of programs"
    if path != "tools/lint/gates.py":
        for n, line in enumerate(lines, 1):
            if LEFTOVER.search(line):
                yield f"line {n}: leftover: {line.strip()}"
    for name in sorted(set(MODULE.findall(text))):
        where = f"{DRIVER}/{name.replace('::', '/')}"
        if not os.path.isfile(where + ".rs") and not os.path.isdir(where):
            yield f"there is no {name}"
    if path.startswith(DRIVER) and path.endswith((".rs", ".c", ".h")):
        for found in COPY.finditer(RUST_NOISE.sub(" ", text)):
            name = found[1] or found[2]
            if name not in COPIES.get(path, ()):
                yield f"{name} may copy in any order: use ffi/mm/page.rs, or give a reason here"
    if path.startswith(DRIVER) and path.endswith(".rs"):
        if not path.startswith(UNSAFE_HOMES):
            code = RUST_NOISE.sub(" ", text)
            if "#![forbid(unsafe_code)]" not in code and path not in UNSAFE_MACROS:
                yield "no #![forbid(unsafe_code)]"
            if re.search(r"\bunsafe\b", code):
                yield "unsafe code outside ffi/"


def content(path):
    if not os.path.isfile(path):
        return ""
    with open(path, encoding="utf-8") as f:
        return f.read()


def driver():
    """The driver's own files, with their texts: not what is there for older kernels."""
    for path in files():
        if path.startswith(DRIVER + "/") and path.endswith(".rs") and not path.startswith(COMPAT):
            with open(path, encoding="utf-8") as f:
                yield path[len(DRIVER) + 1:], f.read()


def abi():
    """Structures of the ABI that its page does not name."""
    page = content("Documentation/infiniband/rsiw-abi.rst")
    for name in re.findall(r"(?m)^struct (rsiw_\w+) \{", content("include/uapi/rdma/rsiw-abi.h")):
        if not re.search(rf"\b{name}\b", page):
            yield f"Documentation/infiniband/rsiw-abi.rst: {name} is missing"


def short():
    """Files of the driver that are too short for a room of their own."""
    left = set(SHORT)
    for name, text in driver():
        lines = len(text.splitlines())
        lists = (name.endswith("/mod.rs") or name == "rsiw_main.rs" or
                 os.path.isdir(f"{DRIVER}/{name[:-3]}"))
        if lines < MIN_LINES and not lists:
            if name not in SHORT:
                yield f"{DRIVER}/{name}: {lines} lines; what is it read with? (or a reason in SHORT)"
            left.discard(name)
    for name in sorted(left):
        yield f"tools/lint/gates.py: {name} is not short any more"


TYPE = re.compile(r"^(?:pub(?:\([^)]*\))? )?(?:unsafe )?(?:struct|enum|union|type) (\w+)", re.M)
# How many names of types may be in more than one file: each makes a reader ask which one is meant.
MOST_NAMESAKES = 28


def namesakes():
    """Names of types that several files of the driver have."""
    homes = {}
    for path, text in driver():
        for name in set(TYPE.findall(text)):
            homes.setdefault(name, []).append(path)
    several = {name: where for name, where in homes.items() if len(where) > 1}
    if len(several) > MOST_NAMESAKES:
        for name, where in sorted(several.items()):
            yield f"{name} is in {', '.join(sorted(where))}"
        yield f"{len(several)} types have namesakes, at most {MOST_NAMESAKES}"


# How many files the driver may have, and each of its folders but for those that say otherwise. A
# new file is another place where a reader has to look. What stands in for the crate of older kernels
# (compat/) is not the driver.
MOST_FILES, MOST_IN_FOLDER = 150, 16
IN_FOLDER = {
    "": 20,  # a module each, or a type that all use
    "proto": 27,  # a state machine each
}


def rooms(paths):
    """Where the driver has more files than it may have."""
    counts = {}
    for path in paths:
        folder = os.path.dirname(path)
        if folder != "compat":
            counts[folder] = counts.get(folder, 0) + 1
    if sum(counts.values()) > MOST_FILES:
        yield f"{DRIVER} has {sum(counts.values())} files, at most {MOST_FILES}: what is read together?"
    for folder, count in sorted(counts.items()):
        most = IN_FOLDER.get(folder, MOST_IN_FOLDER)
        if count > most:
            yield f"{DRIVER}/{folder} has {count} files, at most {most}: what is read together?"


def versions():
    """debian/changelog has an entry for the version."""
    with open("debian/changelog", encoding="utf-8") as f:
        package = re.match(r"\S+ \((\d+)\.(\d+)", f.read())
    with open(f"{DRIVER}/ffi/rsiw/rsiw_version.h", encoding="utf-8") as f:
        module = re.findall(r"^#define RSIW_VERSION_M\w+ (\d+)$", f.read(), re.M)
    if not package or list(package.groups()) != module:
        yield f"the version is {'.'.join(module)}, debian/changelog begins with another one"


# An option in the text that --help prints, and in a manual page.
OPTION = re.compile(r"^  (-\S+)", re.M)
FLAG = re.compile(r"^\.It Fl (\S+)", re.M)


def options():
    """The manual page of rsiw-run has the options that it tells of itself."""
    text = subprocess.run([sys.executable, "-B", "tools/run/rsiw-run", "--help"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    told = set(OPTION.findall(text)) | {"--help"}
    with open("Documentation/infiniband/rsiw-run.1", encoding="utf-8") as f:
        paged = {f"-{flag}" for flag in FLAG.findall(f.read())}
    for option in sorted(told ^ paged):
        where = "--help of rsiw-run" if option in paged else "Documentation/infiniband/rsiw-run.1"
        yield f"{where} lacks {option}"


def compat():
    """What is there for older kernels stays small."""
    total = 0
    for path in files():
        if path.startswith(COMPAT):
            with open(path, encoding="utf-8") as f:
                total += len(f.readlines())
    if total > COMPAT_LINES:
        yield f"{COMPAT}: {total} lines in all, at most {COMPAT_LINES}"


def listed():
    """README of tools/vm names the scripts there, but for what others of them run in a guest."""
    with open("tools/vm/README", encoding="utf-8") as f:
        words = set(re.findall(r"[\w.-]+", f.read()))
    for entry in sorted(os.scandir("tools/vm"), key=lambda e: e.name):
        if entry.is_file() and os.access(entry, os.X_OK) and not entry.name.endswith("-guest"):
            if entry.name not in words:
                yield f"tools/vm/README lacks {entry.name}"


def named():
    """Documents name files that are there."""
    there = sorted(files())
    ends = "\n".join(f"/{path}" for path in there) + "\n"
    for path in there:
        if path.startswith("Documentation/infiniband/") or path == "README.md":
            with open(path, encoding="utf-8") as f:
                names = set(NAMED.findall(f.read()))
            for name in sorted(names):
                if f"/{name}\n" not in ends and not name.startswith(KERNELS):
                    yield f"{path}: there is no {name}"


# A file that a page quotes: its name in a comment, and behind that all of it but for its licence.
QUOTED = re.compile(r"^\.\. file (\S+)\n\n\.\. code-block:: \w+\n\n((?:    .*\n|\n)+)", re.M)


def quoted(pages, read):
    """Documents quote files as they are."""
    for page, text in pages.items():
        found = dict(QUOTED.findall(text))
        if len(found) != len(re.findall(r"^\.\. file ", text, re.M)):
            yield f"{page}: no block of code behind the name of a file"
        for path, block in found.items():
            lines = [line[4:] for line in block.rstrip("\n").split("\n")]
            if lines != read(path).splitlines()[1:]:
                yield f"{page}: {path} is another one by now"


# A member of a type, as documents name it; and a definition of a member.
MEMBER = re.compile(r"``([A-Z]\w*)::(\w+)(?:\(\))?``")
OF_TYPE = r"\b(?:struct|enum|trait|type|impl\b[^{{;]*?)\s*\b{}\b"
DEFINED = r"\b(?:fn|const) {0}\b|^\s*(?:pub\b(?:\([^)]*\))? )?{0}:|^\s+{0}(?:,|\(| \{{| =|$)"


def members(pages, texts):
    """Documents name members of types that are there: in a file with both, since a type may have
    its methods in several files."""
    for page, text in pages.items():
        for kind, name in sorted(set(MEMBER.findall(text))):
            of_type = re.compile(OF_TYPE.format(kind))
            defined = re.compile(DEFINED.format(name), re.M)
            homes = [text for text in texts.values() if of_type.search(text)]
            # The kernel's own types are not looked at.
            if homes and not any(defined.search(home) for home in homes):
                yield f"{page}: there is no {kind}::{name}"


# A row of the table of words in the design: a word or several, and what they mean.
WORD_ROW = re.compile(r"^(\w+(?:,? \w+)*)  +(\S.*(?:\n .*)*)", re.M)
DESIGN = "Documentation/infiniband/rsiw-design.rst"


def words(page, read):
    """The table of words names files for each, in which the word occurs, be it in a name."""
    table = re.search(r"^Words\n=+\n.*?^=+ +=+\n(.*?)^=+ +=+\n", page, re.M | re.S)
    if not table:
        yield f"{DESIGN} has no table of words"
        return
    for these, meaning in WORD_ROW.findall(table[1]):
        homes = re.findall(r"``([\w/]+\.rs)``", meaning)
        if not homes:
            yield f"{DESIGN}: where is '{these}'?"
        for home in homes:
            apart = re.sub(r"(?<=[a-z\d])(?=[A-Z])|_|\n\s*//[/!]?", " ", read(home))
            for word in these.split(", "):
                if not re.search(rf"\b{re.escape(word)}", " ".join(apart.split()), re.I):
                    yield f"{DESIGN}: {home} does not have the word '{word}'"


# A document of an item, up to an empty line, and the function that follows.
DOC = re.compile(r"^( *//[/!]) (.+(?:\n\1 .+)*)\n(?:\1.*\n| *#\[.*\n)*(?:.*\bfn (\w+))?", re.M)
SAYS_ONLY = re.compile(r"As \[`(?:\w+::)*(\w+)`\](?:\([^)]*\))?\.")


# One `use` for each module: lists within lists hide where a name comes from, and are longer.
IMPORT_NESTS = re.compile(r"^(?:pub(?:\([^)]*\))? )?use [^;{]*\{[^;{}]*(?:::|\{)", re.M)
# Keeps a list of imports one name a line, behind the last of them.
IMPORT_END = re.compile(r"^ +[\w:*]+(?: as \w+)?, //\n(?! *\})", re.M)


def docs(path, text):
    """What a reader stops at: `Most X` for the greatest number of X, and a document that only
    names another one. Methods of one name, one of which calls the others, may do that."""
    for found in IMPORT_END.finditer(text):
        yield (f"{DRIVER}/{path}:{text.count(chr(10), 0, found.start()) + 1}: "
               "the '//' that ends a list of imports stands before its end")
    for found in IMPORT_NESTS.finditer(text):
        yield (f"{DRIVER}/{path}:{text.count(chr(10), 0, found.start()) + 1}: "
               "a path in a list of imports: one 'use' for each module")
    for found in DOC.finditer(text):
        doc, name = found[2], found[3]
        where = f"{DRIVER}/{path}:{text.count(chr(10), 0, found.start()) + 1}"
        if re.match(r"Most (?!significant)[a-z]+\b", doc):
            yield f"{where}: say 'How many' or 'at most' instead of 'Most'"
        only = SAYS_ONLY.fullmatch(doc)
        if only and only[1] != name:
            yield f"{where}: it only names {only[1]}; what is done?"


def prose():
    """Words and comments that lead a reader astray."""
    texts, pages = dict(driver()), {}
    for path in files():
        if path.startswith("Documentation/infiniband/"):
            with open(path, encoding="utf-8") as f:
                pages[path] = f.read()
    yield from members(pages, texts)
    yield from quoted(pages, content)
    with open(DESIGN, encoding="utf-8") as f:
        yield from words(f.read(), lambda path: texts.get(path, ""))
    for path, text in texts.items():
        yield from docs(path, text)


def self_test():
    """The rules for prose find what they are for, and nothing else."""
    table = "Words\n=====\n\n=====  ====\n%s\n=====  ====\n"
    def found(row, text):
        return len(list(words(table % row, lambda path: text)))
    assert found("a row  some\n       thing (``b.rs``)", "x") == 1
    assert not found("a row  it (``b.rs``)\ngo     it (``b.rs``)", "struct WeGo; fn a_row()")
    code = {"a.rs": "struct A {\n    x: u8,\n}", "b.rs": "impl<T> A<T> {\n    fn y() {}\n}"}
    assert not list(members({"p": "``A::x`` ``A::y`` ``B::q``"}, code))
    assert len(list(members({"p": "``A::z``"}, code))) == 1
    for bad, good in (("use super::{\n    A, //\n    B,\n};\n",
                       "use super::{\n    A,\n    B, //\n};\n"),
                      ("/// Most octets of it.\n", "/// Most significant bit.\n"),
                      ("/// As [`b`](x::b).\n#[inline]\npub(super) fn c() {}",
                       "/// As [`A::b`].\n#[x]\nfn b() {}")):
        assert len(list(docs("a.rs", bad))) == 1, bad
        assert not list(docs("a.rs", good)), good
    page = {"p": ".. file a.c\n\n.. code-block:: c\n\n    int x;\n\n    int y;\n\nText\n"}
    assert not list(quoted(page, lambda path: "// licence\nint x;\n\nint y;\n"))
    assert len(list(quoted(page, lambda path: "// licence\nint x;\nint y;\n"))) == 1
    some = [f"mr/{n}.rs" for n in range(MOST_IN_FOLDER)]
    assert not list(rooms(some)) and len(list(rooms(some + ["mr/x.rs"]))) == 1


# What names a test, by where: the number of a file of tests, a test in Rust, a case in the kernel,
# a scenario of the raw peer. The selftests' own names are compared when they are collected.
TESTS = "tools/testing"
TEST_NAMES = {
    "selftests/rsiw/tests/": re.compile(r"^tests/([a-z]\d+)_", re.M),
    "pure/src/": re.compile(r"#\[test\]\n(?:\s*#\[[^\n]*\n)*\s*(?:pub(?:\([^)]*\))? )?fn (\w+)"),
    "kverbs/case_": re.compile(r'^\t\{ "([\w-]+)", "', re.M),
    "peer/src/scen/": re.compile(r'\.says\(\s*("[^"]+")'),
}


def tests_of_one_name():
    """Tests that cannot be told apart by their names."""
    for where, pattern in TEST_NAMES.items():
        homes = {}
        for path in sorted(files()):
            if path.startswith(f"{TESTS}/{where}"):
                with open(path, encoding="utf-8") as f:
                    text = f"tests/{os.path.basename(path)}\n{f.read()}"
                for name in pattern.findall(text):
                    homes.setdefault(name, []).append(path)
        if not homes:
            yield f"there are no tests in {TESTS}/{where}"
        for name, paths in homes.items():
            if len(paths) > 1:
                yield f"several tests are called {name}: {', '.join(paths)}"


def check_all():
    self_test()
    yield from rooms(path for path, _ in driver())
    for rule in (versions, options, abi, compat, short, namesakes, listed, named, prose, tests_of_one_name):
        yield from rule()
    for path in sorted(files()):
        try:
            with open(path, encoding="utf-8") as f:
                text = f.read()
        except UnicodeDecodeError:
            continue
        for message in check(path, text):
            yield f"{path}: {message}"


if __name__ == "__main__":
    sys.exit(main(check_all))
