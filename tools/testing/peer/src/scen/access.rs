// SPDX-License-Identifier: GPL-2.0

//! What the peer may write and read: keys, rights, bounds, domains (RFC 5041 section 7.1, RFC 5040
//! section 5.2.1, 002 section 7.4 and 7.6.3).
#![forbid(unsafe_code)]

use super::errors::{bad, bad_on};
use crate::bytes::{fpdu, hex, pattern, tagged, write, Read, T, T_LAST, WRITE};
use crate::ep::{event, right};
use crate::net::Res;
use crate::scenario::List;
use crate::world::{Conn, World, BUFFER, BUFFER_LEN};

/// A region of its own: key and offset of its first octet.
pub fn region(c: &Conn, at: usize, len: usize, rights: u32, options: &str) -> Res<(u32, u64)> {
    let line = format!("reg {} 1 {at} {len} {rights} {options}", c.slot);
    match c.ep.numbers(&line)?[..] {
        [stag, to] => Ok((stag as u32, to)),
        _ => Err(format!("'{line}'")),
    }
}

/// A Write that has to be refused, and leaves memory alone.
fn no_write(w: &mut World, code: u16, stag: impl Fn(&Conn) -> (u32, u64), len: usize) -> Res {
    let mut c = w.conn()?;
    let (stag, to) = stag(&c);
    bad_on(&mut c, code, event::ACCESS, |_| {
        write(stag, to, &pattern(len, 1))
    })?;
    c.expect_untouched(0, 64)?;
    c.expect_untouched(BUFFER_LEN - 64, 64)?;
    w.clean()
}

/// A Read that has to be refused with a Terminate and nothing else.
fn no_read(
    w: &mut World,
    options: &str,
    code: u16,
    source: impl Fn(&Conn) -> (u32, u64),
    len: u32,
) -> Res {
    bad(w, options, code, event::ACCESS, |c| {
        Read {
            sink: (1, 2),
            len,
            source: source(c),
        }
        .request(1)
    })
}

/// Keys and offsets of which none, or not both, are those of a region.
fn nowhere(c: &Conn) -> [(u32, u64); 4] {
    [
        (0xdead_beef, 0),
        (0, u64::MAX),
        (c.stag, 0),
        (c.stag ^ 1, c.to),
    ]
}

pub fn add(list: &mut List) {
    list.rows("V-ACC-14 D-DDP-22 S-5042-3 V-SEC-3")
        .says("Writes of the first and the last octet, and of all")
        .runs(|w| {
            let mut c = w.conn()?;
            let end = c.to + BUFFER_LEN as u64;
            c.tcp.fpdu(&write(c.stag, c.to, b"a"))?;
            c.tcp.fpdu(&write(c.stag, end - 1, b"z"))?;
            c.tcp.fpdu(&write(c.stag, end - 3, b"xy"))?;
            c.sync()?;
            c.expect_buffer(0, b"a\xee")?;
            c.expect_buffer(BUFFER_LEN - 4, b"\xeexyz")?;
            let all = pattern(60000, 5);
            c.tcp.fpdu(&tagged(T, WRITE, c.stag, c.to, &all))?;
            c.tcp
                .fpdu(&tagged(T_LAST, WRITE, c.stag, c.to + 60000, &all[..5536]))?;
            c.sync()?;
            c.expect_buffer(0, &all)
        });
    list.rows("P-ERR-15 V-ACC-14 V-ACC-17 V-AE-17 S-5042-3")
        .says("one octet before and behind: 0x1101, nothing placed (T-8)")
        .runs(|w| {
            let end = BUFFER_LEN as u64;
            no_write(w, 0x1101, |c| (c.stag, c.to - 1), 1)?;
            no_write(w, 0x1101, |c| (c.stag, c.to - 1), 64)?;
            no_write(w, 0x1101, |c| (c.stag, c.to + end), 1)?;
            no_write(w, 0x1101, |c| (c.stag, c.to + end - 63), 64)?;
            no_write(w, 0x1101, |c| (c.stag, c.to + end - 1), 2)
        });
    list.rows("V-ACC-14 S-5042-3")
        .says("every octet around a region of one page")
        .each([
            (-2i64, false),
            (-1, false),
            (0, true),
            (4095, true),
            (4096, false),
        ])
        .runs(|w, (at, good)| {
            let mut c = w.conn()?;
            let (stag, to) = region(&c, 8192, 4096, 7, "")?;
            let ulpdu = write(stag, to.wrapping_add(at as u64), b"!");
            c.tcp.fpdu(&ulpdu)?;
            if good {
                c.sync()?;
            } else {
                c.tcp.expect_terminate(0x1101, Some(&ulpdu))?;
                c.expect_untouched(8192 - BUFFER - 4, 4104)?;
            }
            Ok(())
        });
    list.rows("P-ERR-18 V-ACC-15 V-AE-20")
        .says("an offset that wraps: 0x1103, and 0x0104 for a Read (T-18)")
        .runs(|w| {
            no_write(w, 0x1103, |c| (c.stag, u64::MAX), 2)?;
            no_write(w, 0x1103, |c| (c.stag, u64::MAX - 62), 64)?;
            no_read(w, "", 0x0104, |c| (c.stag, u64::MAX), 2)?;
            no_read(w, "", 0x0104, |c| (c.stag, u64::MAX - 1000), u32::MAX)
        });
    list.rows("V-MR-24 V-MR-4 V-ACC-15")
        .says("a region at the upper end of the offsets")
        .runs(|w| {
            let iova = 0u64.wrapping_sub(2 * 4096);
            let mut c = w.conn()?;
            let (stag, to) = region(&c, 8192, 4096, 7, &format!("iova={iova}"))?;
            c.tcp.fpdu(&write(stag, to + 4090, b"123456"))?;
            c.sync()?;
            c.expect_buffer(8192 - BUFFER + 4088, b"\xee\xee123456\xee")?;
            let ulpdu = write(stag, to + 4091, b"123456");
            c.tcp.fpdu(&ulpdu)?;
            c.tcp.expect_terminate(0x1101, Some(&ulpdu))
        });
    list.rows("V-ACC-16 D-DDP-10 P-RDMAP-7")
        .says("Writes of nothing: neither key nor offset counts (T-23)")
        .runs(|w| {
            let mut c = w.conn_with("rights=1")?;
            for (stag, to) in nowhere(&c) {
                c.tcp.fpdu(&write(stag, to, &[]))?;
                c.sync()?;
            }
            c.say("modify", "access=1")?;
            c.tcp.fpdu(&write(0xdead_beef, 5, &[]))?;
            c.sync()
        });
    list.rows("V-ACC-16 P-RDMAP-10")
        .says("Reads of nothing: neither key nor offset counts (T-23)")
        .runs(|w| {
            let mut c = w.conn_with("rights=1")?;
            for (stag, to) in nowhere(&c) {
                let read = Read {
                    sink: (5, u64::MAX),
                    len: 0,
                    source: (stag, to),
                };
                c.ask(&read)?;
                c.response(&read)?;
            }
            Ok(())
        });
    list.rows("P-ERR-14 V-STAG-5 V-STAG-6 V-AE-16")
        .says("a Write with a key or an index that does not exist: 0x1100")
        .each([1u32, 0x80, 0xff, 0x100, 0x8000_0000, 0x00ff_ff00])
        .runs(|w, flip| no_write(w, 0x1100, |c| (c.stag ^ flip, c.to), 8));
    list.rows("V-STAG0-4 P-ERR-14")
        .says("STag 0: Write 0x1100, Read 0x0100")
        .runs(|w| {
            no_write(w, 0x1100, |c| (0, c.to), 8)?;
            no_read(w, "", 0x0100, |c| (0, c.to), 8)
        });
    list.rows("V-ACC-18 V-DEA-2 D-DDP-26 S-5042-4")
        .says("a deregistered region: 0x1100, 0x0100, nothing placed (T-20)")
        .runs(|w| {
            let mut c = w.conn()?;
            c.tcp.fpdu(&write(c.stag, c.to, b"ok"))?;
            c.sync()?;
            c.say("dereg", "0")?;
            let ulpdu = write(c.stag, c.to, b"no");
            c.tcp.fpdu(&ulpdu)?;
            c.tcp.expect_terminate(0x1100, Some(&ulpdu))?;
            c.expect_buffer(0, b"ok\xee")?;
            let mut c = w.conn()?;
            c.say("dereg", "0")?;
            bad_on(&mut c, 0x0100, event::ACCESS, |c| c.read(0, 2).request(1))
        });
    list.rows("P-ERR-16 V-ACC-6 V-AE-18 S-5042-5")
        .says("a Write without the right: 0x1102, nothing placed")
        .each([0, right::LOCAL, right::READ, right::LOCAL | right::READ])
        .runs(|w, rights| {
            let mut c = w.conn_with(&format!("rights={rights}"))?;
            bad_on(&mut c, 0x1102, event::ACCESS, |c| {
                write(c.stag, c.to, b"data")
            })?;
            c.expect_untouched(0, 8)
        });
    list.rows("P-ERR-17 V-PD-4 S-5042-1 V-AE-19 V-SEC-2")
        .says("a region of another domain: 0x1102, 0x0103")
        .runs(|w| {
            let other = w.conn()?;
            let (stag, to) = (other.stag, other.to);
            let mut c = w.conn()?;
            bad_on(&mut c, 0x1102, event::ACCESS, |_| write(stag, to, b"data"))?;
            other.expect_untouched(0, 8)?;
            let mut c = w.conn()?;
            bad_on(&mut c, 0x0103, event::ACCESS, |_| {
                Read {
                    sink: (1, 2),
                    len: 4,
                    source: (stag, to),
                }
                .request(1)
            })?;
            // In the own domain a region serves all connections.
            let mut c = w.conn_with(&format!("pd_of={}", other.slot))?;
            c.tcp.fpdu(&write(stag, to, b"data"))?;
            c.sync()?;
            other.expect_buffer(0, b"data\xee")
        });
    list.rows("V-ACC-10 V-AE-13")
        .says("Writes disabled on the QP: 0x1102, nothing placed")
        .runs(|w| {
            let mut c = w.conn()?;
            c.say("modify", "access=5")?;
            bad_on(&mut c, 0x1102, event::ACCESS, |c| {
                write(c.stag, c.to, b"data")
            })?;
            c.expect_untouched(0, 8)
        });
    list.rows("P-ERR-23 V-ACC-9 V-AE-12")
        .says("Reads disabled on the QP: 0x1201 (T-2)")
        .runs(|w| {
            let mut c = w.conn()?;
            c.say("modify", "access=3")?;
            bad_on(&mut c, 0x1201, event::ACCESS, |c| c.read(0, 4).request(1))
        });
    list.rows("P-ERR-19 V-ACC-7 V-SEC-4 S-5042-5 V-AE-25")
        .says("a Read without the right: 0x0102 (T-2)")
        .each([0, right::LOCAL, right::LOCAL | right::WRITE])
        .runs(|w, rights| {
            no_read(
                w,
                &format!("rights={rights}"),
                0x0102,
                |c| (c.stag, c.to),
                4,
            )
        });
    list.rows("P-ERR-19 P-RDMAP-9 V-AE-25")
        .says("a Read with a wrong key or out of bounds: 0x0100, 0x0101")
        .runs(|w| {
            let end = BUFFER_LEN as u64;
            no_read(w, "", 0x0100, |c| (c.stag ^ 1, c.to), 4)?;
            no_read(w, "", 0x0100, |c| (c.stag ^ 0x4000, c.to), 4)?;
            no_read(w, "", 0x0101, |c| (c.stag, c.to - 1), 4)?;
            no_read(w, "", 0x0101, |c| (c.stag, c.to + end), 1)?;
            no_read(w, "", 0x0101, |c| (c.stag, c.to + end - 3), 4)?;
            no_read(w, "", 0x0101, |c| (c.stag, c.to), 65537)?;
            no_read(w, "", 0x0101, |c| (c.stag, c.to), u32::MAX)
        });
    list.rows("V-TM-4 D-DDP-23")
        .says("a good Write behind a bad one in a burst is not placed")
        .runs(|w| {
            let mut c = w.conn()?;
            let ulpdu = write(c.stag, c.to - 1, b"bad");
            let mut burst = fpdu(&write(c.stag, c.to, b"1"));
            burst.extend(fpdu(&ulpdu));
            for i in 2..50 {
                burst.extend(fpdu(&write(c.stag, c.to + i, b"2")));
            }
            c.tcp.send(&burst)?;
            c.tcp.expect_terminate(0x1101, Some(&ulpdu))?;
            c.expect_buffer(0, b"1")?;
            c.expect_untouched(1, 100)
        });
    list.rows("V-STAG-7 S-5042-7 V-STAG-2")
        .says("keys of new regions do not follow each other, none is used again soon")
        .runs(|w| {
            let c = w.conn()?;
            let mut seen = Vec::new();
            for _ in 0..200 {
                let (stag, _) = region(&c, 8192, 64, 7, "")?;
                c.say("dereg", "1")?;
                let index = stag >> 8;
                if index == 0 || seen.contains(&index) {
                    return Err(format!("index {index:06x} again"));
                }
                seen.push(index);
            }
            let near = seen
                .windows(2)
                .filter(|p| p[0].abs_diff(p[1]) < 256)
                .count();
            if near > 4 {
                return Err(format!(
                    "{near} of 200 follow each other: {}",
                    hex(&seen[0].to_be_bytes())
                ));
            }
            Ok(())
        });
}
