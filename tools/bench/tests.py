#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of the code that analyses what was counted or measured; for the Debian root."""

import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import cases  # noqa: E402
import components  # noqa: E402
import counting  # noqa: E402
import medians  # noqa: E402
import sweeps  # noqa: E402
import wans  # noqa: E402
from counting import Count, Function  # noqa: E402

SYMBOLS = """\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _text
ffffffff81000100 t tcp_helper
ffffffff81000200 T __pi_memcpy
ffffffff81000200 T memcpy
ffffffff81000300 T tcp_sendmsg
ffffffff81000380 t helper.isra.0
ffffffff81000400 T kmalloc
ffffffff81000480 t helper
ffffffff81000500 D some_data
ffffffffc0000000 t siw_tx_hdt	[siw]
ffffffffc0000100 t _RNvNtCsa8zRApNGj4W_9rsiw_main2tx5flush	[rsiw]
""".splitlines()

SOURCES = {
    "tcp_sendmsg": ["net/ipv4/tcp.c"],
    "kmalloc": ["mm/slub.c"],
    "helper": ["net/ipv4/tcp.c", "mm/slub.c"],
    "siw_tx_hdt": ["drivers/infiniband/sw/siw/siw_qp_tx.c"],
    "rxe_responder": ["drivers/infiniband/sw/rxe/rxe_resp.c"],
    "schedule": ["kernel/sched/core.c"],
}


class Spans(unittest.TestCase):
    def test_one_per_start_and_stop(self):
        text = ["span 0", "ff 3 10 0", "end", "span 1", "10 2 5 4", "end"]
        self.assertEqual(list(counting.spans(text)),
                         [[(0xff, 3, 10, 0)], [(0x10, 2, 5, 4)]])


class Addresses(unittest.TestCase):
    def test_symbols(self):
        s = counting.Symbols(SYMBOLS)
        self.assertEqual(s.at(0xffffffff81000150).name, "tcp_helper")
        self.assertEqual(s.at(0xffffffff81000200),
                         Function("memcpy", "vmlinux"))
        # Data are no functions.
        self.assertEqual(s.at(0xffffffff81000510).name, "helper")
        self.assertEqual(s.at(0xffffffffc0000020),
                         Function("siw_tx_hdt", "siw"))

    def test_hidden_symbols(self):
        with self.assertRaises(counting.Bad):
            counting.Symbols(["0000000000000000 T _text"])

    def test_maps(self):
        class Fake:
            def at(self, offset):
                return "f%x" % offset
        maps = counting.Maps([
            "1000-2000 r-xp 00003000 00:1e 5  /usr/bin/a\n"
            "2000-3000 rw-p 00004000 00:1e 5  /usr/bin/a\n"
            "5000-6000 r-xp 00000000 00:00 0  [vdso]\n",
            "1000-2000 r-xp 00000000 00:1e 6  /usr/bin/b\n"
            "2000-3000 r-xp 00001000 00:1e 6  /usr/bin/b\n"],
            {"/usr/bin/a": Fake(), "/usr/bin/b": Fake()})
        self.assertEqual(maps.at(0x1010), Function("f3010", "/usr/bin/a"))
        self.assertEqual(maps.at(0x2010), Function("f1010", "/usr/bin/b"))
        self.assertEqual(maps.at(0x5010), Function("[vdso]", ""))
        self.assertEqual(maps.at(0x3000).name, "other programs")


class Subtraction(unittest.TestCase):
    F, G, H = (Function(n, "vmlinux") for n in "fgh")

    def test_by_function(self):
        blocks = [(0xffffffff81000100, 4, 10, 0),
                  (0xffffffff81000110, 2, 5, 0), (0x10, 3, 7, 5)]
        found = counting.by_function(blocks, counting.Symbols(SYMBOLS),
                                     counting.Maps([], {}))
        self.assertEqual(found[Function("tcp_helper", "vmlinux")],
                         Count(50, 0))
        self.assertEqual(found[Function("other programs", "")], Count(21, 15))

    def test_set_up_vanishes(self):
        short = {self.F: Count(1000 + 10 * 7, 0), self.G: Count(500, 100)}
        long = {self.F: Count(1000 + 40 * 7, 0), self.G: Count(800, 250),
                self.H: Count(60, 0)}
        per = counting.per_message(short, long, 30)
        self.assertEqual(per, {self.F: Count(7, 0), self.G: Count(10, 5),
                               self.H: Count(2, 0)})

    def test_no_longer(self):
        with self.assertRaises(counting.Bad):
            counting.per_message({}, {}, 0)


class Names(unittest.TestCase):
    def test_suffixes(self):
        for name in ("f.isra.0", "f.constprop.0.isra.1", "f.cold", "f",
                     "f.llvm.1234"):
            self.assertEqual(counting.base_name(name), "f")

    def test_rust(self):
        self.assertEqual(counting.demangle([
            "memcpy", "_RNvMs_NtNtCsa8zRApNGj4W_9rsiw_main2qp7sendingNtB4_7Sending"
            "5flush", "_RNvNtCsb5MLIFMWygY_6kernel5error9to_result"]), [
                "memcpy", "<rsiw_main::qp::sending::Sending>::flush",
                "kernel::error::to_result"])


class Groups(unittest.TestCase):
    def setUp(self):
        self.grouping = components.Grouping(counting.Symbols(SYMBOLS), SOURCES)

    def of(self, name, home="vmlinux", readable=None):
        return self.grouping.component(Function(name, home), readable or name)

    def test_by_source(self):
        self.assertEqual(self.of("tcp_sendmsg"), "tcp")
        self.assertEqual(self.of("kmalloc.part.0"), "memory")
        self.assertEqual(self.of("schedule"), "core")
        self.assertEqual(self.of("no_such_function"), "core")

    def test_two_sources(self):
        # What stands before it tells.
        self.assertEqual(self.of("helper.isra.0"), "tcp")
        self.assertEqual(self.of("helper"), "memory")

    def test_copies_anywhere(self):
        for name in ("memcpy", "__memcpy", "_copy_to_iter", "skb_copy_bits",
                     "rep_movs_alternative", "csum_partial", "crc32c_x86_3way"):
            self.assertEqual(self.of(name), "copies", name)
        self.assertEqual(self.of("any", "crc32c_cryptoapi"), "copies")
        self.assertNotEqual(self.of("copy_process"), "copies")

    def test_clearing_anywhere(self):
        for name in ("memset", "__memset", "rep_stos_alternative",
                     "clear_page_erms"):
            self.assertEqual(self.of(name), "cleared", name)
        self.assertNotEqual(self.of("clear_page_dirty_for_io"), "cleared")

    def test_c_drivers(self):
        self.assertEqual(self.of("siw_tx_hdt", "siw"), "driver-tx")
        self.assertEqual(self.of("siw_post_receive", "siw"), "driver-rx")
        self.assertEqual(self.of("siw_post_send", "siw"), "driver-tx")
        self.assertEqual(self.of("rxe_responder", "rdma_rxe"), "driver-rx")

    def test_rust_driver(self):
        for name, component in (
                ("<rsiw_main::qp::intake::Intake>::ulpdu", "driver-rx"),
                ("<rsiw_main::qp::sending::Sending>::flush", "driver-tx"),
                ("<rsiw_main::verbs::Rsiw as Driver>::post_send", "driver-tx"),
                ("<rsiw_main::verbs::Rsiw as Driver>::post_recv", "driver-rx"),
                ("<rsiw_main::proto::sender::Sender<E>>::run", "driver-tx"),
                ("<rsiw_main::proto::receiver::Receiver>::run", "driver-rx")):
            self.assertEqual(self.of("_R", "rsiw", name), component, name)

    def test_definitions(self):
        with tempfile.TemporaryDirectory() as tree:
            os.makedirs(tree + "/mm")
            with open(tree + "/mm/a.c", "w", encoding="utf-8") as f:
                f.write("int declared(int a);\n"
                        "static inline void *made(size_t n,\n\t\tgfp_t f)\n"
                        "{\n\tif (called(n)) {\n\t}\n}\n"
                        "SYSCALL_DEFINE2(munmap, unsigned long, a)\n{\n}\n"
                        "static struct ops ops = {\n\t.f = made,\n};\n")
            found = components.scan(tree)
        self.assertEqual(found["made"], ["mm/a.c"])
        self.assertEqual(found["__x64_sys_munmap"], ["mm/a.c"])
        for name in ("declared", "called", "ops"):
            self.assertNotIn(name, found)

    def test_summary(self):
        counts = {Function("tcp_sendmsg", "vmlinux"): Count(30, 0),
                  Function("main", "/usr/bin/a"): Count(50, 40)}
        s = components.summary(counts, self.grouping, 1)
        self.assertEqual(s["polling"], 40)
        self.assertEqual(s["components"]["program"], 10)
        self.assertEqual(s["components"]["tcp"], 30)
        self.assertEqual([f["name"] for f in s["functions"]], ["tcp_sendmsg"])


class Cases(unittest.TestCase):
    def test_messages(self):
        self.assertEqual(cases.named("send_bw 4096 x16").messages(10), 160)
        self.assertEqual(cases.named("send_bw 65536 both").messages(10), 20)
        self.assertEqual(cases.named("send_lat 64").messages(10), 20)
        self.assertEqual(cases.named("read_lat 64").messages(10), 10)

    def test_lengths(self):
        for case in cases.VERBS:
            short, long = case.lengths
            self.assertGreater(long, short)
            if case.tool.endswith("bw"):
                self.assertGreater(short, case.depth)


class Medians(unittest.TestCase):
    @staticmethod
    def row(value, note=None, case="send_bw 64"):
        row = {"device": "rsiw", "path": "wire", "case": case, "value": value,
               "unit": cases.named(case).unit}
        return {**row, "note": note} if note else row

    def test_rows(self):
        runs = medians.Runs()
        for value in (5, 1, 4, 2, 3):
            runs.add([self.row(value), self.row(None, "hung", "send_lat 64")])
        first, second = runs.rows()
        self.assertEqual((first["value"], first["runs"], first["unit"]),
                         (3, [1, 2, 3, 4, 5], cases.MPPS))
        # From 2 to 4.
        self.assertEqual(first["spread"], 66.7)
        self.assertNotIn("note", first)
        self.assertEqual((second["value"], second["note"], second["runs"]),
                         (None, "hung", []))

    def test_some_failed(self):
        runs = medians.Runs()
        runs.add([self.row(None, "failed")])
        runs.add([self.row(7)])
        row, = runs.rows()
        self.assertEqual((row["value"], row["spread"]), (7, 0))
        self.assertEqual(list(runs.notes.values()), [["failed"]])

    def test_best(self):
        for case, value in (("send_bw 64", 3), ("send_lat 64", 1)):
            self.assertEqual(
                medians.best({"case": case, "runs": [1, 2, 3]}), value)


BW = sweeps.Series("send", "bw", 2)
LAT = sweeps.Series("read", "lat", 1)


class Sweep(unittest.TestCase):
    def test_count(self):
        for series in sweeps.series_of("rsiw"):
            counts = [sweeps.count(series, s) for s in sweeps.default_sizes()]
            self.assertEqual(counts, sorted(counts, reverse=True))
            self.assertGreaterEqual(counts[-1], series.depth)

    def test_row(self):
        n = sweeps.count(BW, 1000)
        row = sweeps.row("rsiw", "wire", BW, 1000, n * 4000)
        self.assertEqual((row["value"], row["unit"]), (2.0, cases.GBITS))
        for verb, value in (("send", 2.0), ("write", 2.0), ("read", 4.0)):
            series = sweeps.Series(verb, "lat", 1)
            n = sweeps.count(series, 1000)
            row = sweeps.row("rsiw", "wire", series, 1000, n * 4000)
            self.assertEqual((row["value"], row["unit"]), (value, cases.USEC))
        row = sweeps.row("rsiw", "wire", LAT, 64, None)
        self.assertEqual((row["value"], row["note"]), (None, "failed"))

    def test_points(self):
        text = "point 1 2 3\npoint 4 5 6\npoint 7 8"
        self.assertEqual(sweeps.POINT.findall(text),
                         [("1", "2", "3"), ("4", "5", "6")])

    def test_no_dips(self):
        # A fixed cost and one of each octet, whatever they are.
        for fixed, each in ((1, 1), (30000, 0.5), (5000, 9)):
            cost = {s: fixed + each * s for s in sweeps.default_sizes()}
            self.assertEqual(sweeps.dips(LAT, cost), [])
            self.assertEqual(sweeps.dips(
                BW, {s: s / c for s, c in cost.items()}), [])

    def test_dip(self):
        flat = dict.fromkeys(sweeps.default_sizes(), 2.0)
        dip, = sweeps.dips(BW, {**flat, 4096: 1.7})
        self.assertEqual((dip.size, dip.left, dip.right), (4096, 4095, 4097))
        self.assertAlmostEqual(dip.part, 0.85)
        self.assertEqual(sweeps.dips(BW, {**flat, 4096: 1.85}), [])
        dip, = sweeps.dips(LAT, {**flat, 4096: 2.5})
        self.assertEqual((dip.size, dip.left, dip.right), (4096, 4095, 4097))
        self.assertAlmostEqual(dip.part, 0.8)

    def test_step(self):
        # Above some size all is worse.
        curve = {1: 1.0, 2: 2.0, 4: 2.0, 8: 1.5, 16: 1.5}
        found = sweeps.dips(BW, curve)
        self.assertEqual([d.size for d in found], [8, 16])
        self.assertEqual((found[1].left, found[1].right), (2, None))
        found = sweeps.dips(LAT, {1: 5.0, 2: 5.0, 4: 3.0, 8: 3.0})
        self.assertEqual([(d.size, d.left, d.right) for d in found],
                         [(1, None, 4), (2, 1, 4)])

    def test_behind(self):
        self.assertEqual(sweeps.behind(BW, {1: 2.0, 2: 3.0, 3: 1.0},
                                       {1: 4.0, 2: 3.0}), [(1, 0.5)])
        self.assertEqual(sweeps.behind(LAT, {1: 2.0, 2: 4.0},
                                       {1: 4.0, 2: 2.0}), [(2, 0.5)])


class KeptPoints(unittest.TestCase):
    def test_half_a_line(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "points")
            n = sweeps.count(LAT, 64)
            kept = script("sweep").Kept(path)
            kept.add(sweeps.name(LAT), 64, n, 1000)
            # Other numbers of messages are another measurement.
            kept.add(sweeps.name(LAT), 65, n + 1, 1000)
            with open(path, "a") as f:
                f.write('["read lat", 66')
            kept = script("sweep").Kept(path)
            self.assertEqual(kept.get(LAT, 64), 1000)
            self.assertIsNone(kept.get(LAT, 65))
            self.assertIsNone(kept.get(LAT, 66))


class LongWays(unittest.TestCase):
    CASE = wans.Case(wans.Link(1000, 40), "read", 65536, 16)

    def test_counts(self):
        for case in wans.default_cases() + [
                wans.Case(wans.Link(1, 1), "send", sweeps.LARGEST, 1),
                wans.Case(wans.Link(1000, 40, 1), "send", sweeps.LARGEST, 1)]:
            first, short, long = wans.counts(case)
            self.assertGreater(first, 0)
            self.assertGreater(long, short)

    def test_rate(self):
        # 100 Mb/s, and 3 s more for beginning and end.
        points = [(65536, n, 3000000000 + n * 65536 * 80) for n in (50, 100, 300)]
        self.assertAlmostEqual(wans.rate(self.CASE, points), 100)

    def test_behind(self):
        other = self.CASE._replace(verb="write")
        rows = [wans.row("rsiw", self.CASE, 90.0), wans.row("rsiw", other, 98.0),
                wans.row("siw", self.CASE, None),
                wans.row("tcp", wans.reference(self.CASE), 100.0)]
        self.assertEqual(wans.behind(rows, "rsiw"), [(wans.name(self.CASE), 0.9)])


class Quick(unittest.TestCase):
    def test_row(self):
        profile = {"case": "send_bw 64", "components": {
            "core": 100.4, "copies": 64, "memory": 20, "cleared": 30.2}}
        self.assertEqual(script("quick").row(profile), {
            "case": "send_bw 64", "work": 120, "copied": 64, "cleared": 30})


class Native(unittest.TestCase):
    def test_busy_machine(self):
        waiting, about = script("scale").guests.waiting, {}
        self.assertEqual(waiting([9, 15, 30], about), "")
        self.assertEqual(about["waited for a processor"], "15 % of the time, up to 30 %")
        self.assertIn("busy", waiting([9, 25, 30], {}))
        self.assertEqual(waiting([], {}), "")


def script(name):
    """The host's part of a benchmark, which is a script."""
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(HERE, name))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


if __name__ == "__main__":
    unittest.main()
