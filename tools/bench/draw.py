# SPDX-License-Identifier: GPL-2.0
"""Draws the report: called by "report" in the Debian root, with matplotlib.

usage: draw.py DATA PAGE
"""

import html
import io
import os
import re
import sys
import json

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import matplotlib  # noqa: E402
matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

import cases  # noqa: E402
import components  # noqa: E402
import storages  # noqa: E402
import sweeps  # noqa: E402
import wans  # noqa: E402

# Told apart also by those who do not see all colours (Okabe and Ito).
DEVICE_COLOURS = {"rsiw": "#0072b2", "siw": "#e69f00", "rxe": "#009e73",
                  "tcp": "#7f7f7f", "rsiw-direct": "#56b4e9", "rsiw-crc": "#cc79a7",
                  "tcp-digest": "#d55e00"}
COMPONENT_COLOURS = {
    "program": "#999999", "core": "#f0e442", "driver-tx": "#0072b2",
    "driver-rx": "#56b4e9", "copies": "#d55e00", "tcp": "#009e73",
    "memory": "#cc79a7"}
UNIT_TITLES = {cases.GBITS: "throughput, Gb/s: more is better",
               cases.MPPS: "messages, millions a second: more is better",
               cases.USEC: "latency, µs: less is better"}
PATH_TITLES = {"wire": "Over a virtual cable (MTU 1500)",
               "loopback": "Over loopback (MTU 65536)"}
COLUMNS = 5

STYLE = """
body { font: 15px/1.5 sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em;
       color: #222 }
h1, h2 { font-weight: 600 } h2 { margin-top: 2em; border-bottom: 1px solid #ccc }
svg { width: 100%; height: auto }
table { border-collapse: collapse; font-size: 13px; margin: 1em 0 }
th, td { padding: .15em .7em; text-align: right; border-bottom: 1px solid #eee }
th:first-child, td:first-child { text-align: left }
dt { float: left; clear: left; width: 9em; color: #666 } dd { margin-left: 9em }
details { margin: 1em 0 } pre { white-space: pre-wrap; font-size: 12px } code { background: #f4f4f4; padding: 0 .3em }
"""


def svg(figure, number=[0]):
    """A figure as an element of the page, with identifiers of its own."""
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight",
                   metadata={"Date": None})
    plt.close(figure)
    text = out.getvalue()
    number[0] += 1
    text = re.sub(r'\bid="', 'id="f%d-' % number[0], text)
    text = re.sub(r'(href="|url\()#', r"\1#f%d-" % number[0], text)
    return text[text.index("<svg"):]


def listed(rows):
    """The cases that rows are of, in the order of the list."""
    order = [c.name for c in cases.VERBS + cases.TCP]
    names = dict.fromkeys(r["case"] for r in rows)
    return sorted(names, key=lambda n: order.index(n) if n in order else 99)


def devices_of(rows):
    return [d for d in cases.DEVICES if any(r["device"] == d for r in rows)]


def bars(axis, names, series, title, lines=None):
    """Bars side by side, a group for each name. series: heights by name, for each that
    is compared. lines: runs by the same two, drawn from the lowest to the highest."""
    width = 0.8 / len(series)
    for n, (one, heights) in enumerate(series.items()):
        at = {name: i + (n - (len(series) - 1) / 2) * width
              for i, name in enumerate(names) if name in heights}
        axis.bar(list(at.values()), [heights[name] for name in at], width, label=one,
                 color=DEVICE_COLOURS[one])
        for name, x in at.items():
            runs = (lines or {}).get(one, {}).get(name)
            if runs:
                axis.plot([x, x], [min(runs), max(runs)], color="black", linewidth=1)
    axis.set_xticks(range(len(names)), names, rotation=25, ha="right", fontsize=8)
    axis.set_title(title, fontsize=10)
    axis.legend(fontsize=8)
    axis.grid(axis="y", alpha=0.3)


def throughput(rows, path):
    """Bars of the devices side by side, a plot per unit."""
    rows = [r for r in rows if r["path"] == path and not r.get("component")
            and r["value"] is not None]
    units = [u for u in UNIT_TITLES if any(r["unit"] == u for r in rows)]
    if not units:
        return ""
    figure, axes = plt.subplots(
        len(units), 1, figsize=(11, 3 * len(units)), squeeze=False)
    for axis, unit in zip(axes[:, 0], units):
        these = [r for r in rows if r["unit"] == unit]
        values, runs = ({d: {r["case"]: r.get(what) for r in these if r["device"] == d}
                         for d in devices_of(these)} for what in ("value", "runs"))
        bars(axis, listed(these), values, UNIT_TITLES[unit], runs)
    figure.tight_layout()
    return svg(figure)


def stacks(rows, path):
    """What a message costs by component, a plot per case."""
    rows = [r for r in rows if r["path"] == path and r.get("component")]
    names = listed(rows)
    if not names:
        return ""
    lines = -(-len(names) // COLUMNS)
    figure, axes = plt.subplots(lines, COLUMNS, squeeze=False,
                                figsize=(13, 2.6 * lines))
    for axis in axes.flat[len(names):]:
        axis.axis("off")
    for axis, name in zip(axes.flat, names):
        these = [r for r in rows if r["case"] == name]
        devices = devices_of(these)
        below = [0] * len(devices)
        for component, title in components.COMPONENTS:
            value = {r["device"]: max(r["value"], 0) for r in these
                     if r["component"] == component}
            heights = [value.get(d, 0) for d in devices]
            axis.bar(devices, heights, 0.7, bottom=below, label=title,
                     color=COMPONENT_COLOURS[component])
            below = [b + h for b, h in zip(below, heights)]
        axis.set_xlim(-0.6, max(len(devices), 3) - 0.4)
        axis.set_title(name, fontsize=9)
        axis.tick_params(labelsize=8)
        axis.yaxis.set_major_formatter(
            matplotlib.ticker.EngFormatter(sep=""))
    handles, titles = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, titles, loc="lower center", ncols=4, fontsize=9,
                  bbox_to_anchor=(0.5, 1.0))
    figure.tight_layout()
    return svg(figure)


def scale(rows):
    """Curves over the number of connections, and what does not depend on it."""
    rows = [r for r in rows if r["value"] is not None]
    messages, others = cases.scale_cases(rows)
    if not messages and not others:
        return ""
    figure, axes = plt.subplots(1, len(messages) + len(others), squeeze=False,
                                figsize=(3.4 * (len(messages) + len(others)), 3.4))
    for axis, case in zip(axes[0], messages):
        for device in devices_of(rows):
            points = sorted((r["qps"], r["value"]) for r in rows
                            if r["case"] == case and r["device"] == device)
            axis.plot(*zip(*points), marker="o", label=device,
                      color=DEVICE_COLOURS[device])
        axis.set_xscale("log")
        axis.set_ylim(bottom=0)
        axis.set_xlabel("connected queue pairs")
        axis.set_title("instructions, %s bytes" % case.removeprefix(cases.MESSAGE),
                       fontsize=10)
        axis.legend(fontsize=8)
        axis.grid(alpha=0.3)
    for axis, (case, unit) in zip(axes[0][len(messages):], others):
        last = {}
        for r in sorted(rows, key=lambda r: r["qps"]):
            if r["case"] == case:
                last[r["device"]] = r["value"]
        axis.bar(list(last), list(last.values()), 0.6,
                 color=[DEVICE_COLOURS[d] for d in last])
        axis.set_title("%s, %s" % (case, unit), fontsize=10)
    for axis in axes[0]:
        axis.yaxis.set_major_formatter(
            matplotlib.ticker.EngFormatter(sep=""))
    figure.tight_layout()
    return svg(figure)


def sweep(rows, path):
    """Curves over the size of messages, a plot for each series."""
    found = sweeps.curves(rows)
    columns = list(dict.fromkeys(
        (s.metric, s.depth) for s in sweeps.series_of("rsiw")))
    if not any(key[1] == path for key in found):
        return ""
    figure, axes = plt.subplots(
        len(sweeps.VERBS), len(columns), squeeze=False,
        figsize=(4.2 * len(columns), 3.2 * len(sweeps.VERBS)))
    for line, verb in zip(axes, sweeps.VERBS):
        for axis, column in zip(line, columns):
            series = sweeps.Series(verb, *column)
            drawn = False
            for device in devices_of(rows):
                curve = found.get((device, path, series))
                if curve:
                    drawn = True
                    axis.plot(list(curve), list(curve.values()), marker=".",
                              markersize=3, linewidth=1, label=device,
                              color=DEVICE_COLOURS[device])
            if not drawn:
                axis.axis("off")
                continue
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.xaxis.set_major_locator(
                matplotlib.ticker.LogLocator(base=2, numticks=13))
            axis.xaxis.set_major_formatter(
                matplotlib.ticker.FuncFormatter(lambda v, _: octets(v)))
            axis.tick_params(labelsize=7)
            axis.set_title("%s, %s" % (
                sweeps.name(series), cases.GBITS if series.metric == "bw"
                else "µs"), fontsize=9)
            axis.legend(fontsize=7)
            axis.grid(alpha=0.3)
    figure.tight_layout()
    return svg(figure)


def wan(rows):
    """Bars of what each device gets out of a link, a plot for each load."""
    rows = [r for r in rows if r["value"] is not None]
    found = {(r["device"], r["case"]): r["value"] for r in rows}
    known = list(dict.fromkeys(wans.case_of(r) for r in rows if r["device"] != "tcp"))
    loads = list(dict.fromkeys(map(wans.load, known)))
    if not loads:
        return ""
    figure, axes = plt.subplots(-(-len(loads) // 2), 2, squeeze=False,
                                figsize=(12, 2.8 * -(-len(loads) // 2)))
    for axis in axes.flat[len(loads):]:
        axis.axis("off")
    for axis, load in zip(axes.flat, loads):
        these = [c for c in known if wans.load(c) == load]
        parts = {d: {wans.link(c): found.get((d, wans.name(
            wans.reference(c) if d == "tcp" else c)), 0) / c.link.rate for c in these}
                 for d in devices_of(rows)}
        bars(axis, [wans.link(c) for c in these], parts, "%s: part of the link's rate" % load)
        axis.set_ylim(0, 1)
    figure.tight_layout()
    return svg(figure)


def octets(value):
    """A power of two, short."""
    for unit, size in (("M", 1 << 20), ("K", 1 << 10)):
        if value >= size:
            return "%.0f%s" % (value / size, unit)
    return "%.0f" % value


def sweep_figures(rows, path):
    """All values of a path as a table."""
    found = sweeps.curves([r for r in rows if r["path"] == path])
    devices = devices_of(rows)
    lines = [[sweeps.name(series), str(size)] + [
        number(found.get((d, path, series), {}).get(size)) for d in devices]
             for series in sweeps.series_of("rsiw")
             for size in sorted({s for key, curve in found.items()
                                 if key[2] == series for s in curve})]
    return "<details><summary>The figures</summary>%s</details>" % table(
        ["series", "size"] + devices, lines)


def number(value):
    if value is None:
        return "-"
    return "%.0f" % value if abs(value) >= 1000 else "%.4g" % value


def result(row):
    """A value, with its spread where it is of several runs."""
    text = number(row["value"])
    return "%s (%.0f %%)" % (text, row["spread"]) if "spread" in row else text


def table(head, lines):
    out = ["<table><tr>"] + ["<th>%s" % html.escape(h) for h in head]
    for line in lines:
        out.append("<tr>" + "".join("<td>%s" % html.escape(c) for c in line))
    return "\n".join(out + ["</table>"])


def figures(rows, path):
    """All values of a path as tables."""
    rows = [r for r in rows if r["path"] == path]
    plain = [r for r in rows if not r.get("component")]
    counted = [r for r in rows if r.get("component")]
    devices = devices_of(rows)
    found = {(r["case"], r["device"], r.get("component")): r for r in rows}
    first = []
    for name in listed(plain):
        some = [found[name, d, None] for d in devices
                if (name, d, None) in found]
        first.append([name, some[0]["unit"]] + [
            result(found[name, d, None])
            if (name, d, None) in found else "" for d in devices])
    columns = ["total"] + [c for c, _ in components.COMPONENTS]
    second = [[name, d] + [number(found[name, d, c]["value"])
                           for c in columns]
              for name in listed(counted) for d in devices
              if (name, d, "total") in found]
    out = table(["case", "unit"] + devices, first) if first else ""
    if second:
        out += table(["case", "device"] + columns, second)
    return "<details><summary>The figures</summary>%s</details>" % out


def storage(rows):
    """Each variant of storage beside plain TCP, a plot per unit, and all figures."""
    value = {(r["case"], r["device"], r["unit"]): r["value"] for r in rows}
    variants = [v for v in storages.VARIANTS if any(r["device"] == v for r in rows)]
    out = []
    for unit, title in ((storages.COUNTED, "instructions of a block"),
                        (storages.TIMED, "blocks a second, two processors")):
        names = [n for n in storages.NAMES if (n, storages.BASE, unit) in value]
        others = [v for v in variants if v != storages.BASE]
        if not names or not others:
            continue
        figure, axis = plt.subplots(figsize=(11, 3))
        ratios = {v: {c: value[c, v, unit] / value[c, storages.BASE, unit] for c in names
                      if (c, v, unit) in value} for v in others}
        bars(axis, names, ratios, "%s, in relation to plain TCP" % title)
        axis.axhline(1, color="black", linewidth=1)
        out.append(svg(figure))
    out.append(table(["case", "variant", "value", "unit"], [
        [r["case"], r["device"], number(r["value"]), r["unit"]] for r in rows]))
    return "\n".join(out)


def about(what):
    return "<dl>" + "".join(
        "<dt>%s</dt><dd><code>%s</code></dd>" % (
            html.escape(k), html.escape(str(v)))
        for k, v in what.items()) + "</dl>"


def real_time(given, title, where):
    """A section about medians of several runs."""
    rows = given["rows"]
    out = ["<h2>%s</h2><p>%s: medians, and with a line the lowest and the highest of all "
           "runs. In brackets, among the figures, how far the middle half of the runs is "
           "apart." % (title, where), about(given["about"])]
    for path in cases.PATHS:
        if any(r["path"] == path for r in rows):
            out += ["<h3>%s</h3>" % PATH_TITLES[path], throughput(rows, path),
                    figures(rows, path)]
    return "\n".join(out)


def page(given):
    out = ["<!DOCTYPE html><html lang=en><meta charset=utf-8>",
           "<title>rsiw: benchmark</title><style>%s</style>" % STYLE,
           "<h1>rsiw: benchmark</h1>",
           "<p>In guests with one emulated processor whose clock counts "
           "instructions: the figures are costs, not times of a real machine; "
           "ratios are what counts. An octet that is copied is an instruction. "
           "CRC is off where a case does not say so; rxe always has one."]
    if "bench" in given:
        rows = given["bench"]["rows"]
        out.append(about(given["bench"]["about"]))
        for path in cases.PATHS:
            here = [r for r in rows if r["path"] == path]
            if not here:
                continue
            out.append("<h2>%s</h2>" % PATH_TITLES[path])
            out.append(throughput(rows, path))
            drawn = stacks(rows, path)
            if drawn:
                out.append("<h3>Instructions per message by component</h3>"
                           "<p>Both ends together, without polling; for plain "
                           "TCP per 64 KiB." + drawn)
            out.append(figures(rows, path))
    if "sweep" in given:
        rows = given["sweep"]["rows"]
        out.append("<h2>Every size</h2><p>Latency (lat; of a Read there and back) and "
                   "throughput (bw) with 1, 2 and 16 requests in flight, over the "
                   "size of messages.")
        out.append(about(given["sweep"]["about"]))
        for path in cases.PATHS:
            if any(r["path"] == path for r in rows):
                out.append("<h3>%s</h3>" % PATH_TITLES[path])
                out.append(sweep(rows, path))
                out.append(sweep_figures(rows, path))
        out.append("<pre>%s</pre>" % html.escape(sweeps.summary(
            rows, devices_of(rows))))
    if "native" in given:
        out.append(real_time(given["native"], "In real time", "In User Mode Linux, on "
                             "one processor of this machine"))
    if "smp" in given:
        out.append(real_time(given["smp"], "Two processors", "In real time, in guests "
                             "with two processors, with programs that poll, and that "
                             "sleep until an event"))
    if "storage" in given:
        out += ["<h2>Storage</h2><p>NVMe over Fabrics and NFS, both ends in one guest.",
                about(given["storage"]["about"]), storage(given["storage"]["rows"])]
    if "scale" in given:
        rows = given["scale"]["rows"]
        out.append("<h2>Many connections</h2>")
        out.append(about(given["scale"]["about"]))
        out.append(scale(rows))
        out.append(table(["case", "device", "QPs", "value", "unit"], [
            [r["case"], r["device"], str(r["qps"]), number(r["value"]),
             r["unit"]] for r in sorted(
                 rows, key=lambda r: (r["case"], r["qps"]))]))
    if "wan" in given:
        rows = given["wan"]["rows"]
        devices = devices_of(rows)
        out.append("<h2>Long ways</h2><p>Links with a rate, and a delay there and back, on "
                   "which nothing is dropped. Plain TCP has messages only, which stand "
                   "beside those of the same size of the others.")
        out.append(about(given["wan"]["about"]))
        out.append(wan(rows))
        out.append("<pre>%s</pre>" % html.escape(wans.table(rows, devices, list(
            dict.fromkeys(wans.case_of(r) for r in rows if r["device"] != "tcp")))))
    return "\n".join(out) + "\n"


def main():
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "rsiw",
                         "font.family": "sans-serif",
                         "axes.spines.top": False, "axes.spines.right": False})
    with open(sys.argv[1], encoding="utf-8") as f:
        given = json.load(f)
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write(page(given))


if __name__ == "__main__":
    main()
