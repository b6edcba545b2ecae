// SPDX-License-Identifier: GPL-2.0

//! Framing of what the driver receives (RFC 5044 sections 4 to 6).
#![forbid(unsafe_code)]

use crate::bytes::{self, fpdu, fpdu_odd, pattern, send, untagged, write, SEND, U, U_LAST};
use crate::ep::{event, state, status};
use crate::net::{same, End, Res};
use crate::scenario::List;
use crate::world::{Conn, World, BUFFER_LEN, RECEIVES};

pub fn add(list: &mut List) {
    list.rows("M-MPA-2 M-MPA-1")
        .says("a pad that is not zero is accepted with the right CRC")
        .runs(|w| {
            let mut c = w.conn()?;
            for n in 0..4 {
                c.tcp
                    .send(&fpdu_odd(&send(n + 1, &pattern(n as usize, 0)), 0xff, 0))?;
                c.received(u64::from(n), n as usize)?;
            }
            Ok(())
        });
    list.rows("P-ERR-1 M-MPA-6 M-MPA-7 M-MPA-32 V-AE-6")
        .says("a Write with a wrong CRC: 0x2002, nothing placed")
        .each([0, 7, 8, 15, 16, 23, 24, 31])
        .runs(|w, bit| {
            bad_frame(w, 0x2002, |c| {
                fpdu_odd(&write(c.stag, c.to, &pattern(100, 1)), 0, 1 << bit)
            })
        });
    list.rows("M-MPA-22 M-MPA-31")
        .says("the first FPDU of all has a wrong CRC: closed without an FPDU")
        .runs(|w| {
            let mut c = w.conn()?;
            c.tcp
                .send(&fpdu_odd(&write(c.stag, c.to, &[1; 64]), 0, 4))?;
            c.tcp.expect_closed()?;
            c.expect_untouched(0, 64)?;
            c.expect_async(event::FATAL)
        });
    list.rows("P-ERR-1 M-MPA-4 M-MPA-7")
        .says("each octet of a Write changed on the way: 0x2002, nothing placed")
        .runs(|w| {
            // The length field apart, which moves the CRC.
            for at in 2..(2 + 14 + 8 + 4) {
                bad_frame(w, 0x2002, |c| {
                    let mut bytes = fpdu(&write(c.stag, c.to, &pattern(8, 1)));
                    bytes[at] ^= 1 << (at % 8);
                    bytes
                })
                .map_err(|e| format!("octet {at}: {e}"))?;
                w.clean()?;
            }
            Ok(())
        });
    list.rows("P-ERR-3 M-MPA-30 V-AE-5 V-AE-7")
        .says("ULPDUs of 0 to 17 octets, shorter than their header: 0x2003")
        .each(0..18)
        .runs(|w, len| {
            bad_frame(w, 0x2003, |_| fpdu(&send(1, &[])[..len]))
                .map_err(|e| format!("untagged {len}: {e}"))?;
            if (1..14).contains(&len) {
                bad_frame(w, 0x2003, |c| fpdu(&write(c.stag, c.to, &[])[..len]))
                    .map_err(|e| format!("tagged {len}: {e}"))?;
            }
            Ok(())
        });
    list.rows("M-MPA-11")
        .says("FPDUs of 64768 and 65535 octets over small segments")
        .runs(|w| {
            let mut c = w.conn()?;
            for len in [64768, 65535] {
                let data = pattern(len - 14, len as u8);
                c.tcp.fpdu(&write(c.stag, c.to, &data))?;
                c.sync()?;
                c.expect_buffer(0, &data)?;
            }
            Ok(())
        });
    list.rows("M-MPA-11 M-MPA-13")
        .says("a Send of 65000 octets in one FPDU")
        .runs(|w| {
            let mut c = w.conn_with("recv=1 rsize=65536")?;
            let data = pattern(65000, 1);
            c.send(&data)?;
            c.received(0, data.len())?;
            c.expect_arena(RECEIVES, &data[..2000])
        });
    list.rows("M-MPA-13")
        .says("a stream of all messages, cut at every octet")
        .runs(cuts);
    list.rows("M-MPA-13")
        .says("a stream of all messages, one octet per segment")
        .runs(|w| {
            let mut c = w.conn()?;
            let (bytes, _) = group(&mut c, 1);
            c.tcp.drip(&bytes)?;
            check_group(&mut c, 0, 1)
        });
    list.rows("M-MPA-13")
        .says("100 FPDUs in one segment after the other")
        .runs(|w| {
            let mut c = w.conn()?;
            let mut bytes = Vec::new();
            for i in 0..100u64 {
                bytes.extend(fpdu(&write(c.stag, c.to + i * 7, &pattern(7, i as u8))));
            }
            c.tcp.send(&bytes)?;
            c.sync()?;
            for i in 0..100 {
                c.expect_buffer(i * 7, &pattern(7, i as u8))?;
            }
            c.expect_untouched(700, 100)
        });
    list.rows("M-MPA-31 V-TM-4 D-DDP-23")
        .says("what follows a bad FPDU in the same segment is ignored")
        .runs(|w| {
            let mut c = w.synced("")?;
            let mut bytes = fpdu_odd(&write(c.stag, c.to, &[1; 64]), 0, 4);
            bytes.extend(fpdu(&write(c.stag, c.to, &[2; 64])));
            bytes.extend(fpdu(&send(1, b"x")));
            c.tcp.send(&bytes)?;
            c.tcp.expect_terminate(0x2002, None)?;
            c.expect_untouched(0, 100)
        });
    list.rows("V-ST-12 P-ERR-27")
        .says("FIN inside an FPDU, at every octet: 0x0207")
        .each(1..44)
        .runs(|w, cut| {
            let mut c = w.synced("")?;
            let bytes = fpdu(&send(1, &[0; 20]));
            c.tcp.send(&bytes[..cut])?;
            c.tcp.fin();
            c.tcp.expect_terminate(0x0207, None)
        });
    list.rows("V-ST-12 V-ST-31")
        .says("FIN inside a message: 0x0207, it is never delivered")
        .runs(|w| {
            let mut c = w.synced("")?;
            c.tcp.fpdu(&untagged(U, SEND, 0, [0, 1, 0], &[1; 20]))?;
            c.tcp.fin();
            c.tcp.expect_terminate(0x0207, None)?;
            c.tcp.close();
            c.expect_wc("r", 0, status::FLUSHED)
        });
    list.rows("V-ST-17 V-AE-3 M-MPA-30")
        .says("RST inside an FPDU, at every octet")
        .each(0..44)
        .runs(|w, cut| {
            let mut c = w.synced("")?;
            c.tcp
                .send(&fpdu(&untagged(U_LAST, SEND, 0, [0, 1, 0], &[0; 20]))[..cut])?;
            c.expect_event("ESTABLISHED", 0)?;
            c.tcp.reset();
            c.expect_event("DISCONNECTED", 0)?;
            w.ep.expect_state(c.slot, state::ERR)
        });
}

/// An FPDU that ends the stream with a Terminate that quotes nothing.
fn bad_frame(w: &mut World, code: u16, make: impl Fn(&Conn) -> Vec<u8>) -> Res {
    let mut c = w.conn()?;
    // A responder does not answer before it has seen a good FPDU (M-MPA-22).
    c.sync()?;
    let bytes = make(&c);
    c.tcp.send(&bytes)?;
    c.tcp.expect_terminate(code, None)?;
    c.expect_untouched(0, 128)?;
    c.expect_async(event::FATAL)
}

/// Octets of a Write, a Send in two segments, a Read and a Write of nothing.
fn group(c: &mut Conn, seed: u8) -> (Vec<u8>, bytes::Read) {
    let msn = c.send_msn;
    c.send_msn += 1;
    let read = c.read(0, 33);
    let mut v = fpdu(&write(c.stag, c.to, &pattern(33, seed)));
    v.extend(fpdu(&untagged(U, SEND, 0, [0, msn, 0], &pattern(5, seed))));
    v.extend(fpdu(&untagged(
        U_LAST,
        SEND,
        0,
        [0, msn, 5],
        &pattern(6, seed),
    )));
    v.extend(fpdu(&read.request(c.read_msn)));
    c.read_msn += 1;
    v.extend(fpdu(&write(0, 0, &[])));
    (v, read)
}

fn check_group(c: &mut Conn, id: u64, seed: u8) -> Res {
    let read = c.read(0, 33);
    same(
        "octets of the Read",
        &c.response(&read)?,
        &pattern(33, seed),
    )?;
    c.received(id, 11)?;
    let at = RECEIVES + (id as usize) * 4096;
    let mut want = pattern(5, seed);
    want.extend(pattern(6, seed));
    c.expect_arena(at, &want)
}

fn cuts(w: &mut World) -> Res {
    let mut c = w.conn_with("recv=0")?;
    let lkey = "";
    let total = group(&mut c, 0).0.len();
    let mut c = w.conn_with("recv=0")?;
    for cut in 1..total {
        c.say("recv", &format!("0 {RECEIVES} 4096 {lkey}"))?;
        let (bytes, _) = group(&mut c, cut as u8);
        c.tcp.send(&bytes[..cut])?;
        c.tcp.send(&bytes[cut..])?;
        check_group(&mut c, 0, cut as u8).map_err(|e| format!("cut at {cut}: {e}"))?;
    }
    c.tcp.fin();
    c.tcp.expect_end(End::Fin)?;
    assert!(total < BUFFER_LEN);
    Ok(())
}
