// SPDX-License-Identifier: GPL-2.0

//! Many connections at once, and peers that are slow (RFC 5042 section 6.4; T-42).
#![forbid(unsafe_code)]

use super::mpa::works;
use crate::bytes::{fpdu, mpa, send, Read, C, REQ};
use crate::net::Res;
use crate::scenario::{Kind, List};
use crate::world::{op, Conn, World};
use std::time::{Duration, Instant};

/// Most connections that have said nothing yet, for the verbs program's backlog of 64.
const HALF_OPEN: usize = 128;

pub fn add(list: &mut List) {
    list.rows("S-5042-13 V-SEC-1")
        .says("300 half-open connections, then normal ones")
        .runs(|w| half_open(w, 300));
    list.rows("S-5042-13 V-SEC-1")
        .says("50 times 200 half-open connections, normal ones in between")
        .is(Kind::Storm)
        .each(0..50)
        .runs(|w, _| half_open(w, 200));
    list.rows("S-5042-13 V-SEC-1 S-5042-10")
        .says("10000 half-open connections at once, then normal ones")
        .is(Kind::Storm)
        .runs(|w| half_open(w, 10_000));
    list.rows("S-5042-13")
        .says("400 Requests that the consumer does not look at, then normal ones")
        .is(Kind::Storm)
        .runs(|w| {
            let mut waiting = Vec::new();
            for _ in 0..400 {
                let mut tcp = w.tcp()?;
                tcp.send(&mpa(REQ, C, 1, &[]))?;
                waiting.push(tcp);
            }
            // What is over the backlog of 64 is refused at once, the rest waits.
            let until = Instant::now() + Duration::from_secs(5);
            let (mut refused, mut before) = (0, 1);
            while Instant::now() < until && (refused < 330 || refused != before) {
                before = refused;
                refused = 0;
                for tcp in &mut waiting {
                    refused += usize::from(tcp.rest(1)?.1.is_some());
                }
            }
            println!("# {refused} of 400 were refused");
            if !(330..=340).contains(&refused) {
                return Err(format!("{refused} of 400 were refused"));
            }
            drop(waiting);
            // The consumer looks at what is in its backlog, which may cost this one.
            let _ = works(w);
            w.clean()?;
            let start = Instant::now();
            works(w)?;
            soon(start)
        });
    list.rows("S-5042-13")
        .says("1000 streams that end with a bad CRC")
        .is(Kind::Storm)
        .runs(|w| {
            for n in 0..1000 {
                let mut c = w.conn()?;
                // A responder that has seen no FPDU has no right to a Terminate (T-24).
                c.sync()?;
                let mut bad = fpdu(&send(1, &[7; 60]));
                if let Some(last) = bad.last_mut() {
                    *last ^= 1;
                }
                c.tcp.send_anyway(&bad);
                if n % 8 == 7 {
                    c.tcp.expect_terminate(0x2002, None)?;
                    w.clean()?;
                }
            }
            works(w)
        });
    list.rows("S-5042-13 V-SEC-1")
        .says("bad frames and bad segments in a row do not slow others down")
        .runs(|w| {
            let mut beside = w.conn()?;
            for n in 0..60u8 {
                let mut tcp = w.tcp()?;
                tcp.send_anyway(&mpa(REQ, C, 1, &[n; 30])[usize::from(n % 20)..]);
                if n % 2 == 0 {
                    tcp.reset();
                }
            }
            let start = Instant::now();
            beside.send(b"x")?;
            beside.received(0, 1)?;
            if start.elapsed() > Duration::from_secs(8) {
                return Err(format!("{:?} for a Send", start.elapsed()));
            }
            works(w)
        });
    list.rows("V-SEC-1 V-RD-11")
        .says("a peer that reads nothing holds only itself up")
        .runs(|w| {
            let mut beside = w.conn()?;
            let read = beside.read(0, 60000);
            let alone = five(&mut beside, &read)?;
            let mut slow = w.conn()?;
            slow.sync()?;
            slow.tcp.small_window(2048);
            for id in 0..12 {
                slow.post(id, op::WRITE, 131_072, 262_144, "raddr=4096 rkey=1")?;
            }
            let took = five(&mut beside, &read)?;
            if took > 4 * alone + Duration::from_secs(8) {
                return Err(format!("{took:?} for five Reads, {alone:?} without it"));
            }
            Ok(())
        });
    list.rows("V-SEC-1 M-MPA-13")
        .says("a peer that sends FPDUs octet by octet beside a normal one")
        .runs(|w| {
            let mut slow = w.conn()?;
            let bytes = fpdu(&send(1, &[7; 60]));
            for (n, b) in bytes.iter().enumerate() {
                slow.tcp.send(&[*b])?;
                // As many as there are slots beside the slow one's.
                if n % 14 == 0 {
                    works(w)?;
                }
            }
            slow.received(0, 60)
        });
}

/// Opens `n` connections that say nothing or not enough, and then normal ones.
fn half_open(w: &mut World, n: usize) -> Res {
    let before = available()?;
    let mut idle = Vec::new();
    for i in 0..n {
        let mut tcp = w.tcp()?;
        if i % 2 == 1 {
            tcp.send_anyway(&mpa(REQ, C, 1, &[])[..i % 20]);
        }
        idle.push(tcp);
    }
    let used = before.saturating_sub(available()?);
    let start = Instant::now();
    works(w)?;
    let took = start.elapsed();
    soon(start)?;
    // The driver keeps the youngest, of which some may have had their time by now.
    let mut kept = 0;
    for tcp in idle.iter_mut().rev() {
        kept += usize::from(tcp.rest(1)?.1.is_none());
    }
    if n >= 1000 {
        println!("# {n} half-open: {took:?} for a connection, {used} KiB used, {kept} kept");
    }
    if kept == 0 || kept > HALF_OPEN {
        return Err(format!("{kept} of {n} half-open connections are kept"));
    }
    // Both ends are in this kernel; what this side has is TCP's alone.
    if used > 16384 + 32 * n as u64 {
        return Err(format!("{used} KiB for {n} connections"));
    }
    w.clean()
}

/// How long five Reads take.
fn five(c: &mut Conn, read: &Read) -> Res<Duration> {
    let start = Instant::now();
    for _ in 0..5 {
        c.ask(read)?;
        c.response(read)?;
    }
    Ok(start.elapsed())
}

/// A connection has been served in time: not behind one that has 15 s to say something.
fn soon(start: Instant) -> Res {
    if start.elapsed() > Duration::from_secs(12) {
        return Err(format!("{:?} for a connection", start.elapsed()));
    }
    Ok(())
}

/// KiB of memory that is free or can be had.
fn available() -> Res<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").map_err(|e| e.to_string())?;
    let line = info.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    line.and_then(|l| l.split_whitespace().next())
        .and_then(|n| n.parse().ok())
        .ok_or("no MemAvailable".into())
}
