# SPDX-License-Identifier: GPL-2.0
"""The tests, one file per subject; the runner imports all of them."""
