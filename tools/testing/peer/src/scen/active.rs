// SPDX-License-Identifier: GPL-2.0

//! Set-up with the driver as initiator (RFC 5044 section 7, RFC 6581).
#![forbid(unsafe_code)]

use crate::bytes::{self, fpdu, mpa, mpa_len, send, words, C, L, M, R, REP, REQ, S};
use crate::ep::CmEvent;
use crate::net::{check, same, Res, SOON};
use crate::scen::mpa::in_one;
use crate::scenario::{Kind, List};
use crate::world::{op, with_data, Conn, World};

fn dialled(w: &mut World, options: &str) -> Res<(Conn, Vec<u8>)> {
    let listener = w.listen()?;
    w.dialled(&listener, options)
}

/// An answer that must end the set-up: nothing comes but the end, and the consumer is told.
fn refused(w: &mut World, reply: &[u8]) -> Res {
    let (mut c, _) = dialled(w, "")?;
    c.tcp.send_anyway(reply);
    c.tcp.expect_closed()?;
    failed(&c)
}

/// A Reply that cannot be agreed to, without markers and with: a Terminate is all that comes, and the
/// consumer is told.
fn disagreed(w: &mut World, words: &[u8], code: u16) -> Res {
    for flags in [C | S, C | S | M] {
        let (mut c, _) = dialled(w, "")?;
        c.tcp.send(&mpa(REP, flags, 2, words))?;
        if flags & M != 0 {
            c.tcp.expect_markers();
        }
        c.tcp.expect_terminate(code, None)?;
        failed(&c)?;
        w.clean()?;
    }
    Ok(())
}

/// The consumer learns that there is no connection.
fn failed(c: &Conn) -> Res {
    no_connection(&c.event()?)
}

/// Whether an event says so.
fn no_connection(event: &CmEvent) -> Res {
    match event.name.as_str() {
        "CONNECT_ERROR" | "REJECTED" | "UNREACHABLE" => Ok(()),
        _ => Err(format!("event {event:?}")),
    }
}

/// A Reply in peer-to-peer mode with a Write.
fn reply(data: &[u8]) -> Vec<u8> {
    let mut pd = words(8 | 2, 16, 16).to_vec();
    pd.extend(data);
    mpa(REP, C | S, 2, &pd)
}

pub fn add(list: &mut List) {
    list.rows("X-ENH-1 X-ENH-6 X-ENH-13 M-MPA-5 M-MPA-20")
        .says("the Request, octet by octet")
        .runs(|w| {
            let (_c, request) = dialled(w, &with_data("ird=3 ord=5", b"hello"))?;
            let mut data = words(15, 3, 5).to_vec();
            data.extend(b"hello");
            same("Request", &request, &mpa(REQ, C | S | L, 2, &data))
        });
    for (name, flag) in [("Send", 4u8), ("Write", 2), ("Read", 1)] {
        let text = format!("the initiator's first message: a {name} of nothing, told to nobody");
        list.rows("X-ENH-15").says(text).runs(move |w| rtr(w, flag));
    }
    list.rows("X-ENH-15")
        .says("the first message is one of those that both can do")
        .each([12, 10, 9, 14, 13, 11, 15])
        .runs(|w, abcd| {
            let (mut c, _) = dialled(w, "")?;
            c.tcp.send(&mpa(REP, C | S, 2, &words(abcd, 4, 4)))?;
            let first = c.tcp.ulpdu()?;
            let flag = match first[1] {
                bytes::SEND => 4,
                bytes::WRITE => 2,
                bytes::READ_REQ => 1,
                other => return Err(format!("opcode {other:02x}")),
            };
            check("message", abcd & flag != 0, bytes::hex(&first))
        });
    list.rows("X-ENH-16 M-MPA-14 M-MPA-15")
        .says("no message that both can do: Terminate 0x2007, also with markers")
        .each([8, 0])
        .runs(|w, abcd| disagreed(w, &words(abcd, 4, 4), 0x2007));
    list.rows("X-ENH-9 M-MPA-14 M-MPA-15")
        .says("the responder wants more than there can be: Terminate 0x2006, also with markers")
        .each([129, 200, 16382])
        .runs(|w, ord| disagreed(w, &words(10, 4, ord), 0x2006));
    list.rows("X-ENH-4")
        .says("enhanced Reply with 0 to 3 octets: closed (T-9)")
        .each(0..4)
        .runs(|w, n| refused(w, &mpa(REP, C | S, 2, &vec![0; n])));
    list.rows("X-ENH-5")
        .says("an old responder closes: revision 1 is tried")
        .runs(|w| {
            let listener = w.listen()?;
            let (mut c, _) = w.dialled(&listener, "")?;
            c.tcp = {
                c.tcp.fin();
                w.take(&listener)?
            };
            same("second Request", &c.request()?, &mpa(REQ, C | L, 1, &[]))?;
            c.tcp.send(&mpa(REP, C, 1, &[]))?;
            c.expect_event("ESTABLISHED", 0)?;
            c.sync()
        });
    list.rows("X-ENH-8 V-RD-1 V-RD-2 P-RDMAP-20")
        .says("Reply with IRD 1: one Read outstanding, the rest waits")
        .runs(|w| {
            let mut c = w.active_with("ord=8", C | S, 1, 0)?;
            for id in 0..3 {
                let at = 8192 + id as usize * 64;
                c.post(id, op::READ, at, 64, "raddr=4096 rkey=77")?;
            }
            c.post(3, op::SEND, 0, 4, "")?;
            for msn in 1..4u32 {
                let ask = c.tcp.ulpdu()?;
                let want = bytes::untagged(bytes::U_LAST, bytes::READ_REQ, 0, [1, msn, 0], &[]);
                same("request", &ask[..14], &want[..14])?;
                if msn < 3 {
                    c.tcp.expect_silence(30)?;
                }
                let (stag, to) = sink(&ask);
                c.tcp.fpdu(&bytes::read_resp(stag, to, &[msn as u8; 64]))?;
            }
            c.tcp
                .expect_ulpdu("after the Reads", &send(1, &[0xee; 4]))?;
            for id in 0..4 {
                c.expect_wc("s", id, 0)?;
            }
            Ok(())
        });
    list.rows("X-ENH-11 X-ENH-21")
        .says("Reply without negotiation: the own values stay")
        .runs(|w| {
            let c = w.active_with("ird=5 ord=6", C | S, 0x3fff, 0x3fff)?;
            let state = w.ep.numbers(&format!("state {}", c.slot))?;
            check("ORD, IRD", state[1..] == [6, 5], &state[1..])
        });
    list.rows("X-ENH-21")
        .says("Reply with IRD 16382: nothing is allocated for it")
        .runs(|w| {
            let c = w.active_with("ird=5 ord=6", C | S, 16382, 1)?;
            let state = w.ep.numbers(&format!("state {}", c.slot))?;
            check("ORD", state[1] <= 6, state[1])
        });
    list.rows("M-MPA-23 V-ST-6")
        .says("Reply and FPDU in one segment")
        .each(0..10)
        .runs(|w, i| {
            let (mut c, _) = dialled(w, "recv=1")?;
            let mut bytes = reply(b"");
            bytes.extend(fpdu(&send(1, &[7; 300][..i * 30])));
            c.tcp.send(&bytes)?;
            c.received(0, i * 30)
        });
    list.rows("M-MPA-25 P-ERR-28")
        .says("Reply with a wrong key, and a Request instead: closed")
        .runs(|w| {
            for i in 0..16 {
                let mut frame = reply(b"");
                frame[i] ^= 0x20;
                refused(w, &frame).map_err(|e| format!("octet {i}: {e}"))?;
                w.clean()?;
            }
            refused(w, &mpa(REQ, C | S, 2, &words(15, 4, 4)))
        });
    list.rows("M-MPA-26")
        .says("Reply of revision 0, 3 and 255: closed")
        .each([0, 3, 255])
        .runs(|w, rev| refused(w, &mpa(REP, C | S, rev, &words(10, 4, 4))));
    list.rows("M-MPA-27 M-MPA-36")
        .says("private data of the Reply: up to 512 octets in all")
        .runs(|w| {
            for n in [0usize, 1, 251, 252, 255, 256, 508] {
                let data = bytes::pattern(n, 2);
                let (mut c, _) = dialled(w, "")?;
                c.tcp.send(&reply(&data))?;
                let event = c.expect_event("ESTABLISHED", 0)?;
                same("data", &event.data, &data[..n.min(255)])?;
                w.clean()?;
            }
            for n in [513, 0xffff] {
                refused(w, &mpa_len(REP, C | S, 2, n, &[0; 520]))
                    .map_err(|e| format!("{n}: {e}"))?;
            }
            Ok(())
        });
    list.rows("M-MPA-28")
        .says("a refusal reaches the consumer with its private data")
        .runs(|w| {
            let (mut c, _) = dialled(w, "")?;
            let mut data = words(0, 4, 4).to_vec();
            data.extend(b"not you");
            c.tcp.send(&mpa(REP, C | R | S, 2, &data))?;
            let event = c.event()?;
            let good = event.name == "REJECTED" && event.data == b"not you";
            check("event", good, event)?;
            c.tcp.expect_closed()
        });
    list.rows("M-MPA-13")
        .says("a Reply one octet per segment, and cut at every octet")
        .runs(|w| {
            let frame = reply(b"ab");
            let (mut c, _) = dialled(w, "")?;
            c.tcp.drip(&frame)?;
            c.expect_event("ESTABLISHED", 0)?;
            for cut in 1..frame.len() {
                w.clean()?;
                let (mut c, _) = dialled(w, "")?;
                c.tcp.send(&frame[..cut])?;
                c.tcp.send(&frame[cut..])?;
                c.expect_event("ESTABLISHED", 0)?;
            }
            Ok(())
        });
    list.rows("M-MPA-29 M-MPA-30")
        .says("a Reply that ends early, at every octet: FIN and RST")
        .runs(|w| {
            let frame = reply(b"");
            for cut in 1..frame.len() {
                for reset in [false, true] {
                    let (mut c, _) = dialled(w, "")?;
                    c.tcp.send(&frame[..cut])?;
                    if reset {
                        c.tcp.reset();
                    } else {
                        c.tcp.fin();
                    }
                    failed(&c).map_err(|e| format!("{cut}, reset {reset}: {e}"))?;
                    w.clean()?;
                }
            }
            Ok(())
        });
    list.rows("M-MPA-24")
        .says("reserved bits of a Reply are ignored")
        .runs(|w| {
            let mut c = w.active_with("", C | S | 0x0f, 4, 4)?;
            c.send(b"x")?;
            c.received(0, 1)
        });
    list.rows("M-MPA-12")
        .says("FPDUs longer than segments, if the Reply asks for them")
        .each([0, L, L | M])
        .runs(|w, flag| {
            let mut c = w.active_with("", C | S | flag, 4, 4)?;
            in_one(&mut c, flag & L != 0)
        });
    list.rows("M-MPA-14 M-MPA-18")
        .says("Reply with M=1: the initiator inserts markers")
        .runs(|w| {
            let mut c = w.active_with("", C | S | M, 4, 4)?;
            for id in 0..8 {
                c.post(id, op::SEND, 4096, 700 + 3 * id as usize, "")?;
                let seg = c.tcp.ulpdu()?;
                check("octets", seg.len() == 18 + 700 + 3 * id as usize, seg.len())?;
            }
            Ok(())
        });
    list.rows("M-MPA-29")
        .says("a responder that never answers")
        .is(Kind::Long)
        .runs(|w| {
            let (c, _) = dialled(w, "")?;
            // It has 15 s or more.
            for _ in 0..5 {
                if let Some(event) = w.ep.event(c.slot, SOON)? {
                    return no_connection(&event);
                }
            }
            Err("the set-up does not end".into())
        });
}

/// STag and offset of the sink in a Read Request.
pub fn sink(request: &[u8]) -> (u32, u64) {
    let n = |at: usize, n: usize| {
        request[at..at + n]
            .iter()
            .fold(0u64, |v, b| (v << 8) | u64::from(*b))
    };
    (n(18, 4) as u32, n(22, 8))
}

fn rtr(w: &mut World, flag: u8) -> Res {
    let (mut c, _) = dialled(w, "")?;
    c.tcp.send(&mpa(REP, C | S, 2, &words(8 | flag, 4, 4)))?;
    let first = c.tcp.ulpdu()?;
    let good = match flag {
        4 => first == send(1, &[]),
        2 => first.len() == 14 && first[..2] == [bytes::T_LAST, bytes::WRITE],
        _ => first.len() == 46 && first[1] == bytes::READ_REQ && first[30..34] == [0; 4],
    };
    check("first message", good, bytes::hex(&first))?;
    if flag == 1 {
        let (stag, to) = sink(&first);
        c.tcp.fpdu(&bytes::read_resp(stag, to, &[]))?;
    }
    c.expect_event("ESTABLISHED", 0)?;
    // The consumer's own first Send comes next.
    c.post(3, op::SEND, 0, 4, "")?;
    let msn = if flag == 4 { 2 } else { 1 };
    c.tcp.expect_ulpdu("Send", &send(msn, &[0xee; 4]))?;
    c.expect_wc("s", 3, 0)?;
    c.no_wc("s")
}
