# SPDX-License-Identifier: GPL-2.0
"""The commands in the pages for users.

A comment in front of a literal block, or of the paragraph that it belongs to, says
where it is run: `on A`, `on A, listening at 7174` (it goes on in the background then),
`by NAME` of a test that does, or `output`, which is none to run.
"""

import contextlib
import glob
import os
import re

from .core import Fail
from .tools import unrefused


def read(name):
    with open(name, encoding="utf-8") as f:
        return f.read()


def page_of(name):
    return os.path.join(os.path.dirname(__file__), "../../../../..",
                        "Documentation/infiniband", name)


PAGES = [page_of(name) for name in
         ("rsiw-first.rst", "rsiw-causes.rst", "rsiw.rst", "rsiw-reference.rst", "rsiw-ci.rst",
          "rsiw-compared.rst", "rsiw-secure.rst")]
_COMMENT = re.compile(r"\s*\.\. (?:on (?P<host>[AB])(?:, listening at (?P<port>\d+))?"
                      r"|by (?P<test>[\w-]+)|(?P<output>output))$")


# "test ``x``", "tests ``x-*``, ``y`` and ``z``", in a paragraph.
_TESTS = re.compile(r"\b[Tt]ests?(?: |\n *)(``[\w*-]+``(?:(?:,|,? and)\s+``[\w*-]+``)*)")


class Block:
    """A literal block: its section, what its comment says, and its text."""

    def __init__(self, section, said, text):
        self.section, self.text = section, text
        self.host, self.test = said["host"], said["test"]
        self.port = said["port"] and int(said["port"])


def indent(line):
    return len(line) - len(line.lstrip())


def blocks():
    """All blocks of the pages."""
    return [block for page in PAGES for block in blocks_of(page)]


def blocks_of(page):
    """All blocks of a page."""
    lines = read(page).splitlines()
    found, section, said, at = [], None, None, 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if at < len(lines) and line and re.fullmatch(r"([=-])\1+", lines[at]):
            section, said = line, None
        match = _COMMENT.match(line)
        if match:
            said = match.groupdict()
        if not line.endswith("::") or line.lstrip().startswith(".."):
            continue
        if said is None:
            raise Fail("%s, line %d: nothing says where this block is run" %
                       (os.path.basename(page), at))
        text = []
        while at < len(lines) and (not lines[at] or indent(lines[at]) > indent(line)):
            text.append(lines[at].strip())
            at += 1
        found.append(Block(section, said, "\n".join(text).strip()))
        said = None
    return found


def named_tests():
    """The tests, or patterns of such, that the text of any page names."""
    for page in glob.glob(page_of("*.rst")):
        for found in _TESTS.finditer(read(page)):
            yield from re.findall(r"``(.*?)``", found[1])


def application_tests():
    """What the table of programs names in its last column: pairs of a test and the script of
    tools/vm that runs it, which is None for those that are here."""
    table = read(page_of("rsiw.rst")).split("\nWhat runs on it\n")[1].split("\n\n", 4)[3]
    for row in re.split(r"\n   \* - ", table)[1:]:
        for group in row.split("\n     -")[2].split(";"):
            scripts = re.findall(r"check-\w+", group) or [None]
            yield from ((name, script) for name in re.findall(r"``(\w[\w*-]*)``", group)
                        for script in scripts)


def runs_there(name, script):
    """Whether a script of tools/vm runs a test, of those that the table of programs names."""
    if script == "check-run":
        return any("\n%s()" % name in text for text in map(
            read, glob.glob(page_of("../../tools/run/tests/*.sh"))))
    places = {"check-programs": "../../tools/testing/programs/%s/about",
              "check-workflows": "workflows/%s.yml"}
    return bool(glob.glob(page_of(places[script] % name)))


def compared():
    """The table of what devices say in rsiw-compared.rst: by column, values by field."""
    lines = iter(read(page_of("rsiw-compared.rst")).splitlines())
    head = next(re.split(" {2,}", line) for line in lines if line.startswith("field "))
    columns = {name: {} for name in head[1:]}
    next(lines)
    for line in lines:
        if line.startswith("==="):
            return columns
        field, *values = re.split(" {2,}", line)
        for name, value in zip(columns, values, strict=True):
            columns[name][field] = value
    raise Fail("the table of fields has no end")


def listen(t, script, port):
    """Runs a block that goes on in the background."""
    server = t.start("sh", "-ec", script)
    server.wait_listening(port)


def run(t, section, names):
    """Runs the blocks of a section; `names` says for each host what its names are."""
    ran, port = 0, None
    for block in blocks():
        if block.section != section or not block.host:
            continue
        script = block.text
        for name, mine in names[block.host].items():
            script = script.replace(name, mine)
        if block.port:
            port = block.port
            listen(t, script, port)
        else:
            # perftest makes two connections. Its server listens anew for the second one, and a
            # client that finds it not ready crashes.
            with unrefused(port) if port else contextlib.nullcontext():
                t.start("sh", "-ec", script).expect(t.left())
        ran += 1
    if not ran:
        raise Fail("the section '%s' has no commands" % section)
