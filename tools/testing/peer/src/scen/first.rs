// SPDX-License-Identifier: GPL-2.0

//! What comes first, and is not what it says: frames whose length lies about the private data
//! behind it, and peers that end within their first message, while the receive path of the
//! connection is being set up.
#![forbid(unsafe_code)]

use super::close::{disconnected, events_to_end};
use super::mpa::works;
use crate::bytes::{fpdu, mpa, mpa_len, pattern, send, words, write, C, R, REP, REQ, S};
use crate::ep::{state, status};
use crate::net::{check, same, Res, Tcp, SOON};
use crate::scenario::List;
use crate::world::{op, Conn, World};
use std::thread::sleep;
use std::time::Duration;

/// Octets of private data that the frame says, and those that are there: fewer.
const FEWER: [(u16, usize); 7] = [
    (1, 0),
    (4, 0),
    (4, 3),
    (8, 4),
    (508, 507),
    (512, 0),
    (512, 511),
];
/// The same, with as many more behind as make a whole FPDU, of nothing.
const MORE: [(u16, usize); 5] = [(0, 24), (1, 64), (4, 40), (255, 300), (512, 600)];

/// How a peer ends.
const ENDS: [&str; 2] = ["FIN", "RST"];

/// Private data whose first octets are words of the enhanced set-up, without peer-to-peer mode; what
/// is behind the said length is zero: an FPDU of length 0, which there is not.
fn data(said: u16, len: usize, enhanced: bool) -> Vec<u8> {
    let mut data = pattern(len, 1);
    if enhanced {
        let n = len.min(4);
        data[..n].copy_from_slice(&words(0, 4, 4)[..n]);
    }
    for octet in data.iter_mut().skip(said.into()) {
        *octet = 0;
    }
    data
}

/// Ends this side of the connection.
fn end(tcp: &mut Tcp, how: &str) {
    match how {
        "RST" => {
            // The driver is to see the octets first.
            sleep(Duration::from_millis(2));
            tcp.reset();
        }
        "FIN" => tcp.fin(),
        _ => {}
    }
}

/// The driver ends the connection, whatever it says before.
fn ended(tcp: &mut Tcp) -> Res {
    let (_, end) = tcp.rest(SOON)?;
    end.map(|_| ()).ok_or("the stream does not end".into())
}

/// Requests: what the consumer is told of them, and what becomes of the rest.
fn requests(w: &mut World, flags: u8, rev: u8) -> Res {
    let enhanced = flags & S != 0;
    for (said, there) in FEWER {
        for how in ENDS {
            let told = |e| format!("{there} of {said} octets, {how}: {e}");
            let mut tcp = w.tcp()?;
            tcp.send_anyway(&mpa_len(
                REQ,
                flags,
                rev,
                said,
                &data(said, there, enhanced),
            ));
            let port = tcp.port();
            end(&mut tcp, how);
            if how == "FIN" {
                tcp.expect_closed().map_err(told)?;
            }
            let slot = w.slot();
            let event = w.ep.request(slot, 1, port)?;
            check("request", event.is_none(), event).map_err(told)?;
            w.clean()?;
        }
    }
    for (said, there) in MORE {
        let told = |e| format!("{there} octets, {said} are said: {e}");
        let bytes = data(said, there, enhanced);
        let mut tcp = w.tcp()?;
        tcp.send_anyway(&mpa_len(REQ, flags, rev, said, &bytes));
        if enhanced && said < 4 {
            tcp.expect_closed().map_err(told)?;
            continue;
        }
        let (slot, port) = (w.slot(), tcp.port());
        let event = w.ep.request(slot, SOON, port)?;
        let event = event.ok_or_else(|| told("no request".into()))?;
        let begin = if enhanced { 4 } else { 0 };
        let want = &bytes[begin..usize::from(said).min(begin + 255)];
        same("data", &event.data, want).map_err(told)?;
        w.ep.say(&format!("create {slot}"))?;
        w.ep.say(&format!("accept {slot}"))?;
        ended(&mut tcp).map_err(told)?;
        disconnected(w, slot).map_err(told)?;
        w.clean()?;
    }
    works(w)
}

fn dialled(w: &mut World) -> Res<Conn> {
    let listener = w.listen()?;
    w.dialled(&listener, "recv=1").map(|(c, _)| c)
}

/// A Reply in peer-to-peer mode, and these octets in its segment.
fn replied(w: &mut World, behind: &[u8]) -> Res<Conn> {
    let mut c = dialled(w)?;
    let mut bytes = mpa(REP, C | S, 2, &words(8 | 2, 4, 4));
    bytes.extend(behind);
    c.tcp.send(&bytes)?;
    Ok(c)
}

/// The end of set-up is told as a failure, once.
fn failed(w: &World, slot: usize) -> Res {
    let events = events_to_end(w, slot)?;
    match events.as_slice() {
        [one] if ["CONNECT_ERROR", "REJECTED", "UNREACHABLE"].contains(&one.as_str()) => Ok(()),
        _ => Err(format!("events {events:?}")),
    }
}

/// Replies.
fn replies(w: &mut World, flags: u8) -> Res {
    for (said, there) in FEWER {
        for how in ENDS {
            let told = |e| format!("{there} of {said} octets, {how}: {e}");
            let mut c = dialled(w)?;
            let bytes = data(said, there, true);
            c.tcp.send_anyway(&mpa_len(REP, flags, 2, said, &bytes));
            end(&mut c.tcp, how);
            failed(w, c.slot).map_err(told)?;
            w.clean()?;
        }
    }
    for (said, there) in MORE {
        let told = |e| format!("{there} octets, {said} are said: {e}");
        let mut c = dialled(w)?;
        let mut bytes = data(said, there, true);
        if said >= 4 {
            // Peer-to-peer mode, in which this side may answer at once.
            bytes[..4].copy_from_slice(&words(8 | 2, 4, 4));
        }
        c.tcp.send_anyway(&mpa_len(REP, flags, 2, said, &bytes));
        if said < 4 || flags & R != 0 {
            failed(w, c.slot).map_err(told)?;
        } else {
            let event = c.expect_event("ESTABLISHED", 0).map_err(told)?;
            let want = &bytes[4..usize::from(said).min(259)];
            same("data", &event.data, want).map_err(told)?;
            disconnected(w, c.slot).map_err(told)?;
        }
        w.clean()?;
    }
    works(w)
}

/// Segments that are wrong before it is known what they are about.
fn bad_segments(c: (u32, u64)) -> Vec<Vec<u8>> {
    let good = write(c.0, c.1, b"four");
    let mut bad: Vec<_> = [0, 1, 2, 13].iter().map(|n| good[..*n].to_vec()).collect();
    for (octet, bits) in [(0, 0x01), (0, 0x03), (1, 0x80), (1, 0x0f), (1, 0x08)] {
        let mut ulpdu = good.clone();
        ulpdu[octet] ^= bits;
        bad.push(ulpdu);
    }
    bad.push(send(1, b"")[..17].to_vec());
    bad.push(send(0, b"x"));
    bad.push(send(2, b"x"));
    bad
}

pub fn add(list: &mut List) {
    list.rows("M-MPA-27 M-MPA-30")
        .says("Requests that say more, or less, private data than there is (T-9, T-10)")
        .runs(|w| requests(w, C, 1));
    list.rows("X-ENH-4 M-MPA-27")
        .says("the same for enhanced Requests (T-9, T-10)")
        .runs(|w| requests(w, C | S, 2));
    list.rows("X-ENH-4 M-MPA-27")
        .says("Replies that say more, or less, private data than there is (T-9, T-10)")
        .runs(|w| replies(w, C | S));
    list.rows("M-MPA-28 M-MPA-27")
        .says("the same for refusals (T-9, T-10)")
        .runs(|w| replies(w, C | S | R));
    list.rows("M-MPA-30 L-CORE-4")
        .says("a peer ends within its first message before the consumer accepts (T-25)")
        .runs(|w| {
            let message = fpdu(&send(1, b"first"));
            for cut in 0..=message.len() {
                for how in ENDS {
                    let mut tcp = w.tcp()?;
                    let mut bytes = mpa(REQ, C, 1, &[]);
                    bytes.extend(&message[..cut]);
                    tcp.send(&bytes)?;
                    let (slot, port) = (w.slot(), tcp.port());
                    w.ep.request(slot, SOON, port)?.ok_or("no request")?;
                    end(&mut tcp, how);
                    w.ep.say(&format!("create {slot} recv=1"))?;
                    // It may fail, or succeed and be followed by the end.
                    if w.ep.say(&format!("accept {slot}")).is_ok() {
                        let events = events_to_end(w, slot)?;
                        let told = format!("octet {cut}, {how}: events");
                        check(&told, events.len() == 1, events)?;
                    }
                    w.clean()?;
                }
            }
            works(w)
        });
    list.rows("L-CORE-4")
        .says("a peer resets right behind its Request: the consumer is told all the same")
        .each(0..20)
        .runs(|w, _| {
            let mut tcp = w.tcp()?;
            let (slot, port) = (w.slot(), tcp.port());
            tcp.send(&mpa(REQ, C, 1, &[]))?;
            tcp.reset();
            w.ep.request(slot, SOON, port)?.ok_or("no request")?;
            w.ep.say(&format!("create {slot}"))?;
            w.ep.say(&format!("accept {slot}"))?;
            disconnected(w, slot)
        });
    list.rows("V-ST-12 V-ST-17 M-MPA-30")
        .says("a peer ends within the first message of a connection, at every octet")
        .runs(|w| {
            let message = fpdu(&send(1, b"first"));
            for cut in 1..message.len() {
                for how in ENDS {
                    let told = |e| format!("octet {cut}, {how}: {e}");
                    let mut c = w.conn_with("recv=1")?;
                    c.tcp.send(&message[..cut])?;
                    end(&mut c.tcp, how);
                    if how == "FIN" {
                        c.tcp.expect_closed().map_err(told)?;
                    }
                    disconnected(w, c.slot).map_err(told)?;
                    w.clean()?;
                }
            }
            works(w)
        });
    list.rows("M-MPA-22 V-ST-12 V-ST-13")
        .says("a responder that has received nothing sends nothing, whatever ends it (T-24)")
        .each(0..2)
        .runs(|w, nth| {
            let mut c = w.conn_with("recv=1")?;
            c.post(1, op::SEND, 0, 8, "")?;
            match nth {
                0 => c.tcp.fin(),
                _ => c
                    .say("modify", &format!("state={}", state::SQE))
                    .map(|_| ())?,
            }
            c.tcp.expect_closed()?;
            c.tcp.close();
            c.expect_wc("s", 1, status::FLUSHED)
        });
    list.rows("V-ST-12 V-ST-17 M-MPA-23")
        .says("the same behind a Reply, in its segment (T-25)")
        .runs(|w| {
            let message = fpdu(&send(1, b"first"));
            for cut in 1..message.len() {
                for how in ENDS {
                    let mut c = replied(w, &message[..cut])?;
                    end(&mut c.tcp, how);
                    disconnected(w, c.slot).map_err(|e| format!("octet {cut}, {how}: {e}"))?;
                    w.clean()?;
                }
            }
            works(w)
        });
    list.rows("P-ERR-4 D-DDP-14 M-MPA-23")
        .says("a first segment whose headers are wrong, in the segment of the frame (T-25, T-46)")
        .runs(|w| {
            for ulpdu in bad_segments((1, 2)) {
                for how in ["nothing", "FIN", "RST"] {
                    let told = |e| format!("{}, {how}: {e}", crate::bytes::hex(&ulpdu));
                    let mut bytes = mpa(REQ, C, 1, &[]);
                    bytes.extend(fpdu(&ulpdu));
                    let mut c = w.serve(&bytes, "recv=1")?;
                    end(&mut c.tcp, how);
                    if how == "nothing" {
                        ended(&mut c.tcp).map_err(told)?;
                    }
                    c.tcp.close();
                    disconnected(w, c.slot).map_err(told)?;
                    w.clean()?;

                    let mut c = replied(w, &fpdu(&ulpdu))?;
                    end(&mut c.tcp, how);
                    disconnected(w, c.slot).map_err(told)?;
                    w.clean()?;
                }
            }
            works(w)
        });
}
