# SPDX-License-Identifier: GPL-2.0
"""The frames of MPA's connection set-up, by hand (RFC 5044 section 7.1)."""

from .core import Fail


def ask(conn):
    """Asks by revision 1, and waits for the answer."""
    conn.sendall(b"MPA ID Req Frame\0\1\0\0")
    if not conn.recv(600).startswith(b"MPA ID Rep Frame"):
        raise Fail("no MPA Reply")


def take_request(t, conn):
    """Waits for a Request."""
    conn.settimeout(t.left(20))
    if not conn.recv(600).startswith(b"MPA ID Req Frame"):
        raise Fail("no MPA Request")


def answer(t, conn):
    """Answers a Request by revision 1, without CRCs and depths."""
    take_request(t, conn)
    conn.sendall(b"MPA ID Rep Frame\x40\x01\x00\x00")
