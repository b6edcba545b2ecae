# SPDX-License-Identifier: GPL-2.0
"""Series of patches: made as commits of a repository that has nothing but what they change,
written as mails, applied one after the other, and built after each.
"""

import dataclasses
import email
import email.policy
import glob
import hashlib
import inspect
import os
import re
import shutil
import subprocess
import time
from typing import Callable, Optional

# No name is given by whom a patch is sent: that is for who sends it.
CHECKPATCH = ("--strict", "--terse", "--quiet", "--no-summary", "--show-types")
IGNORED = ("MISSING_SIGN_OFF",)


class Failed(Exception):
    """A step that did not go well, with a word about it."""


@dataclasses.dataclass
class Patch:
    """One patch: where its message is, what makes it of the tree before, and what builds it."""

    # A file of the subject and the body; or a whole patch, which then has no `make`.
    source: str
    make: Optional[Callable] = None
    # Called with the tree that has the patch; returns a word about what was built.
    build: Optional[Callable] = None
    # What checkpatch says of it without reason, by the type.
    unfounded: tuple = ()


class Tree:
    """A source tree that is changed, with what it has from elsewhere."""

    def __init__(self, root, ours):
        self.root, self.ours = root, ours

    def path(self, name):
        return os.path.join(self.root, name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def take(self, *patterns, to=None):
        """Takes files and whole folders of the project, to the same place or a folder `to`."""
        for pattern in patterns:
            found = sorted(glob.glob(pattern, root_dir=self.ours))
            if not found:
                raise Failed(f"there is no {pattern}")
            for name in found:
                source = os.path.join(self.ours, name)
                target = self.path(os.path.join(to, os.path.basename(name)) if to else name)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                if os.path.isdir(source):
                    skip = shutil.ignore_patterns("__pycache__", "bin", "*.pyc")
                    shutil.copytree(source, target, ignore=skip, dirs_exist_ok=True)
                else:
                    shutil.copy(source, target)

    def replace(self, name, old, new):
        """Replaces the only place of a file that has a text."""
        text = self.read(name)
        if text.count(old) != 1:
            raise Failed(f"{name} has {text.count(old)} times: {old.strip()}")
        self.write(name, text.replace(old, new))

    def insert(self, name, before, text):
        """Puts a text in front of the only line that begins with `before`."""
        lines = self.read(name).splitlines(keepends=True)
        at = [n for n, line in enumerate(lines) if line.startswith(before)]
        if len(at) != 1:
            raise Failed(f"{name} has {len(at)} lines that begin with {before}")
        lines.insert(at[0], text)
        self.write(name, "".join(lines))

    def drop_lines(self, name, pattern):
        """Drops the lines in which a pattern is found; there is one at least."""
        lines = self.read(name).splitlines(keepends=True)
        kept = [line for line in lines if not re.search(pattern, line)]
        if len(kept) == len(lines):
            raise Failed(f"{name} has no line with {pattern}")
        self.write(name, "".join(kept))

    def drop_paragraphs(self, name, pattern):
        """Drops the paragraphs in which a pattern is found; there is one at least."""
        paragraphs = self.read(name).removesuffix("\n").split("\n\n")
        kept = [p for p in paragraphs if not re.search(pattern, p)]
        if len(kept) == len(paragraphs):
            raise Failed(f"{name} has no paragraph with {pattern}")
        self.write(name, "\n\n".join(kept) + "\n")


def reason(text):
    """The lines of a log that say what went wrong, or its last ones."""
    lines = text.strip().splitlines()
    return "; ".join([line for line in lines if "error:" in line][:2] or lines[-3:])


def run(argv, log=None, check=True, **kwargs):
    """Runs a command; returns the status and what it wrote, which is also added to a log."""
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, **kwargs)
    if log:
        with open(log, "a", encoding="utf-8") as f:
            f.write(f"$ {' '.join(argv)}\n{done.stdout}")
    if check and done.returncode:
        raise Failed(f"{argv[0]}: {reason(done.stdout) or f'status {done.returncode}'}")
    return done.returncode, done.stdout


@dataclasses.dataclass
class Series:
    """A series against a source tree that somebody else has."""

    name: str
    prefix: str
    base: str                  # what the tree is, in words
    source: str                # the tree, which is only read
    touched: tuple             # files of it that patches change
    patches: list
    cover: Callable            # makes its text: subject, empty line, body
    checkpatch: str            # the script
    tree: str = "--no-tree"    # where checkpatch looks for what is the kernel's
    ignored: tuple = IGNORED
    author: tuple = ()         # name, address, date

    def git(self, *argv, **kwargs):
        name, address, date = self.author
        env = {**os.environ, "GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address,
               "GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": address,
               "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, "HOME": "/nonexistent",
               "GIT_CONFIG_NOSYSTEM": "1"}
        return run(["git", "-c", "core.abbrev=12", *argv], cwd=self.work, env=env, **kwargs)[1]

    def make(self, work, ours, out):
        """Makes all patches, and writes them to the folder `out`."""
        self.work = work
        os.makedirs(work)
        for name in self.touched:
            os.makedirs(os.path.dirname(os.path.join(work, name)), exist_ok=True)
            shutil.copy(os.path.join(self.source, name), os.path.join(work, name))
        self.git("init", "-q", "-b", "series")
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "-m", self.base)
        self.git("tag", "base")
        tree = Tree(work, ours)
        for patch in self.patches:
            try:
                self.commit(tree, patch)
            except Failed as why:
                raise Failed(f"{os.path.basename(patch.source)}: {why}") from why
        self.mails(out)
        # What the cover letter says of the patches is known now.
        text = os.path.join(work, ".git", "cover")
        with open(text, "w", encoding="utf-8") as f:
            f.write(self.cover(self))
        self.mails(out, "--cover-letter", "--cover-from-description=subject",
                   f"--description-file={text}")
        self.again(work + ".again")

    def mails(self, out, *more):
        """Writes the patches to `out`, as mails by number; the cover letter's is 0."""
        shutil.rmtree(out, ignore_errors=True)
        self.git("format-patch", "-q", "--zero-commit", "--signature=", "--stat=72",
                 f"--subject-prefix={self.prefix}", *more, "-o", os.path.abspath(out),
                 "base..series")
        self.files = sorted(glob.glob(os.path.join(out, "*.patch")))
        if not more:
            self.files.insert(0, None)
        if len(self.files) != len(self.patches) + 1:
            raise Failed(f"{len(self.files) - 1} files of {len(self.patches)} patches")

    def commit(self, tree, patch):
        with open(patch.source, encoding="utf-8") as f:
            text = f.read()
        if patch.make:
            patch.make(tree)
        else:
            mail = email.message_from_string(text, policy=email.policy.default)
            subject = re.sub(r"^\[PATCH[^]]*\] ", "", mail["Subject"])
            body = text.partition("\n\n")[2].partition("\n---\n")[0]
            text = f"{subject}\n\n{body}\n"
            self.git("apply", "--index", patch.source)
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "-F", "-", input=text)

    def again(self, work):
        """Do the mails make the same tree?"""
        self.git("worktree", "add", "-q", work, "base")
        self.git("-C", work, "am", "-q", "--keep-cr", *map(os.path.abspath, self.files[1:]))
        if self.git("-C", work, "diff", "series"):
            raise Failed("the mails do not make the tree that they were made of")

    def style(self, number):
        """Has checkpatch look at a patch."""
        ignored = ",".join((*self.ignored, *self.patches[number - 1].unfounded))
        _, text = run(["perl", self.checkpatch, *CHECKPATCH, self.tree, "--ignore", ignored,
                       os.path.abspath(self.files[number])], check=False,
                      cwd=os.path.dirname(os.path.dirname(self.checkpatch)))
        return text.strip().splitlines()

    def key(self, number, more):
        """The name of what is known when the tree with these patches was built: by what they
        change, and by the text of the module that builds."""
        builds = inspect.getsource(inspect.getmodule(self.patches[number - 1].build))
        digest = hashlib.sha256(f"{more} {builds}".encode())
        for path in self.files[1:number + 1]:
            with open(path, encoding="utf-8") as f:
                digest.update(f.read().partition("\ndiff --git ")[2].encode())
        return digest.hexdigest()[:24]

    def check(self, prepare, stamps, more, show, built):
        """Has checkpatch look at each patch, applies it to a tree that `prepare` makes, and builds
        it, unless a stamp says that this went well before, or it is not to be ("each", "last").
        Returns how many went well, and not."""
        good, tree, applied = 0, None, 0
        for number, patch in enumerate(self.patches, 1):
            start = time.monotonic()
            stamp = os.path.join(stamps, self.key(number, more))
            bad = self.style(number)
            try:
                if not built or built == "last" and number < len(self.patches):
                    word = "not built"
                elif os.path.exists(stamp):
                    with open(stamp, encoding="utf-8") as f:
                        word = f.read()
                else:
                    tree = tree or prepare()
                    while applied < number:
                        applied += 1
                        run(["patch", "-s", "-p1", "-d", tree.root, "-i",
                             os.path.abspath(self.files[applied])])
                    word = patch.build(tree)
                    with open(stamp + ".new", "w", encoding="utf-8") as f:
                        f.write(word)
                    os.rename(stamp + ".new", stamp)
                    word += f", {time.monotonic() - start:.0f} s"
            except Failed as why:
                bad.append(str(why))
            good += not bad
            show(number, f"FAILED: {bad[-1]}" + f" and {len(bad) - 1} others" * (len(bad) > 1)
                 if bad else word)
        return good, len(self.patches) - good

    def subject(self, number):
        with open(self.files[number], encoding="utf-8") as f:
            mail = email.message_from_string(f.read(), policy=email.policy.default)
        return re.sub(r"^\[[^]]*\] ", "", mail["Subject"])
