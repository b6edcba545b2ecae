# SPDX-License-Identifier: GPL-2.0
"""What the wheel's rsiw-run is: the program beside this file, by the same Python."""

import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rsiw-run")
    os.execv(sys.executable, [sys.executable, program, *sys.argv[1:]])
