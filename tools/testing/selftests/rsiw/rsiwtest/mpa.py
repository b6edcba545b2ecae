# SPDX-License-Identifier: GPL-2.0
"""MPA by hand: the frames of connection set-up, and Sends (RFC 5044 sections 4 and
7.1, RFC 5041 section 4.2, RFC 5040 section 4.3)."""

import ctypes
import functools
import os
import struct

from .core import Fail

# Opcodes (lib/fpdu.h), the queue of Terminates, and what headers, pad and CRC take at most.
WRITE, SEND, TERMINATE, TERMINATES, ROOM = 0, 3, 7, 2, 64
# Of a Send that is one segment: the header, and how it begins.
HEADER, BEGINNING = 18, b"\x41\x43"
# Where our programs are, set before any test is run.
bin_dir = ""
# Bit of a Reply that is a refusal.
REJECTED = 0x20


def request(conn, data=b"", mode=b"\0\1"):
    """Asks, by revision 1 if `mode` (flags and revision) is none other, with private data."""
    conn.sendall(frame(data, mode))


def frame(data=b"", mode=b"\0\1"):
    """The Request that asks so."""
    return b"MPA ID Req Frame" + mode + struct.pack(">H", len(data)) + data


def take_reply(conn):
    """Waits for the answer, which has to accept."""
    reply = conn.recv(600)
    if not reply.startswith(b"MPA ID Rep Frame") or reply[16] & REJECTED:
        raise Fail("no MPA Reply that accepts")


def ask(conn, data=b"", mode=b"\0\1"):
    """Asks as `request`, and waits for the answer."""
    request(conn, data, mode)
    take_reply(conn)


def ask_peer_to_peer(conn):
    """Asks by revision 2, with CRCs, for the mode in which this side sends first."""
    # A, B, and a depth of 4; the other depth.
    ask(conn, struct.pack(">HH", 0xc004, 4), b"\x50\2")


def first_message():
    """What the side that connects sends first in that mode: a Write of nothing."""
    room = ctypes.create_string_buffer(ROOM)
    length = library().wire_tagged(room, WRITE, 0, 0, b"", 0)
    return room.raw[:length]


def take_request(t, conn):
    """Waits for a Request."""
    conn.settimeout(t.left(20))
    if not conn.recv(600).startswith(b"MPA ID Req Frame"):
        raise Fail("no MPA Request")


def answer(t, conn):
    """Answers a Request by revision 1, with CRCs and without depths."""
    take_request(t, conn)
    conn.sendall(b"MPA ID Rep Frame\x40\x01\x00\x00")


@functools.cache
def library():
    """What writes FPDUs, the same as for the programs in C (lib/fpdu.h)."""
    found = ctypes.CDLL(os.path.join(bin_dir, "libwire.so"))
    found.wire_untagged.restype = ctypes.c_size_t
    found.wire_untagged.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32,
                                    ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t)
    found.wire_tagged.restype = ctypes.c_size_t
    found.wire_tagged.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32,
                                  ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t)
    return found


def fpdu(msn, payload):
    """A message that is one segment, the msn-th Send of a side."""
    room = ctypes.create_string_buffer(len(payload) + ROOM)
    length = library().wire_untagged(room, SEND, 0, msn, payload, len(payload))
    return room.raw[:length]


def terminate(code):
    """The message that ends a side's stream because of this error, and quotes nothing."""
    room = ctypes.create_string_buffer(ROOM)
    length = library().wire_untagged(room, TERMINATE, TERMINATES, 1,
                                     struct.pack(">HH", code, 0), 4)
    return room.raw[:length]


def send(conn, msn, payload):
    """Sends such a message."""
    conn.sendall(fpdu(msn, payload))


def receive(conn):
    """Waits for an FPDU; the payload of the Send that it is, which is one segment."""
    def take(count):
        octets = b""
        while len(octets) < count:
            more = conn.recv(count - len(octets))
            if not more:
                raise Fail("the stream ends inside an FPDU")
            octets += more
        return octets

    length = take(2)
    count, = struct.unpack(">H", length)
    ulpdu = take(count)
    take(-(2 + count) % 4 + 4)
    if not ulpdu.startswith(BEGINNING):
        raise Fail("no Send in one segment: %s" % ulpdu[:HEADER].hex())
    return ulpdu[HEADER:]
