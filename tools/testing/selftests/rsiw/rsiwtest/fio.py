# SPDX-License-Identifier: GPL-2.0
"""fio, as the one who checks what comes back from a storage service."""

from .core import Fail
from .machine import wait_until
from .tools import flowing

# Block sizes with what each job writes of them: from one sector to the
# largest request, little enough for an emulated CPU.
SIZES = (("512", "64k"), ("4k", "512k"), ("64k", "2m"), ("1m", "8m"))
# For `make check`.
FEW = (("512", "32k"), ("4k", "256k"), ("64k", "1m"), ("1m", "4m"))
# For `make check-long`.
MANY = (("512", "256k"), ("4k", "2m"), ("16k", "4m"), ("64k", "8m"),
        ("256k", "8m"), ("1m", "24m"))
# Where each job works on a common device.
REGION_MIB = 64


def jobs(target, sizes):
    """Arguments for one job per block size on a block device or directory."""
    argv = []
    for i, (bs, size) in enumerate(sizes):
        argv += ["--name=b" + bs, "--bs=" + bs, "--size=" + size]
        if target.startswith("/dev/"):
            argv += ["--filename=" + target,
                     "--offset=%dm" % (i * REGION_MIB)]
        else:
            argv += ["--directory=" + target]
    return argv


def start(t, target, rw, sizes=SIZES, depth=8, netns=None, extra=()):
    """Starts fio with one job per size, all at once, verifying."""
    return t.start("fio", "--direct=1", "--ioengine=libaio", "--thread",
                   "--iodepth=%d" % depth, "--rw=" + rw, "--verify=crc32c",
                   "--verify_fatal=1", "--verify_state_save=0",
                   *(["--allow_file_create=0"] if target.startswith("/dev/") else []),
                   "--randrepeat=0", *extra, *jobs(target, sizes),
                   netns=netns)


def verify(t, target, sizes=SIZES, depth=8, netns=None, timeout=None):
    """Writes and reads back, then mixes reads and writes of the same."""
    for rw in ("write", "randrw"):
        start(t, target, rw, sizes, depth, netns).expect(t.left(timeout))


def running(t, target, seconds, sizes=SIZES, netns=None):
    """Mixed traffic that is verified for so many seconds, once it flows."""
    is_flowing = flowing(t, netns)
    # Reads find what this very run has written, and nothing else. Of two writes
    # of the same block at once either may be the last, or the last of a part.
    job = start(t, target, "randwrite", sizes, netns=netns, extra=(
        "--time_based", "--runtime=%d" % seconds, "--verify_backlog=16",
        "--serialize_overlap=1"))
    wait_until("I/O", 60, lambda: job.poll() is not None or is_flowing())
    if job.poll() is not None:
        raise Fail("fio ends early:\n%s" % job.tail())
    return job


def expect_errors(t, job, seconds):
    """Waits until fio has given up: what it works on is gone."""
    if job.wait(t.left(seconds)) == 0:
        raise Fail("fio noticed nothing")
