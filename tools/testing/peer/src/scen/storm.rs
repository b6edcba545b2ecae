// SPDX-License-Identifier: GPL-2.0

//! Many connections at once, and peers that are slow (RFC 5042 section 6.4; T-42).
#![forbid(unsafe_code)]

use super::mpa::works;
use crate::bytes::{fpdu, mpa, send, C, REQ};
use crate::net::Res;
use crate::scenario::List;
use crate::world::{op, World};
use std::time::{Duration, Instant};

pub fn add(list: &mut List) {
    list.add(
        "S-5042-13 V-SEC-1",
        "300 half-open connections, then normal ones",
        |w| half_open(w, 300),
    );
    list.add(
        "S-5042-13 V-SEC-1",
        "bad frames and bad segments in a row do not slow others down",
        |w| {
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
            if start.elapsed() > Duration::from_secs(2) {
                return Err(format!("{:?} for a Send", start.elapsed()));
            }
            works(w)
        },
    );
    list.add(
        "V-SEC-1 V-RD-11",
        "a peer that reads nothing holds only itself up",
        |w| {
            let mut slow = w.conn()?;
            slow.sync()?;
            slow.tcp.small_window(2048);
            for id in 0..12 {
                slow.post(id, op::WRITE, 131_072, 262_144, "raddr=4096 rkey=1")?;
            }
            let mut beside = w.conn()?;
            let read = beside.read(0, 60000);
            for _ in 0..5 {
                beside.ask(&read)?;
                beside.response(&read)?;
            }
            Ok(())
        },
    );
    list.add(
        "V-SEC-1 M-MPA-13",
        "a peer that sends FPDUs octet by octet beside a normal one",
        |w| {
            let mut slow = w.conn()?;
            let bytes = fpdu(&send(1, &[7; 60]));
            for (n, b) in bytes.iter().enumerate() {
                slow.tcp.send(&[*b])?;
                // As many as there are slots beside the slow one's.
                if n % 14 == 0 {
                    works(w)?;
                }
            }
            slow.received(0, 60).map(|_| ())
        },
    );
}

/// Opens `n` connections that say nothing or not enough, and then normal ones.
fn half_open(w: &mut World, n: usize) -> Res {
    let mut idle = Vec::new();
    for i in 0..n {
        let mut tcp = w.tcp()?;
        if i % 2 == 1 {
            tcp.send_anyway(&mpa(REQ, C, 1, &[])[..i % 20]);
        }
        idle.push(tcp);
    }
    let start = Instant::now();
    works(w)?;
    if start.elapsed() > Duration::from_secs(3) {
        return Err(format!("{:?} for a connection", start.elapsed()));
    }
    w.clean()
}
