// SPDX-License-Identifier: GPL-2.0

//! Unenhanced set-up with the driver as responder (RFC 5044 section 7).
#![forbid(unsafe_code)]

use crate::bytes::{self, fpdu, mpa, mpa_len, pattern, send, C, L, M, R, REP, REQ};
use crate::net::{check, same, End, Res, QUIET, SOON};
use crate::scenario::{Kind, List};
use crate::world::{op, with_data, Conn, World};
use std::thread::sleep;
use std::time::Duration;

/// A frame that must end the connection without an answer.
fn refused(w: &mut World, frame: &[u8]) -> Res {
    let mut tcp = w.tcp()?;
    tcp.send_anyway(frame);
    tcp.expect_closed()
}

/// A plain connection works.
pub fn works(w: &mut World) -> Res {
    let mut c = w.conn()?;
    c.send(b"works")?;
    c.received(0, 5)
}

/// The driver sends a message that is longer than a segment: in one FPDU, or not.
pub fn in_one(c: &mut Conn, wanted: bool) -> Res {
    c.post(7, op::SEND, 4096, 2000, "")?;
    let octets = c.tcp.ulpdu()?.len();
    check("FPDU", (octets == 18 + 2000) == wanted, octets)
}

pub fn add(list: &mut List) {
    list.rows("M-MPA-20 M-MPA-21 X-ENH-2")
        .says("Request of revision 1 and its Reply, octet by octet")
        .runs(works);
    list.rows("X-ENH-3")
        .says("Request of revision 2 without enhancement: Reply without")
        .runs(|w| {
            let mut c = w.serve(&mpa(REQ, C, 2, b"data"), &with_data("", b"answer"))?;
            c.tcp.expect("Reply", &mpa(REP, C, 2, b"answer"))?;
            c.sync()
        });
    list.rows("M-MPA-24")
        .says("R and reserved bits in a Request are ignored, the Reply's are fresh")
        .each([C | R, C | 0x07, C | R | 0x17])
        .runs(|w, flags| {
            let mut c = w.serve(&mpa(REQ, flags, 1, &[]), "")?;
            c.tcp.expect("Reply", &mpa(REP, C, 1, &[]))?;
            c.sync()
        });
    list.rows("M-MPA-12")
        .says("FPDUs longer than segments, if the Request asks for them")
        .each([0, L])
        .runs(|w, flag| {
            let mut c = w.serve(&mpa(REQ, C | flag, 1, &[]), "")?;
            c.tcp.expect("Reply", &mpa(REP, C | flag, 1, &[]))?;
            c.sync()?;
            in_one(&mut c, flag & L != 0)
        });
    list.rows("M-MPA-25 M-MPA-30")
        .says("wrong key: closed without a word, at each octet of it")
        .each(0..16)
        .runs(|w, i| {
            let mut frame = mpa(REQ, C, 1, &[]);
            frame[i] ^= 1 << (i % 8);
            refused(w, &frame)
        });
    list.rows("M-MPA-25")
        .says("a Reply where a Request is due: closed")
        .runs(|w| refused(w, &mpa(REP, C, 1, &[])));
    list.rows("M-MPA-26 M-MPA-33")
        .says("revisions 0, 3 and 255: closed")
        .each([0, 3, 255])
        .runs(|w, rev| refused(w, &mpa(REQ, C | M, rev, &[])));
    list.rows("M-MPA-27 M-MPA-36")
        .says("0 to 512 octets of private data reach the consumer (T-10)")
        .each([0usize, 1, 251, 252, 255, 256, 257, 508, 511, 512])
        .runs(|w, n| {
            let data = pattern(n, 3);
            let mut tcp = w.tcp()?;
            tcp.send(&mpa(REQ, C, 1, &data))?;
            let slot = w.slot();
            let request = w.ep.request(slot, SOON, tcp.port())?.ok_or("no request")?;
            // The event's length is 8 bits wide (T-10).
            same("data", &request.data, &data[..n.min(255)])?;
            w.ep.clean()?;
            tcp.expect("Reply", &mpa(REP, C | R, 1, &[]))
        });
    list.rows("M-MPA-27")
        .says("more than 512 octets of private data: closed")
        .each([513u16, 514, 0x0fff, 0x8000, 0xffff])
        .runs(|w, n| {
            let data = vec![0; usize::from(n.min(600))];
            refused(w, &mpa_len(REQ, C, 1, n, &data))
        });
    list.rows("M-MPA-36 M-MPA-20")
        .says("0 to 255 octets of private data in the Reply")
        .each([0usize, 1, 251, 252, 255])
        .runs(|w, n| {
            let data = pattern(n, 9);
            let mut c = w.serve(&mpa(REQ, C, 1, &[]), &with_data("", &data))?;
            c.tcp.expect("Reply", &mpa(REP, C, 1, &data))?;
            c.sync()
        });
    list.rows("M-MPA-28")
        .says("a refusal carries private data, then FIN")
        .runs(|w| {
            let mut tcp = w.tcp()?;
            tcp.send(&mpa(REQ, C, 1, &[]))?;
            let slot = w.slot();
            w.ep.request(slot, SOON, tcp.port())?.ok_or("no request")?;
            w.ep.say(&format!("reject {slot}{}", crate::ep::pd(b"go away")))?;
            tcp.expect("Reply", &mpa(REP, C | R, 1, b"go away"))?;
            tcp.expect_end(End::Fin)
        });
    list.rows("M-MPA-13 M-MPA-27")
        .says("a Request in two segments, cut at every octet")
        .runs(|w| {
            let frame = mpa(REQ, C, 1, b"sixteen octets..");
            for cut in 1..frame.len() {
                let mut tcp = w.tcp()?;
                tcp.send(&frame[..cut])?;
                tcp.send(&frame[cut..])?;
                let mut c = w.answer(tcp, "recv=0")?;
                c.tcp.expect("Reply", &mpa(REP, C, 1, &[]))?;
                w.clean()?;
            }
            Ok(())
        });
    list.rows("M-MPA-13")
        .says("a Request one octet per segment")
        .runs(|w| {
            let mut tcp = w.tcp()?;
            tcp.drip(&mpa(REQ, C, 1, &pattern(40, 1)))?;
            let mut c = w.answer(tcp, "")?;
            c.tcp.expect("Reply", &mpa(REP, C, 1, &[]))?;
            c.sync()
        });
    list.rows("M-MPA-29 M-MPA-30")
        .says("a Request that ends early, at every octet: FIN and RST")
        .runs(|w| {
            let frame = mpa(REQ, C, 1, b"1234");
            for cut in 0..frame.len() {
                let mut tcp = w.tcp()?;
                tcp.send(&frame[..cut])?;
                tcp.fin();
                tcp.expect_closed()
                    .map_err(|e| format!("FIN after {cut}: {e}"))?;
                let mut tcp = w.tcp()?;
                tcp.send(&frame[..cut])?;
                tcp.reset();
            }
            works(w)
        });
    list.rows("V-ST-6 V-CM-4 M-MPA-23")
        .says("Request and first FPDU in one segment")
        .runs(|w| early(w, 20));
    list.rows("V-ST-6")
        .says("the same 2000 times")
        .is(Kind::Long)
        .runs(|w| early(w, 2000));
    list.rows("V-SEC-10")
        .says("an FPDU right behind the Request waits for the consumer to accept")
        .runs(|w| {
            let mut tcp = w.tcp()?;
            let mut bytes = mpa(REQ, C, 1, &[]);
            bytes.extend(fpdu(&send(1, b"early")));
            tcp.send(&bytes)?;
            let (slot, port) = (w.slot(), tcp.port());
            w.ep.request(slot, SOON, port)?.ok_or("no request")?;
            w.ep.say(&format!("create {slot} recv=1"))?;
            let wc = w.ep.wc(slot, "r", QUIET)?;
            check("before the accept", wc.is_none(), wc)?;
            w.ep.say(&format!("accept {slot}"))?;
            tcp.expect("Reply", &mpa(REP, C, 1, &[]))?;
            match w.ep.wc(slot, "r", SOON)? {
                Some(wc) if (wc.status, wc.len) == (0, 5) => Ok(()),
                other => Err(format!("after the accept: {other:?}")),
            }
        });
    list.rows("V-ST-6")
        .says("first FPDU right behind the Reply")
        .each(0..20)
        .runs(|w, _| {
            let mut c = w.conn_with("recv=1")?;
            c.send(b"first")?;
            c.received(0, 5)
        });
    list.rows("M-MPA-22")
        .says("a responder sends nothing before the first FPDU")
        .each(0..3)
        .runs(|w, kind| {
            let mut c = w.conn()?;
            c.post(5, op::SEND, 0, 8, "")?;
            c.tcp.expect_silence(QUIET)?;
            match kind {
                0 => c.send(b"x")?,
                1 => c.tcp.fpdu(&bytes::write(c.stag, c.to, b"x"))?,
                _ => c.sync_later()?,
            }
            let mut seg = c.tcp.ulpdu()?;
            if kind == 2 && seg[1] == bytes::READ_RESP {
                seg = c.tcp.ulpdu()?;
            }
            same("message", &seg, &send(1, &[0xee; 8]))
        });
    list.rows("M-MPA-18")
        .says("markers: never sent unasked, never asked for")
        .each([C, C | M])
        .runs(|w, flags| {
            let mut c = w.serve(&mpa(REQ, flags, 1, &[]), "")?;
            c.tcp.expect("Reply", &mpa(REP, C, 1, &[]))?;
            if flags & M != 0 {
                c.tcp.expect_markers();
            }
            c.sync()
        });
    list.rows("M-MPA-5 M-MPA-6")
        .says("C=0 from the peer alone: CRCs are made and checked all the same")
        .runs(|w| {
            let mut c = w.serve(&mpa(REQ, 0, 1, &[]), "")?;
            c.tcp.expect("Reply", &mpa(REP, C, 1, &[]))?;
            c.sync()?;
            c.tcp.send(&bytes::fpdu_odd(&send(1, b"x"), 0, 1))?;
            c.tcp.expect_terminate(0x2002, None)
        });
    list.rows("M-MPA-3")
        .says("C=0 from both: any CRC field will do")
        .is(Kind::CrcOff)
        .runs(without_crc);
    list.rows("S-5042-13 M-MPA-29")
        .says("silent and slow connections do not hold others up (T-42)")
        .runs(|w| {
            let mut idle = Vec::new();
            for _ in 0..50 {
                idle.push(w.tcp()?);
            }
            for tcp in &mut idle[25..] {
                tcp.send(b"MPA ID Req")?;
            }
            for _ in 0..3 {
                works(w)?;
            }
            Ok(())
        });
    list.rows("M-MPA-29")
        .says("a silent connection, and one that drips, are closed in time")
        .is(Kind::Long)
        .runs(|w| {
            let (mut silent, mut slow) = (w.tcp()?, w.tcp()?);
            let frame = mpa(REQ, C, 1, &[0; 64]);
            for (n, b) in frame.iter().take(20).enumerate() {
                slow.send_anyway(&[*b]);
                sleep(Duration::from_secs(1));
                if n == 5 {
                    works(w)?;
                }
            }
            silent.expect_closed()?;
            slow.expect_closed()
        });
    list.rows("S-5042-13")
        .says("connections that open and close without an octet (T-42b)")
        .runs(|w| {
            for n in 0..40 {
                let mut tcp = w.tcp()?;
                if n % 2 == 0 {
                    tcp.reset();
                }
            }
            works(w)
        });
}

/// Request and FPDU in one segment, `n` times.
fn early(w: &mut World, n: usize) -> Res {
    for i in 0..n {
        let mut bytes = mpa(REQ, C, 1, b"abc");
        bytes.extend(fpdu(&send(1, &pattern(i % 100, 5))));
        let mut c = w.serve(&bytes, "recv=1")?;
        c.tcp.expect("Reply", &mpa(REP, C, 1, &[]))?;
        c.received(0, i % 100)?;
        w.clean()?;
    }
    Ok(())
}

fn without_crc(w: &mut World) -> Res {
    let mut c = w.serve(&mpa(REQ, 0, 1, &[]), "")?;
    c.tcp.expect("Reply", &mpa(REP, 0, 1, &[]))?;
    c.tcp.crc = false;
    c.tcp
        .send(&bytes::fpdu_odd(&send(1, b"hello"), 0, 0x1234_5678))?;
    c.received(0, 5)?;
    // One end asks for it: both do it.
    let mut c = w.serve(&mpa(REQ, C, 1, &[]), "")?;
    c.tcp.expect("Reply", &mpa(REP, C, 1, &[]))?;
    c.sync()?;
    c.tcp
        .send(&bytes::fpdu_odd(&send(1, b"x"), 0, 0x8000_0000))?;
    c.tcp.expect_terminate(0x2002, None)
}
