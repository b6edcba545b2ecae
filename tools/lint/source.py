# SPDX-License-Identifier: GPL-2.0
"""The driver's Rust files as the rules see them: functions, locks that are held, and who calls
whom, as far as the text tells what a method is called on. And what each lint of the checkout does
first and last.
"""

import os
import re
import sys

NOISE = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.S)
# Tests of the pure parts, at the end of their files.
TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod\s+\w+\s*\{.*", re.S)


def rust_files(top, left_out=None):
    """The Rust files in a folder and below, by path: pairs of a path from there and the text. Those
    of which `left_out` finds the path are not read."""
    for where, dirs, names in os.walk(top):
        dirs.sort()
        for name in sorted(names):
            path = os.path.relpath(os.path.join(where, name), top)
            if name.endswith(".rs") and not (left_out and left_out.search(path)):
                with open(os.path.join(where, name), encoding="utf-8") as f:
                    yield path, f.read()


def blank(text):
    """The text with blanks for comments, strings and tests, each character at its place."""
    def blanks(m):
        return re.sub(r"[^\n]", " ", m.group())
    return TESTS.sub(blanks, NOISE.sub(blanks, text))


def line_of(code, at):
    return code.count("\n", 0, at) + 1


def end_of_block(code, at):
    """Behind the brace that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] == "{") - (code[i] == "}")
        if depth == 0:
            return i + 1
    return len(code)


def end_of_scope(code, at):
    """Where the block that `at` is in ends."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] == "{") - (code[i] == "}")
        if depth < 0:
            return i
    return len(code)


def end_of_statement(code, at):
    """Where a value that is made at `at`, and gets no name, is dropped: with the expression, or
    with the block that it is the head of."""
    depth = 0
    for i in range(at, len(code)):
        if code[i] == "{" and depth == 0:
            return end_of_block(code, i)
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if depth < 0 or (depth == 0 and code[i] in ";,"):
            return i
    return len(code)


def end_of_arguments(code, at):
    """Where the bracket closes that was opened just before `at`."""
    depth = 1
    for i in range(at, len(code)):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if depth == 0:
            return i
    return len(code)


def start_of_brackets(code, at):
    """Where the bracket is that the one at `at` closes."""
    depth = 0
    for i in range(at, -1, -1):
        depth += (code[i] in ")]}") - (code[i] in "([{")
        if depth == 0:
            return i
    return 0


class Function:
    """A function with its body; `type` is what it is a method of, or None."""

    def __init__(self, source, name, start, body, end, of_type):
        self.source, self.name, self.type = source, name, of_type
        self.start, self.body, self.end = start, body, end
        self.signature = source.code[start:body]

    def __str__(self):
        return f"{self.type}::{self.name}" if self.type else self.name


IMPL = re.compile(r"\bimpl\b(?:\s*<[^{};]*?>)?\s+(?:[^{};]*?\bfor\s+)?(?:[\w:]+::)?([A-Z]\w*)"
                  r"[^{};]*\{")
GUARD = re.compile(r"let\s+(?:mut\s+)?(\w+)\s*=\s*[^;{}]*?(\w+)\s*\.\s*lock\s*\(\s*\)\s*;")
KINDS = {"SpinLockIrq", "SpinLock", "Mutex", "Watched"}
LOCK = re.compile(r"(\w+)\s*\.\s*lock\s*\(\s*\)")


class Source:
    """A file of the driver."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.code = blank(text)
        self.functions = list(self.find_functions())
        # By name of a field.
        self.locks = dict(re.findall(
            r"\b(\w+)\s*:\s*(SpinLockIrq|SpinLock|Mutex|Watched)\s*<", self.code))

    def find_functions(self):
        """The functions with a body, the inner ones behind those that they are in."""
        code = self.code
        impls = [(m.start(), end_of_block(code, m.end() - 1), m.group(1))
                 for m in IMPL.finditer(code)]
        for m in re.finditer(r"\bfn\s+(\w+)", code):
            depth, i = 0, m.end()
            # The signature ends with a body or without one.
            while i < len(code) and not (depth == 0 and code[i] in "{;"):
                depth += (code[i] in "([") - (code[i] in ")]")
                i += 1
            if i == len(code) or code[i] == ";":
                continue
            around = [impl for impl in impls if impl[0] <= m.start() < impl[1]]
            of_type = max(around)[2] if around else None
            yield Function(self, m.group(1), m.start(), i, end_of_block(code, i), of_type)

    def at(self, place):
        return f"{self.path}:{line_of(self.code, place)}"

    def around(self, place):
        """The innermost function around a place, or None."""
        found = [f for f in self.functions if f.start <= place < f.end]
        return min(found, key=lambda f: f.end - f.start) if found else None

    def function(self, place):
        f = self.around(place)
        return f.name if f else ""

    def held(self):
        """Where locks are held: beginning, end, and name of the lock."""
        code = self.code
        named = {}
        for m in GUARD.finditer(code):
            end = end_of_scope(code, m.end())
            dropped = re.search(r"\bdrop\s*\(\s*%s\s*\)" % m.group(1), code[m.end():end])
            end = m.end() + dropped.start() if dropped else end
            named[code.rindex(".", 0, m.end())] = (m.end(), end)
        for m in LOCK.finditer(code):
            place = named.get(code.rindex(".", 0, m.end()))
            yield place + (m.group(1),) if place else (
                m.end(), end_of_statement(code, m.end()), m.group(1))


STRUCT = re.compile(r"\b(?:struct|enum)\s+([A-Z]\w*)[^;{(]*\{")
FIELD = re.compile(r"\b(\w+)\s*:(?!:)\s*([^;={}]+?)\s*(?=,\s*\n|\n\s*\}|\})")
ALIAS = re.compile(r"\btype\s+([A-Z]\w*)[^=;]*=\s*([^;]+);")
DEREF = re.compile(r"\bimpl\b[^{};]*\bDeref\s+for\s+([A-Z]\w*)[^{};]*\{\s*type\s+Target\s*=\s*"
                   r"([A-Z]\w*)")
# Also the path of a method that is handed on.
CALL = re.compile(r"(?<![\w!])(\w+)\s*(?:::<[^()]*>\s*)?\(|\b[A-Z]\w*::([a-z]\w*)\s*[,)]")
# What types of the core crate have as well.
COMMON = {"map", "len", "get", "push", "pop", "new", "drop", "next", "copy", "clear", "take", "add",
          "insert", "remove", "contains", "find", "fill", "write", "read", "is_empty", "set", "load",
          "store", "put", "min", "max", "all", "any", "count", "of"}
# What gives out what it is called on, or a part of that.
SAME = {"lock", "as_ref", "as_mut", "as_deref", "as_deref_mut", "clone", "take", "unwrap_or",
        "get_mut", "get", "iter", "iter_mut", "ok", "ok_or", "borrow", "into"}


def type_names(text):
    return set(re.findall(r"\b[A-Z]\w*", text))


class Program:
    """All files together: of which type things are, and which function is called."""

    def __init__(self, sources):
        self.sources = sources
        self.by_path = {source.path: source for source in sources}
        self.methods, self.fields, self.owners, self.alias = {}, {}, {}, {}
        for source in sources:
            code = source.code
            for f in source.functions:
                self.methods.setdefault(f.name, []).append(f)
            for m in ALIAS.finditer(code):
                self.alias.setdefault(m.group(1), set()).update(type_names(m.group(2)))
            for m in DEREF.finditer(code):
                self.alias.setdefault(m.group(1), set()).add(m.group(2))
            for m in STRUCT.finditer(code):
                end = end_of_block(code, m.end() - 1)
                for f in FIELD.finditer(code, m.end(), end):
                    types = type_names(f.group(2))
                    self.fields.setdefault((m.group(1), f.group(1)), set()).update(types)
                    self.owners.setdefault(f.group(1), set()).add(m.group(1))
        self.takers = self.find_takers()

    def expand(self, types):
        """The types, and those that they stand for or contain."""
        found, todo = set(), list(types)
        while todo:
            one = todo.pop()
            if one not in found:
                found.add(one)
                todo += self.alias.get(one, ())
        return found

    def types_at(self, function, end, depth=8):
        """The types that the expression which ends before `end` may have."""
        code = function.source.code
        while end > function.start and (code[end - 1].isspace() or code[end - 1] == "?"):
            end -= 1
        if depth == 0 or end <= function.start:
            return set()
        if code[end - 1] in ")]":
            begin = start_of_brackets(code, end - 1)
            name = re.search(r"(\w+)\s*(?:::<[^()]*>\s*)?$", code[function.start:begin])
            if not name or code[end - 1] == "]":
                return self.types_at(function, end - 1 if code[end - 1] == ")" else begin,
                                     depth - 1)
            at = function.start + name.start()
            if name.group(1) in SAME and code[:at].rstrip().endswith("."):
                return self.types_at(function, code.rindex(".", 0, at), depth - 1)
            given = set()
            for called in self.called(function, name.group(1), at, depth - 1):
                result = called.signature.rpartition("->")[2] if "->" in called.signature else ""
                given |= type_names(result) - {"Self"}
                if re.search(r"\bSelf\b", result) and called.type:
                    given.add(called.type)
            return self.expand(given)
        name = re.search(r"(\w+)$", code[function.start:end])
        if not name:
            return set()
        at, word = function.start + name.start(), name.group(1)
        if word == "self":
            return self.expand({function.type} if function.type else set())
        if code[:at].rstrip().endswith("."):
            found = set()
            for one in self.types_at(function, code.rindex(".", 0, at), depth - 1):
                found |= self.fields.get((one, word), set())
            return self.expand(found or self.by_field(word))
        given = self.of_closure(function, word, at, depth - 1)
        if given:
            return self.expand(given)
        param = re.search(r"\b%s\s*:\s*([^,]+)" % word, function.signature)
        if param:
            return self.expand(type_names(param.group(1)))
        for made in reversed(list(re.finditer(r"\blet\s+(?:mut\s+)?%s\s*=" % word,
                                              code[function.body:at]))):
            begin = function.body + made.end()
            return self.types_at(function, end_of_statement(code, begin), depth - 1)
        return self.expand(self.by_field(word))

    def by_field(self, word):
        """The types of the one field that has this name, if it is one."""
        owners = self.owners.get(word, ())
        return self.fields[min(owners), word] if len(owners) == 1 else set()

    def of_closure(self, function, word, at, depth):
        """The types of `word` as what a closure is called with, by who calls it."""
        code = function.source.code
        for m in re.finditer(r"(\w+)\s*\(\s*(?:move\s*)?\|\s*(?:mut\s+)?%s\s*\|" % word,
                             code[function.body:at]):
            begin = function.body + m.start()
            inside = code.index("(", begin) + 1
            if end_of_arguments(code, inside) < at:
                continue
            for called in self.called(function, m.group(1), begin, depth):
                given = re.search(r"\bFn\w*\s*\(([^()]*)\)", called.signature)
                return type_names(given.group(1)) if given else set()
        return set()

    def called(self, function, name, at, depth=8):
        """The functions that the call of `name` at a place of `function` may be one of."""
        found = self.methods.get(name, [])
        if not found:
            return []
        code = function.source.code
        before = code[function.start:at].rstrip()
        if before.endswith("::"):
            of = re.search(r"(\w+)\s*(?:<[^<>]*>\s*)?(?:::<[^()]*>\s*)?::$", before)
            of = of.group(1) if of else ""
            of = function.type if of == "Self" else of
            here = [f for f in found if f.type in self.expand({of})]
            # A path to a function of a module.
            return here or [f for f in found if f.type is None and of and
                            re.search(r"(?:^|/)%s(?:/mod)?\.rs$" % of, f.source.path)]
        if not before.endswith("."):
            return [f for f in found if f.type is None and f.source is function.source]
        types = self.types_at(function, code.rindex(".", 0, at), depth)
        if types:
            return [f for f in found if f.type in types]
        return found if name not in COMMON and len({f.type for f in found}) == 1 else []

    def calls(self, function, begin=None, end=None):
        """The functions that are called in a function, or in a part of it, with the places."""
        begin = function.body if begin is None else begin
        for m in CALL.finditer(function.source.code, begin, end or function.end):
            at = m.start(m.lastindex)
            for called in self.called(function, m.group(m.lastindex), at):
                yield called, at

    def field_of(self, source, at, lock):
        """Of which type the lock that is taken at a place is a field, or None."""
        f = source.around(at)
        dot = re.search(r"\.\s*%s\s*$" % lock, source.code[:source.code.rindex(".", 0, at)])
        for one in sorted(self.types_at(f, dot.start())) if f and dot else ():
            if KINDS & self.fields.get((one, lock), set()):
                return one
        return None

    def kind_of(self, source, at, lock):
        """What the lock is that is taken at a place: what the field of that name is, else that of
        the file, or of the module that this is a part of."""
        of_type = self.field_of(source, at, lock)
        if of_type:
            return min(KINDS & self.fields[of_type, lock])
        path = source.path
        while path:
            if path in self.by_path and lock in self.by_path[path].locks:
                return self.by_path[path].locks[lock]
            above = os.path.dirname(path.removesuffix(".rs"))
            path = above + ".rs" if above else ""
        return "SpinLock"

    def reached(self, starts):
        """What is called by functions, directly or by way of others, with one of its callers;
        `starts` are pairs of a function and in what words it is called."""
        found = dict(starts)
        todo = list(found)
        while todo:
            one = todo.pop()
            for called, _ in self.calls(one):
                if called not in found:
                    found[called] = f"{one}, for {found[one]}"
                    todo.append(called)
        return found

    def find_takers(self):
        """The functions that call what they are given with a spin lock held, with its name."""
        found = {}
        for source in self.sources:
            for begin, end, lock in source.held():
                f = source.around(begin)
                for given in re.findall(r"(\w+)\s*:\s*impl\s+Fn\w*", f.signature if f else ""):
                    if self.kind_of(source, begin, lock) != "Mutex" and re.search(
                            r"\b%s\s*\(" % given, source.code[f.body:end]):
                        found[f] = lock
        return found

    def held(self):
        """Where spin locks are held: the file, beginning, end, and the name of the lock or of the
        function that takes it."""
        names = {f.name: lock for f, lock in self.takers.items()}
        for source in self.sources:
            for begin, end, lock in source.held():
                if self.kind_of(source, begin, lock) != "Mutex":
                    yield source, begin, end, lock
            for m in CALL.finditer(source.code):
                f = source.around(m.start())
                if not f or not m.group(1) or m.group(1) not in names or "|" not in source.code[
                        m.end():end_of_statement(source.code, m.end())]:
                    continue
                for called in self.called(f, m.group(1), m.start(1)):
                    if called in self.takers:
                        yield source, m.end(), end_of_statement(
                            source.code, m.end()), self.takers[called]
                        break


def main(check_all):
    """A lint without arguments: prints what `check_all` finds; the exit status."""
    if sys.argv[1:]:
        print("usage: %s    (in the checkout)" % os.path.basename(sys.argv[0]))
        return 0 if sys.argv[1] == "--help" else 2
    is_bad = False
    for message in check_all():
        print(message)
        is_bad = True
    return 1 if is_bad else 0
