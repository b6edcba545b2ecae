// SPDX-License-Identifier: GPL-2.0

//! Ends of connections: FIN, RST, silence, at any moment (002 sections 6.2.2.2 to 6.2.5; T-37).
#![forbid(unsafe_code)]

use crate::bytes::{fpdu, mpa, send, terminate, untagged, words, write};
use crate::bytes::{Read, C, READ_RESP, REP, REQ, S, SEND, U, U_LAST};
use crate::ep::{ended, event, state, status};
use crate::net::{check, same, End, Res, SOON};
use crate::scenario::{Kind, List};
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
    check("events", events == ["DISCONNECTED"], events)
}

pub fn add(list: &mut List) {
    list.rows("V-ST-11 V-CM-5 V-AE-1 D-DDP-16")
        .says("FIN on an idle QP: FIN back, Idle, told once, no event (T-37)")
        .runs(|w| {
            let mut c = w.synced("recv=1")?;
            c.tcp.fin();
            c.tcp.expect_end(End::Fin)?;
            c.expect_wc("r", 0, status::FLUSHED)?;
            c.expect_async(event::NONE)?;
            disconnected(w, c.slot)?;
            w.ep.expect_state(c.slot, state::INIT)
        });
    list.rows("V-ST-37")
        .says("a request posted after a close in good order is flushed, not kept")
        .runs(|w| {
            let mut c = w.synced("")?;
            c.tcp.fin();
            c.tcp.expect_end(End::Fin)?;
            disconnected(w, c.slot)?;
            w.ep.expect_state(c.slot, state::INIT)?;
            c.post(1, op::WRITE, 131_072, 64, "raddr=4096 rkey=1")?;
            c.expect_wc("s", 1, status::FLUSHED)?;
            c.expect_async(event::NONE)?;
            w.ep.expect_state(c.slot, state::ERR)
        });
    list.rows("V-ST-11")
        .says("FIN right behind the last message, and a RST behind that: it is delivered")
        .each([false, true])
        .runs(|w, reset| {
            let mut c = w.conn()?;
            c.send(b"last")?;
            c.tcp.fin();
            if reset {
                c.tcp.reset();
            }
            c.received(0, 4)?;
            if !reset {
                c.tcp.expect_end(End::Fin)?;
            }
            disconnected(w, c.slot)?;
            c.expect_ended_by(ended::FIN)
        });
    list.rows("V-ST-12 P-ERR-27 D-DDP-19 V-AE-22")
        .says("FIN while a Read of the driver waits: 0x0207")
        .runs(|w| {
            let mut c = w.synced("recv=0")?;
            c.post(1, op::READ, 131_072, 64, "raddr=1 rkey=1")?;
            c.tcp.ulpdu()?;
            c.tcp.fin();
            c.tcp.expect_terminate(0x0207, None)?;
            c.expect_async(event::FATAL)?;
            c.expect_wc("s", 1, status::FLUSHED)?;
            disconnected(w, c.slot)
        });
    list.rows("V-ST-12 P-ERR-27 D-DDP-19")
        .says("FIN while the driver answers Reads: what is on its way, then 0x0207")
        .runs(|w| {
            let mut c = w.synced("ird=8")?;
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
                    same("Terminate", &seg, &terminate(0x0207, None))?;
                    break;
                }
                let want = octets % 65536 + reads[0].sink.1;
                same("offset", &seg[6..14], &want.to_be_bytes())?;
                octets += seg.len() as u64 - 14;
                seg = c.tcp.ulpdu()?;
            }
            c.tcp.expect_end(End::Fin)?;
            check(
                "octets of responses",
                (1..8 * 65536).contains(&octets),
                octets,
            )?;
            c.expect_async(event::FATAL)?;
            disconnected(w, c.slot)
        });
    list.rows("V-ST-17 V-AE-3 V-TM-9 V-CM-9")
        .says("RST, also while a Read of the driver waits: Error, flushed, told once")
        .each([false, true])
        .runs(|w, busy| {
            let mut c = w.synced("recv=1")?;
            if busy {
                c.post(1, op::READ, 131_072, 64, "raddr=1 rkey=1")?;
                c.tcp.ulpdu()?;
            }
            c.tcp.reset();
            disconnected(w, c.slot)?;
            c.expect_wc("r", 0, status::FLUSHED)?;
            if busy {
                c.expect_wc("s", 1, status::FLUSHED)?;
            }
            c.expect_ended_by(ended::RESET)?;
            w.ep.expect_state(c.slot, state::ERR)?;
            c.expect_async(event::FATAL)
        });
    list.rows("V-ST-34 V-AE-21 V-ST-32")
        .says("data after the driver's FIN: Bad Close")
        .runs(|w| {
            let mut c = w.synced("")?;
            c.say("modify", &format!("state={}", state::SQD))?;
            c.tcp.expect_end(End::Fin)?;
            c.tcp.fpdu(&write(c.stag, c.to, b"late"))?;
            c.expect_async(event::FATAL)?;
            c.expect_untouched(0, 8)?;
            w.ep.expect_state(c.slot, state::ERR)
        });
    list.rows("V-ST-32 V-ST-34")
        .says("a Terminate after the driver's FIN is read")
        .runs(|w| {
            let mut c = w.synced("")?;
            c.say("modify", &format!("state={}", state::SQD))?;
            c.tcp.expect_end(End::Fin)?;
            c.tcp.fpdu(&terminate(0x2002, None))?;
            c.expect_async(event::FATAL)
        });
    list.rows("V-ST-33 V-ST-28 V-ST-31 V-ST-34")
        .says("SQD inside a message: its receive is flushed first, its rest is Bad Close")
        .runs(|w| {
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
        });
    list.rows("L-CORE-3 V-ST-37")
        .says("a disconnect after the peer's, and after a reset, is done; a post is flushed then")
        .each([(false, state::INIT), (true, state::ERR)])
        .runs(|w, (reset, last)| {
            let mut c = w.synced("")?;
            if reset {
                c.tcp.reset();
            } else {
                c.tcp.fin();
                c.tcp.expect_end(End::Fin)?;
            }
            disconnected(w, c.slot)?;
            for _ in 0..2 {
                c.say("disconnect", "")?;
            }
            w.ep.expect_state(c.slot, last)?;
            c.post(1, op::SEND, 131_072, 0, "")?;
            c.expect_wc("s", 1, status::FLUSHED)?;
            w.ep.expect_state(c.slot, state::ERR)
        });
    list.rows("M-MPA-30 T-42")
        .says("RST at every octet of a connection's life, the driver as responder")
        .runs(|w| {
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
        });
    list.rows("M-MPA-30 V-CM-9")
        .says("RST at every octet behind the Reply, the driver as initiator")
        .runs(|w| {
            let mut bytes = mpa(REP, C | S, 2, &words(8 | 2, 4, 4));
            let reply = bytes.len();
            bytes.extend(fpdu(&send(1, b"12345")));
            for cut in reply..=bytes.len() {
                let listener = w.listen()?;
                let (mut c, _) = w.dialled(&listener, "")?;
                c.tcp.send(&bytes[..cut])?;
                sleep(Duration::from_millis(2));
                c.tcp.reset();
                let told = |e| format!("octet {cut}: {e}");
                c.expect_event("ESTABLISHED", 0).map_err(told)?;
                disconnected(w, c.slot).map_err(told)?;
                w.clean()?;
            }
            Ok(())
        });
    list.rows("V-ST-17 V-CM-9")
        .says("RST while the QP closes or terminates")
        .runs(|w| {
            let ulpdu = write(0, 0, b"bad");
            for end in ["the driver's FIN", "its Terminate", "a bad segment"] {
                let mut c = w.synced("")?;
                if end == "the driver's FIN" {
                    c.say("modify", &format!("state={}", state::SQD))?;
                    c.tcp.expect_end(End::Fin)?;
                } else {
                    c.tcp.fpdu(&ulpdu)?;
                }
                if end == "its Terminate" {
                    c.tcp.expect_terminate(0x1100, Some(&ulpdu))?;
                }
                c.tcp.reset();
                disconnected(w, c.slot).map_err(|e| format!("RST behind {end}: {e}"))?;
                w.ep.expect_state(c.slot, state::ERR)?;
                w.clean()?;
            }
            super::mpa::works(w)
        });
    list.rows("L-CORE-4 V-CM-9 V-ST-17")
        .says("the peer is gone before the consumer accepts: a RST is no close in good order")
        .each([true, false])
        .runs(|w, reset| {
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
            let qpn = w.ep.numbers(&format!("create {slot}"))?[0];
            // It may fail, or succeed and be followed by the end.
            if w.ep.say(&format!("accept {slot}")).is_ok() {
                let events = events_to_end(w, slot)?;
                let ends = ["DISCONNECTED", "CONNECT_ERROR", "REJECTED"];
                let good = events.len() == 1 && ends.contains(&events[0].as_str());
                check("events", good, events)?;
                if reset {
                    w.ep.expect_state(slot, state::ERR)?;
                    let told = w.ep.async_event(slot, SOON)?;
                    check("asynchronous event", told == event::FATAL, told)?;
                    w.ep.expect_ended_by(qpn, ended::RESET)?;
                }
            }
            Ok(())
        });
    list.rows("L-CORE-3")
        .says("both ends close at the same moment")
        .each(0..20)
        .runs(|w, _| {
            let mut c = w.synced("")?;
            c.tcp.fin();
            let _ = c.say("disconnect", "");
            c.tcp.expect_closed()?;
            disconnected(w, c.slot)
        });
    list.rows("V-ST-18 V-ST-35")
        .says("a peer that never closes: Terminate and Closing end in time")
        .is(Kind::Long)
        .runs(|w| {
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
            let took = start.elapsed();
            check("time to the end", took <= PATIENCE, took)
        });
}
