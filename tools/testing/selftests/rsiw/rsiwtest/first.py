# SPDX-License-Identifier: GPL-2.0
"""The first twenty tests for a kernel that is new to the driver: what they take, most
programs take. Each is done in seconds."""

FIRST = (
    "devinfo", "rdma-tool", "link-add-del", "limits", "negative",
    "resources", "params", "counters", "traces",
    "rping-wire-v4", "rping-loopback-v6", "perftest-ipv6",
    "ucmatose-10", "rdma-client-server",
    "integrity-small", "errors", "srq", "library",
    "kverbs-reg", "unplug-rdma-link-del",
)
