// SPDX-License-Identifier: GPL-2.0

//! Markers in what the driver sends (RFC 5044 section 4.3).
#![forbid(unsafe_code)]

use crate::bytes::{mpa, pattern, send, C, M, REP, REQ};
use crate::net::{same, Res, SOON};
use crate::scenario::{Kind, List};
use crate::world::{op, Conn, World, BUFFER};

pub fn add(list: &mut List) {
    list.rows("M-MPA-14 M-MPA-15 M-MPA-16 M-MPA-17")
        .says("markers in Sends of all sizes mod 512")
        .runs(|w| {
            let mut c = marked(w)?;
            // Sizes that move the markers over every word of an FPDU.
            let sizes: Vec<usize> = (0..150).map(|n| n * 4 + n % 4).collect();
            sends(&mut c, &sizes)
        });
    list.rows("M-MPA-15 M-MPA-16")
        .says("markers in Read Responses of several segments")
        .runs(|w| {
            let mut c = marked(w)?;
            for len in [1, 400, 1448, 5000, 20000] {
                let read = c.read(0, len);
                c.ask(&read)?;
                same(
                    "octets of the Read",
                    &c.response(&read)?,
                    &vec![0xee; len as usize],
                )?;
            }
            Ok(())
        });
    list.rows("M-MPA-15")
        .says("markers over 10^5 FPDUs with odd sizes")
        .is(Kind::Storm)
        .runs(|w| {
            let mut c = marked(w)?;
            let sizes: Vec<usize> = (0..100_000).map(|n| (n * 7 + n / 13) % 900).collect();
            sends(&mut c, &sizes)
        });
}

fn marked(w: &mut World) -> Res<Conn> {
    let mut c = w.serve(&mpa(REQ, C | M, 1, &[]), "swr=128 scq=128")?;
    c.tcp.expect("Reply", &mpa(REP, C, 1, &[]))?;
    c.tcp.expect_markers();
    c.sync()?;
    Ok(c)
}

/// The driver sends messages of these sizes.
fn sends(c: &mut Conn, sizes: &[usize]) -> Res {
    let data = pattern(2000, 1);
    c.tcp
        .fpdu(&crate::bytes::write(c.stag, c.to, &data[..1400]))?;
    c.sync()?;
    let mut msn = 0;
    for some in sizes.chunks(64) {
        // All at once: 10^5 turns between two processes are slow.
        let post = |(id, n)| format!("send {} {id} {} {BUFFER} {n}", c.slot, op::SEND);
        let posts: Vec<String> = some.iter().enumerate().map(post).collect();
        c.ep.say_all(&posts)?;
        for n in some {
            msn += 1;
            let seg = c
                .tcp
                .ulpdu()
                .map_err(|e| format!("message {msn}, {n} octets: {e}"))?;
            same("message", &seg, &send(msn, &data[..*n]))?;
        }
        let wcs = vec![format!("wc {} s {SOON}", c.slot); some.len()];
        for (id, wc) in c.ep.say_all(&wcs)?.iter().enumerate() {
            if !wc.starts_with(&format!("{id} 0 ")) {
                return Err(format!("completion {wc} instead of number {id}"));
            }
        }
    }
    Ok(())
}
