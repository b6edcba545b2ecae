# SPDX-License-Identifier: GPL-2.0
"""iWARP frames of a capture, as an independent dissector reads them."""

import itertools
import os
import re
import signal
import subprocess
import time

from .core import Fail
from .machine import wait_until

# The dissectors of upper layers guess at the contents of small Sends.
UPPER = ("rpcordma", "smb_direct", "nvme-rdma", "iser", "rpc", "nfs")
# Payload of a segment; length field and CRC of an FPDU are in it, too.
SEGMENT = 1448
LARGEST = SEGMENT - 6
# The same where FPDUs need not fit segments (RFC 5044 section 3).
LONGEST = 64768
# The bit of Request and Reply that agrees upon these (large_fpdus), among the reserved ones.
LONG = 0x08
# Of a packet: whose it is, up to where the other one may send, the payload and
# where it ends, the ULPDUs that end in it, and whether it is one that counts.
FIELDS = ("ip.src", "ip.dst", "tcp.stream", "tcp.ack", "tcp.window_size",
          "tcp.len", "tcp.nxtseq", "tcp.options.sack.count",
          "iwarp_mpa.ulpdulength", "iwarp_mpa.res", "iwarp_mpa.req", "iwarp_mpa.rep",
          "tcp.analysis.retransmission")
SIZE = r"ULPDU length: (\d+)"


# KiB of packets for which the kernel has room until tcpdump takes them.
ROOM = 16 << 10
# What it says of packets: those it has taken, those that matched, those without room.
COUNTS = re.compile(r"(\d+) packets? captured,?\s+(\d+) packets? received by filter,?\s+"
                    r"(\d+) packets? dropped by kernel")


def counts(dump, sig=signal.SIGUSR1):
    """What tcpdump says of packets when it gets this signal."""
    before = len(COUNTS.findall(dump.output()))
    dump.kill(sig)
    said = wait_until("what tcpdump has counted", 20,
                      lambda: COUNTS.findall(dump.output())[before:])
    return tuple(map(int, said[-1]))


def wait_all(dump):
    """Waits until nothing has come for a second, and tcpdump has taken what had: the kernel keeps
    packets for that long. A packet from before it began may be among those that matched, and is
    never taken; so it is over, too, when nothing has changed for five seconds."""
    same, last = 0, None

    def is_over():
        nonlocal same, last
        # What is the same for some seconds is all that comes.
        time.sleep(1)
        now = counts(dump)
        same, last = same + 1 if now == last else 0, now
        taken, matched, lost = now
        return same >= (1 if taken + lost >= matched else 5)

    wait_until(lambda: "all packets in the capture:\n" + dump.tail(), 60, is_over)


def capture(t, netdev, pcap, work, *what, netns=None):
    """Captures what matches, all TCP by default, on an interface while the work is done.
    It is done again if the kernel had no room for a packet."""
    for _ in range(3):
        dump = t.start("tcpdump", "-i", netdev, "-s", "0", "-U", "-B", ROOM, "-w", pcap,
                       *(what or ("tcp",)), netns=netns)
        dump.wait_output("listening on", t.left(20))
        work()
        wait_all(dump)
        _, _, lost = counts(dump, signal.SIGINT)
        dump.wait(t.left(10))
        if not lost:
            return
    raise Fail("the kernel had no room for %d packets of a capture" % lost)


def tshark(pcap, *how):
    """What tshark says of a capture."""
    # MPA is told by its contents, not by ports that NVMe has over TCP as well.
    argv = ["tshark", "-n", "-o", "tcp.try_heuristic_first:TRUE"]
    for name in UPPER[:2]:
        argv += ["--disable-protocol", name]
    return subprocess.run([*argv, "-r", pcap, *how], capture_output=True,
                          text=True, errors="replace", check=True).stdout


def dissect(pcap):
    """All it knows of the iWARP layers."""
    return tshark(pcap, "-V", "-O", "iwarp_mpa,iwarp_ddp_rdmap")


def are_whole(length, fpdus, segment):
    """Whether none of a packet's FPDUs is in two of its segments: it may be many,
    of one length but for the last."""
    ends = list(itertools.accumulate(fpdus))
    return length <= segment or any(
        all((end - size) // unit == (end - 1) // unit
            for end, size in zip(ends, fpdus))
        for unit in ends if unit <= segment)


def framing(pcap, sources, segment=SEGMENT, long=False):
    """Complaints about where FPDUs lie: those of these sources are each in one segment (M-MPA-12),
    which has so many octets at most, but on connections that have agreed upon long ones, if
    there may be any. And all that a side sends lies in FPDUs, to the end.

    TCP fills the peer's window to the octet, also one that has become larger by
    the time it sends, and has less room in segments that acknowledge selectively;
    what it cuts there stays out of step up to the end of what it was given in one
    piece.
    """
    how = ["-Y", "tcp", "-T", "fields", "-E", "occurrence=a"]
    for field in FIELDS:
        how += ["-e", field]
    windows, begun, good, behind, bad = {}, {}, 0, 0, []
    asked, agreed_on, free, complaints = set(), set(), 0, []
    for line in tshark(pcap, *how).splitlines():
        (source, dest, stream, ack, window, length, end, sack, sizes, bits,
         request, reply, again) = line.split("\t")
        if ack:
            ends = windows.setdefault((dest, stream), set())
            ends.add(int(ack) + int(window))
        if request or reply:
            if int(bits, 16) & LONG:
                (asked if request else agreed_on).add(stream)
            continue
        if length == "0" or again:
            continue
        # Length field and ULPDU, padded, and the CRC.
        fpdus = [(int(n) + 5) // 4 * 4 + 4 for n in sizes.split(",") if n]
        before = begun.get((source, stream), 0)
        after = before + int(length) - sum(fpdus)
        begun[source, stream] = after
        if source not in sources:
            continue
        is_cut = sack or int(end) in windows.get((source, stream), ())
        if stream in agreed_on:
            free += 1
        elif before or (after and is_cut):
            behind += 1
        elif after == 0 and are_whole(int(length), fpdus, segment):
            good += 1
        else:
            bad.append("%s octets: %s" % (length, fpdus))
    print("# %s: %d packets of %d connections with long FPDUs; of %d others %d hold whole FPDUs, "
          "%d are behind what TCP cuts" % (
              os.path.basename(pcap), free, len(agreed_on), good + behind + len(bad), good,
              behind))
    if agreed_on and not long:
        complaints.append("%d connections have agreed upon long FPDUs" % len(agreed_on))
    if agreed_on - asked:
        complaints.append("%d Replies agree to long FPDUs without being asked" % len(
            agreed_on - asked))
    if not good and not agreed_on:
        complaints.append("no packet of %s holds whole FPDUs" % " and ".join(sources))
    if bad:
        complaints.append("%d packets do not hold whole FPDUs, so %s" % (
            len(bad), "; ".join(bad[:5])))
    complaints += ["%d octets of %s in stream %s are in no FPDU" % (rest, source, stream)
                   for (source, stream), rest in begun.items() if rest]
    return complaints


# Seconds: the driver waits no longer than 200 ms for an acknowledgement.
PATIENCE = 0.15


def first_fins(pcap, sources):
    """Of the FINs of these sources that are the first of their connection: how
    many there are, and those that are sent with what stands in front of them not
    acknowledged, without having waited for that."""
    fields = ("ip.src", "tcp.stream", "tcp.seq", "tcp.len", "tcp.ack",
              "tcp.flags.fin", "frame.time_epoch")
    how = ["-Y", "tcp and not tcp.flags.reset == 1", "-T", "fields"]
    for field in fields:
        how += ["-e", field]
    acked, sent, ended, early = {}, {}, set(), []
    for line in tshark(pcap, *how).splitlines():
        source, stream, seq, length, ack, fin, when = line.split("\t")
        # What the other side has acknowledged.
        have = max([a for (who, s), a in acked.items()
                    if s == stream and who != source], default=0)
        acked[source, stream] = int(ack or 0)
        end, when = int(seq) + int(length), float(when)
        # How far it has sent, and since when.
        if end > sent.get((source, stream), (0, 0))[0]:
            sent[source, stream] = end, when
        if fin not in ("1", "True") or stream in ended:
            continue
        ended.add(stream)
        waited = when - sent[source, stream][1]
        if source in sources and have < end and waited < PATIENCE:
            early.append("stream %s: %d octets, for %.3f s" % (stream, end - have, waited))
    return len(ended), early


def numbers(pattern, text):
    return [int(v, 0) for v in re.findall(pattern, text)]


def malformed(text):
    if "Malformed" in text:
        at = text.index("Malformed")
        yield "malformed: %s" % text[max(0, at - 300):at + 60]


def set_up(text):
    if not re.search(r"Request frame header", text) or \
            not re.search(r"Reply frame header", text):
        yield "no connection set-up"
    revisions = set(numbers(r"Revision: (\d+)", text))
    if not revisions <= {1, 2}:
        yield "MPA revisions %s" % revisions
    if re.search(r"Marker flag: (True|Set)|1\.*= Marker flag", text):
        yield "markers were asked for"


def agreed(text):
    """Whether a Reply says that FPDUs may be longer than segments (large_fpdus)."""
    replies = re.findall(r"Reply frame header.*?= Reserved: (0x[0-9a-f]+)", text, re.S)
    return any(int(bits, 16) & LONG for bits in replies)


def sizes(text):
    found = numbers(SIZE, text)
    if not found:
        yield "no FPDU"
    elif max(found) > (LONGEST if agreed(text) else LARGEST):
        yield "an ULPDU of %d bytes does not fit a segment" % max(found)


def versions(text):
    found = set(numbers(r"DDP protocol version: (\d+)", text))
    if found != {1}:
        yield "DDP versions %s" % found


def opcodes(text):
    return set(numbers(r"OpCode: .*\((0x[0-9a-f]+)\)", text))


def no_terminate(text):
    if 7 in opcodes(text):
        yield "a Terminate"


def crcs(text):
    bad, good = text.count("Bad CRC32"), text.count("Good CRC32")
    if bad:
        yield "%d CRCs are wrong, %d right" % (bad, good)
    flags = re.findall(r"CRC flag: (\w+)", text)
    fpdus = len(numbers(SIZE, text))
    if flags and set(flags) <= {"True", "Set"} and good != fpdus:
        yield "%d right CRCs for %d FPDUs" % (good, fpdus)


# What holds for connections that ended well: each gives complaints.
CHECKS = (
    ("no malformed frame (P-RDMAP-21, V-CM-3)", malformed),
    ("connection set-up (M-MPA-20)", set_up),
    ("FPDU sizes (M-MPA-10)", sizes),
    ("versions (D-DDP-2)", versions),
    ("no Terminate", no_terminate),
    ("CRC (M-MPA-5, D-DDP-27)", crcs),
)


def judge(text):
    """Complaints about a capture of connections that ended well."""
    return [line for _, check in CHECKS for line in check(text)]
