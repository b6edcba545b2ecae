// SPDX-License-Identifier: GPL-2.0

//! How the driver stops: Terminates that its own side causes, at segment boundaries, then the
//! close (002 sections 6.2 and 6.4; T-32, T-36).
#![forbid(unsafe_code)]

use super::close::disconnected;
use super::read::whole_segments;
use crate::bytes::{self, fpdu, send, terminate, untagged, write, SEND, U_LAST};
use crate::ep::{event, state, status};
use crate::net::{check, End, SOON};
use crate::scenario::List;
use crate::world::op;

pub fn add(list: &mut List) {
    list.rows("V-ST-13 V-CM-6 V-TM-6 P-TERM-7")
        .says("modify to SQE: Terminate 0x0000 without headers, then FIN")
        .runs(|w| {
            let mut c = w.synced("recv=1")?;
            c.say("modify", &format!("state={}", state::SQE))?;
            w.ep.expect_state(c.slot, state::SQE)?;
            c.tcp.expect_terminate(0x0000, None)?;
            c.tcp.close();
            c.expect_wc("r", 0, status::FLUSHED)?;
            w.ep.expect_state(c.slot, state::ERR)?;
            c.expect_async(event::NONE)
        });
    list.rows("V-ST-9 V-CM-5 V-ST-36")
        .says("modify to SQD on an idle QP: FIN, and Idle when ours comes")
        .runs(|w| {
            let mut c = w.synced("recv=1")?;
            c.say("modify", &format!("state={}", state::SQD))?;
            c.tcp.expect_end(End::Fin)?;
            c.expect_wc("r", 0, status::FLUSHED)?;
            c.tcp.close();
            disconnected(w, c.slot)?;
            w.ep.expect_state(c.slot, state::INIT)
        });
    list.rows("V-ST-16 V-CM-7 V-TM-9")
        .says("modify to ERR: RST, no Terminate, all flushed")
        .runs(|w| {
            let mut c = w.synced("recv=1")?;
            c.say("modify", &format!("state={}", state::ERR))?;
            c.tcp.expect_end(End::Reset)?;
            c.expect_wc("r", 0, status::FLUSHED)?;
            c.expect_async(event::NONE)
        });
    list.rows("V-TM-10 P-TERM-7 V-WC-6 V-TM-2 V-TM-6")
        .says("a bad element in a Send: 0x0000 without headers, the Send fails")
        .runs(|w| {
            let mut c = w.synced("recv=0")?;
            c.post(1, op::SEND, 0, 8, "")?;
            c.post(2, op::SEND, 0, 8, "lkey=0x12345")?;
            c.post(3, op::SEND, 0, 8, "")?;
            c.tcp.expect_ulpdu("Send", &send(1, &[0xee; 8]))?;
            c.tcp.expect_terminate(0x0000, None)?;
            c.expect_wc("s", 1, 0)?;
            c.expect_wc("s", 2, status::LOC_PROT_ERR)?;
            c.expect_async(event::NONE)?;
            c.tcp.close();
            c.expect_wc("s", 3, status::FLUSHED)
        });
    list.rows("V-STAG0-8 V-STAG0-3")
        .says("a Send from STag 0: refused here, nothing on the wire but 0x0000")
        .runs(|w| {
            let mut c = w.synced("recv=0")?;
            c.post(1, op::SEND, 0, 8, "lkey=0")?;
            c.tcp.expect_terminate(0x0000, None)?;
            c.expect_wc("s", 1, status::LOC_PROT_ERR)
        });
    list.rows("V-ST-19 V-ST-26")
        .says("nothing behind the driver's Terminate is placed or completes anything (T-33)")
        .each(0..3)
        .runs(|w, nth| {
            let mut c = w.synced("recv=1")?;
            c.post(1, op::SEND, 0, 8, "lkey=0")?;
            c.tcp.expect_terminate(0x0000, None)?;
            c.expect_wc("s", 1, status::LOC_PROT_ERR)?;
            // Too long, of a good length, or a refusal.
            let late = match nth {
                0 => send(1, &[0; 5000]),
                1 => send(1, b"late"),
                _ => terminate(0x1202, None),
            };
            c.tcp.fpdu(&late)?;
            c.tcp.fpdu(&write(c.stag, c.to, b"late"))?;
            c.no_wc("r")?;
            c.expect_untouched(0, 64)?;
            c.tcp.close();
            c.expect_wc("r", 0, status::FLUSHED)?;
            c.expect_async(event::NONE)
        });
    list.rows("V-TM-1 P-TERM-11 D-DDP-20 V-ST-20")
        .says("an error while the driver sends long Writes: whole segments, then the Terminate")
        .runs(|w| {
            let mut c = w.synced("")?;
            c.tcp.small_window(2048);
            for id in 0..12 {
                c.post(id, op::WRITE, 131_072, 262_144, "raddr=4096 rkey=1")?;
            }
            let ulpdu = untagged(U_LAST, SEND, 0, [0, 7, 0], b"bad");
            c.tcp.fpdu(&ulpdu)?;
            c.expect_async(event::REQUEST)?;
            whole_segments(&mut c, &terminate(0x1203, Some(&ulpdu)))
        });
    list.rows("P-RDMAP-19 V-TM-4")
        .says("a Terminate arrives although the driver's receive queue holds unread data (T-32)")
        .each(0..5)
        .runs(|w, _| {
            let mut c = w.synced("")?;
            let ulpdu = write(c.stag, c.to - 1, b"bad");
            let mut bytes = fpdu(&ulpdu);
            for i in 0..400 {
                bytes.extend(fpdu(&write(c.stag, c.to + i, &[1; 1000])));
            }
            c.tcp.send_anyway(&bytes);
            c.tcp.expect_terminate(0x1101, Some(&ulpdu))?;
            c.expect_untouched(0, 64)
        });
    list.rows("V-ST-20 V-CM-9 V-ST-14 V-ST-25")
        .says("a local error: Terminate, FIN, Error, flushed in order (T-4)")
        .runs(|w| {
            let mut c = w.synced("recv=3")?;
            let ulpdu = write(c.stag ^ 1, c.to, b"bad");
            c.tcp.fpdu(&ulpdu)?;
            c.tcp.expect_terminate(0x1100, Some(&ulpdu))?;
            c.expect_async(event::ACCESS)?;
            w.ep.expect_state(c.slot, state::SQE)?;
            c.tcp.close();
            for id in 0..3 {
                c.expect_wc("r", id, status::FLUSHED)?;
            }
            w.ep.expect_state(c.slot, state::ERR)
        });
    list.rows("V-CQ-7 V-AE-26 V-CQ-6")
        .says("an overflowing CQ stops the QP that overflowed it: 0x0207 (T-43)")
        .runs(|w| {
            let mut c = w.conn_with("rcq=1 recv=16")?;
            let mut beside = w.synced("")?;
            for msn in 1..=16u32 {
                c.tcp.send_anyway(&fpdu(&bytes::send(msn, b"x")));
            }
            // The second message is the one that finds no room.
            c.tcp
                .expect_terminate(0x0207, Some(&bytes::send(2, b"x")))?;
            beside.send(b"fine")?;
            beside.received(0, 4)
        });
    list.rows("V-CQ-7 V-ST-9 V-ST-36")
        .says("a CQ that overflows with what Closing flushes does not destroy what was sent (T-32)")
        .runs(|w| {
            let mut c = w.synced("rcq=1 recv=16")?;
            c.tcp.small_window(2048);
            c.post(1, op::SEND, 0, 4096, "")?;
            c.expect_wc("s", 1, 0)?;
            c.say("modify", &format!("state={}", state::SQD))?;
            w.ep.expect_state(c.slot, state::ERR)?;
            let (bytes, _) = c.tcp.rest(SOON)?;
            check("all that was sent", bytes.len() > 4096, bytes.len())
        });
}
