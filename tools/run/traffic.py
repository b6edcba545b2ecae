# SPDX-License-Identifier: GPL-2.0
"""What the devices of all hosts have counted."""

from collections import Counter



class Traffic:
    """Sums of counters, of which each host says "counted NAME VALUE NAME VALUE..."."""

    def __init__(self):
        self.sums = Counter()

    def add(self, line):
        words = line.split()[1:]
        for name, value in zip(words[::2], words[1::2]):
            self.sums[name] += int(value)

    def any(self):
        """Whether there was more than what belongs to the set-up of connections."""
        return (self.sums["tx_fpdus"] > self._connections() or
                self.sums["tx_datagrams"] + self.sums["sent_pkts"] > 0)

    def _connections(self):
        """Both ends of each count it, as both are in the machines."""
        return (self.sums["conn_established"] + 1) // 2

    def _octets(self):
        return sum(self.sums[f"tx_{what}_bytes"] for what in ("send", "write", "read_response"))

    def lines(self, drivers):
        """A line for each driver that counts."""
        for driver in drivers:
            if driver == "rsiw":
                yield self._rsiw()
            elif driver == "rxe":
                packets = self.sums["sent_pkts"]
                yield f"rxe: {some(packets, 'packet')}, {size(self.sums['sent_bytes'])}"

    def _rsiw(self):
        words = [some(self._connections(), "connection"), some(self.sums["tx_fpdus"], "FPDU"),
                 size(self._octets())]
        # Whose octets the devices do not count.
        if self.sums["tx_datagrams"]:
            words.append(some(self.sums["tx_datagrams"], "datagram"))
        return f"rsiw: {', '.join(words)}"


def some(number, what):
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def size(octets):
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if octets >= unit:
            return f"{octets / unit:,.{0 if octets >= 10 * unit else 1}f} {name}"
    return some(octets, "octet")
