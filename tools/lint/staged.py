#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What the series of patches for the lists changes of the driver is where it is looked for
(tools/series/kernel.py). Run at the top of the checkout.
"""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "series"))

import kernel
from series import Failed


def main():
    if len(sys.argv) > 1:
        print("usage: staged.py    (at the top of the checkout)")
        return 0 if sys.argv[1:] == ["--help"] else 2
    with tempfile.TemporaryDirectory() as folder:
        try:
            kernel.stage(os.getcwd(), os.path.join(folder, "ours"))
        except Failed as why:
            print(f"tools/series/kernel.py: {why}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
