# SPDX-License-Identifier: GPL-2.0
"""Guests of the benchmarks: one processor, whose clock counts instructions or is
the machine's own (User Mode Linux).

Used by the host's parts; calls the scripts of tools/vm.
"""

import argparse
import concurrent.futures
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time

import cases

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(TOP, "build")
NATIVE = os.path.join(BUILD, "bench", "native")
BOOT_SECONDS = 7200
# With the string instructions of current processors, of which an emulated
# byte costs an instruction: copying counts as much as the design's goals
# assume. (Without them it costs an eighth and TCP is three times as fast.)
CPU = "max,-la57"


class Failed(Exception):
    """A step that everything after it needs."""


def vm(script, *argv):
    """A script of tools/vm; its last line is the answer."""
    done = subprocess.run([os.path.join(TOP, "tools/vm", script), *argv],
                          stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise Failed("%s failed" % script)
    return lines[-1]


def enter(*argv):
    """A command in the Debian root; what it printed."""
    done = subprocess.run([os.path.join(TOP, "tools/vm/enter"), *argv], cwd=TOP,
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Failed("'%s' ended with status %d" % (" ".join(argv),
                                                   done.returncode))
    return done.stdout


def build(devices):
    """Builds what the guests need; the modules' paths by device."""
    end_with_guests()
    modules = {}
    if "rsiw" in devices:
        modules["rsiw"] = vm("build")
    if "siw" in devices:
        modules["siw"] = vm("modules", "siw")
    build_own()
    return modules


def build_native(devices):
    """As build(), for native(). The other ones' modules are the kernel's."""
    end_with_guests()
    vm("uml-kernel")
    modules = {"rsiw": vm("build", "--uml")} if "rsiw" in devices else {}
    build_own()
    return modules


def build_own():
    """The benchmarks' own programs."""
    os.makedirs(NATIVE, exist_ok=True)
    lock = os.path.join(NATIVE, "lock")
    enter("flock", lock, "make", "-s", "-C", "tools/bench/native",
          "O=" + NATIVE)


def marks():
    """What counted programs are started with."""
    return os.path.join(NATIVE, "marks.so")


def clock():
    """What perftest is started with in User Mode Linux."""
    return os.path.join(NATIVE, "clock.so")


def counting(results):
    """Arguments of tools/vm/boot that have a guest's instructions counted, into
    `counts` in its results."""
    return ["--append", "nokaslr", "--qemu=-plugin", "--qemu=%s,out=%s" % (
        os.path.join(NATIVE, "count.so"), os.path.join(results, "counts"))]


def boot(results, command, module=None, more=(), on_line=None, cpu=CPU):
    """Runs a command in a guest, with its output in `results`/output, and calls
    `on_line` with each line of that as it comes. Without `cpu` the processor is that
    of the tests, which copies faster."""
    argv = ["tools/vm/boot", "--icount", "--time", str(BOOT_SECONDS), "--results",
            results, *more]
    if cpu:
        argv += ["--qemu=-cpu", "--qemu=" + cpu]
    return start(argv, results, command, module, on_line)


def native(results, command, seconds, module=None, on_line=None, clears=True):
    """Runs a command in User Mode Linux, as start(). `clears`: whether the kernel clears memory
    that it allocates. Returns for which part of the time it waited for a processor, in percent: a
    list with one number, or none if it ended too early."""
    argv = ["tools/vm/uml", "--time", str(seconds), "--results", results]
    if not clears:
        argv += ["--append", "init_on_alloc=0"]
    start(argv, results, command, module, on_line)
    share = read_json(os.path.join(results, "waited"))
    return [share] if share is not None else []


def start(argv, results, command, module, on_line):
    """Runs a guest."""
    argv = [os.path.join(TOP, argv[0]), *argv[1:]]
    if module:
        argv += ["--module", module]
    argv += ["--", *command]
    with open(os.path.join(results, "output"), "w", encoding="utf-8") as log:
        proc = subprocess.Popen(argv, cwd=TOP, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True,
                                errors="replace")
        LIVE.add(proc)
        for line in proc.stdout:
            log.write(line)
            log.flush()
            if on_line:
                on_line(line.rstrip())
        proc.wait()
        LIVE.discard(proc)
    return proc.returncode


# Guests that run.
LIVE = set()


def end_with_guests():
    """From now on signals that end this process end the guests too."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)


def end(number, _frame):
    """What SIGINT and SIGTERM do: guests end with those who started them."""
    for proc in list(LIVE):
        proc.terminate()
    os._exit(128 + number)


def read_json(name):
    """What a guest has left in a file, None if it did not."""
    try:
        with open(name, encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


def fresh_results(*names):
    """An empty directory for a guest's results."""
    results = os.path.join(BUILD, "bench", *names)
    # What a guest was given, such as modules, lies in directories.
    shutil.rmtree(results, ignore_errors=True)
    os.makedirs(results)
    return results


def analyse(results, path):
    """What a guest has counted on a path, see the script "analyse"."""
    tree = os.path.join(os.path.dirname(vm("tree")), "src")
    return json.loads(enter(
        "python3", "-B", "tools/bench/analyse", "--path", path, "--tree",
        tree, "--cache", os.path.join(NATIVE, "functions.json"), results))


def all_of(run, jobs):
    """What it returns for each of the jobs, as many at a time as there are processors."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(run, jobs))


def say(text):
    print(text, file=sys.stderr, flush=True)


VERSIONS = """
release() { sed -n 's/.*PRETTY_NAME="\\(.*\\)"/\\1/p' /etc/os-release; }
echo "Debian: $(release)"
echo "QEMU: $(dpkg-query -W -f '${Version}' qemu-system-x86)"
for p in perftest rdma-core iperf3 rustc gcc-14; do
	echo "$p: $(dpkg-query -W -f '${Version}' $p)"
done
"""


def about_file(results):
    """Where it is kept what results are of."""
    return os.path.splitext(results)[0] + "-about.json"


def about():
    """Which commit this is, by which command and with which versions it runs."""
    def git(*argv):
        done = subprocess.run(["git", "-C", TOP, *argv], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return done.stdout.strip()
    found = {
        "commit": git("log", "-1", "--format=%h %s") or "unknown",
        "command": shlex.join([os.path.relpath(sys.argv[0], TOP)] +
                              sys.argv[1:]),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}
    if git("status", "--porcelain"):
        found["commit"] += ", with changes"
    with open(os.path.join(vm("kernel"), "release"), encoding="utf-8") as f:
        found["Linux"] = f.read().strip()
    for line in enter("sh", "-c", VERSIONS).splitlines():
        name, version = line.split(": ", 1)
        found[name] = version
    return found


def about_native(clears):
    """As about(), where the processor is this machine's; `clears` as native() has it."""
    found = about()
    found["memory"] = "cleared when allocated" if clears else "not cleared when allocated"
    # Which has no part in this.
    found.pop("QEMU", None)
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        names = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")]
    found["processor"] = names[0] if names else "unknown"
    return found


# A machine is busy if guests wait for a processor for more than this part of the time, in percent.
# Their own processes have one processor, and wait for each other for 9 to 15 % of the time.
BUSY = 20


def waiting(waited, about):
    """Notes for which parts of the time the guests of native() waited for a processor. What to say
    if that is much, or an empty text."""
    if not waited:
        return ""
    said = "%.0f %% of the time, up to %.0f %%" % (statistics.median(waited), max(waited))
    about["waited for a processor"] = said
    if statistics.median(waited) <= BUSY:
        return ""
    return ("This machine was busy: User Mode Linux waited for a processor for %s.\n"
            "Ratios of what is close to each other say little." % said)


def keep(results, rows, what):
    """Writes rows of results, and what about() said when they were begun."""
    for name, data in ((results, rows), (about_file(results), what)):
        with open(name, "w", encoding="utf-8") as f:
            json.dump(data, f, indent=1)
            f.write("\n")


def prepare(devices, native=False, clears=True):
    """Builds what the guests need; the modules' paths by device, and what about() says."""
    if native:
        return build_native(devices), about_native(clears)
    return build(devices), about()


def notes(rows):
    """The device of each row without a value, and what to say of it."""
    return [(r["device"], "%s %s %s: %s" % (
        r["device"], r.get("path", "wire"), r["case"], r["note"])) for r in rows if r.get("note")]


def finish(out, rows, about, show, failed=(), waited=()):
    """Keeps results, prints what show() says of them, and what failed (devices, and what to say).
    `waited` is what native() returned. Returns the status."""
    busy = waiting(waited, about)
    keep(out, rows, about)
    for text in (show(), busy, *(said for _, said in failed)):
        if text:
            print(text)
    print("results: %s" % os.path.relpath(out))
    # What fails in another driver is a figure; in ours it is a failure.
    return 1 if any(device.startswith("rsiw") for device, _ in failed) else 0


def main(bench):
    """Ends with the status that a benchmark returns."""
    try:
        sys.exit(bench())
    except Failed as err:
        sys.exit("%s: %s" % (os.path.basename(sys.argv[0]), err))


def some_of(known):
    """A type of argument: names with commas, all of them known."""
    def names(given):
        bad = [n for n in given.split(",") if n not in known]
        if bad:
            raise argparse.ArgumentTypeError("'%s' is not one of %s" % (
                bad[0], ", ".join(sorted(known))))
        return given.split(",")
    return names


def option_clear(p):
    """The option of those that use native()."""
    p.add_argument("--no-clear", dest="clears", action="store_false",
                   help="in User Mode Linux: the kernel does not clear memory that it allocates\n"
                   "(init_on_alloc=0); Debian's does")


def native_out(p, args):
    """The file of results of native(): another one than that of counts, if none was asked for."""
    if args.out != p.get_default("out"):
        return args.out
    return args.out.replace(".json", "-native.json")


def options(doc, out=None, **lists):
    """The command line of a benchmark whose page of help is `doc`: what most of them take.
    `lists`: options of which each is some of these names, all by default. `out`: the file of
    its results."""
    p = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawTextHelpFormatter)
    for name, known in lists.items():
        p.add_argument("--" + name, type=some_of(known), default=list(known), metavar="LIST",
                       help="some of %s" % ", ".join(known))
    if out:
        p.add_argument("--out", metavar="FILE", default=os.path.join(BUILD, out),
                       help="result (build/%s)" % out)
    return p


def bench_command(device, path, results, *more):
    """The guest's part for a device on a path."""
    return ["tools/bench/guest", "--device", device, "--path", path, *more,
            results]
