// SPDX-License-Identifier: GPL-2.0

//! Reads of the driver, answered rightly and wrongly (RFC 5040 section 5.2.2).
#![forbid(unsafe_code)]

use super::active::sink;
use crate::bytes::{self, pattern, read_resp, send, tagged, terminate, READ_RESP, T, T_LAST};
use crate::ep::{event, status};
use crate::net::{check, same, Res, QUIET, SOON};
use crate::scenario::List;
use crate::world::{op, Conn, World};

/// Where our Reads put what they bring: in the arena, outside of region 0.
const SINK: usize = 131_072;

/// The driver has asked for `len` octets; gives the sink.
fn asked(w: &mut World, len: usize) -> Res<(Conn, u32, u64)> {
    let mut c = w.synced("")?;
    c.post(
        1,
        op::READ,
        SINK,
        len,
        "raddr=0x1122334455667788 rkey=0x99aabbcc",
    )?;
    let request = c.tcp.ulpdu()?;
    let (stag, to) = sink(&request);
    let want = bytes::Read {
        sink: (stag, c.arena + SINK as u64),
        len: len as u32,
        source: (0x99aa_bbcc, 0x1122_3344_5566_7788),
    };
    same("Read Request", &request, &want.request(1))?;
    c.say("fill", &format!("{} {} 0x55", SINK - 64, len + 128))?;
    Ok((c, stag, to))
}

/// A response that ends the stream; nothing of it is placed, the Read fails.
fn bad(w: &mut World, code: u16, make: impl Fn(u32, u64) -> Vec<u8>) -> Res {
    let (mut c, stag, to) = asked(w, 100)?;
    let ulpdu = make(stag, to);
    c.tcp.fpdu(&ulpdu)?;
    c.tcp.expect_terminate(code, Some(&ulpdu))?;
    c.expect_arena(SINK - 64, &vec![0x55; 228])?;
    c.tcp.close();
    let wc = w.ep.wc(c.slot, "s", SOON)?.ok_or("no completion")?;
    // A completion that says why, or an event, never both (T-33).
    let told = wc.status != status::FLUSHED;
    let event = w.ep.async_event(c.slot, if told { 1 } else { SOON })?;
    let good = wc.id == 1 && wc.status != 0 && told == (event == event::NONE);
    check("completion and event", good, (wc, event))?;
    w.clean()
}

pub fn add(list: &mut List) {
    list.rows("P-RDMAP-5 P-RDMAP-8")
        .says("the driver's Read Request, octet by octet, and its response")
        .runs(|w| {
            let (mut c, stag, to) = asked(w, 300)?;
            c.tcp
                .fpdu(&tagged(T, READ_RESP, stag, to, &pattern(100, 1)))?;
            c.tcp.fpdu(&tagged(T, READ_RESP, stag, to + 100, &[]))?;
            c.tcp
                .fpdu(&tagged(T_LAST, READ_RESP, stag, to + 100, &pattern(200, 9)))?;
            c.expect_wc("s", 1, 0)?;
            let mut want = vec![0x55];
            want.extend(pattern(100, 1));
            want.extend(pattern(200, 9));
            want.push(0x55);
            c.expect_arena(SINK - 1, &want)
        });
    list.rows("P-ERR-24 P-RDMAP-12")
        .says("a response to another STag: 0x1100, nothing placed")
        .runs(|w| {
            bad(w, 0x1100, |stag, to| read_resp(stag ^ 1, to, &[1; 100]))?;
            bad(w, 0x1100, |_, to| read_resp(0, to, &[1; 100]))
        });
    list.rows("P-ERR-24 P-RDMAP-12")
        .says("a response at another offset: 0x1101, nothing placed")
        .each([1, 50, u64::MAX])
        .runs(|w, by| {
            bad(w, 0x1101, |stag, to| {
                read_resp(stag, to.wrapping_add(by), &[1; 100])
            })
        });
    list.rows("P-ERR-24")
        .says("a response with more octets than asked, and with fewer: 0x1101")
        .each([101, 1000, 99, 0])
        .runs(|w, n| bad(w, 0x1101, |stag, to| read_resp(stag, to, &vec![1; n])));
    list.rows("P-ERR-24")
        .says("a response without the last flag: 0x0207")
        .runs(|w| {
            bad(w, 0x0207, |stag, to| {
                tagged(T, READ_RESP, stag, to, &[1; 100])
            })
        });
    list.rows("P-ERR-24 P-RDMAP-13 D-DDP-22")
        .says("a response nobody asked for: 0x1100, nothing placed")
        .each([0usize, 8])
        .runs(|w, n| {
            let mut c = w.conn()?;
            let ulpdu = read_resp(c.stag, c.to, &vec![1; n]);
            c.tcp.fpdu(&ulpdu)?;
            c.tcp.expect_terminate(0x1100, Some(&ulpdu))?;
            c.expect_untouched(0, 16)?;
            c.expect_async(event::ACCESS)
        });
    list.rows("P-RDMAP-13")
        .says("a second response: 0x1100, nothing placed")
        .runs(|w| {
            let (mut c, stag, to) = asked(w, 10)?;
            c.tcp.fpdu(&read_resp(stag, to, &[1; 10]))?;
            let again = read_resp(stag, to, &[2; 10]);
            c.tcp.fpdu(&again)?;
            c.tcp.expect_terminate(0x1100, Some(&again))?;
            c.expect_wc("s", 1, 0)?;
            c.expect_arena(SINK, &[1; 10])
        });
    list.rows("V-DEA-2 S-5042-4 V-WC-23")
        .says("the sink of a Read is deregistered: the response is not placed (T-20)")
        .runs(|w| {
            let mut c = w.synced("")?;
            let (stag, _) = super::access::region(&c, SINK, 4096, 3, "")?;
            c.post(
                1,
                op::READ,
                SINK,
                100,
                &format!("raddr=1 rkey=1 lkey={stag}"),
            )?;
            let (stag, to) = sink(&c.tcp.ulpdu()?);
            c.say("fill", &format!("{SINK} 100 0x55"))?;
            c.say("dereg", "1")?;
            c.tcp.fpdu(&read_resp(stag, to, &[1; 100]))?;
            let opcode = c.tcp.ulpdu()?[1];
            check("opcode", opcode == bytes::TERMINATE, opcode)?;
            c.expect_arena(SINK, &[0x55; 100])?;
            let wc = c.wc("s")?;
            check("the Read", ![0, status::FLUSHED].contains(&wc.status), wc)
        });
    list.rows("V-FNC-1 V-FNC-2")
        .says("a fence holds Sends and Writes back until all Reads are answered")
        .each([64, 0])
        .runs(|w, len| {
            let mut c = w.synced("")?;
            for id in 0..2 {
                c.post(id, op::READ, SINK, len, "raddr=1 rkey=1")?;
            }
            c.post(2, op::SEND, 0, 4, "flags=3")?;
            c.post(3, op::WRITE, 0, 4, "raddr=1 rkey=1 flags=3")?;
            let sinks = [sink(&c.tcp.ulpdu()?), sink(&c.tcp.ulpdu()?)];
            for (stag, to) in sinks {
                c.tcp.expect_silence(QUIET)?;
                c.tcp.fpdu(&read_resp(stag, to, &vec![1; len]))?;
            }
            c.tcp.expect_ulpdu("Send", &send(1, &[0xee; 4]))?;
            c.tcp
                .expect_ulpdu("Write", &bytes::write(1, 1, &[0xee; 4]))?;
            (0..4).try_for_each(|id| c.expect_wc("s", id, 0))
        });
    list.rows("V-RD-12 V-RD-11")
        .says("a stalled send queue does not hold back responses to the peer (T-47)")
        .runs(|w| {
            let mut c = w.synced("ord=1")?;
            for id in 0..3 {
                c.post(id, op::READ, SINK, 8, "raddr=1 rkey=1")?;
            }
            let (stag, to) = sink(&c.tcp.ulpdu()?);
            // Unenhanced set-up: ORD is what the consumer said.
            for _ in 0..5 {
                let read = c.read(0, 3000);
                c.ask(&read)?;
                c.response(&read)?;
            }
            c.tcp.fpdu(&read_resp(stag, to, &[1; 8]))?;
            c.expect_wc("s", 0, 0)
        });
    list.rows("V-RD-3")
        .says("a Read with ORD 0 fails here, and the peer gets 0x0000")
        .runs(|w| {
            let (mut c, _) = w.enhanced(0, 0, 4, "ord=0")?;
            c.sync()?;
            c.post(1, op::READ, SINK, 8, "raddr=1 rkey=1")?;
            c.expect_wc("s", 1, status::LOC_QP_OP_ERR)?;
            c.tcp.expect_ulpdu("Terminate", &terminate(0x0000, None))?;
            c.expect_async(event::NONE)
        });
    list.rows("V-ORD-14 D-DDP-10")
        .says("a Read of nothing brings nothing, whatever its key")
        .runs(|w| {
            let mut c = w.synced("")?;
            c.post(1, op::READ, SINK, 0, "raddr=7 rkey=7")?;
            let (stag, to) = sink(&c.tcp.ulpdu()?);
            c.no_wc("s")?;
            c.tcp.fpdu(&read_resp(stag, to, &[]))?;
            c.expect_wc("s", 1, 0)
        });
}
