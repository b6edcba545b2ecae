# SPDX-License-Identifier: GPL-2.0
"""A disk for storage services to offer: a piece of memory."""

CONFIG = "/sys/kernel/config/nullb/rsnull"
DISK = "/dev/rsnull"


def make(machine, size_mib, blocksize=512, memory=True):
    """Makes the disk; without memory it keeps nothing."""
    machine.modprobe("null_blk")
    machine.mkdir(CONFIG)
    for name, value in (("memory_backed", int(memory)), ("blocksize", blocksize),
                        ("size", size_mib), ("power", 1)):
        machine.write("%s/%s" % (CONFIG, name), str(value))


def drop(machine):
    """Takes it down if it is there."""
    if machine.exists(CONFIG):
        machine.write(CONFIG + "/power", "0")
        machine.remove(CONFIG)
