// SPDX-License-Identifier: GPL-2.0

//! Enhanced set-up with the driver as responder (RFC 6581).
#![forbid(unsafe_code)]

use crate::bytes::{self, mpa, mpa_len, pattern, read_words, words, Read, C, R, REP, REQ, S};
use crate::ep::{event, state, status};
use crate::net::{check, End, Res, QUIET, SOON};
use crate::scenario::List;
use crate::world::{with_data, Conn, World};

/// Depth that the device is capped at.
const CAP: u16 = 128;

pub fn add(list: &mut List) {
    list.rows("X-ENH-1 X-ENH-3 X-ENH-7")
        .says("IRD 2, ORD 5: Reply with ORD at most 2, IRD at least 5")
        .runs(|w| {
            let (mut c, (abcd, ird, ord)) = w.enhanced(0, 2, 5, "ird=3 ord=7")?;
            check("Reply", (abcd, ord) == (0, 2) && ird >= 5, (abcd, ird, ord))?;
            c.sync()
        });
    list.rows("X-ENH-7")
        .says("depths 0, 1 and beyond the device's")
        .each([(0, 0), (0, 1), (1, 0), (300, 300), (16382, 16382)])
        .runs(|w, (ird, ord)| {
            let (mut c, (_, got_ird, got_ord)) = w.enhanced(0, ird, ord, "ird=4 ord=4")?;
            let fits = got_ord <= ird && got_ird >= ord.min(CAP) && got_ird <= CAP;
            check("Reply", fits, (ird, ord, got_ird, got_ord))?;
            if got_ird > 0 {
                c.sync()?;
            }
            Ok(())
        });
    list.rows("X-ENH-11")
        .says("no negotiation of IRD, of ORD, of both: answered in kind")
        .runs(|w| {
            const NO: u16 = 0x3fff;
            for (ird, ord) in [(NO, 4), (4, NO), (NO, NO)] {
                let (mut c, (_, got_ird, got_ord)) = w.enhanced(0, ird, ord, "ird=3 ord=7")?;
                let fits = (got_ord == NO) == (ird == NO) && (got_ird == NO) == (ord == NO);
                check("Reply", fits, (ird, ord, got_ird, got_ord))?;
                // What the consumer chose stays.
                let state = w.ep.numbers(&format!("state {}", c.slot))?;
                check(
                    "own depths",
                    (ird != NO || state[1] == 7) && (ord != NO || state[2] == 3),
                    state,
                )?;
                c.sync()?;
            }
            Ok(())
        });
    list.rows("X-ENH-12")
        .says("A=0: B, C and D are ignored and answered with zero")
        .each([4, 2, 1, 7])
        .runs(|w, abcd| {
            let (mut c, (got, _, _)) = w.enhanced(abcd, 4, 4, "")?;
            check("flags", got == 0, got)?;
            c.expect_event("ESTABLISHED", 0)?;
            c.sync()
        });
    list.rows("X-ENH-14 X-ENH-12")
        .says("A=1 with each choice of B, C and D: the common ones, at least one")
        .each(8..16)
        .runs(|w, abcd| {
            let (mut c, (got, _, _)) = w.enhanced(abcd, 4, 4, "")?;
            let common = if abcd == 8 { got > 8 } else { got == abcd };
            check("flags", common, (abcd, got))?;
            c.sync()
        });
    list.rows("X-ENH-18")
        .says("ready-to-receive Read with ORD 0: the responder takes one")
        .runs(|w| {
            let (mut c, (_, ird, _)) = w.enhanced(9, 4, 0, "ird=0 ord=1")?;
            check("IRD", ird == 1, ird)?;
            c.sync()?;
            c.expect_event("ESTABLISHED", 0).map(|_| ())
        });
    for (name, kind) in [("Send", 4), ("Write", 2), ("Read", 1)] {
        let text = format!("peer-to-peer: a {name} of nothing establishes, and costs no receive");
        list.rows("X-ENH-19 X-ENH-20")
            .says(text)
            .runs(move |w| rtr(w, kind));
    }
    list.rows("L-CORE-4 X-ENH-19")
        .says("accepted, and rejected before the first message: the QP ends, nothing is told")
        .runs(|w| {
            let (mut c, _) = w.enhanced(12, 4, 4, "")?;
            c.say("reject", "")?;
            // It may find the connection reset.
            let _ = c.send(&[]);
            c.tcp.expect_closed()?;
            c.expect_wc("r", 0, status::FLUSHED)?;
            w.ep.expect_state(c.slot, state::ERR)?;
            let event = w.ep.event(c.slot, QUIET)?;
            check("no event", event.is_none(), event)
        });
    list.rows("L-CORE-4 X-ENH-19")
        .says("accepted twice before the first message: the connection ends, the QP can go")
        .runs(|w| {
            let (mut c, _) = w.enhanced(12, 4, 4, "")?;
            c.say("accept_again", "")?;
            c.tcp.expect_closed()?;
            c.expect_event("ESTABLISHED", 0)?;
            c.expect_event("DISCONNECTED", 0)?;
            c.expect_wc("r", 0, status::FLUSHED)?;
            // The second accept had a reference to the queue pair, as the first one.
            w.clean()?;
            super::mpa::works(w)
        });
    list.rows("X-ENH-19")
        .says("peer-to-peer: a first message that is not empty establishes as well")
        .runs(|w| {
            let (mut c, _) = w.enhanced(15, 4, 4, "")?;
            c.send(b"hello")?;
            c.expect_event("ESTABLISHED", 0)?;
            c.received(0, 5)
        });
    list.rows("X-ENH-19")
        .says("peer-to-peer: a Terminate as the first message does not establish")
        .runs(|w| {
            let (mut c, _) = w.enhanced(12, 4, 4, "")?;
            c.tcp.fpdu(&bytes::terminate(0x2007, None))?;
            c.tcp.expect_end(End::Fin)?;
            c.expect_async(event::FATAL)?;
            let told = w.ep.event(c.slot, QUIET)?;
            check("no event", told.is_none(), told)?;
            // The accept ends with the stream, as if the peer had said nothing.
            c.tcp.fin();
            c.expect_event("ESTABLISHED", 0)?;
            c.expect_event("DISCONNECTED", 0)?;
            c.tcp.close();
            c.expect_wc("r", 0, status::FLUSHED)?;
            c.ep.expect_state(c.slot, state::ERR)
        });
    list.rows("X-ENH-20")
        .says("only the first Send of nothing is free")
        .runs(|w| {
            let (mut c, _) = w.enhanced(12, 4, 4, "")?;
            c.send(&[])?;
            c.send(&[])?;
            c.received(0, 0)
        });
    list.rows("X-ENH-4")
        .says("enhanced Request with 0 to 3 octets: closed (T-9)")
        .each(0..4)
        .runs(|w, n| {
            let mut tcp = w.tcp()?;
            tcp.send_anyway(&mpa(REQ, C | S, 2, &vec![0; n]));
            tcp.expect_closed()
        });
    list.rows("X-ENH-1 M-MPA-27")
        .says("enhanced words and private data: up to 508 octets, not one more")
        .runs(|w| {
            for n in [0usize, 1, 251, 255, 504, 508] {
                let mut data = words(0, 1, 1).to_vec();
                data.extend(pattern(n, 1));
                let mut tcp = w.tcp()?;
                tcp.send(&mpa(REQ, C | S, 2, &data))?;
                let slot = w.slot();
                let request = w.ep.request(slot, SOON, tcp.port())?.ok_or("no request")?;
                check(
                    "data",
                    request.data == data[4..][..n.min(255)],
                    (n, request.data.len()),
                )?;
                w.clean()?;
            }
            let mut tcp = w.tcp()?;
            tcp.send_anyway(&mpa_len(REQ, C | S, 2, 513, &[0; 513]));
            tcp.expect_closed()
        });
    list.rows("X-ENH-1")
        .says("private data of the Reply stands behind the words")
        .runs(|w| {
            let request = mpa(REQ, C | S, 2, &words(0, 4, 4));
            let mut c = w.serve(&request, &with_data("ird=4 ord=4", b"answer"))?;
            let mut want = words(0, 4, 4).to_vec();
            want.extend(b"answer");
            c.tcp.expect("Reply", &mpa(REP, C | S, 2, &want))?;
            c.sync()
        });
    list.rows("X-ENH-10 L-CORE-5")
        .says("depths of the Request reach the consumer, cut to 8 bits")
        .each([(2, 5), (0, 1), (255, 255), (300, 16382)])
        .runs(|w, (ird, ord)| {
            let mut tcp = w.tcp()?;
            tcp.send(&mpa(REQ, C | S, 2, &words(0, ird, ord)))?;
            let slot = w.slot();
            let got = w.ep.request(slot, SOON, tcp.port())?.ok_or("no request")?;
            // The acceptor's view: what it may serve is what the peer asks for (T-30).
            let want = (ord.min(255), ird.min(255));
            check("event", (got.ird, got.ord) == want, (ird, ord, &got))
        });
    list.rows("X-ENH-22 M-MPA-28")
        .says("an enhanced Request is refused with an enhanced Reply")
        .runs(|w| {
            let mut tcp = w.tcp()?;
            tcp.send(&mpa(REQ, C | S, 2, &words(15, 4, 4)))?;
            let slot = w.slot();
            w.ep.request(slot, SOON, tcp.port())?.ok_or("no request")?;
            w.ep.say(&format!("reject {slot}{}", crate::ep::pd(b"no")))?;
            tcp.expect("Reply header", &mpa(REP, C | R | S, 2, &[0; 6])[..20])?;
            let data = tcp.take(6)?;
            let (abcd, _, _) = read_words(&data);
            check("Reply", abcd == 0 && data[4..] == *b"no", data)?;
            tcp.expect_closed()
        });
    list.rows("X-ENH-21")
        .says("depths from the wire are capped before anything is allocated (T-29)")
        .runs(|w| {
            let (c, (_, ird, _)) = w.enhanced(0, 16382, 16382, "ird=255 ord=255")?;
            let state = w.ep.numbers(&format!("state {}", c.slot))?;
            check(
                "depths",
                ird <= CAP && state[1..] == [128, 128],
                (ird, state),
            )
        });
}

/// The ready-to-receive message of a kind.
fn rtr(w: &mut World, kind: u8) -> Res {
    let (mut c, _) = w.enhanced(8 | kind, 4, 4, "")?;
    let event = w.ep.event(c.slot, QUIET)?;
    check("no early event", event.is_none(), event)?;
    first(&mut c, kind)?;
    c.expect_event("ESTABLISHED", 0)?;
    c.no_wc("r")?;
    c.send(b"data")?;
    c.received(0, 4)
}

fn first(c: &mut Conn, kind: u8) -> Res {
    match kind {
        4 => c.send(&[]),
        2 => c.tcp.fpdu(&bytes::write(0, 0, &[])),
        _ => {
            let read = Read {
                sink: (0, 0),
                len: 0,
                source: (0, 0),
            };
            c.ask(&read)?;
            c.response(&read).map(|_| ())
        }
    }
}
