# SPDX-License-Identifier: GPL-2.0
"""Tables of results, as text."""

import cases
import components

# What is counted of a message, in the order of the table.
COLUMNS = ("total", "work") + tuple(name for name, _ in components.COMPONENTS)


def cell(row):
    if row is None:
        return "-"
    if row["value"] is None:
        return row.get("note", "failed")
    if row["value"] >= 1000:
        return "%.0f" % row["value"]
    return "%.3f" % row["value"] if row["value"] < 10 else \
        "%.1f" % row["value"]


def ratio(mine, other, more_is_better):
    """How many times better `mine` is."""
    if not mine or not other or not mine["value"] or not other["value"]:
        return "-"
    r = mine["value"] / other["value"]
    return "%.2f" % (r if more_is_better else 1 / r)


def spread(row):
    """How far the runs of a row are apart."""
    return "%.0f %%" % row["spread"] if row and row["runs"] else "-"


def align(lines, left):
    """A table as text; the first `left` columns are words."""
    width = [max(len(line[i]) for line in lines if i < len(line))
             for i in range(len(lines[0]))]
    return ["  ".join(v.ljust(w) if i < left else v.rjust(w)
                      for i, (v, w) in enumerate(zip(line, width))).rstrip()
            for line in lines] + [""]


def listed(rows):
    """The cases that rows are of, in the order of the list."""
    order = [c.name for c in cases.VERBS + cases.TCP]
    names = dict.fromkeys(r["case"] for r in rows)
    return [cases.named(n) for n in
            sorted(names, key=lambda n: order.index(n) if n in order else -1)]


def table(rows, devices):
    """Throughput with its ratios, and beside it the instructions of a message, apart from those
    for each octet."""
    found = {(r["device"], r["path"], r["case"], r.get("component")): r
             for r in rows}
    counted = any(r.get("component") for r in rows)
    out = []
    for path in cases.PATHS:
        here = [r for r in rows if r["path"] == path]
        if not here:
            continue
        others = [d for d in devices if d not in ("rsiw", "tcp")]
        # Plain TCP has messages of the same size only where time is measured.
        beside = others + ["tcp"] * any(
            r["device"] == "tcp" and cases.named(r["case"]).size for r in here)
        head = ["%s: case" % path, "unit"] + devices
        if "rsiw" in devices:
            head += ["rsiw/" + d for d in beside + ["iperf3"]]
        if counted:
            head += ["work " + d for d in devices]
            if "rsiw" in devices:
                head += ["work rsiw/" + d for d in others]
        lines = [head]
        tcp = found.get(("tcp", path, "iperf3", None))
        for case in listed(here):
            get, count = ({d: found.get((d, path, case.name, what))
                           for d in devices} for what in (None, "work"))
            line = [case.name, case.unit] + [cell(get[d]) for d in devices]
            better = case.higher_is_better
            if "rsiw" in devices:
                line += [ratio(get["rsiw"], get[d], better) for d in beside]
                line += [ratio(get["rsiw"], tcp, better)
                         if case.unit == cases.GBITS else "-"]
            if counted:
                line += [cell(count[d]) for d in devices]
                if "rsiw" in devices:
                    line += [ratio(count["rsiw"], count[d], False)
                             for d in others]
            lines.append(line)
        out += align(lines, 2)
    return "\n".join(out)


def parts(rows):
    """The instructions of a message by component, as text."""
    found = {}
    for r in rows:
        if r.get("component"):
            key = r["path"], r["case"], r["device"]
            found.setdefault(key, {})[r["component"]] = r
    out = []
    for path in cases.PATHS:
        lines = [["%s: case" % path, "device"] + list(COLUMNS)]
        for case in listed([r for r in rows if r["path"] == path]):
            for device in cases.DEVICES:
                row = found.get((path, case.name, device))
                if row:
                    lines.append([case.name, device] + [
                        "%.0f" % row[c]["value"] for c in COLUMNS])
        if len(lines) > 1:
            out += align(lines, 2)
    return "\n".join(out)
