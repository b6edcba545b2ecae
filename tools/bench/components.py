# SPDX-License-Identifier: GPL-2.0
"""Which component of the system a function belongs to.

The kernel's functions are told by the source file that defines them, so that a
driver or a kernel that changes needs no new list here: mm/ is memory management,
net/ is TCP/IP. The exceptions are copies and checksums, which are everywhere, and
what a driver sends and receives, which no directory tells apart.
"""

import json
import os
import re

from counting import base_name, demangle

# In the order in which they are shown.
COMPONENTS = (
    ("program", "program and its libraries"),
    ("core", "system calls, scheduler, verbs core"),
    ("driver-tx", "driver, sending"),
    ("driver-rx", "driver, receiving"),
    ("copies", "copies and checksums"),
    ("tcp", "TCP/IP"),
    ("memory", "memory management"),
    ("cleared", "octets that are cleared"),
)
NAMES = dict(COMPONENTS)
# An emulated processor counts each octet of these, a real one takes 16 to 64 at a time.
OCTETS = ("copies", "cleared")

DRIVERS = ("rsiw", "siw", "rdma_rxe")

# Sources whose functions matter here.
SOURCES = ("mm", "net/core", "net/ipv4", "net/ipv6", "net/sched", "net/ethernet",
           "net/netlink", "net/unix", "net/socket.c", "net/packet",
           "net/netfilter", "net/sunrpc", "kernel", "lib", "fs", "io_uring",
           "block", "security", "arch/x86", "drivers/infiniband/core",
           "drivers/infiniband/sw/siw", "drivers/infiniband/sw/rxe",
           "drivers/net/veth.c", "drivers/net/loopback.c", "drivers/virtio",
           "drivers/char", "drivers/tty")

# The head of a definition: at the start of a line, followed by a body.
DEFINED = re.compile(
    r"^(?!(?:typedef|struct|enum|union)\b[^(]*\{)"
    r"[A-Za-z_][^;{}()=#\"]*?\b(\w+)\([^;{}\"]*\)[\w\s]*\n\{", re.M)
ASSEMBLED = re.compile(
    r"^\s*SYM_(?:TYPED_)?(?:FUNC|CODE|INNER_LABEL)_?(?:START|ALIAS)?\w*"
    r"\((\w+)", re.M)
SYSCALL = re.compile(r"^(?:COMPAT_)?SYSCALL_DEFINE\d\((\w+)", re.M)

# Wherever they are: what touches each octet of a message.
COPIES = re.compile(
    r"^(__|_|____)*(memcpy|memmove|memcpy_orig|memmove_erms|"
    r"rep_movs_alternative|copy_(to|from)_user\w*|copy_user_\w+|"
    r"copy_(to|from)_iter\w*|copy_page_(to|from)_iter\w*|"
    r"csum_partial\w*|csum_and_copy\w*|csum_tcpudp\w*|"
    r"skb_copy_(bits|datagram)\w*|skb_checksum\w*|skb_datagram_iter\w*|"
    r"crc32c?\w*|crc_t10dif\w*|memcpy_(to|from)iter\w*)$")
# Wherever they are: most of it clears what is allocated.
CLEARING = re.compile(
    r"^_*(memset\w*|rep_stos_alternative|clear_user\w*|clear_pages?(_(erms|rep|orig|range))?)$")
CRC_MODULE = re.compile(r"^(lib)?crc")

PLACES = (
    ("copies", re.compile(r"^lib/(crc/|checksum\.c)|"
                          r"^arch/x86/lib/(mem|copy_|csum|usercopy)")),
    ("memory", re.compile(r"^mm/|^arch/x86/mm/|^arch/x86/lib/clear_page|"
                          r"^lib/maple_tree\.c")),
    ("tcp", re.compile(r"^net/|^drivers/net/")),
)
NET_MODULE = re.compile(
    r"^(veth|nf_|nft_|x_tables|ip_|ip6?_?(udp_tunnel|tables)|udp_tunnel|sch_|"
    r"tcp_|af_packet|dummy)")
# Of functions that no source tells, such as inline ones of headers.
NET_NAME = re.compile(
    r"^_*(tcp|ip6?|ipv[46]|inet6?|skb|sk|sock|net|netif|dev|napi|udp|neigh|dst|"
    r"nf|eth|loopback|veth|qdisc)_")
MEMORY_NAME = re.compile(
    r"^_*(kmem_cache|kmalloc|kfree|kvfree|vmalloc|slab|page|folio|alloc_pages?|"
    r"free_pages?|clear_page|put_page|get_page|pte|pmd|vma|mm|mod_memcg)_?")

# Of a driver. The first that fits; what neither names is used by both ways
# (completion queues, regions) and counts for the receiving one, which completes
# most.
C_SIDES = (
    ("driver-tx", re.compile(
        r"siw_qp_tx\.c|rxe_(req|comp|av)\.c|rxe_net\.c|rxe_task\.c")),
    ("driver-rx", re.compile(r"siw_qp_rx\.c|rxe_(resp|recv|mr|mw|icrc)\.c")),
)
C_NAMES = (
    ("driver-rx", re.compile(r"recv|_rcv|_rx|rqe|receive|data_ready|srq|resp")),
    ("driver-tx", re.compile(
        r"send|_tx|sqe|_sq_|write_space|xmit|_req\b|_req_(?!notify)|requester")),
)
RUST_NAMES = (
    ("driver-rx", re.compile(
        r"::intake\b|Receiver|receive|inbound|placement|::place\b|::rq\b|::srq\b|"
        r"post_recv|collector|deframer|net::chunk|net::tcp::actor|read_done|"
        r"data_ready|::order\b|umem::Slices|proto::segment")),
    ("driver-tx", re.compile(
        r"::sending\b|Sender|::send|outgoing|::frame\b|::sq\b|::start\b|::posted\b|"
        r"post_send|doorbell|net::batch|TcpLink|::source\b|::sgl\b|_sends?\b|sends_done|"
        r"write_space|::progress\b|::budget\b|next_request|Sending|"
        r"::schedul|::burst|proto::message|Qp as .*WorkItem|::work\b")),
)


def first(rules, text):
    """The component of the first rule that fits, or None."""
    for component, pattern in rules:
        if pattern.search(text):
            return component
    return None


def scan(tree):
    """{function: [source files]} of what SOURCES define in a kernel tree."""
    found = {}
    for top in SOURCES:
        full = os.path.join(tree, top)
        walk = [(os.path.dirname(full), [], [os.path.basename(full)])] \
            if os.path.isfile(full) else os.walk(full)
        for where, _, names in walk:
            for name in names:
                if not name.endswith((".c", ".S")):
                    continue
                path = os.path.join(where, name)
                with open(path, encoding="utf-8", errors="replace") as f:
                    text = f.read()
                functions = set(DEFINED.findall(text)) if name.endswith(".c") \
                    else set(ASSEMBLED.findall(text))
                functions |= {"__x64_sys_" + n for n in SYSCALL.findall(text)}
                functions |= {"__do_sys_" + n for n in SYSCALL.findall(text)}
                for function in functions:
                    found.setdefault(function, []).append(
                        os.path.relpath(path, tree))
    return found


def sources(tree, cache):
    """As scan(), kept in the file `cache`."""
    try:
        with open(cache, encoding="utf-8") as f:
            kept = json.load(f)
        if kept["tree"] == tree:
            return kept["functions"]
    except (OSError, ValueError, KeyError):
        pass
    functions = scan(tree)
    with open(cache, "w", encoding="utf-8") as f:
        json.dump({"tree": tree, "functions": functions}, f)
    return functions


def place(path):
    """The component of a source file outside the drivers."""
    return first(PLACES, path) or "core"


class Grouping:
    """Components of one kernel's functions."""

    def __init__(self, symbols, sources_of):
        self.functions = symbols.functions
        self.index = {f: i for i, f in enumerate(symbols.functions)}
        self.sources_of = sources_of

    def component(self, function, readable):
        """Of a counting.Function, `readable` is its demangled name."""
        if function.home.startswith("/") or not function.home:
            return "program"
        name = base_name(function.name)
        if COPIES.match(name):
            return "copies"
        if CLEARING.match(name):
            return "cleared"
        if function.home == "rsiw":
            return first(RUST_NAMES, readable) or "driver-rx"
        if function.home in DRIVERS:
            return self.driver(name, function.home)
        if function.home != "vmlinux":
            if CRC_MODULE.match(function.home):
                return "copies"
            return "tcp" if NET_MODULE.match(function.home) else "core"
        return self.of_kernel(name) or self.neighbour(function) or "core"

    def driver(self, name, home):
        below = "/%s/" % {"rdma_rxe": "rxe"}.get(home, home)
        files = [p for p in self.sources_of.get(name, ()) if below in p]
        by_file = first(C_SIDES, files[0]) if files else None
        return by_file or first(C_NAMES, name) or "driver-rx"

    def of_kernel(self, name):
        """By its source, None if that is not known for sure."""
        files = [p for p in self.sources_of.get(name, ())
                 if "/infiniband/sw/" not in p]
        places = {place(p) for p in files}
        if len(places) == 1:
            return places.pop()
        if files:
            return None
        if NET_NAME.match(name):
            return "tcp"
        return "memory" if MEMORY_NAME.match(name) else None

    def neighbour(self, function):
        """By the functions before it, which are mostly of the same file."""
        i = self.index.get(function, 0)
        for other in self.functions[max(0, i - 8):i][::-1]:
            if other.home != "vmlinux":
                break
            found = self.of_kernel(base_name(other.name))
            if found:
                return found
        return None


def work(values):
    """What instructions of a message by component are, apart from those for each octet."""
    return sum(value for name, value in values.items() if name not in OCTETS)


def summary(counts, grouping, top):
    """Of {Function: Count}: what each component took, polling, and the `top`
    most expensive functions, as the script "analyse" prints them."""
    functions = list(counts)
    readable = dict(zip(functions, demangle(f.name for f in functions)))
    total = {name: 0 for name, _ in COMPONENTS}
    rows = []
    for function, count in counts.items():
        component = grouping.component(function, readable[function])
        value = count.all - count.polled
        total[component] += value
        rows.append({"name": readable[function],
                     "home": os.path.basename(function.home),
                     "component": component, "value": round(value, 2)})
    rows.sort(key=lambda row: -row["value"])
    return {"components": {c: round(v, 1) for c, v in total.items()},
            "polling": round(sum(c.polled for c in counts.values()), 1),
            "functions": rows[:top]}
