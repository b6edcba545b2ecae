# SPDX-License-Identifier: GPL-2.0
"""What the rsiw selftests share: registry, processes, topology, verdicts."""
