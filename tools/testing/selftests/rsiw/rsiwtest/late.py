# SPDX-License-Identifier: GPL-2.0
"""A processor that is late, as those of a busy host are: a thread of the highest priority
keeps one from all others for a moment now and then.

What a test takes for ready, gone or quiet is seldom so late by itself.
"""

import contextlib
import os
import random
import signal
import time

PRIORITY = 99


def spin(seconds, seed):
    """Takes a processor for up to so long, which one and when is random."""
    rng = random.Random(seed)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    cpus = sorted(os.sched_getaffinity(0))
    while True:
        time.sleep(rng.uniform(0, 2 * seconds))
        os.sched_setaffinity(0, {rng.choice(cpus)})
        end = time.monotonic() + rng.uniform(0, seconds)
        while time.monotonic() < end:
            pass


@contextlib.contextmanager
def late(ms, seed):
    """Within, processors are late by up to so many milliseconds; by none if that is 0."""
    if not ms:
        yield
        return
    seed = seed or random.randrange(1, 1 << 31)
    print("# processors are late by up to %d ms, seed %d" % (ms, seed), flush=True)
    pid = os.fork()
    if not pid:
        try:
            spin(ms / 1000, seed)
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
