// SPDX-License-Identifier: GPL-2.0

//! Remote invalidation (RFC 5040 section 5.3, 002 section 7.8; T-7, T-21).
#![forbid(unsafe_code)]

use super::access::region;
use crate::bytes::{untagged, write, SEND, SEND_INV, SEND_SE_INV, U, U_LAST};
use crate::ep::{event, status};
use crate::net::Res;
use crate::scenario::List;
use crate::world::{Conn, World, BUFFER};

fn send_inv(rdmap: u8, msn: u32, stag: u32) -> Vec<u8> {
    untagged(U_LAST, rdmap, stag, [0, msn, 0], b"data")
}

/// An invalidation that ends the stream: Terminate, the receive fails, no event (T-33).
fn refused(c: &mut Conn, code: u16, stag: u32) -> Res {
    let ulpdu = send_inv(SEND_INV, c.send_msn, stag);
    let id = u64::from(c.send_msn) - 1;
    c.tcp.fpdu(&ulpdu)?;
    c.tcp.expect_terminate(code, Some(&ulpdu))?;
    c.expect_wc("r", id, status::REM_INV_REQ_ERR)?;
    c.expect_async(event::NONE)
}

/// A region that stays as it was is written to from another connection of its domain.
fn still_valid(w: &mut World, of: &Conn, stag: u32, to: u64, at: usize) -> Res {
    let mut c = w.conn_with(&format!("pd_of={}", of.slot))?;
    c.tcp.fpdu(&write(stag, to, b"good"))?;
    c.sync()?;
    of.expect_arena(at, b"good")
}

pub fn add(list: &mut List) {
    for (name, rdmap) in [("Send", SEND_INV), ("Send with event", SEND_SE_INV)] {
        let text = format!("{name} and Invalidate: delivered, and the key is dead");
        list.rows("P-RDMAP-16 V-INV-1 V-INV-2 V-INV-14")
            .says(text)
            .runs(move |w| {
                let mut c = w.conn()?;
                let (stag, to) = region(&c, BUFFER, 4096, 7, "")?;
                c.tcp.fpdu(&write(stag, to, b"yes"))?;
                c.tcp.fpdu(&send_inv(rdmap, 1, stag))?;
                // The provider library of user space does not pass on which key it was.
                c.received(0, 4)?;
                // Another region over the same memory is as it was.
                c.tcp.fpdu(&write(c.stag, c.to, b"YES"))?;
                c.sync()?;
                c.expect_buffer(0, b"YES\xee")?;
                let ulpdu = write(stag, to, b"no");
                c.tcp.fpdu(&ulpdu)?;
                c.tcp.expect_terminate(0x1100, Some(&ulpdu))?;
                c.expect_buffer(0, b"YES\xee")
            });
    }
    list.rows("P-ERR-25 V-INV-11 V-INV-12 V-WC-13")
        .says("an STag that does not exist: 0x0100, the receive fails (T-7)")
        .each([0x100, 0x8000_0000])
        .runs(|w, flip| {
            let mut c = w.conn()?;
            let stag = c.stag ^ flip;
            refused(&mut c, 0x0100, stag)
        });
    list.rows("V-INV-9 V-INV-12")
        .says("the right index with a wrong key: refused, the region stays (T-21)")
        .runs(|w| {
            let mut c = w.conn()?;
            let stag = c.stag;
            refused(&mut c, 0x0100, stag ^ 1)?;
            still_valid(w, &c, stag, c.to, BUFFER)
        });
    list.rows("V-INV-10 V-WC-12 P-ERR-25")
        .says("a region without remote rights: 0x0102, it stays")
        .each([0, 1])
        .runs(|w, rights| {
            let mut c = w.conn_with(&format!("rights={rights}"))?;
            let stag = c.stag;
            refused(&mut c, 0x0102, stag)
        });
    list.rows("V-INV-10")
        .says("a QP without remote rights: 0x0102, the region stays")
        .runs(|w| {
            let mut c = w.conn()?;
            c.say("modify", "access=1")?;
            let stag = c.stag;
            refused(&mut c, 0x0102, stag)?;
            still_valid(w, &c, stag, c.to, BUFFER)
        });
    list.rows("V-INV-7 P-ERR-25 V-WC-12")
        .says("a region of another domain: 0x0103, it stays")
        .runs(|w| {
            let other = w.conn()?;
            let mut c = w.conn()?;
            refused(&mut c, 0x0103, other.stag)?;
            still_valid(w, &other, other.stag, other.to, BUFFER)
        });
    list.rows("S-5042-6 T-21")
        .says("a region that several connections share: refused, it stays")
        .runs(|w| {
            let first = w.conn()?;
            let mut c = w.conn_with(&format!("pd_of={}", first.slot))?;
            refused(&mut c, 0x0109, first.stag)?;
            still_valid(w, &first, first.stag, first.to, BUFFER)
        });
    list.rows("V-STAG0-6 V-INV-6")
        .says("STag 0: refused")
        .runs(|w| {
            let mut c = w.conn()?;
            refused(&mut c, 0x0100, 0)
        });
    list.rows("P-RDMAP-3 V-INV-14")
        .says("only the last segment of a message invalidates")
        .runs(|w| {
            let mut c = w.conn()?;
            let (stag, to) = region(&c, BUFFER, 4096, 7, "")?;
            c.tcp.fpdu(&untagged(U, SEND_INV, stag, [0, 1, 0], b"da"))?;
            c.tcp.fpdu(&write(stag, to, b"yes"))?;
            c.tcp
                .fpdu(&untagged(U_LAST, SEND_INV, stag, [0, 1, 2], b"ta"))?;
            c.received(0, 4)?;
            c.expect_buffer(0, b"yes\xee")
        });
    list.rows("P-RDMAP-3")
        .says("octets of an STag in a plain Send invalidate nothing")
        .runs(|w| {
            let mut c = w.conn()?;
            c.tcp
                .fpdu(&untagged(U_LAST, SEND, c.stag, [0, 1, 0], b"data"))?;
            c.received(0, 4)?;
            c.tcp.fpdu(&write(c.stag, c.to, b"yes"))?;
            c.sync()?;
            c.expect_buffer(0, b"yes")
        });
}
