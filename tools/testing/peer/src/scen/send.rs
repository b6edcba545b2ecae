// SPDX-License-Identifier: GPL-2.0

//! Sends in every order of segments that is allowed (RFC 5041 section 5, RFC 5040 section 5.3).
#![forbid(unsafe_code)]

use crate::bytes::{self, pattern, tagged, untagged, SEND, SEND_SE, T, T_LAST, U, U_LAST, WRITE};
use crate::ep::status;
use crate::net::{check, same};
use crate::scenario::List;
use crate::world::{op, RECEIVES};

pub fn add(list: &mut List) {
    list.rows("P-RDMAP-14 D-DDP-15")
        .says("Sends as long as their receive, one octet less, and empty")
        .runs(|w| {
            let mut c = w.conn_with("recv=4 rsize=100")?;
            for (id, n) in [100usize, 99, 1, 0].iter().enumerate() {
                c.send(&pattern(*n, id as u8))?;
                c.received(id as u64, *n)?;
                c.expect_arena(RECEIVES + id * 100, &pattern(*n, id as u8))?;
            }
            Ok(())
        });
    list.rows("P-RDMAP-14 D-DDP-10")
        .says("an empty Send takes a receive of nothing")
        .runs(|w| {
            let mut c = w.conn_with("recv=2 rsize=0")?;
            c.send(b"")?;
            c.received(0, 0)?;
            let ulpdu = bytes::send(2, b"x");
            c.tcp.fpdu(&ulpdu)?;
            c.tcp.expect_terminate(0x1205, Some(&ulpdu))
        });
    list.rows("D-DDP-14 D-DDP-8")
        .says("empty first, middle and last segments (T-46)")
        .runs(|w| {
            let mut c = w.conn()?;
            let parts: [&[u8]; 6] = [b"", b"ab", b"", b"", b"cde", b""];
            let mut mo = 0;
            for (n, part) in parts.iter().enumerate() {
                let control = if n == 5 { U_LAST } else { U };
                c.tcp.fpdu(&untagged(control, SEND, 0, [0, 1, mo], part))?;
                mo += part.len() as u32;
            }
            c.received(0, 5)?;
            c.expect_arena(RECEIVES, b"abcde")
        });
    list.rows("D-DDP-14 D-DDP-6")
        .says("segments of a Write, a Send and a Read interleaved")
        .runs(|w| {
            let mut c = w.conn()?;
            c.tcp.fpdu(&tagged(T, WRITE, c.stag, c.to, b""))?;
            c.tcp.fpdu(&tagged(T, WRITE, c.stag, c.to, b"one"))?;
            c.tcp.fpdu(&untagged(U, SEND, 0, [0, 1, 0], b"two"))?;
            c.sync()?;
            c.tcp.fpdu(&tagged(T, WRITE, c.stag, c.to + 3, b"three"))?;
            c.tcp.fpdu(&untagged(U_LAST, SEND, 0, [0, 1, 3], b"four"))?;
            c.tcp
                .fpdu(&tagged(T_LAST, WRITE, c.stag, c.to + 8, b"five"))?;
            c.sync()?;
            c.expect_buffer(0, b"onethreefive\xee")?;
            c.received(0, 7)?;
            c.expect_arena(RECEIVES, b"twofour")
        });
    list.rows("D-DDP-7 D-DDP-13")
        .says("numbers start at 1 on each queue and rise by 1")
        .runs(|w| {
            let mut c = w.conn_with("recv=16 rwr=16")?;
            for n in 0..16usize {
                c.send(&pattern(n, 0))?;
                c.sync()?;
            }
            for n in 0..16 {
                c.received(n, n as usize)?;
            }
            // And so do ours.
            c.post(1, op::SEND, 0, 3, "")?;
            c.post(2, op::SEND, 0, 4, "")?;
            c.tcp.expect_ulpdu("first", &bytes::send(1, &[0xee; 3]))?;
            c.tcp.expect_ulpdu("second", &bytes::send(2, &[0xee; 4]))
        });
    list.rows("P-RDMAP-1 D-DDP-5 D-DDP-8 P-RDMAP-6")
        .says("a Send of the driver in two segments, octet by octet")
        .runs(|w| {
            let mut c = w.synced("")?;
            c.post(1, op::SEND, 4096, 2000, "")?;
            let first = c.tcp.ulpdu()?;
            let n = first.len() - 18;
            same(
                "first segment",
                &first,
                &untagged(U, SEND, 0, [0, 1, 0], &vec![0xee; n]),
            )?;
            c.tcp.expect_ulpdu(
                "second segment",
                &untagged(U_LAST, SEND, 0, [0, 1, n as u32], &vec![0xee; 2000 - n]),
            )
        });
    list.rows("P-RDMAP-2 P-RDMAP-3")
        .says("the driver's four kinds of Send, octet by octet")
        .runs(|w| {
            let mut c = w.synced("")?;
            const INV: u32 = 9;
            for (msn, (opcode, flags, rdmap, inv)) in [
                (op::SEND, 2, SEND, 0),
                (op::SEND, 6, SEND_SE, 0),
                (INV, 2, bytes::SEND_INV, 0x1234),
                (INV, 6, bytes::SEND_SE_INV, 0xffff_fffe),
            ]
            .into_iter()
            .enumerate()
            {
                let options = format!("flags={flags} rkey={inv}");
                c.post(msn as u64, opcode, 4096, 5, &options)?;
                let want = untagged(U_LAST, rdmap, inv, [0, msn as u32 + 1, 0], &[0xee; 5]);
                c.tcp.expect_ulpdu("Send", &want)?;
            }
            Ok(())
        });
    list.rows("P-RDMAP-7 D-DDP-4 D-DDP-9")
        .says("a Write of the driver, octet by octet")
        .runs(|w| {
            let mut c = w.synced("")?;
            c.post(
                1,
                op::WRITE,
                4096,
                2000,
                "raddr=0xffffffff00000010 rkey=0x89abcdef",
            )?;
            let first = c.tcp.ulpdu()?;
            let n = first.len() - 14;
            let to = 0xffff_ffff_0000_0010u64;
            same(
                "first segment",
                &first,
                &tagged(T, WRITE, 0x89ab_cdef, to, &vec![0xee; n]),
            )?;
            let want = tagged(
                T_LAST,
                WRITE,
                0x89ab_cdef,
                to + n as u64,
                &vec![0xee; 2000 - n],
            );
            c.tcp.expect_ulpdu("second segment", &want)?;
            c.post(2, op::WRITE, 4096, 0, "raddr=0 rkey=0")?;
            c.tcp
                .expect_ulpdu("empty Write", &tagged(T_LAST, WRITE, 0, 0, &[]))
        });
    list.rows("V-ST-31")
        .says("a message that is broken off by an error is flushed, not delivered")
        .runs(|w| {
            let mut c = w.conn_with("recv=2")?;
            c.tcp.fpdu(&untagged(U, SEND, 0, [0, 1, 0], b"part"))?;
            let ulpdu = bytes::write(0, 0, b"x");
            c.tcp.fpdu(&ulpdu)?;
            c.tcp.expect_terminate(0x1100, Some(&ulpdu))?;
            c.no_wc("r")?;
            c.tcp.close();
            c.expect_wc("r", 0, status::FLUSHED)?;
            c.expect_wc("r", 1, status::FLUSHED)
        });
    list.rows("P-RDMAP-15 V-CQ-26")
        .says("Sends with solicited event are received like others")
        .runs(|w| {
            let mut c = w.conn()?;
            c.tcp
                .fpdu(&untagged(U_LAST, SEND_SE, 0, [0, 1, 0], b"event"))?;
            let wc = c.wc("r")?;
            let want = (0, 0, 5, 0);
            check("receive", (wc.id, wc.status, wc.len, wc.flags) == want, wc)
        });
}
