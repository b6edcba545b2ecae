# SPDX-License-Identifier: GPL-2.0
"""iWARP frames of a capture, as an independent dissector reads them."""

import re
import subprocess

# The dissectors of upper layers guess at the contents of small Sends.
UPPER = ("rpcordma", "smb_direct", "nvme-rdma", "iser", "rpc", "nfs")
# A segment of 1448 bytes holds length, ULPDU and CRC.
LARGEST = 1448 - 6


def command(pcap):
    """The command that has tshark say all it knows of the iWARP layers."""
    # MPA is told by its contents, not by ports that NVMe has over TCP as well.
    argv = ["tshark", "-n", "-o", "tcp.try_heuristic_first:TRUE"]
    for name in UPPER[:2]:
        argv += ["--disable-protocol", name]
    return argv + ["-r", pcap, "-V", "-O", "iwarp_mpa,iwarp_ddp_rdmap"]


def dissect(pcap):
    """What it says."""
    return subprocess.run(command(pcap), capture_output=True, text=True,
                          errors="replace", check=True).stdout


def numbers(pattern, text):
    return [int(v, 0) for v in re.findall(pattern, text)]


def judge(text):
    """Complaints about a capture of connections that ended well."""
    found = []
    if "Malformed" in text:
        at = text.index("Malformed")
        found.append("malformed: %s" % text[max(0, at - 300):at + 60])
    if not re.search(r"Request frame header", text) or \
            not re.search(r"Reply frame header", text):
        found.append("no connection set-up")
    if not set(numbers(r"Revision: (\d+)", text)) <= {1, 2}:
        found.append("MPA revisions %s" % set(
            numbers(r"Revision: (\d+)", text)))
    if re.search(r"Marker flag: (True|Set)|1\.*= Marker flag", text):
        found.append("markers were asked for")
    sizes = numbers(r"ULPDU length: (\d+)", text)
    if not sizes:
        found.append("no FPDU")
    elif max(sizes) > LARGEST:
        found.append("an ULPDU of %d bytes does not fit a segment" %
                     max(sizes))
    bad = text.count("Bad CRC32")
    if bad:
        found.append("%d CRCs are wrong, %d right" % (
            bad, text.count("Good CRC32")))
    if 7 in numbers(r"OpCode: .*\((0x[0-9a-f]+)\)", text):
        found.append("a Terminate")
    return found
