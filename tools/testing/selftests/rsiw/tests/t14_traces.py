# SPDX-License-Identifier: GPL-2.0
"""Trace events: names of states, operations and errors, in their order."""

from rsiwtest import traces
from rsiwtest.core import Fail, test
from rsiwtest.tools import pinging, rping


@test("traces", cost=5, only_type="rsiw")
def traces_of_rping(t):
    """A short connection, from its set-up to its end."""
    path = t.topo.wire
    with traces.Session() as session:
        rping(t, path, 5, 3000)
        with t.sub("set-up"):
            steps = session.events("rsiw_setup")
            for step in (
                    {"input": "connected", "from": "connecting"},
                    {"input": "accept", "from": "requested", "to": "starting"},
                    {"input": "done", "from": "starting", "to": "running"}):
                traces.expect(steps, **step)
            events = session.events("rsiw_setup_event")
            for name in ("connect_request", "connect_reply", "established",
                         "close"):
                traces.expect(events, event=name, error=0)
        with t.sub("states"):
            states = session.events("rsiw_qp_state")
            for dev in (path.server_dev, path.client_dev):
                mine = [(s["from"], s["to"]) for s in states if s["dev"] == dev]
                if ("Idle", "RTS") not in mine or ("RTS", "Closing") not in mine:
                    raise Fail("%s: %s" % (dev, mine))
                for (_, to), (begin, _) in zip(mine, mine[1:]):
                    if to != begin:
                        raise Fail("%s: a gap in %s" % (dev, mine))
        with t.sub("FPDUs"):
            sent = session.events("rsiw_fpdu_tx")
            received = session.events("rsiw_fpdu_rx")
            for opcode in ("send", "write", "read_request", "read_response"):
                traces.expect(sent, opcode=opcode, last=1)
                traces.expect(received, opcode=opcode, last=1)
            for a, b in ((path.server_dev, path.client_dev),
                         (path.client_dev, path.server_dev)):
                out = [e["opcode"] for e in sent if e["dev"] == a]
                come = [e["opcode"] for e in received if e["dev"] == b]
                if out != come:
                    raise Fail("%s sent %s, %s received %s" % (a, out, b, come))
        with t.sub("who sends, and what"):
            traces.expect(session.events("rsiw_doorbell"), actor="thread",
                          dev=path.client_dev)
            traces.expect(session.events("rsiw_batch"), left=0, error=0)
        with t.sub("completions"):
            done = session.events("rsiw_completion")
            for name in ("send", "receive", "read", "write"):
                traces.expect(done, operation=name, status="success")


@test("traces-direct", cost=6, only_type="rsiw")
def traces_of_direct(t):
    """Each segment that goes without TCP, and those that have to wait."""
    path = t.topo.wire
    with t.loaded_with("direct=2"), traces.Session(
            "rsiw_direct", "rsiw_fpdu_tx", "rsiw_batch") as session:
        rping(t, path, 5, 3000)
        asked = session.events("rsiw_direct")
        with t.sub("what became of them"):
            outcomes = {e["outcome"] for e in asked}
            if not {"taken"} <= outcomes <= {"taken", "enough", "later", "gone"}:
                raise Fail("%s" % outcomes)
        with t.sub("as many as were made"):
            made = session.events("rsiw_fpdu_tx")
            through = {e["dev"] for e in session.events("rsiw_batch")}
            for dev in (path.server_dev, path.client_dev):
                mine = [e for e in made if e["dev"] == dev]
                taken = [e for e in asked if e["dev"] == dev and
                         e["outcome"] == "taken"]
                if dev not in through and len(mine) != len(taken):
                    raise Fail("%s: %d of %d" % (dev, len(taken), len(mine)))
                # The server sends four messages a round, the client three. The
                # first go by TCP if the other end is not there yet.
                if len(mine) < 5 * 3 or not taken:
                    raise Fail("%s: %s of %s" % (dev, taken, mine))
        with t.sub("from one to the other"):
            ends = {(e["dev"], e["qpn"], e["peer_qpn"]) for e in asked}
            turned = {(path.server_dev if dev == path.client_dev
                       else path.client_dev, peer, num)
                      for dev, num, peer in ends}
            if len(ends) != 2 or ends != turned:
                raise Fail("%s" % ends)


@test("traces-errors", cost=12, only_type="rsiw")
def traces_of_errors(t):
    """Terminates with what they quote, refused accesses, invalidations."""
    path = t.topo.loopback
    wanted = ("rsiw_terminate_tx", "rsiw_terminate_rx", "rsiw_refused",
              "rsiw_invalidate", "rsiw_completion")
    with traces.Session(*wanted) as session:
        t.own("errors", path)
        with t.sub("Terminates"):
            sent = session.events("rsiw_terminate_tx")
            received = session.events("rsiw_terminate_rx")
            for events in (sent, received):
                one = traces.expect(events, code="0x1202 (DDP untagged: no receive)")
                # Length and header of the segment, an untagged one.
                if len(one["quote"].split()) != 2 + 18:
                    raise Fail("quote: %s" % one)
            if [e["quote"] for e in received if e not in sent and
                    e["quote"] not in [s["quote"] for s in sent]]:
                raise Fail("received what nobody sent: %s of %s" % (received, sent))
        with t.sub("refused accesses"):
            refused = session.events("rsiw_refused")
            for access, why in (("remote_write", "invalid_stag"),
                                ("remote_write", "bounds"),
                                ("remote_write", "access_rights"),
                                ("remote_write", "not_associated"),
                                ("remote_read", "bounds"),
                                ("local_write", "bounds")):
                traces.expect(refused, access=access, why=why)
        with t.sub("invalidations"):
            by_peer = session.events("rsiw_invalidate")
            traces.expect(by_peer, by="peer", result="done")
        with t.sub("completions in error"):
            done = session.events("rsiw_completion")
            traces.expect(done, operation="receive", status="local_length",
                          vendor_err="0x30001")
            flushed = [e for e in done if e["status"] == "flushed"]
            if not flushed or any(int(e["vendor_err"], 16) >> 16 not in (1, 2, 4)
                                  for e in flushed):
                raise Fail("flushed for what? %s" % flushed)


@test("traces-all", cost=1, only_type="rsiw")
def traces_all(t):
    """Each event has a format that tools can read."""
    with traces.Session():
        found = traces.names()
        if len(found) != 13:
            raise Fail("%d events: %s" % (len(found), found))
        for name in found:
            with t.sub(name):
                with open("%s/%s/format" % (traces.OURS, name)) as f:
                    text = f.read()
                if "field:__data_loc char[] dev;" not in text or \
                        "print fmt:" not in text:
                    raise Fail(text)


def some_reads(dev):
    """A command that lasts until the peer has read from a device some more times."""
    return ("sh", "-c", "n=$(($(cat $0) + 20)); while [ $(cat $0) -lt $n ]; do sleep 0.05; done",
            "/sys/class/infiniband/%s/ports/1/hw_counters/rx_read_requests" % dev)


@test("traces-tools", cost=65, only_type="rsiw", long=True)
def traces_tools(t):
    """trace-cmd and perf show the events with names instead of numbers."""
    t.need("trace-cmd", "perf")
    sample = "/tmp/rsiw-trace.dat"
    with traces.Session("rsiw_setup"):
        pinging(t, t.topo.wire)
        rounds = some_reads(t.topo.wire.client_dev)
        want = ("opcode=read_request", "operation=send status=success")
        with t.sub("trace-cmd"):
            t.run("trace-cmd", "record", "-e", "rsiw:rsiw_fpdu_rx", "-e",
                  "rsiw:rsiw_completion", "-o", sample, *rounds)
            said = t.run("trace-cmd", "report", "-i", sample)
            missing = [words for words in want if words not in said]
            if missing:
                raise Fail("not said: %s\n%s" % (missing, said[:2000]))
        with t.sub("perf trace"):
            said = t.run("perf", "trace", "-a", "-e", "rsiw:*", *rounds)
            missing = [name for name in ("rsiw:rsiw_fpdu_tx(", "read_request",
                                         "success") if name not in said]
            if missing:
                raise Fail("not said: %s\n%s" % (missing, said[:2000]))
