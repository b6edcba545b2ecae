// SPDX-License-Identifier: GPL-2.0

//! Unenhanced set-up with the driver as responder (RFC 5044 section 7).
#![forbid(unsafe_code)]

use crate::bytes::{self, fpdu, mpa, mpa_len, pattern, send, C, M, R, REP, REQ};
use crate::net::{End, Res, QUIET, SOON};
use crate::scenario::{Kind, List};
use crate::world::{op, with_data, World};
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
    c.received(0, 5).map(|_| ())
}

pub fn add(list: &mut List) {
    list.add(
        "M-MPA-20 M-MPA-21 X-ENH-2",
        "Request of revision 1 and its Reply, octet by octet",
        works,
    );
    list.add(
        "X-ENH-3",
        "Request of revision 2 without enhancement: Reply without",
        |w| {
            let mut c = w.serve(&mpa(REQ, C, 2, b"data"), &with_data("", b"answer"))?;
            c.tcp.expect("Reply", &mpa(REP, C, 2, b"answer"))?;
            c.sync()
        },
    );
    list.add(
        "M-MPA-24",
        "R and reserved bits in a Request are ignored, the Reply's are fresh",
        |w| {
            for flags in [C | R, C | 0x0f, C | R | 0x1f] {
                let mut c = w.serve(&mpa(REQ, flags, 1, &[]), "")?;
                c.tcp.expect("Reply", &mpa(REP, C, 1, &[]))?;
                c.sync()?;
            }
            Ok(())
        },
    );
    list.add(
        "M-MPA-25 M-MPA-30",
        "wrong key: closed without a word, at each octet of it",
        |w| {
            for i in 0..16 {
                let mut frame = mpa(REQ, C, 1, &[]);
                frame[i] ^= 1 << (i % 8);
                refused(w, &frame).map_err(|e| format!("octet {i}: {e}"))?;
            }
            Ok(())
        },
    );
    list.add("M-MPA-25", "a Reply where a Request is due: closed", |w| {
        refused(w, &mpa(REP, C, 1, &[]))
    });
    list.add("M-MPA-26 M-MPA-33", "revisions 0, 3 and 255: closed", |w| {
        for rev in [0, 3, 255] {
            refused(w, &mpa(REQ, C | M, rev, &[])).map_err(|e| format!("revision {rev}: {e}"))?;
        }
        Ok(())
    });
    list.add(
        "M-MPA-27 M-MPA-36",
        "0 to 512 octets of private data reach the consumer (T-10)",
        |w| {
            for n in [0usize, 1, 251, 252, 255, 256, 257, 508, 511, 512] {
                let data = pattern(n, 3);
                let mut tcp = w.tcp()?;
                tcp.send(&mpa(REQ, C, 1, &data))?;
                let slot = w.slot();
                let request = w.ep.request(slot, SOON, tcp.port())?.ok_or("no request")?;
                // The event's length is 8 bits wide (T-10).
                if request.data != data[..n.min(255)] {
                    return Err(format!("{n} octets: {} came", request.data.len()));
                }
                w.ep.clean()?;
                tcp.expect("Reply", &mpa(REP, C | R, 1, &[]))?;
            }
            Ok(())
        },
    );
    list.add(
        "M-MPA-27",
        "more than 512 octets of private data: closed",
        |w| {
            for n in [513u16, 514, 0x0fff, 0x8000, 0xffff] {
                let data = vec![0; usize::from(n.min(600))];
                refused(w, &mpa_len(REQ, C, 1, n, &data)).map_err(|e| format!("{n}: {e}"))?;
            }
            Ok(())
        },
    );
    list.add(
        "M-MPA-36 M-MPA-20",
        "0 to 255 octets of private data in the Reply",
        |w| {
            for n in [0usize, 1, 251, 252, 255] {
                let data = pattern(n, 9);
                let mut c = w.serve(&mpa(REQ, C, 1, &[]), &with_data("", &data))?;
                c.tcp.expect("Reply", &mpa(REP, C, 1, &data))?;
                c.sync()?;
            }
            Ok(())
        },
    );
    list.add(
        "M-MPA-28",
        "a refusal carries private data, then FIN",
        |w| {
            let mut tcp = w.tcp()?;
            tcp.send(&mpa(REQ, C, 1, &[]))?;
            let slot = w.slot();
            w.ep.request(slot, SOON, tcp.port())?.ok_or("no request")?;
            w.ep.say(&format!("reject {slot}{}", crate::ep::pd(b"go away")))?;
            tcp.expect("Reply", &mpa(REP, C | R, 1, b"go away"))?;
            tcp.expect_end(End::Fin)
        },
    );
    list.add(
        "M-MPA-13 M-MPA-27",
        "a Request in two segments, cut at every octet",
        |w| {
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
        },
    );
    list.add("M-MPA-13", "a Request one octet per segment", |w| {
        let mut tcp = w.tcp()?;
        tcp.drip(&mpa(REQ, C, 1, &pattern(40, 1)))?;
        let mut c = w.answer(tcp, "")?;
        c.tcp.expect("Reply", &mpa(REP, C, 1, &[]))?;
        c.sync()
    });
    list.add(
        "M-MPA-29 M-MPA-30",
        "a Request that ends early, at every octet: FIN and RST",
        |w| {
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
        },
    );
    list.add(
        "V-ST-6 V-CM-4 M-MPA-23",
        "Request and first FPDU in one segment",
        |w| early(w, 20),
    );
    list.add_long("V-ST-6", "the same 2000 times", |w| early(w, 2000));
    list.add(
        "V-SEC-10",
        "an FPDU right behind the Request waits for the consumer to accept",
        |w| {
            let mut tcp = w.tcp()?;
            let mut bytes = mpa(REQ, C, 1, &[]);
            bytes.extend(fpdu(&send(1, b"early")));
            tcp.send(&bytes)?;
            let (slot, port) = (w.slot(), tcp.port());
            w.ep.request(slot, SOON, port)?.ok_or("no request")?;
            w.ep.say(&format!("create {slot} recv=1"))?;
            if let Some(wc) = w.ep.wc(slot, "r", QUIET)? {
                return Err(format!("before the accept: {wc:?}"));
            }
            w.ep.say(&format!("accept {slot}"))?;
            tcp.expect("Reply", &mpa(REP, C, 1, &[]))?;
            match w.ep.wc(slot, "r", SOON)? {
                Some(wc) if (wc.status, wc.len) == (0, 5) => Ok(()),
                other => Err(format!("after the accept: {other:?}")),
            }
        },
    );
    list.add("V-ST-6", "first FPDU right behind the Reply", |w| {
        for _ in 0..20 {
            let mut c = w.conn_with("recv=1")?;
            c.send(b"first")?;
            c.received(0, 5)?;
            w.clean()?;
        }
        Ok(())
    });
    list.add(
        "M-MPA-22",
        "a responder sends nothing before the first FPDU",
        |w| {
            for kind in 0..3 {
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
                if seg != send(1, &[0xee; 8]) {
                    return Err(format!("message {kind}: {}", bytes::hex(&seg)));
                }
            }
            Ok(())
        },
    );
    list.add(
        "M-MPA-18",
        "markers: never sent unasked, never asked for",
        |w| {
            for flags in [C, C | M] {
                let mut c = w.serve(&mpa(REQ, flags, 1, &[]), "")?;
                c.tcp.expect("Reply", &mpa(REP, C, 1, &[]))?;
                if flags & M != 0 {
                    c.tcp.expect_markers();
                }
                c.sync()?;
            }
            Ok(())
        },
    );
    list.add(
        "M-MPA-5 M-MPA-6",
        "C=0 from the peer alone: CRCs are made and checked all the same",
        |w| {
            let mut c = w.serve(&mpa(REQ, 0, 1, &[]), "")?;
            c.tcp.expect("Reply", &mpa(REP, C, 1, &[]))?;
            c.sync()?;
            c.tcp.send(&bytes::fpdu_odd(&send(1, b"x"), 0, 1))?;
            c.tcp.expect_terminate(0x2002, None)
        },
    );
    list.add(
        "M-MPA-3",
        "C=0 from both: any CRC field will do",
        without_crc,
    );
    list.last_is(Kind::CrcOff);
    list.add(
        "S-5042-13 M-MPA-29",
        "silent and slow connections do not hold others up (T-42)",
        |w| {
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
        },
    );
    list.add_long(
        "M-MPA-29",
        "a silent connection, and one that drips, are closed in time",
        |w| {
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
        },
    );
    list.add(
        "S-5042-13",
        "connections that open and close without an octet (T-42b)",
        |w| {
            for n in 0..40 {
                let tcp = w.tcp()?;
                if n % 2 == 0 {
                    tcp.reset();
                }
            }
            works(w)
        },
    );
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
