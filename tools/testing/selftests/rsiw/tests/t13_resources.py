# SPDX-License-Identifier: GPL-2.0
"""`rdma resource show ... -dd`: what the driver adds."""


from rsiwtest.core import WIRE, Fail, test
from rsiwtest.kverbs import Held, loaded
from rsiwtest.machine import wait_until
from rsiwtest.tools import Perftest, pinging
from rsiwtest.topo import objects


def details(kind, **having):
    """Objects of a kind that have these values, with the driver's details."""
    return [o for o in objects(kind, details=True) if all(o.get(k) == v for k, v in having.items())]


def check(what, entry, **want):
    """`entry` has these values; where `want` is a type, one of that type."""
    for name, value in want.items():
        found = entry.get(name)
        if isinstance(value, type):
            good = isinstance(found, value)
        else:
            good = found == value
        if not good:
            raise Fail("%s: %s is %r, not %r: %s" % (what, name, found, value,
                                                     entry))


@test("resources", cost=4, only_type="rsiw", tcp=WIRE)
def resources(t):
    """The details of a connection's objects are those of its program."""
    server, client = pinging(t, t.topo.wire)
    # The server's end runs when it has sent the Reply, with which the client's begins.
    wait_until("the server's end", 10, lambda: details(
        "qp", pid=server.pid, drv_iwarp_state="RTS") and details(
        "cm_id", pid=server.pid, state="CONNECT", drv_phase="running"))
    with t.sub("queue pairs"):
        one, = details("qp", pid=client.pid)
        other, = details("qp", pid=server.pid)
        for qp in (one, other):
            check("QP", qp, drv_iwarp_state="RTS", drv_crc="yes",
                  drv_tls="no", drv_markers="no", drv_windows=0, drv_reads_out=int,
                  drv_reads_in=int, drv_tcp_unacked=int, drv_batch_bytes=int,
                  drv_mss=int, drv_direct_peer=None, drv_direct_tx="no",
                  drv_direct_rx="no")
    with t.sub("connections"):
        for pid in (client.pid, server.pid):
            cm, = details("cm_id", pid=pid, state="CONNECT")
            check("cm_id", cm, drv_phase="running", drv_conn=int)
        listener, = details("cm_id", pid=server.pid, state="LISTEN")
        check("listener", listener, drv_half_open=0, drv_max_half_open=int,
              drv_handshakes=0)
    with t.sub("completion queues"):
        cq, = details("cq", pid=client.pid)
        # rping has its one queue armed nearly all the time.
        wait_until("an armed queue", 10, lambda: details(
            "cq", pid=client.pid, drv_armed="next"))
        check("CQ", cq, drv_entries=int, drv_overflowed="no")
    with t.sub("regions"):
        mrs = details("mr", pid=client.pid)
        if not mrs:
            raise Fail("none")
        for mr in mrs:
            check("MR", mr, drv_kind="user", drv_valid="yes", drv_windows=0,
                  drv_users=int)
        if not any(mr["drv_remote_write"] == mr["drv_local_write"] == "yes"
                   for mr in mrs):
            raise Fail("none that the peer may write to: %s" % mrs)


@test("resources-direct", cost=6, only_type="rsiw")
def direct(t):
    """Two queue pairs of this host name each other, and say where segments go."""
    with t.loaded_with("direct=2"):
        server, client = pinging(t, t.topo.wire)
        # TCP may still have the answer to the request to connect.
        for pid in (client.pid, server.pid):
            wait_until("both directions", 10, lambda: details(
                "qp", pid=pid, drv_direct_tx="yes", drv_direct_rx="yes"))
        one, = details("qp", pid=client.pid)
        other, = details("qp", pid=server.pid)
        for qp, peer in ((one, other), (other, one)):
            check("QP", qp, drv_direct_peer=peer["lqpn"], drv_direct_tx="yes",
                  drv_direct_rx="yes", drv_tcp_unsent=0, drv_tcp_unread=0)


@test("resources-srq", cost=4, only_type="rsiw")
def of_srq(t):
    """The details of a shared receive queue."""
    pair = Perftest(t, t.topo.wire, "ib_send_bw", "--use-srq", "-r", 64, "-D", 30)
    pair.connect()

    def queues():
        pair.ensure_running()
        return details("srq", pid=pair.server.pid)

    srq, = wait_until("a queue", 20, queues)
    check("SRQ", srq, drv_depth=int, drv_limit=0, drv_max_sge=int)


@test("resources-kernel", cost=6, only_type="rsiw")
def of_kernel(t):
    """The details of a queue pair of the kernel's, with its own words for a state."""
    with loaded(t), Held() as held:
        qp, = details("qp", lqpn=held.num)
        check("QP", qp, state="INIT", drv_iwarp_state="Idle", drv_sq_empty="yes",
              drv_sends_under_way=0, drv_reads_out=0, drv_mss=None)


@test("resources-many", cost=12, only_type="rsiw")
def of_many(t):
    """Thousands of identifiers are shown, in many messages, each once and with its details."""
    count = t.rounds(4000)
    proc = t.start(t.bin("hoard"), *t.topo.loopback.args(), "--port", t.port(),
                   "--kind", "listener", "--count", count, "--hold")
    proc.wait_output("all %d:" % count, t.left(100))
    shown = details("cm_id", state="LISTEN", pid=proc.pid)
    numbers = set(one["cm-idn"] for one in shown)
    # The program listens itself, too.
    if len(shown) != count + 1 or len(numbers) != count + 1:
        raise Fail("%d identifiers are shown, %d different, not %d" %
                   (len(shown), len(numbers), count + 1))
    for one in shown:
        check("listener", one, drv_half_open=0, drv_max_half_open=int,
              drv_handshakes=0)


# What anybody may be told. Before anything is added: does it help to forge what a peer
# sends, to reset a connection, or to use a region?
FOR_ALL = {
    "qp": "iwarp_state ended_by sq_empty sends_under_way sends_stalled reads_out ord reads_in "
          "ird windows by_number poll_us crc tls markers large_fpdus batch_bytes direct_tx "
          "direct_rx direct_peer mss tcp_unacked tcp_unsent tcp_unread",
    "cm_id": "conn phase half_open max_half_open handshakes",
    "cq": "entries waiting armed overflowed",
    "srq": "depth max_sge limit posted",
    "mr": "kind valid windows users local_write remote_write remote_read remote_atomic",
}


@test("resources-for-all", cost=4, only_type="rsiw")
def for_all(t):
    """Nothing is told that helps to forge: no numbers of TCP and of messages, and no places in
    memory. The core does not say who asks, so this is so for root as well."""
    pinging(t, t.topo.wire)
    pinging(t, t.topo.loopback)
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all")
    faults = []
    for name, who in (("nobody", nobody), ("root", ())):
        for kind, known in FOR_ALL.items():
            shown = objects(kind, details=True, who=who)
            told = {k[len("drv_"):] for o in shown for k in o if k.startswith("drv_")}
            if kind != "srq" and not told:
                faults.append("%s is told nothing of a %s" % (name, kind))
            more = sorted(told - set(known.split()))
            if more:
                faults.append("%s is told of a %s: %s" % (name, kind, ", ".join(more)))
    if faults:
        raise Fail("\n".join(faults))
