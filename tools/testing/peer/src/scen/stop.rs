// SPDX-License-Identifier: GPL-2.0

//! How the driver stops: Terminates that its own side causes, at segment boundaries, then the
//! close (002 sections 6.2 and 6.4; T-32, T-36).
#![forbid(unsafe_code)]

use super::read::whole_segments;
use crate::bytes::{self, fpdu, send, terminate, untagged, write, SEND, U_LAST};
use crate::ep::{event, state, status};
use crate::net::{End, SOON};
use crate::scenario::List;
use crate::world::op;

pub fn add(list: &mut List) {
    list.add(
        "V-ST-13 V-CM-6 V-TM-6 P-TERM-7",
        "modify to SQE: Terminate 0x0000 without headers, then FIN",
        |w| {
            let mut c = w.conn_with("recv=1")?;
            c.sync()?;
            c.say("modify", &format!("state={}", state::SQE))?;
            w.ep.expect_state(c.slot, state::SQE)?;
            c.tcp.expect_terminate(0x0000, None)?;
            let (ep, slot) = (w.ep.clone(), c.slot);
            drop(c.tcp);
            let wc = ep.wc(slot, "r", SOON)?.ok_or("not flushed")?;
            if wc.status != status::FLUSHED {
                return Err(format!("{wc:?}"));
            }
            ep.expect_state(slot, state::ERR)?;
            match ep.async_event(slot, 20)? {
                event::NONE => Ok(()),
                other => Err(format!("asynchronous event {other}")),
            }
        },
    );
    list.add(
        "V-ST-9 V-CM-5 V-ST-36",
        "modify to SQD on an idle QP: FIN, and Idle when ours comes",
        |w| {
            let mut c = w.conn_with("recv=1")?;
            c.sync()?;
            c.say("modify", &format!("state={}", state::SQD))?;
            c.tcp.expect_end(End::Fin)?;
            let wc = c.expect_wc("r", 0, status::FLUSHED)?;
            let (ep, slot) = (w.ep.clone(), c.slot);
            drop(c.tcp);
            let event = ep.event(slot, SOON)?.ok_or("no event")?;
            let event = if event.name == "ESTABLISHED" {
                ep.event(slot, SOON)?.ok_or("no event")?
            } else {
                event
            };
            if event.name != "DISCONNECTED" || ep.state(slot)? != state::INIT {
                return Err(format!("{wc:?}, {event:?}, state {}", ep.state(slot)?));
            }
            Ok(())
        },
    );
    list.add(
        "V-ST-16 V-CM-7 V-TM-9",
        "modify to ERR: RST, no Terminate, all flushed",
        |w| {
            let mut c = w.conn_with("recv=1")?;
            c.sync()?;
            c.say("modify", &format!("state={}", state::ERR))?;
            c.tcp.expect_end(End::Reset)?;
            c.expect_wc("r", 0, status::FLUSHED)?;
            c.expect_async(event::NONE)
        },
    );
    list.add(
        "V-TM-10 P-TERM-7 V-WC-6 V-TM-2 V-TM-6",
        "a bad element in a Send: 0x0000 without headers, the Send fails",
        |w| {
            let mut c = w.conn_with("recv=0")?;
            c.sync()?;
            c.post(1, op::SEND, 0, 8, "")?;
            c.post(2, op::SEND, 0, 8, "lkey=0x12345")?;
            c.post(3, op::SEND, 0, 8, "")?;
            c.tcp.expect_ulpdu("Send", &send(1, &[0xee; 8]))?;
            c.tcp.expect_terminate(0x0000, None)?;
            c.expect_wc("s", 1, 0)?;
            c.expect_wc("s", 2, status::LOC_PROT_ERR)?;
            let (ep, slot) = (w.ep.clone(), c.slot);
            c.expect_async(event::NONE)?;
            drop(c.tcp);
            match ep.wc(slot, "s", SOON)? {
                Some(wc) if (wc.id, wc.status) == (3, status::FLUSHED) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        },
    );
    list.add(
        "V-STAG0-8 V-STAG0-3",
        "a Send from STag 0: refused here, nothing on the wire but 0x0000",
        |w| {
            let mut c = w.conn_with("recv=0")?;
            c.sync()?;
            c.post(1, op::SEND, 0, 8, "lkey=0")?;
            c.tcp.expect_terminate(0x0000, None)?;
            c.expect_wc("s", 1, status::LOC_PROT_ERR).map(|_| ())
        },
    );
    list.add(
        "V-TM-1 P-TERM-11 D-DDP-20 V-ST-20",
        "an error while the driver sends long Writes: whole segments, then the Terminate",
        |w| {
            let mut c = w.conn()?;
            c.sync()?;
            c.tcp.small_window(2048);
            for id in 0..12 {
                c.post(id, op::WRITE, 131_072, 262_144, "raddr=4096 rkey=1")?;
            }
            let ulpdu = untagged(U_LAST, SEND, 0, [0, 7, 0], b"bad");
            c.tcp.fpdu(&ulpdu)?;
            c.expect_async(event::REQUEST)?;
            whole_segments(&mut c, &terminate(0x1203, Some(&ulpdu)))
        },
    );
    list.add(
        "P-RDMAP-19 V-TM-4",
        "a Terminate arrives although the driver's receive queue holds unread data (T-32)",
        |w| {
            for _ in 0..5 {
                let mut c = w.conn()?;
                c.sync()?;
                let ulpdu = write(c.stag, c.to - 1, b"bad");
                let mut bytes = fpdu(&ulpdu);
                for i in 0..400 {
                    bytes.extend(fpdu(&write(c.stag, c.to + i, &[1; 1000])));
                }
                c.tcp.send_anyway(&bytes);
                c.tcp.expect_terminate(0x1101, Some(&ulpdu))?;
                c.expect_untouched(0, 64)?;
                w.clean()?;
            }
            Ok(())
        },
    );
    list.add(
        "V-ST-20 V-CM-9 V-ST-14 V-ST-25",
        "a local error: Terminate, FIN, Error, flushed in order (T-4)",
        |w| {
            let mut c = w.conn_with("recv=3")?;
            c.sync()?;
            let ulpdu = write(c.stag ^ 1, c.to, b"bad");
            c.tcp.fpdu(&ulpdu)?;
            c.tcp.expect_terminate(0x1100, Some(&ulpdu))?;
            c.expect_async(event::ACCESS)?;
            w.ep.expect_state(c.slot, state::SQE)?;
            let (ep, slot) = (w.ep.clone(), c.slot);
            drop(c.tcp);
            for id in 0..3 {
                let wc = ep.wc(slot, "r", SOON)?.ok_or("not flushed")?;
                if (wc.id, wc.status) != (id, status::FLUSHED) {
                    return Err(format!("{wc:?}"));
                }
            }
            ep.expect_state(slot, state::ERR)
        },
    );
    list.add(
        "V-CQ-7 V-AE-26 V-CQ-6",
        "an overflowing CQ stops the QP that overflowed it: 0x0207 (T-43)",
        |w| {
            let mut c = w.conn_with("rcq=1 recv=16")?;
            let mut beside = w.conn()?;
            c.sync()?;
            for msn in 1..=16u32 {
                c.tcp.send_anyway(&fpdu(&bytes::send(msn, b"x")));
            }
            // The second message is the one that finds no room.
            c.tcp
                .expect_terminate(0x0207, Some(&bytes::send(2, b"x")))?;
            beside.send(b"fine")?;
            beside.received(0, 4).map(|_| ())
        },
    );
}
