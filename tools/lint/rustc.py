# SPDX-License-Identifier: GPL-2.0
"""How the driver was compiled."""

import os
import shlex

DRIVER = "drivers/infiniband/sw/rsiw"


def command(out):
    """What rustc was called with when the driver was built in `out`: environment and arguments."""
    with open(os.path.join(out, DRIVER, ".rsiw_main.o.cmd"), encoding="utf-8") as f:
        words = shlex.split(f.readline().split(":=", 1)[1])
    at = words.index("rustc")
    env = dict(word.split("=", 1) for word in words[:at])
    # The kernel's make exports these.
    env["RUSTC_BOOTSTRAP"] = "1"
    env["RSIW_FFI_GEN"] = os.path.join(os.path.abspath(out), DRIVER, "ffi")
    args = [w for w in words[at:] if not w.startswith(("--emit=", "--out-dir")) and w.strip()]
    # "--out-dir" has its value in a word of its own or not.
    if "--out-dir" in words:
        args.remove(words[words.index("--out-dir") + 1])
    return env, args
