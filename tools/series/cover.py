# SPDX-License-Identifier: GPL-2.0
"""Cover letters: a text, and what is known when the patches are made."""

import glob
import os
import re
import textwrap

from tricks import entries

WIDTH = 72
# A patch that is longer is more than what lists take.
LARGE = 300_000


def plain(text):
    """A text without the marks of reStructuredText."""
    return re.sub(r"\*([^*\s][^*]*)\*", r"\1", re.sub(r"``([^`]*)``", r"\1", text))


def wished(entry):
    """The interface that an entry of the tricks wishes for, as it says."""
    found = re.search(r"\*Interface:\*\s+(.*?)(?=\s+\*|\s+Without\s+the\s+(?:trick|second)|\Z)",
                      entry, re.S)
    return " ".join(plain(found[1]).split()) if found else ""


def tricks(text, names):
    """The entries of the list by the first patch that has their code: `names` are the files that
    each patch adds, by its subject."""
    for subject, files in names:
        found = []
        for title, entry in entries(text):
            places = re.findall(r"``(ffi/[\w/.]+)``", entry)
            if any(f"drivers/infiniband/sw/rsiw/{place}" in files for place in places[:1]):
                found.append((plain(title), wished(entry)))
        if found:
            yield subject, found


def fill(text, indent, hanging=""):
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent + hanging,
                         break_long_words=False, break_on_hyphens=False)


def cover(top, series, ours):
    """The text of the cover letter of a series whose patches are made."""
    with open(f"{top}/tools/series/{series.name}/cover.txt", encoding="utf-8") as f:
        text = f.read()
    ignored = sorted({*series.ignored, *(t for p in series.patches for t in p.unfounded)})
    values = {"BASE": series.base, "IGNORED": fill(", ".join(ignored), "    ")}
    if series.name == "kernel":
        subjects = [series.subject(n) for n in range(1, len(series.files))]
        values.update(kernel_values(series, subjects, ours))
    paragraphs = text.split("\n\n")
    for n, paragraph in enumerate(paragraphs):
        for name, value in values.items():
            paragraph = paragraph.replace(f"@{name}@", value)
        paragraphs[n] = wrap(paragraph)
    return "\n\n".join(paragraphs)


def wrap(paragraph):
    """Fills the lines of a paragraph anew where values have made one too long."""
    lines = paragraph.splitlines()
    if max(map(len, lines), default=0) <= WIDTH + 3:
        return paragraph
    # An objection is a line of its own, and what is answered is behind it.
    if len(lines) > 1 and lines[1].startswith("    ") and not lines[0].startswith(" "):
        return "\n".join((lines[0], fill(" ".join(" ".join(lines[1:]).split()), "    ")))
    return fill(" ".join(paragraph.split()), "")


def kernel_values(series, subjects, ours):
    by_source = {os.path.basename(p.source): s for p, s in zip(series.patches, subjects)}
    names, lines, large = [], 0, []
    for number, path in enumerate(series.files[1:], 1):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        names.append((subjects[number - 1], set(re.findall(r"(?m)^\+\+\+ b/(\S+)$", text))))
        lines += len(re.findall(r"(?m)^\+(?!\+\+ )", text))
        if len(text) > LARGE:
            large.append(str(number))
    with open(glob.glob(f"{ours}/Documentation/infiniband/rsiw-tricks.rst")[0],
              encoding="utf-8") as f:
        listed = f.read()
    blocks, count = [], 0
    for subject, found in tricks(listed, names):
        blocks.append(fill(f'"{subject}"', ""))
        for title, interface in found:
            count += 1
            blocks.append("\n".join((fill(f"- {title}", "  ", "  "),
                                     fill(f"Wished for: {interface}", "    "))))
    if count != len(list(entries(listed))):
        raise ValueError(f"{count} of {len(list(entries(listed)))} tricks are in a patch")
    core = sum(p.source.endswith(".patch") for p in series.patches)
    contents = (
        (1, core, "faults of the core's port mapper"),
        (core + 1, core + 3, "abstractions in Rust, and a sample"),
        (core + 4, core + 4, "a driver id, and the ABI"),
        (core + 5, len(subjects), "the driver from the bottom up, its documentation and tests"))
    return {
        "CONTENTS": "\n".join(f"  {a:2} to {b:2}  {what}" if a < b else f"  {a:8}  {what}"
                              for a, b, what in contents),
        "LINES": f"{lines:,}", "LARGE": ", ".join(large), "TRICKS": "\n\n".join(blocks),
        "EDGE": by_source["edge.txt"], "DATAGRAMS": by_source["datagrams.txt"],
        "DRIVER": by_source["driver.txt"],
    }
