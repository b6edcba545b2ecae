// SPDX-License-Identifier: GPL-2.0

//! What the driver sends of a row of requests, and whom a peer that takes nothing holds up: not
//! who posts, not the memory of what completed, not the end of the queue pair.
#![forbid(unsafe_code)]

use crate::bytes::{self, hex, send, tagged, terminate, write, T, T_LAST, WRITE};
use crate::ep::{event, state};
use crate::net::{check, End, Res, END};
use crate::scenario::List;
use crate::world::{op, Conn, World};
use std::time::{Duration, Instant};

/// Where the requests' memory is in the arena.
pub const FROM: usize = 131_072;
/// What they write to.
pub const TO: u64 = 4096;
pub const KEY: u32 = 0x0102_0304;
/// More than what a peer takes in that reads nothing; TCP takes it nevertheless.
const LONG: usize = 40_000;

pub fn add(list: &mut List) {
    list.rows("V-ORD-1 D-DDP-12 D-DDP-2 M-MPA-8")
        .says("requests of all kinds, posted at once, leave in their order, an FPDU each")
        .runs(|w| {
            let mut c = w.synced("")?;
            w.ep.say(&format!("fill {} {FROM} 4000 0", c.slot))?;
            let to = format!("raddr={TO} rkey={KEY}");
            for round in 0..3u64 {
                c.post(5 * round, op::SEND, FROM, 7, "")?;
                c.post(5 * round + 1, op::WRITE, FROM, 1, &to)?;
                c.post(5 * round + 2, op::READ, FROM, 9, &to)?;
                c.post(5 * round + 3, op::WRITE, FROM, 3500, &to)?;
                c.post(5 * round + 4, op::SEND, FROM, 0, "")?;
            }
            for round in 0..3u32 {
                c.tcp.expect_ulpdu("Send", &send(2 * round + 1, &[0; 7]))?;
                c.tcp.expect_ulpdu("Write", &write(KEY, TO, &[0]))?;
                request(&mut c, round + 1)?;
                long_write(&mut c, 3500)?;
                c.tcp
                    .expect_ulpdu("empty Send", &send(2 * round + 2, &[]))?;
            }
            Ok(())
        });
    list.rows("V-WR-4")
        .says("posting does not wait for a peer that takes nothing")
        .runs(|w| {
            let c = stalled(w)?;
            for id in 0..12 {
                let start = Instant::now();
                c.post(id, op::WRITE, FROM, 262_144, &to())?;
                if start.elapsed() > Duration::from_secs(8) {
                    return Err(format!("{:?} for post {id}", start.elapsed()));
                }
            }
            let done = completed(&c)?;
            check("held up", done < 12, done)
        });
    list.rows("V-WR-22")
        .says("what completed goes out as it was, whatever becomes of its memory (T-19)")
        .runs(|w| {
            let mut c = stalled(w)?;
            w.ep.say(&format!("fill {} {FROM} 9000 0", c.slot))?;
            c.post(1, op::WRITE, FROM, 9000, &to())?;
            c.expect_wc("s", 1, 0)?;
            w.ep.say(&format!("fill {} {FROM} 9000 187", c.slot))?;
            long_write(&mut c, 9000)
        });
    list.rows("V-TM-5")
        .says("modify to SQE stops at the end of the message at the latest")
        .runs(|w| {
            let mut c = stalled(w)?;
            for id in 0..12 {
                c.post(id, op::WRITE, FROM, 262_144, &to())?;
            }
            let done = completed(&c)?;
            check("held up", done <= 9, done)?;
            c.say("modify", &format!("state={}", state::SQE))?;
            let mut messages = 0;
            loop {
                let seg = c.tcp.ulpdu()?;
                match seg[1] {
                    bytes::TERMINATE if seg == terminate(0, None) => break,
                    WRITE => messages += usize::from(seg[0] == T_LAST),
                    _ => return Err(hex(&seg[..14])),
                }
            }
            check(
                "messages, done before",
                messages <= done + 1,
                (messages, done),
            )?;
            c.tcp.expect_end(End::Fin)
        });
    list.rows("V-QP-25")
        .says("what completed arrives after destruction")
        .runs(|w| {
            let mut c = stalled(w)?;
            w.ep.say(&format!("fill {} {FROM} 9000 0", c.slot))?;
            c.post(1, op::WRITE, FROM, 9000, &to())?;
            c.expect_wc("s", 1, 0)?;
            c.say("destroy", "")?;
            long_write(&mut c, 9000)?;
            c.tcp.expect_end(End::Fin)
        });
    list.rows("V-ST-34")
        .says("what completed arrives although data comes behind the FIN")
        .runs(|w| {
            let mut c = stalled(w)?;
            w.ep.say(&format!("fill {} {FROM} {LONG} 0", c.slot))?;
            c.post(1, op::WRITE, FROM, LONG, &to())?;
            c.expect_wc("s", 1, 0)?;
            c.say("modify", &format!("state={}", state::SQD))?;
            c.tcp.fpdu(&write(c.stag, c.to, b"late"))?;
            c.expect_async(event::FATAL)?;
            long_write(&mut c, LONG)?;
            c.tcp.expect_end(End::Fin)
        });
    list.rows("V-QP-25")
        .says("destruction ends the connection")
        .each([false, true])
        .runs(|w, busy| {
            let mut c = if busy { stalled(w)? } else { w.conn()? };
            if busy {
                for id in 0..12 {
                    c.post(id, op::WRITE, FROM, 262_144, &to())?;
                }
            }
            c.say("destroy", "")?;
            let (rest, end) = c.tcp.rest(END)?;
            check("end", end.is_some(), end)?;
            check("before the end", busy || rest.is_empty(), rest.len())?;
            // What it took is there for the next one.
            let mut next = w.conn()?;
            next.sync()
        });
}

fn to() -> String {
    format!("raddr={TO} rkey={KEY}")
}

/// A connection whose window is soon full.
fn stalled(w: &mut World) -> Res<Conn> {
    let c = w.synced("")?;
    c.tcp.small_window(2048);
    Ok(c)
}

/// How many requests have completed when no more do.
fn completed(c: &Conn) -> Res<usize> {
    let mut n = 0;
    while c.completes()? {
        n += 1;
    }
    Ok(n)
}

/// A Read Request of the driver for 9 octets; it is not answered.
fn request(c: &mut Conn, msn: u32) -> Res {
    let seg = c.tcp.ulpdu()?;
    let head = bytes::untagged(bytes::U_LAST, bytes::READ_REQ, 0, [1, msn, 0], &[]);
    let mut what = 9u32.to_be_bytes().to_vec();
    what.extend(KEY.to_be_bytes());
    what.extend(TO.to_be_bytes());
    // In between is the sink, which is the driver's affair.
    let good = seg.len() == 18 + 28 && seg[..18] == head[..] && seg[30..] == what[..];
    check("Read Request", good, hex(&seg))
}

/// A Write of zeros in segments, whose offsets rise.
pub fn long_write(c: &mut Conn, len: usize) -> Res {
    let mut at = 0;
    while at < len {
        let seg = c.tcp.ulpdu()?;
        let n = seg.len().saturating_sub(14);
        let control = if at + n == len { T_LAST } else { T };
        if n == 0 || seg != tagged(control, WRITE, KEY, TO + at as u64, &vec![0; n]) {
            return Err(format!("at {at}: {}", hex(&seg[..seg.len().min(40)])));
        }
        at += n;
    }
    Ok(())
}
