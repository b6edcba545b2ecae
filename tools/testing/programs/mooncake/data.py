#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Moves data between the engines of two hosts and compares them: `data.py serve ADDRESS DEVICE FILE`
leaves in FILE where its memory is, `data.py move ADDRESS DEVICE FILE` writes and reads it."""

import ctypes
import hashlib
import json
import os
import sys
import time

from mooncake.engine import TransferEngine

SIZE = 16 << 20
# Octets, and where in the memory.
MOVES = ((1, 0), (64, 64), (4096, 4096), (65536, 1 << 17), (1 << 20, 1 << 20), (SIZE // 2, SIZE // 2))


def engine(address, device):
    """An engine of this host, and its memory."""
    found = TransferEngine()
    if found.initialize(address, "P2PHANDSHAKE", "rdma", device):
        sys.exit("the engine does not start")
    memory = ctypes.create_string_buffer(SIZE)
    if found.register_memory(ctypes.addressof(memory), SIZE):
        sys.exit("memory cannot be registered")
    return found, memory


def serve(address, device, path):
    """Waits until the other end has put its sums into a file, and compares them."""
    ours, memory = engine(address, device)
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump({"peer": f"{address}:{ours.get_rpc_port()}", "at": ctypes.addressof(memory)}, f)
    os.rename(path + ".new", path)
    while not os.path.exists(path + ".sums"):
        time.sleep(0.1)
    with open(path + ".sums", encoding="utf-8") as f:
        for (size, at), wanted in zip(MOVES, json.load(f)):
            if hashlib.sha256(memory.raw[at:at + size]).hexdigest() != wanted:
                sys.exit(f"{size} octets are not as they were written")


def move(address, device, path):
    """Writes random octets, clears its own, and reads them again."""
    ours, memory = engine(address, device)
    while not os.path.exists(path):
        time.sleep(0.1)
    with open(path, encoding="utf-8") as f:
        there = json.load(f)
    here = ctypes.addressof(memory)
    sums = []
    for size, at in MOVES:
        data = os.urandom(size)
        ctypes.memmove(here + at, data, size)
        if ours.transfer_sync_write(there["peer"], here + at, there["at"] + at, size):
            sys.exit(f"{size} octets cannot be written")
        ctypes.memset(here + at, 0, size)
        if ours.transfer_sync_read(there["peer"], here + at, there["at"] + at, size):
            sys.exit(f"{size} octets cannot be read")
        if memory.raw[at:at + size] != data:
            sys.exit(f"{size} octets are not as they were written when they are read again")
        sums.append(hashlib.sha256(data).hexdigest())
        print(f"{size} octets moved there and back", flush=True)
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(sums, f)
    os.rename(path + ".new", path + ".sums")


if __name__ == "__main__":
    {"serve": serve, "move": move}[sys.argv[1]](*sys.argv[2:])
