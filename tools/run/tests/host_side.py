#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What rsiw-run does on this side of the machine, whose place a script takes: streams, statuses,
what it tells, what it refuses, keeps and remembers."""
# usage: host_side.py [TEST...]

import contextlib
import hashlib
import os
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, f"{HERE}/..")
sys.dont_write_bytecode = True

from parts import PARTS, SECTOR, header

RUN = os.path.realpath(f"{HERE}/../rsiw-run")
SECONDS = 60
OOPS = "fine\nBUG: kernel NULL pointer dereference\nCall Trace:\n"


def wait_for(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.02)


def has_ended(pid):
    """Whether the process is gone, or only its parent is to be told."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name in ("bin", "tmp"):
            os.mkdir(f"{self.folder}/{name}")
        os.symlink(f"{HERE}/fake-qemu", f"{self.folder}/bin/qemu-system-x86_64")
        self.image = f"{self.folder}/image"
        empty = hashlib.sha256(b"").hexdigest()
        with open(self.image, "wb") as f:
            f.write(header("1", "none", "7.3", {name: (SECTOR, 0, empty) for name in PARTS}))
        self.env = dict(os.environ, PATH=f"{self.folder}/bin:{os.environ['PATH']}",
                        RSIW_RUN_IMAGE=self.image, TMPDIR=f"{self.folder}/tmp",
                        XDG_CACHE_HOME=f"{self.folder}/cache")
        self.env.pop("RDMAV_DRIVERS", None)

    def words(self, *words):
        return [sys.executable, "-B", RUN, *words]

    def run_(self, *words, status=0, text="", cwd=None, **env):
        """What is printed, and what is said of it."""
        done = subprocess.run(self.words(*words), input=text, env={**self.env, **env}, cwd=cwd or self.folder,
                              text=True, capture_output=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        # Which libraries this system has is not the subject.
        return done.stdout, re.sub(r"rsiw-run: this system lacks .*\n", "", done.stderr)

    def tcg(self, *words, **more):
        return self.run_("--accel", "tcg", *words, **more)

    def left(self):
        return os.listdir(f"{self.folder}/tmp")


class Streams(Case):
    def test_streams_and_status(self):
        out, said = self.tcg("sh", "-c", "cat; echo error >&2; exit 7", text="one\n", status=7)
        self.assertEqual(out, "one\n")
        self.assertIn("error\n", said)
        self.assertEqual(self.left(), [])

    def test_no_input(self):
        read, write = os.pipe()
        os.write(write, b"one\ntwo\n")
        os.close(write)
        subprocess.run(self.words("--accel", "tcg", "-n", "cat"), stdin=read, env=self.env,
                       timeout=SECONDS, check=True)
        self.assertEqual(os.read(read, 100), b"one\ntwo\n")
        os.close(read)

    def tells_qemu(self, script):
        """A command that tells what is in QEMU's place, its parent, before that of the shell."""
        return ["sh", "-c", f"echo $PPID >{self.folder}/new; mv {self.folder}/new {self.folder}/qemu; {script}"]

    def qemu(self):
        wait_for(lambda: os.path.exists(f"{self.folder}/qemu"))
        with open(f"{self.folder}/qemu", encoding="ascii") as f:
            return f.read().strip()

    def slowly(self, dies):
        """Who reads the output begins when the machine is gone: how much it is, and the status."""
        # More than fits a pipe, less than a socket as well.
        words = self.tells_qemu("head -c 150000 /dev/zero; exit 3")
        with subprocess.Popen(self.words("--accel", "tcg", *words), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env={**self.env, "FAKE_DIES": dies}) as child:
            qemu = self.qemu()
            wait_for(lambda: has_ended(qemu))
            out, said = child.communicate(timeout=SECONDS)
        return len(out), child.returncode, said.decode()

    def test_slow_reader(self):
        self.assertEqual(self.slowly("behind")[:2], (150000, 3))

    def test_cut(self):
        """What has come is there, and the status says that it is not all."""
        size, status, said = self.slowly("come")
        self.assertEqual((size, status), (150000, 126))
        self.assertIn("the machine died", said)

    def unread(self, errors):
        """The status of a command when nobody reads the errors any more, from "ready" on, if at all."""
        with subprocess.Popen(self.words("--accel", "tcg", "sh", "-c", "read line; exit 7"),
                              stdin=subprocess.PIPE, stderr=errors, env=self.env) as child:
            if child.stderr:
                while b"ready in" not in child.stderr.readline():
                    self.assertIsNone(child.poll())
                child.stderr.close()
            child.stdin.write(b"end\n")
            child.stdin.close()
            return child.wait(SECONDS)

    def test_unread_errors(self):
        self.assertEqual(self.unread(subprocess.PIPE), 7)
        with open("/dev/full", "wb") as full:
            self.assertEqual(self.unread(full), 7)

    def test_closed_errors(self):
        """What rsiw-run tells does not go to the output instead."""
        words = ["sh", "-c", 'exec "$@" 2>&-', "sh"] + self.words("--accel", "tcg", "echo", "up")
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=self.env,
                              timeout=SECONDS, check=True)
        self.assertEqual(done.stdout, b"up\n")

    def test_late_signal(self):
        """When COMMAND and the machine have ended, nobody is there to get it."""
        read, write = os.pipe()
        child = subprocess.Popen(self.words("--accel", "tcg", *self.tells_qemu("cat")),
                                 stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=write,
                                 env=self.env)
        qemu = self.qemu()
        # It waits with what it tells at last. Another open file, as its own does not wait then.
        full = os.open(f"/proc/self/fd/{write}", os.O_WRONLY | os.O_NONBLOCK)
        os.close(write)
        with contextlib.suppress(BlockingIOError):
            while os.write(full, b"x"):
                pass
        os.close(full)
        child.stdin.close()
        wait_for(lambda: not os.path.exists(f"/proc/{qemu}"))
        child.terminate()
        with open(read, "rb") as f:
            said = f.read().replace(b"x", b"")
        self.assertEqual(child.wait(SECONDS), 0, said)
        self.assertIn(b"\nrsiw: 0 connections", said)

    def test_background(self):
        """In the background of a terminal it goes on, and gets its input in the foreground."""
        script = (f"set -m; cd {self.folder}; {RUN} --accel tcg sh -c 'echo up; cat' >out & "
                  "until grep -q up out; do sleep 0.1; done; sleep 1; jobs; fg; echo status $?")
        child, terminal = pty.fork()
        if not child:
            os.execvpe("bash", ["bash", "-c", script], self.env)
        os.write(terminal, b"later\n\x04")
        seen = b""
        deadline = time.monotonic() + SECONDS
        while b"status " not in seen and time.monotonic() < deadline:
            seen += os.read(terminal, 1000)
        os.close(terminal)
        os.kill(child, signal.SIGHUP)
        os.waitpid(child, 0)
        self.assertIn(b"Running", seen)
        self.assertIn(b"status 0", seen)
        with open(f"{self.folder}/out", encoding="ascii") as f:
            self.assertEqual(f.read(), "up\nlater\n")


class Machines(Case):
    def test_links(self):
        """The others start when all sockets are there that the first one listens at."""
        self.assertEqual(self.tcg("--machines", "4", "echo", "up")[0], "up\n")


class Told(Case):
    COUNTED = "conn_established 6 tx_fpdus 7382 tx_send_bytes 40000000 tx_write_bytes 8000000"

    def test_line(self):
        self.assertIn("\nrsiw: 3 connections, 7,382 FPDUs, 48 MB\n",
                      self.tcg("true", FAKE_COUNTED=self.COUNTED)[1])
        self.assertIn("\nrxe: 5 packets, 12 octets\nrsiw: 0 connections, 0 FPDUs, 0 octets\n",
                      self.tcg("--device", "rxe,rsiw", "true",
                               FAKE_COUNTED="sent_pkts 5 sent_bytes 12")[1])
        self.assertIn("\nrsiw: 0 connections, 0 FPDUs, 0 octets, 20 datagrams\n",
                      self.tcg("true", FAKE_COUNTED="tx_datagrams 20")[1])
        self.assertEqual(self.tcg("--quiet", "true", FAKE_COUNTED=self.COUNTED)[1], "")

    def test_expect_rdma(self):
        for counted, status in ((self.COUNTED, 0), ("", 123), ("tx_datagrams 1", 0), ("sent_pkts 1", 0),
                                # By number: no connections of the RDMA CM.
                                ("tx_fpdus 20", 0),
                                # What belongs to set-up.
                                ("conn_established 2 tx_fpdus 1", 123)):
            with self.subTest(counted):
                self.tcg("--expect-rdma", "true", FAKE_COUNTED=counted, status=status)
        self.tcg("--expect-rdma", "sh", "-c", "exit 7", status=7)

    def test_drivers(self):
        """The library's variable, unless there is one."""
        self.assertNotIn("librsiw", self.tcg("--stock", "env")[0])
        mine = self.tcg("env", RDMAV_DRIVERS="mine")[0]
        self.assertIn("\nRDMAV_DRIVERS=mine\n", "\n" + mine)


class Faults(Case):
    def kept(self, said):
        """The log that is named, and what is printed behind that."""
        line, _, rest = said[said.index("rsiw-run: the machine "):].partition("\n")
        path = line.rpartition("its log is in ")[2].removesuffix(":")
        with open(path, encoding="ascii") as f:
            self.assertEqual(f.read(), OOPS)
        os.unlink(path)
        return rest

    def test_died(self):
        said = self.tcg("true", status=126, FAKE_CONSOLE=OOPS, FAKE_DIES="before")[1]
        self.assertTrue(self.kept(said).startswith("BUG: kernel NULL"))
        self.assertEqual(self.left(), [])

    def test_fault(self):
        said = self.tcg("--quiet", "sh", "-c", "exit 3", status=3, FAKE_CONSOLE=OOPS)[1]
        self.assertTrue(self.kept(said).startswith("BUG: kernel NULL"))
        self.assertEqual(self.left(), [])

    def test_not_kept(self):
        """A log that has no place changes no status, and leaves nothing."""
        words = self.words("--accel", "tcg", "--quiet", "sh", "-c", "echo up; read line; exit 3")
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env={**self.env, "FAKE_CONSOLE": OOPS}) as child:
            self.assertEqual(child.stdout.readline(), b"up\n")
            _, most = resource.prlimit(child.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (0, most))
            said = child.communicate(b"end\n", timeout=SECONDS)[1].decode()
        self.assertEqual(child.returncode, 3, said)
        self.assertIn("the machine has had a fault; its log cannot be kept (File too large):\nBUG: ", said)
        self.assertEqual(self.left(), [])

    def test_waiting_is_no_fault(self):
        said = self.tcg("--quiet", "true", FAKE_CONSOLE="watchdog: BUG: soft lockup - CPU#0\n")[1]
        self.assertEqual(said, "")

    def start(self, name):
        with open(f"{self.folder}/{name}", "wb") as out:
            child = subprocess.Popen(self.words("--accel", "tcg", "sh", "-c", "echo up; cat"), stdout=out,
                                     stdin=subprocess.PIPE, env=self.env)
        while not os.path.getsize(f"{self.folder}/{name}"):
            self.assertIsNone(child.poll())
            time.sleep(0.05)
        return child

    def test_killed(self):
        """What it has left is removed by the next one, and what is used is not."""
        used = self.start("used")
        before = self.left()
        killed = self.start("killed")
        killed.kill()
        killed.wait()
        killed.stdin.close()
        self.assertEqual(len(self.left()), 2)
        self.tcg("true")
        self.assertEqual(self.left(), before)
        used.communicate(b"over\n", timeout=SECONDS)
        self.assertEqual(used.returncode, 0)
        self.assertEqual(self.left(), [])


@unittest.skipUnless(os.access("/dev/kvm", os.R_OK | os.W_OK), "no KVM that could fail")
class Kvm(Case):
    def test_remembered(self):
        path = f"{self.folder}/cache/rsiw-run/no-kvm"
        self.assertIn("emulated (KVM does not work: no KVM today)",
                      self.run_("true", FAKE_KVM="refuses")[1])
        self.assertFalse(os.path.exists(path))
        self.assertIn("emulated (KVM does not work)", self.run_("true", FAKE_KVM="hangs")[1])
        self.assertIn(f"emulated (KVM did not work before, says {path})", self.run_("true")[1])
        self.assertIn(", KVM, ready", self.run_("--accel", "kvm", "true")[1])
        self.assertIn(", KVM, ready", self.run_("true")[1])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as f:
            f.write("another kernel")
        self.assertIn(", KVM, ready", self.run_("true")[1])


@unittest.skipUnless(os.getuid() == 0 and os.path.exists("/dev/kvm"), "not root, or no /dev/kvm")
class Action(Case):
    """The script of action.yml, where mounts are its own."""

    STUBS = {
        "rsiw-run": 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"',
        "bin/qemu-system-x86_64": "",
        # Whose /dev/kvm it is may change its rights.
        "bin/sudo": 'shift; exec "$@"',
        "bin/curl": 'while [ "$1" != --output ]; do shift; done; cp "$SOURCE" "$2"',
        # Of two jobs that have found it closed, the second one looks at its rights when they have been
        # changed already. One that waits for the other cannot come as well, so that there is a limit.
        "bin/stat": """
            wait_until() { for _ in $(seq 20); do ! "$@" || break; sleep 0.1; done; }
            is_open() { [ -r /dev/kvm ] && [ -w /dev/kvm ]; }
            if [ "$JOB" = a ]; then
                wait_until test -e second
            else
                touch second
                wait_until is_open
            fi
            exec /usr/bin/stat "$@"
        """}

    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o777)
        os.unlink(f"{self.folder}/bin/qemu-system-x86_64")
        for name, text in self.STUBS.items():
            with open(f"{self.folder}/{name}", "w", encoding="ascii") as f:
                f.write(f"#!/bin/sh\n{text}\n")
            os.chmod(f"{self.folder}/{name}", 0o755)
        for name in ("action", "parts.py"):
            shutil.copy(f"{HERE}/../{name}", self.folder)

    def within(self, script, **env):
        done = subprocess.run(["unshare", "-m", "sh", "-euc", script], cwd=self.folder, text=True,
                              env={**self.env, "RUNNER_TEMP": self.folder, **env}, timeout=SECONDS,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def test_full(self):
        """What cannot be kept leaves nothing."""
        with open(self.image, "ab") as f:
            f.write(bytes(1000000))
        with open(self.image, "rb") as f:
            digest = hashlib.sha256(f.read()).hexdigest()
        said = self.within("""
            mkdir kept
            mount -t tmpfs -o size=500k kept kept
            status=0
            ./action || status=$?
            [ "$status" = 125 ]
            [ -z "$(ls -A kept/rsiw-run)" ]
        """, IMAGE="https://localhost/image", SHA256=digest, SOURCE=self.image, COMMANDS="true",
                           RUNNER_TOOL_CACHE=f"{self.folder}/kept")
        self.assertIn("No space left", said)

    def test_kvm(self):
        """Two jobs that begin at once have it until the second one ends, and nobody has it then."""
        said = self.within("""
            touch kvm
            chmod 440 kvm
            chown 1234 kvm
            mount -t tmpfs -o uid=1234 run /run
            mount --bind kvm /dev/kvm
            for job in a b; do
                JOB=$job setpriv --reuid=1234 --regid=1234 --clear-groups ./action &
                eval "$job=\\$!"
            done
            until [ -e up-a ] && [ -e up-b ]; do sleep 0.1; done
            touch over-a
            wait $a
            touch over-b
            wait $b
            [ "$(stat -c %a kvm)" = 440 ]
        """, IMAGE=self.image, JOB="none", COMMANDS="""
            touch up-$JOB
            until [ -e over-$JOB ]; do sleep 0.1; done
            [ -r /dev/kvm ] && [ -w /dev/kvm ]
        """)
        self.assertEqual(said.count("chmod a+rw"), 1)


class Install(Case):
    """The script of action.yml, on a system that lacks QEMU."""

    def test_fails(self):
        """What apt-get's status is, is not for who waits for that of the commands."""
        os.mkdir(f"{self.folder}/few")
        for name in ("dirname", "env", "id", "mktemp", "rm", "tr"):
            os.symlink(shutil.which(name), f"{self.folder}/few/{name}")
        for name, text in (("sudo", 'shift; exec "$@"'), ("apt-get", "exit 100")):
            with open(f"{self.folder}/few/{name}", "w", encoding="ascii") as f:
                f.write(f"#!/bin/sh\n{text}\n")
            os.chmod(f"{self.folder}/few/{name}", 0o755)
        done = subprocess.run([f"{HERE}/../action"], text=True, timeout=SECONDS, capture_output=True,
                              env={"PATH": f"{self.folder}/few", "IMAGE": self.image,
                                   "COMMANDS": "true", "RUNNER_TEMP": self.folder}, check=False)
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("cannot be installed: qemu-system-x86", done.stderr)


class Refused(Case):
    def test_folders(self):
        for folder in ("/dev/shm", "/proc", "/sys/kernel", "/run"):
            self.assertIn(f"the working directory {folder} is not in the machine",
                          self.tcg("true", cwd=folder, status=125)[1])

    def test_options(self):
        for words, said in (("--net delay=5ms", "needs --hosts or --machines"),
                            ("--hosts 2 --net delay=5ms --param direct=2", "does not pass"),
                            ("--hosts 2 --net delay=5", "as in delay=5ms"),
                            ("--hosts 2 --net jitter=5ms", "needs a delay"),
                            ("--hosts 2 --net latency=5ms", "but any of delay"),
                            ("--device rsiw,siw", "never loaded together"),
                            ("--device rsiw,rsiw", "but any of"),
                            ("--device rxe,rsiw --hosts 2", "--machines is"),
                            ("--device siw --expect-rdma", "does not have"),
                            ("--device rxe --param direct=0", "leaves out"),
                            ("--param direct", "as in mpa_crc=N"),
                            ("--writable /proc", "cannot be written to"),
                            ("--shell -n", "--shell")):
            with self.subTest(words):
                self.assertIn(said, self.tcg(*words.split(), "true", status=2)[1])


if __name__ == "__main__":
    if sys.argv[1:] == ["--help"]:
        print("usage: host_side.py [TEST...]    tests rsiw-run without a machine")
    else:
        unittest.main()
