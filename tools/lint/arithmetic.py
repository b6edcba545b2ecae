#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Arithmetic in three kinds, as num.rs says: positions wrap, budgets saturate, lengths were checked.

Reads the driver's Rust files, outside comments and strings. Run at the top of the checkout.
"""

import re
import sys

from source import blank, end_of_arguments, line_of, main, rust_files

DRIVER = "drivers/infiniband/sw/rsiw"
# What stands for the kernel itself, the file of the kinds, and tests.
LEFT_OUT = re.compile(r"^(compat/.*|num\.rs|kunit\.rs)$")

# Where a number wraps that has no type for that, and why.
WRAPS = {
    "the type of a position": "proto/ring.rs ffi/mm/ring.rs wire/ddp.rs",
    "a ring over slots, whose number is no power of two": "ffi/net/batch.rs",
    "formats and masks: what is added has a bound that is a constant":
        "wire/fpdu.rs wire/atomic.rs proto/datagram.rs proto/message.rs proto/segment.rs "
        "ffi/rdma/extent.rs",
    "sequence numbers of TCP, and the places of octets in its queue":
        "proto/transport.rs qp/describe.rs ffi/net/skb.rs",
    "counts in arrays and atomic words, of which others have the types":
        "proto/counters.rs cq.rs ffi/rdma/callbacks/device.rs",
    "addresses, and numbers of errors":
        "ffi/mm/page.rs ffi/rdma/umem.rs ffi/rdma/wr.rs ffi/net/socket.rs",
}
# What counts on, and is an address, or an index of what is in no type that wraps or saturates.
COUNTERS = {
    "an address": "ffi/rdma/wr.rs",
    "mostly the end of a slice": "proto/crowd.rs",
}
# Where a sum that does not fit is an error of the kernel, as a program has chosen what is added.
ASKED = {
    "sizes of queues and rings": "cq/user.rs queue.rs queue/shared.rs ffi/mm/ring.rs ud/sq.rs",
    "ranges and lists of memory": "ffi/rdma/extent.rs ffi/rdma/wr.rs ud/rq.rs",
    "what there is no more of": "cm/registry.rs ffi/net/batch.rs",
}

WRAPPING = re.compile(r"\.\s*wrapping_\w+\s*\(")
# A variable or a field that counts on.
COUNTS_ON = re.compile(r"(?<![\w.])(?<!let )((?:\w+\.)+\w+)\s*=\s*\1\s*\.\s*(?:saturating|wrapping)_\w+\s*\(")
CHECKED = re.compile(r"\.\s*checked_(add|sub|mul)\s*\(")
DEFECT = re.compile(r"\)*\s*\.\s*ok_or(?:_else)?\s*\(\s*(?:\|\|\s*)?(?:Broken|Failure::defect|\w*broken)\b")
ERROR = re.compile(r"\)*\s*\.\s*ok_or\s*\(\s*E[A-Z0-9]+\s*\)")
# Whether the end of a range lies within another one.
WITHIN = re.compile(r"\s*\.\s*(?:filter|is_some_and|is_none_or)\s*\(\s*\|\s*[a-z]\w*\s*\|\s*\*?\w+\s*[<>]=?")


def files(table):
    return {path for paths in table.values() for path in paths.split()}


def check(path, code, used):
    """What is wrong with a file, as places and words. `used` gets what needs its exception."""
    wraps, counters, asked = files(WRAPS), files(COUNTERS), files(ASKED)
    for m in WRAPPING.finditer(code):
        used.add(("wraps", path))
        if path not in wraps:
            yield m.start(), "a number wraps that is no Wrapping"
    for m in COUNTS_ON.finditer(code):
        used.add(("counters", path))
        if path not in counters:
            yield m.start(), f"{m.group(1)} counts on, and is neither Saturating nor Wrapping"
    for m in CHECKED.finditer(code):
        end = end_of_arguments(code, m.end()) + 1
        if DEFECT.match(code, end):
            yield m.start(), "a length that was checked is added to by try_add, try_sub, try_mul"
        elif ERROR.match(code, end):
            used.add(("asked", path))
            if path not in asked:
                yield m.start(), "a sum becomes an error of the kernel: is it a length (try_add)?"
        elif m.group(1) == "add" and WITHIN.match(code, end):
            yield m.start(), "whether a range lies within another one is asked by end_within"


def self_test():
    def found(text, path="x.rs"):
        return len(list(check(path, text, set())))
    assert found("let a = b.wrapping_add(1);") == 1
    assert not found("let a = b.wrapping_add(1);", "wire/ddp.rs")
    assert found("self.n = self.n.saturating_add(1);") == 1
    assert not found("let left = left.saturating_sub(1); self.m = self.n.saturating_sub(1);")
    assert found("a.checked_add(b.len()).ok_or(Broken)?") == 1
    assert not found("a.checked_add(b)?; a.checked_sub(b).ok_or(TermError::TaggedBounds)?")
    assert found("a.checked_add(b).filter(|end| *end <= c)") == 1


def check_all():
    self_test()
    used = set()
    for path, text in rust_files(DRIVER, LEFT_OUT):
        code = blank(text)
        for at, words in check(path, code, used):
            yield f"{path}:{line_of(code, at)}: {words}"
    for what, table in (("wraps", WRAPS), ("counters", COUNTERS), ("asked", ASKED)):
        for path in sorted(files(table)):
            if (what, path) not in used:
                yield f"tools/lint/arithmetic.py: {path} needs no exception any more ({what})"


if __name__ == "__main__":
    sys.exit(main(check_all))
