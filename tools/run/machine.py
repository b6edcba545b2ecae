# SPDX-License-Identifier: GPL-2.0
"""A machine that QEMU emulates or runs by KVM: what the guests of the tests
(tools/vm/qemu.py) and those of rsiw-run have in common."""

import ctypes
import mmap
import os
import platform
import signal
import time

BOOTED = b"rsiw-guest: booted"
# Plain boots take 5 to 15 s. One in some thirty hangs early and silently on
# machines without KVM; nothing of ours runs by then, so trying again is right.
# Such a guest is known by a console that says nothing new for so long.
SILENT_SECONDS = 45
BOOT_SECONDS = 240
BOOT_TRIES = 3


class Machine:
    """What QEMU is told of a machine of one architecture."""

    def __init__(self, command, console, model):
        self.command, self.console, self.model = command, console, model


# Emulated, "rep movsb" takes a step per byte and five-level page tables a level more: without
# the feature bits that make the kernel use them TCP is three times as fast. Pointers that are
# signed as the architecture defines it cost as much; signed in another way they do not.
MACHINES = {
    "amd64": Machine(["qemu-system-x86_64", "-machine", "q35"], "ttyS0", "max,-la57"),
    "arm64": Machine(["qemu-system-aarch64", "-machine", "virt,gic-version=3"], "ttyAMA0",
                     "max,pauth-impdef=on"),
}


def has_fast_strings():
    with open("/proc/cpuinfo", encoding="ascii") as f:
        return " fsrm" in f.read()


def accelerator(accel, cpus, icount=None, other_strings=False, arch="amd64"):
    """QEMU's options for the processors. icount: the clock counts instructions; time in which
    there are none is left out ("sleep=off"), or passes as it does here ("sleep=on"), where
    the guest waits for what is here. other_strings: as in "boot --help"."""
    if accel == "kvm" and not icount:
        strings = ""
        if other_strings:
            strings = ",-erms,-fsrm" if has_fast_strings() else ",+erms,+fsrm"
        return ["-accel", "kvm", "-smp", str(cpus), "-cpu", "host" + strings]
    model = MACHINES[arch].model
    if arch == "amd64" and not other_strings:
        model += ",-erms,-fsrm"
    model = ["-cpu", model]
    if icount:
        return ["-accel", "tcg", "-icount", f"shift=0,{icount}", "-smp", "1"] + model
    return ["-accel", "tcg,thread=multi", "-smp", str(cpus)] + model


def debugger(path):
    """QEMU's options for a kernel that waits for a debugger at the UNIX socket `path`. Whoever
    gets there has the guest, and all that is shared with it; everybody gets to a port."""
    path = path.replace(",", ",,")
    return ["-chardev", f"socket,id=gdb,path={path},server=on,wait=off", "-gdb", "chardev:gdb", "-S"]


def share(tag, mode, path):
    """QEMU's options for a folder of this machine that the guest mounts by its tag."""
    readonly = ",readonly=on" if mode == "ro" else ""
    path = path.replace(",", ",,")
    return ["-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap{readonly}",
            "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def tsc_khz():
    """What the time stamp counter of this machine, which is the guest's, counts
    in a millisecond. A guest that has to find out on a busy machine errs."""
    # rdtsc; shl $32, %rdx; or %rdx, %rax; ret
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex("0f3148c1e2204809d0c3"))
    rdtsc = ctypes.CFUNCTYPE(ctypes.c_uint64)(
        ctypes.addressof(ctypes.c_char.from_buffer(code)))

    def sample():
        """Both clocks, as close to each other as can be had."""
        best = None
        for _ in range(100):
            before, ticks, after = time.monotonic_ns(), rdtsc(), time.monotonic_ns()
            if best is None or after - before < best[0]:
                best = after - before, (before + after) // 2, ticks
        return best[1:]

    start = sample()
    time.sleep(0.2)
    end = sample()
    return (end[1] - start[1]) * 1000000 // (end[0] - start[0])


def clock(accel, arch="amd64"):
    """Kernel arguments for the clock of an emulated machine. The HPET that is to
    watch the TSC is late there; without the TSC, each reading of the clock would
    leave the processor. The kernel's test of the timer counts interrupts for ten
    ticks, finds none on a busy machine, and panics: QEMU's timer needs no test."""
    if accel == "kvm" or arch != "amd64" or platform.machine() != "x86_64":
        return []
    return ["tsc=nowatchdog", f"tsc_early_khz={tsc_khz()}", "no_timer_check"]


def starved(pid):
    """Seconds that the process has waited for a processor, where that is known."""
    waited = 0
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as f:
                waited = max(waited, int(f.read().split()[1]))
    except (OSError, ValueError, IndexError):
        pass
    return waited / 1e9


class Watch:
    """Is the guest up, or does its console show that it never will be? The
    times are without those that others kept the processors busy."""

    def __init__(self, console, pid, factor):
        self.console, self.pid, self.factor = console, pid, factor
        self.start = self.changed = self.now()
        self.size = 0
        self.up = False

    def now(self):
        return time.monotonic() - starved(self.pid)

    def look(self):
        """Whether the guest has come up since the last look."""
        try:
            with open(self.console, "rb") as f:
                text = f.read()
        except FileNotFoundError:
            return False
        if len(text) != self.size:
            self.size, self.changed = len(text), self.now()
        if self.up or BOOTED not in text:
            return False
        self.up = True
        return True

    def hopeless(self):
        now = self.now()
        return (now - self.changed > SILENT_SECONDS * self.factor or
                now - self.start > BOOT_SECONDS * self.factor)


def kill(proc):
    """Ends QEMU and what it has started."""
    try:
        os.killpg(proc.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    proc.wait()
