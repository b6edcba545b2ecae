// SPDX-License-Identifier: GPL-2.0

//! A disconnect with work under way: it goes on, then comes the FIN (V-ST-10).
#![forbid(unsafe_code)]

use super::order::{long_write, FROM, KEY, TO};
use crate::bytes::{hex, read_resp, send, READ_REQ};
use crate::ep::{event, state, status};
use crate::net::{End, Res, END, QUIET, SOON};
use crate::scenario::{Kind, List};
use crate::world::{op, Conn, World};

/// Octets of a Write that may be held up.
const LEN: usize = 65_536;

pub fn add(list: &mut List) {
    list.rows("V-ST-10 V-CM-5 V-ST-36")
        .says("SQD while a Read waits: it is answered, then FIN, and Idle")
        .runs(|w| {
            let mut c = w.conn_with("recv=2")?;
            let sink = reading(&mut c)?;
            disconnect(w, &c)?;
            c.tcp.expect_silence(QUIET)?;
            answer(&mut c, sink)?;
            c.expect_wc("s", 1, 0)?;
            c.tcp.expect_end(End::Fin)?;
            c.expect_wc("r", 0, status::FLUSHED)?;
            c.expect_wc("r", 1, status::FLUSHED)?;
            c.tcp.fin();
            ended(w, &c)?;
            c.expect_async(event::NONE)?;
            w.ep.expect_state(c.slot, state::INIT)
        });
    list.rows("V-ST-10 V-ST-33")
        .says("SQD while a Read waits: messages and Reads of the peer go on")
        .runs(|w| {
            let mut c = w.conn_with("recv=2")?;
            let sink = reading(&mut c)?;
            disconnect(w, &c)?;
            c.send(b"still")?;
            c.received(0, 5)?;
            let read = c.read(0, 3000);
            c.ask(&read)?;
            c.response(&read)?;
            c.sync()?;
            answer(&mut c, sink)?;
            c.expect_wc("s", 1, 0)?;
            c.tcp.expect_end(End::Fin)?;
            c.expect_wc("r", 1, status::FLUSHED)?;
            c.expect_async(event::NONE)
        });
    list.rows("V-ST-37 V-ST-10")
        .says("what is posted before the FIN goes out before it")
        .runs(|w| {
            let mut c = w.conn()?;
            let sink = reading(&mut c)?;
            disconnect(w, &c)?;
            c.post(2, op::SEND, FROM, 0, "")?;
            c.tcp.expect_ulpdu("Send", &send(1, &[]))?;
            answer(&mut c, sink)?;
            c.expect_wc("s", 1, 0)?;
            c.expect_wc("s", 2, 0)?;
            c.tcp.expect_end(End::Fin)?;
            c.expect_async(event::NONE)
        });
    list.rows("V-ST-10")
        .says("SQD before the peer has taken what was posted: it goes out, then FIN")
        .runs(|w| {
            let (mut c, posted) = held_up(w)?;
            disconnect(w, &c)?;
            c.tcp.small_window(1 << 20);
            for n in 0..posted {
                long_write(&mut c, LEN).map_err(|e| format!("Write {n}: {e}"))?;
            }
            c.tcp.expect_end(End::Fin)?;
            c.expect_wc("s", posted - 1, 0)?;
            c.expect_async(event::NONE)
        });
    list.rows("V-ST-10 V-ST-35")
        .says("SQD, and a peer that takes a little at a time: all goes out, then FIN")
        .is(Kind::Long)
        .runs(|w| {
            let (mut c, posted) = held_up(w)?;
            disconnect(w, &c)?;
            // Two Writes take about 12 seconds.
            c.tcp.read_slowly(2048, 180);
            for n in 0..posted {
                long_write(&mut c, LEN).map_err(|e| format!("Write {n}: {e}"))?;
            }
            c.tcp.expect_end(End::Fin)?;
            c.expect_wc("s", posted - 1, 0)?;
            c.expect_async(event::NONE)
        });
    list.rows("V-ST-10 L-CORE-3 V-ST-28")
        .says("SQD, then ERR: flushed at once, and what completed arrives (T-34)")
        .runs(|w| {
            let (mut c, posted) = held_up(w)?;
            disconnect(w, &c)?;
            c.say("modify", &format!("state={}", state::ERR))?;
            c.expect_wc("s", posted - 1, status::FLUSHED)?;
            c.expect_async(event::NONE)?;
            c.tcp.small_window(1 << 20);
            for n in 0..posted - 1 {
                long_write(&mut c, LEN).map_err(|e| format!("Write {n}: {e}"))?;
            }
            match c.tcp.rest(END)? {
                (_, Some(End::Fin)) => Ok(()),
                (rest, end) => Err(format!("{end:?} behind {} octets", rest.len())),
            }
        });
    list.rows("V-ST-12 V-ST-10")
        .says("SQD while a Read waits, and the peer's FIN: 0x0207")
        .runs(|w| {
            let mut c = w.conn_with("recv=0")?;
            reading(&mut c)?;
            disconnect(w, &c)?;
            c.tcp.fin();
            c.tcp.expect_terminate(0x0207, None)?;
            c.expect_async(event::FATAL)?;
            c.expect_wc("s", 1, status::FLUSHED)
        });
    list.rows("V-ST-10 V-ST-35 V-AE-21")
        .says("SQD with a Read that is never answered: Bad Close in time")
        .is(Kind::Long)
        .runs(|w| {
            let mut c = w.conn()?;
            reading(&mut c)?;
            disconnect(w, &c)?;
            c.tcp.expect_end(End::Reset)?;
            c.expect_wc("s", 1, status::FLUSHED)?;
            c.expect_async(event::FATAL)?;
            w.ep.expect_state(c.slot, state::ERR)
        });
}

/// Asks for SQD, which the QP is in then.
fn disconnect(w: &World, c: &Conn) -> Res {
    c.say("disconnect", "")?;
    w.ep.expect_state(c.slot, state::SQD)
}

/// The end is told.
fn ended(w: &World, c: &Conn) -> Res {
    while w.ep.event(c.slot, SOON)?.ok_or("no end")?.name != "DISCONNECTED" {}
    Ok(())
}

/// A Read, number 1, of 64 octets waits for its response; gives the sink.
fn reading(c: &mut Conn) -> Res<(u32, u64)> {
    c.sync()?;
    let to = format!("raddr={TO} rkey={KEY}");
    c.post(1, op::READ, FROM, 64, &to)?;
    let seg = c.tcp.ulpdu()?;
    let (stag, offset) = (seg.get(18..22), seg.get(22..30));
    match (seg.get(1), stag, offset) {
        (Some(&READ_REQ), Some(stag), Some(offset)) => {
            let number = |bytes: &[u8]| bytes.iter().fold(0, |n, b| (n << 8) | u64::from(*b));
            Ok((number(stag) as u32, number(offset)))
        }
        _ => Err(format!("Read Request {}", hex(&seg))),
    }
}

fn answer(c: &mut Conn, sink: (u32, u64)) -> Res {
    c.tcp.fpdu(&read_resp(sink.0, sink.1, &[7; 64]))
}

/// Writes that have completed, but the last one: TCP has no room for it. Gives how many.
fn held_up(w: &mut World) -> Res<(Conn, u64)> {
    let c = w.synced("swr=64")?;
    c.tcp.small_window(2048);
    w.ep.say(&format!("fill {} {FROM} {LEN} 0", c.slot))?;
    for id in 0..64 {
        c.post(id, op::WRITE, FROM, LEN, &format!("raddr={TO} rkey={KEY}"))?;
        if !c.completes()? {
            return Ok((c, id + 1));
        }
    }
    Err("all completed: nothing was held up".into())
}
