// SPDX-License-Identifier: GPL-2.0

//! Markers in what the driver sends (RFC 5044 section 4.3).
#![forbid(unsafe_code)]

use crate::bytes::{hex, mpa, pattern, send, C, M, REP, REQ};
use crate::net::Res;
use crate::scenario::List;
use crate::world::{op, Conn, World, BUFFER};

pub fn add(list: &mut List) {
    list.add(
        "M-MPA-14 M-MPA-15 M-MPA-16 M-MPA-17",
        "markers in Sends of all sizes mod 512",
        |w| {
            let mut c = marked(w)?;
            // Sizes that move the markers over every word of an FPDU.
            let sizes: Vec<usize> = (0..150).map(|n| n * 4 + n % 4).collect();
            sends(&mut c, &sizes)
        },
    );
    list.add(
        "M-MPA-15 M-MPA-16",
        "markers in Read Responses of several segments",
        |w| {
            let mut c = marked(w)?;
            for len in [1, 400, 1448, 5000, 20000] {
                let read = c.read(0, len);
                c.ask(&read)?;
                if c.response(&read)? != vec![0xee; len as usize] {
                    return Err("other octets".into());
                }
            }
            Ok(())
        },
    );
    list.add_storm("M-MPA-15", "markers over 10^5 FPDUs with odd sizes", |w| {
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
        for (id, n) in some.iter().enumerate() {
            c.post(id as u64, op::SEND, BUFFER, *n, "")?;
        }
        for n in some {
            msn += 1;
            let seg = c
                .tcp
                .ulpdu()
                .map_err(|e| format!("message {msn}, {n} octets: {e}"))?;
            if seg != send(msn, &data[..*n]) {
                return Err(format!("message {msn}: {}", hex(&seg)));
            }
        }
        for (id, _) in some.iter().enumerate() {
            c.expect_wc("s", id as u64, 0)?;
        }
    }
    Ok(())
}
