// SPDX-License-Identifier: GPL-2.0

//! Ends of connections: FIN, RST, silence, at any moment (002 sections 6.2.2.2 to 6.2.5; T-37).
#![forbid(unsafe_code)]

use crate::bytes::{fpdu, hex, mpa, send, terminate, untagged, words, write};
use crate::bytes::{Read, C, READ_RESP, REP, REQ, S, SEND, U, U_LAST};
use crate::ep::{event, state, status};
use crate::net::{End, Res, SOON};
use crate::scenario::List;
use crate::world::{op, World};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// More than the 5 s that the driver gives Closing and Terminate.
const PATIENCE: Duration = Duration::from_secs(12);

/// The events of the slot but ESTABLISHED, until no more come.
pub fn events_to_end(w: &World, slot: usize) -> Res<Vec<String>> {
    let mut events = Vec::new();
    while let Some(event) =
        w.ep.event(slot, if events.is_empty() { SOON } else { 30 })?
    {
        if event.name != "ESTABLISHED" {
            events.push(event.name);
        }
    }
    Ok(events)
}

/// The next event of the slot that is not ESTABLISHED is the end, told once.
pub fn disconnected(w: &World, slot: usize) -> Res {
    let events = events_to_end(w, slot)?;
    if events != ["DISCONNECTED"] {
        return Err(format!("events {events:?}"));
    }
    Ok(())
}

pub fn add(list: &mut List) {
    list.add(
        "V-ST-11 V-CM-5 V-AE-1 D-DDP-16",
        "FIN on an idle QP: FIN back, Idle, told once, no event (T-37)",
        |w| {
            let mut c = w.conn_with("recv=1")?;
            c.sync()?;
            c.tcp.fin();
            c.tcp.expect_end(End::Fin)?;
            c.expect_wc("r", 0, status::FLUSHED)?;
            c.expect_async(event::NONE)?;
            disconnected(w, c.slot)?;
            w.ep.expect_state(c.slot, state::INIT)
        },
    );
    list.add(
        "V-ST-37",
        "a request posted after a close in good order is flushed, not kept",
        |w| {
            let mut c = w.conn()?;
            c.sync()?;
            c.tcp.fin();
            c.tcp.expect_end(End::Fin)?;
            disconnected(w, c.slot)?;
            w.ep.expect_state(c.slot, state::INIT)?;
            c.post(1, op::WRITE, 131_072, 64, "raddr=4096 rkey=1")?;
            c.expect_wc("s", 1, status::FLUSHED)?;
            c.expect_async(event::NONE)?;
            w.ep.expect_state(c.slot, state::ERR)
        },
    );
    list.add(
        "V-ST-11",
        "FIN right behind the last message: it is delivered",
        |w| {
            let mut c = w.conn()?;
            c.send(b"last")?;
            c.tcp.fin();
            c.received(0, 4)?;
            c.tcp.expect_end(End::Fin)
        },
    );
    list.add(
        "V-ST-12 P-ERR-27 D-DDP-19 V-AE-22",
        "FIN while a Read of the driver waits: 0x0207",
        |w| {
            let mut c = w.conn_with("recv=0")?;
            c.sync()?;
            c.post(1, op::READ, 131_072, 64, "raddr=1 rkey=1")?;
            c.tcp.ulpdu()?;
            c.tcp.fin();
            c.tcp.expect_terminate(0x0207, None)?;
            c.expect_async(event::FATAL)?;
            c.expect_wc("s", 1, status::FLUSHED)?;
            disconnected(w, c.slot)
        },
    );
    list.add(
        "V-ST-12 P-ERR-27 D-DDP-19",
        "FIN while the driver answers Reads: what is on its way, then 0x0207",
        |w| {
            let mut c = w.conn_with("ird=8")?;
            c.sync()?;
            c.tcp.small_window(2048);
            let reads: Vec<Read> = (0..8).map(|_| c.read(0, 65536)).collect();
            for read in &reads {
                c.ask(read)?;
            }
            // Before a response begins, a FIN prevents it.
            let mut seg = c.tcp.ulpdu()?;
            c.tcp.fin();
            // TCP has not taken all of them by then: the rest of one message is missing.
            let mut octets = 0;
            loop {
                if seg[1] != READ_RESP {
                    let want = terminate(0x0207, None);
                    if seg != want {
                        return Err(format!("{} instead of {}", hex(&seg), hex(&want)));
                    }
                    break;
                }
                let want = octets % 65536 + reads[0].sink.1;
                if seg[6..14] != want.to_be_bytes() {
                    return Err(format!(
                        "offset {} behind {octets} octets",
                        hex(&seg[6..14])
                    ));
                }
                octets += seg.len() as u64 - 14;
                seg = c.tcp.ulpdu()?;
            }
            c.tcp.expect_end(End::Fin)?;
            if octets == 0 || octets >= 8 * 65536 {
                return Err(format!("{octets} octets of responses"));
            }
            c.expect_async(event::FATAL)?;
            disconnected(w, c.slot)
        },
    );
    list.add(
        "V-ST-17 V-AE-3 V-TM-9 V-CM-9",
        "RST: Error, flushed, told once",
        |w| {
            let mut c = w.conn_with("recv=1")?;
            c.sync()?;
            let (ep, slot) = (w.ep.clone(), c.slot);
            c.tcp.reset();
            disconnected(w, slot)?;
            let wc = ep.wc(slot, "r", SOON)?.ok_or("not flushed")?;
            if wc.status != status::FLUSHED {
                return Err(format!("{wc:?}"));
            }
            ep.expect_state(slot, state::ERR)?;
            match ep.async_event(slot, SOON)? {
                event::FATAL => Ok(()),
                other => Err(format!("asynchronous event {other}")),
            }
        },
    );
    list.add(
        "V-ST-34 V-AE-21 V-ST-32",
        "data after the driver's FIN: Bad Close",
        |w| {
            let mut c = w.conn()?;
            c.sync()?;
            c.say("modify", &format!("state={}", state::SQD))?;
            c.tcp.expect_end(End::Fin)?;
            c.tcp.fpdu(&write(c.stag, c.to, b"late"))?;
            c.expect_async(event::FATAL)?;
            c.expect_untouched(0, 8)?;
            w.ep.expect_state(c.slot, state::ERR)
        },
    );
    list.add(
        "V-ST-32 V-ST-34",
        "a Terminate after the driver's FIN is read",
        |w| {
            let mut c = w.conn()?;
            c.sync()?;
            c.say("modify", &format!("state={}", state::SQD))?;
            c.tcp.expect_end(End::Fin)?;
            c.tcp.fpdu(&terminate(0x2002, None))?;
            c.expect_async(event::FATAL)
        },
    );
    list.add(
        "V-ST-33 V-ST-28 V-ST-31 V-ST-34",
        "SQD inside a message: its receive is flushed first, its rest is Bad Close",
        |w| {
            let mut c = w.conn_with("recv=3")?;
            c.tcp.fpdu(&untagged(U, SEND, 0, [0, 1, 0], b"be"))?;
            c.sync()?;
            c.say("modify", &format!("state={}", state::SQD))?;
            c.tcp.expect_end(End::Fin)?;
            for id in 0..3 {
                c.expect_wc("r", id, status::FLUSHED)?;
            }
            c.tcp.fpdu(&untagged(U_LAST, SEND, 0, [0, 1, 2], b"gun"))?;
            c.expect_async(event::FATAL)?;
            w.ep.expect_state(c.slot, state::ERR)?;
            c.no_wc("r")
        },
    );
    list.add(
        "L-CORE-3 V-ST-37",
        "a disconnect after the peer's, and after a reset, is done; a post is flushed then",
        |w| {
            for (reset, last) in [(false, state::INIT), (true, state::ERR)] {
                let mut c = w.conn()?;
                c.sync()?;
                let (ep, slot) = (w.ep.clone(), c.slot);
                if reset {
                    c.tcp.reset();
                } else {
                    c.tcp.fin();
                    c.tcp.expect_end(End::Fin)?;
                }
                while ep.event(slot, SOON)?.ok_or("no end")?.name != "DISCONNECTED" {}
                for _ in 0..2 {
                    ep.say(&format!("disconnect {slot}"))?;
                }
                ep.expect_state(slot, last)?;
                ep.say(&format!("send {slot} 1 {} 131072 0", op::SEND))?;
                match ep.wc(slot, "s", SOON)? {
                    Some(wc) if wc.id == 1 && wc.status == status::FLUSHED => {}
                    other => return Err(format!("{other:?} instead of a flush")),
                }
                ep.expect_state(slot, state::ERR)?;
                w.clean()?;
            }
            Ok(())
        },
    );
    list.add(
        "M-MPA-30 T-42",
        "RST at every octet of a connection's life, the driver as responder",
        |w| {
            let mut bytes = mpa(REQ, C, 1, &[]);
            bytes.extend(fpdu(&send(1, b"12345")));
            for cut in 0..=bytes.len() {
                let mut tcp = w.tcp()?;
                tcp.send(&bytes[..cut.min(20)])?;
                if cut < 20 {
                    // The driver is to see the octets first.
                    sleep(Duration::from_millis(2));
                    tcp.reset();
                    continue;
                }
                let mut c = w.answer(tcp, "")?;
                c.tcp.expect("Reply", &mpa(REP, C, 1, &[]))?;
                c.tcp.send(&bytes[20..cut])?;
                c.tcp.reset();
                disconnected(w, c.slot).map_err(|e| format!("octet {cut}: {e}"))?;
                w.clean()?;
            }
            super::mpa::works(w)
        },
    );
    list.add(
        "M-MPA-30 V-CM-9",
        "RST at every octet behind the Reply, the driver as initiator",
        |w| {
            let mut bytes = mpa(REP, C | S, 2, &words(8 | 2, 4, 4));
            let reply = bytes.len();
            bytes.extend(fpdu(&send(1, b"12345")));
            for cut in reply..=bytes.len() {
                let listener = w.listen()?;
                let (mut c, _) = w.dialled(&listener, "")?;
                c.tcp.send(&bytes[..cut])?;
                sleep(Duration::from_millis(2));
                let (ep, slot) = (w.ep.clone(), c.slot);
                c.tcp.reset();
                let event = ep.event(slot, SOON)?.ok_or(format!("{cut}: no event"))?;
                if event.name != "ESTABLISHED" {
                    return Err(format!("octet {cut}: {event:?}"));
                }
                disconnected(w, slot).map_err(|e| format!("octet {cut}: {e}"))?;
                w.clean()?;
            }
            Ok(())
        },
    );
    list.add(
        "V-ST-17 V-CM-9",
        "RST while the QP closes or terminates",
        |w| {
            let ulpdu = write(0, 0, b"bad");
            for end in ["the driver's FIN", "its Terminate", "a bad segment"] {
                let mut c = w.conn()?;
                c.sync()?;
                if end == "the driver's FIN" {
                    c.say("modify", &format!("state={}", state::SQD))?;
                    c.tcp.expect_end(End::Fin)?;
                } else {
                    c.tcp.fpdu(&ulpdu)?;
                }
                if end == "its Terminate" {
                    c.tcp.expect_terminate(0x1100, Some(&ulpdu))?;
                }
                let (ep, slot) = (w.ep.clone(), c.slot);
                c.tcp.reset();
                disconnected(w, slot).map_err(|e| format!("RST behind {end}: {e}"))?;
                ep.expect_state(slot, state::ERR)?;
                w.clean()?;
            }
            super::mpa::works(w)
        },
    );
    list.add(
        "L-CORE-4 V-CM-9",
        "the peer is gone before the consumer accepts",
        |w| {
            for reset in [true, false] {
                let mut tcp = w.tcp()?;
                tcp.send(&mpa(REQ, C, 1, &[]))?;
                let slot = w.slot();
                let port = tcp.port();
                w.ep.request(slot, SOON, port)?.ok_or("no request")?;
                if reset {
                    tcp.reset();
                } else {
                    drop(tcp);
                }
                w.ep.say(&format!("create {slot}"))?;
                // It may fail, or succeed and be followed by the end.
                if w.ep.say(&format!("accept {slot}")).is_ok() {
                    let events = events_to_end(w, slot)?;
                    let ends = ["DISCONNECTED", "CONNECT_ERROR", "REJECTED"];
                    if events.len() != 1 || !ends.contains(&events[0].as_str()) {
                        return Err(format!("events {events:?}"));
                    }
                }
                w.clean()?;
            }
            Ok(())
        },
    );
    list.add("L-CORE-3", "both ends close at the same moment", |w| {
        for _ in 0..20 {
            let mut c = w.conn()?;
            c.sync()?;
            c.tcp.fin();
            let _ = c.say("disconnect", "");
            c.tcp.expect_closed()?;
            disconnected(w, c.slot)?;
            w.clean()?;
        }
        Ok(())
    });
    list.add_long(
        "V-ST-18 V-ST-35",
        "a peer that never closes: Terminate and Closing end in time",
        |w| {
            let mut terminated = w.conn()?;
            terminated.sync()?;
            let ulpdu = write(0, 0, b"bad");
            terminated.tcp.fpdu(&ulpdu)?;
            terminated.tcp.expect_terminate(0x1100, Some(&ulpdu))?;
            let mut closing = w.conn()?;
            closing.sync()?;
            closing.say("modify", &format!("state={}", state::SQD))?;
            closing.tcp.expect_end(End::Fin)?;
            let mut stuck = w.conn()?;
            stuck.sync()?;
            stuck.tcp.small_window(2048);
            for id in 0..12 {
                stuck.post(id, op::WRITE, 131_072, 262_144, "raddr=4096 rkey=1")?;
            }
            stuck.tcp.fpdu(&ulpdu)?;
            let start = Instant::now();
            for c in [&terminated, &closing, &stuck] {
                disconnected(w, c.slot)?;
                w.ep.expect_state(c.slot, state::ERR)?;
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("{:?} until the end", start.elapsed()));
            }
            Ok(())
        },
    );
}
