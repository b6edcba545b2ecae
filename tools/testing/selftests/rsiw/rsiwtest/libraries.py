# SPDX-License-Identifier: GPL-2.0
"""The provider of libibverbs that a program uses: that of the distribution
("stock"), ours ("rsiw"), ours that asks the kernel for nothing
("rsiw-stock-rings"), ours that has it look for requests ("rsiw-poll"), or ours that
shows devices as InfiniBand's ("rsiw-infiniband").

Both serve the same devices. The first one wins, and what RDMAV_DRIVERS names comes
in front of what is configured.
"""

from .core import Fail

SUFFIX = "-rdmav34.so"


def file_of(library):
    """The file that a driver's name stands for."""
    return library + SUFFIX


def variables(library, name):
    """Of the environment of a program that is to use it."""
    return {"RDMAV_DRIVERS": "siw" if name == "stock" else library,
            "RSIW_STOCK_RINGS": "1" if name == "rsiw-stock-rings" else "",
            "RSIW_POLL_US": "50" if name == "rsiw-poll" else "",
            "RSIW_AS_INFINIBAND": "1" if name == "rsiw-infiniband" else "0"}


def check_in_use(proc, library):
    """Fails if a running program has not loaded the library: libibverbs goes on
    with the other one."""
    with open("/proc/%d/maps" % proc.pid) as f:
        if file_of(library) not in f.read():
            raise Fail("%s does not use %s:\n%s" % (proc, library, proc.tail()))
