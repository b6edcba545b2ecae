# SPDX-License-Identifier: GPL-2.0
"""Lost memory, as kmemleak sees it."""

import re
import time

KMEMLEAK = "/sys/kernel/debug/kmemleak"

# What a process consists of, what it got by exec among it. uverbs loses a reference to the process when a
# driver refuses it a context by ioctl: UVERBS_METHOD_GET_CONTEXT frees the
# context without rdma_restrack_put(), other than ib_uverbs_get_context(). The
# tests of failures make that happen.
PROCESS = re.compile(r"\b(copy_process|dup_task_struct|copy_signal|"
                     r"prepare_creds|alloc_task_exec_state)\+")


def on_request_only():
    """Keeps kmemleak from looking by itself: each time takes a processor for a
    minute or more."""
    with open(KMEMLEAK, "w") as f:
        f.write("scan=off")


def leaked(failures):
    """What is lost, as text; "" if nothing is. Processes are left out where
    tests of failures were."""
    # What was freed a moment ago may still be in a register or on a stack:
    # only what two scans find is leaked.
    for _ in range(2):
        time.sleep(6)
        with open(KMEMLEAK, "w") as f:
            f.write("scan")
    with open(KMEMLEAK) as f:
        found = re.split(r"(?m)^(?=unreferenced object)", f.read())
    return "".join(o for o in found if not (failures and PROCESS.search(o)))
