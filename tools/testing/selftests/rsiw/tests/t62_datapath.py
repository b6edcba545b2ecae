# SPDX-License-Identifier: GPL-2.0
"""The data path where something fails, waits, or comes in masses.

What is made to fail or to wait, and what is counted, is done by our own modules
(tools/testing/kverbs): the programs only say when. It is calls of TCP and softirq,
so all goes through TCP here.
"""

from rsiwtest import stats
from rsiwtest.core import ANY_PATH, Fail, test
from rsiwtest.faults import (CALLS, WATCH, address, failing_calls, function, has,
                             lock_name, text_like, text_of, watched)
from rsiwtest.kverbs import complaint, loaded
from rsiwtest.tools import perftest
from rsiwtest.topo import IF_A, IF_B, NS_A, NS_B, sh
from tests import t60_data

# What TCP and its reset answer when they do nothing.
REFUSED = {"tcp_sendmsg_locked": -12, "tcp_abort": 0}
STARVED = {"rust_helper_kvrealloc_node_align": 0}
# What TCP itself asks for when it takes data.
NO_BUFFER = {"tcp_stream_alloc_skb": 0}

# Called for each FPDU, each end of a request, and once for what TCP has.
FPDU = r"5proto8receiver.*8Receiver.*E6finish[^.]*$"
END = r"2qp11completions.*13complete_work$"
WORK = r"2qp6actors.*(WorkItem3run|3act)$"
BATCH = r"rsiw_helper_tx_pages_alloc$"
READY = r"9Callbacks.*6StreamE10data_ready"
# Looks for octets in the list of a buffer.
LIST = r"^skb_piece_in_list"

# What one softirq may do (proto/deframer.rs): this much, and a last FPDU or request.
MOST_FPDUS = 256 * 1024 // 512 + 1
MOST_WITH_PIECES = 256 * 1024 // (512 + 32 * 256) + 1
MOST_ENDS = 256
# The case of a kernel consumer that has them.
PIECES = "receive-pieces"


def step(t, name, answers, where=None, args=()):
    """A step of the program, in which calls of the driver fail or wait."""
    t.need_module(CALLS)
    where = where or text_of(t.env.module)
    with failing_calls(where, answers) as failing:
        t.own("datapath", t.topo.loopback, "--only", name, "--dir",
                failing.dir, *args)


def page_name():
    """The function that allocates pages for a batch."""
    # Without NUMA alloc_pages is a macro.
    return next(filter(has, ("alloc_pages_noprof", "__alloc_pages_noprof")))


def count(t, pattern, most, run):
    """What is run calls a function at most so often in one softirq."""
    t.need_module(WATCH)
    module = t.env.module
    with watched(address(module, pattern), address(module, READY)) as seen:
        run()
        with t.sub("at most %d in one softirq" % most):
            if not seen("total"):
                raise Fail("nothing was done in softirq")
            if seen("most") > most:
                raise Fail("%d" % seen("most"))


@test("path-refused", only_type="rsiw", tcp=ANY_PATH)
def refused(t):
    """Requests of a batch that TCP refuses do not complete as if it had not."""
    step(t, "refused", REFUSED)


@test("path-unsent", cost=5, only_type="rsiw", tcp=ANY_PATH)
def unsent(t):
    """TCP that has no memory, and does not tell when it has, is asked seldom."""
    step(t, "unsent", NO_BUFFER, function("tcp_sendmsg_locked"))


@test("path-untold", cost=5, only_type="rsiw", tcp=ANY_PATH)
def untold(t):
    """A Terminate for which there is no memory is not forgotten."""
    step(t, "untold", {page_name(): 0}, text_like(t.env.module, BATCH))


@test("path-starved", cost=15, only_type="rsiw", tcp=ANY_PATH)
def starved(t):
    """No memory to receive with: the stream waits, and does not wait for ever."""
    step(t, "starved", STARVED)
    step(t, "starved-for-ever", STARVED)


@test("path-stale", cost=5, only_type="rsiw", tcp=ANY_PATH)
def stale(t):
    """What was seen of one connection is not taken for the next one's."""
    for name in ("stale-fin", "stale-terminate"):
        step(t, name, {lock_name(): "hold"}, text_like(t.env.module, WORK))


@test("path-reset", cost=5, only_type="rsiw", tcp=ANY_PATH)
def reset(t):
    """A connection that was reset does not end as if it had been closed."""
    since = stats.Since(t.topo.loopback.server_dev)
    step(t, "reset", {"lock_sock_nested": "hold"})
    with t.sub("it is counted as lost"):
        seen = since.of(t.topo.loopback.server_dev)
        if seen.get("conn_lost") != 1:
            raise Fail("%s" % seen)


@test("path-invalidated", cost=5, only_type="rsiw", tcp=ANY_PATH)
def invalidated(t):
    """A message whose invalidation waits is received although its QP disconnects."""
    lock = lock_name()
    for name in ("invalidated", "invalidated-late"):
        step(t, name, {lock: "hold", "tcp_sendmsg_locked": "hold"},
             args=("--lock", lock))


@test("path-staged", cost=8, only_type="rsiw", tcp=ANY_PATH)
def staged(t):
    """An FPDU that comes in pieces is taken in with the end of the budget."""
    t.own("datapath", t.topo.loopback, "--only", "staged")


@test("path-ends", cost=5, only_type="rsiw", tcp=ANY_PATH)
def ends(t):
    """Thousands of requests that end at once are not completed in softirq."""
    count(t, END, MOST_ENDS, lambda: t.own(
        "datapath", t.topo.loopback, "--only", "ends"))


@test("path-tiny", cost=5, only_type="rsiw", tcp=ANY_PATH)
def tiny(t):
    """Thousands of FPDUs in one piece are not all taken in in softirq."""
    count(t, FPDU, MOST_FPDUS, lambda: t.own(
        "datapath", t.topo.loopback, "--only", "tiny"))


@test("path-pieces", cost=5, only_type="rsiw", tcp=ANY_PATH)
def pieces(t):
    """Receives of many elements are not all filled in softirq."""
    def run():
        with t.sub("V-RNIC-10 receives of 32 elements"):
            error = complaint(PIECES)
            if error:
                raise Fail(error)

    with loaded(t):
        count(t, FPDU, MOST_WITH_PIECES, run)


def count_fpdus(t, op, size):
    """Counts the FPDUs of some messages, at whoever receives them."""
    messages, path = 50, t.topo.wire
    dev = path.client_dev if op == "read" else path.server_dev
    since = stats.Since(dev)
    perftest(t, path, "ib_%s_bw" % op, size, messages)
    seen = since.of(dev)
    if seen["rx_fpdus"] > 3 * messages:
        raise Fail("%d FPDUs for %d messages" % (seen["rx_fpdus"], messages))
    # A buffer of TCP holds one segment at least, and mostly not all.
    if not seen.get("rx_fpdus_joined"):
        raise Fail("none was taken in from several buffers: %s" % seen)
    if seen.get("rx_fpdus_in_pieces", 0) > seen["rx_fpdus"] // 2:
        raise Fail("most were copied twice: %s" % seen)


@test("path-large-fpdus", cost=100, only_type="rsiw", long=True)
def large_fpdus(t):
    """FPDUs that are longer than segments are taken in from where they lie, and only
    sent to a peer that wants them (RFC 5044 section 5.1)."""
    for crc in (0, 1) if t.env.slow == 1 else (1,):
        with t.loaded_with("direct=0", "large_fpdus=1", "mpa_crc=%d" % crc):
            for part in (t60_data.split, t60_data.random, t60_data.small):
                part(t)
            for op in ("send", "write", "read"):
                with t.sub("%s, mpa_crc=%d" % (op, crc)):
                    count_fpdus(t, op, 65536)


@test("path-expected", cost=10, only_type="rsiw")
def expected(t):
    """TCP tells of a long FPDU when it is there, not of each segment of it, as it is told how much
    is waited for. So it does not take the receiver for slow, and acknowledges in time."""
    t.need_module(WATCH)
    messages, path = 50, t.topo.wire
    with t.loaded_with("direct=0"):
        # Segments have to come one by one. The next test gets other interfaces.
        t.topo.changed = True
        for ns, netdev in ((NS_A, IF_A), (NS_B, IF_B)):
            sh("ip", "link", "set", "dev", netdev, "gso_max_segs", "1", netns=ns)
        read, _ = function("tcp_read_sock")
        with watched(read, address(t.env.module, READY)) as seen:
            perftest(t, path, "ib_send_bw", 65536, messages)
            told = seen("total")
    # Of a message of 46 segments in two FPDUs.
    if not messages <= told <= 8 * messages:
        raise Fail("TCP told of data %d times, of %d messages" % (told, messages))


@test("path-gro", cost=25, only_type="rsiw", long=True)
def gro(t):
    """Segments that GRO has put together, in lists of buffers, are taken in."""
    t.need_module(WATCH)
    for crc in (0, 1):
        with t.sub("mpa_crc=%d" % crc), \
                t.loaded_with("direct=0", "large_fpdus=1", "mpa_crc=%d" % crc):
            # The next test gets other interfaces.
            t.topo.changed = True
            for ns, netdev in ((NS_A, IF_A), (NS_B, IF_B)):
                sh("ethtool", "-K", netdev, "tso", "off", "gso", "off", "gro", "on",
                   netns=ns)
            module, path = t.env.module, t.topo.wire
            with watched(address(module, LIST), address(module, READY)) as seen:
                t.own("integrity", path, "--only", "random", "--seconds", 4,
                      "--max-size", 300000)
                for op in ("send", "write", "read"):
                    perftest(t, path, "ib_%s_bw" % op, 65536, 50)
                lists = seen("total")
            if not lists:
                raise Fail("GRO has made no lists")
