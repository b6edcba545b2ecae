// SPDX-License-Identifier: GPL-2.0

//! Reads of the peer, answered by the driver (RFC 5040 section 5.2).
#![forbid(unsafe_code)]

use crate::bytes::{self, fpdu, mpa, pattern, terminate, words, write, Read, C, REQ, S};
use crate::ep::event;
use crate::net::{check, same, End, Res};
use crate::scenario::List;
use crate::world::{op, Conn, World};

pub fn add(list: &mut List) {
    list.rows("P-RDMAP-8 P-RDMAP-11 D-DDP-3")
        .says("Reads of all sizes: octets, STag and offset of the responses")
        .runs(|w| {
            let mut c = w.conn()?;
            let data = pattern(60000, 3);
            c.tcp.fpdu(&write(c.stag, c.to, &data))?;
            for (at, len) in [
                (0, 1),
                (1, 2),
                (5, 63),
                (4095, 2),
                (3, 1428),
                (9, 1500),
                (0, 4096),
                (7, 59993),
            ] {
                let mut read = c.read(at, len);
                read.sink = (0xffff_ffff, u64::MAX - u64::from(len));
                c.ask(&read)?;
                same(
                    "octets of the Read",
                    &c.response(&read)?,
                    &data[at as usize..at as usize + len as usize],
                )?;
            }
            Ok(())
        });
    list.rows("V-RD-10 V-QP-26 P-RDMAP-11")
        .says("Reads are answered in the order in which they came")
        .runs(|w| {
            let mut c = w.conn_with("ird=8")?;
            let mut memory = pattern(9000, 1);
            c.tcp.fpdu(&write(c.stag, c.to, &memory))?;
            // Behind are those that nobody wrote to.
            memory.resize(2 * 5000, 0xee);
            let sizes = [3000u32, 1, 0, 1448, 7, 5000, 0, 2];
            let reads: Vec<Read> = sizes
                .iter()
                .map(|len| c.read(u64::from(*len), *len))
                .collect();
            let mut burst = Vec::new();
            for (n, read) in reads.iter().enumerate() {
                burst.extend(fpdu(&read.request(n as u32 + 1)));
            }
            c.tcp.send(&burst)?;
            for read in &reads {
                let at = read.len as usize;
                same(
                    "octets of the Read",
                    &c.response(read)?,
                    &memory[at..2 * at],
                )?;
            }
            Ok(())
        });
    list.rows("M-MPA-4 M-MPA-6")
        .says("Reads of memory that the peer writes meanwhile carry the right CRC")
        .runs(|w| {
            let mut c = w.conn()?;
            for round in 0..40 {
                let read = c.read(0, 60000);
                let mut burst = fpdu(&read.request(round + 1));
                for at in (0..56000).step_by(1400) {
                    let octets = pattern(1400, round as u8);
                    burst.extend(fpdu(&write(c.stag, c.to + at, &octets)));
                }
                c.tcp.send(&burst)?;
                c.response(&read)?;
            }
            Ok(())
        });
    list.rows("P-RDMAP-10")
        .says("a Read of nothing while the driver sends other data (T-5)")
        .runs(|w| {
            let mut c = w.synced("")?;
            for id in 0..4 {
                c.post(id, op::SEND, 4096, 3000, "")?;
            }
            let read = Read {
                sink: (7, 9),
                len: 0,
                source: (1, 1),
            };
            c.ask(&read)?;
            let mut responses = 0;
            let mut sends = 0;
            while responses < 1 || sends < 4 {
                let seg = c.tcp.ulpdu()?;
                match seg[1] {
                    bytes::READ_RESP if seg == bytes::read_resp(7, 9, &[]) => responses += 1,
                    bytes::SEND => sends += usize::from(seg[0] & 0x40 != 0),
                    _ => return Err(bytes::hex(&seg[..seg.len().min(30)])),
                }
            }
            Ok(())
        });
    list.rows("P-ERR-20 V-RD-9 P-RDMAP-20 S-5042-9 V-AE-24")
        .says("more Reads than IRD: 0x1202 behind whole segments (T-31)")
        .runs(too_many);
    list.rows("V-RD-11 P-RDMAP-20")
        .says("IRD Reads at once, again and again")
        .runs(|w| {
            let (mut c, (_, ird, _)) = w.enhanced(0, 4, 4, "ird=4 ord=4")?;
            check("IRD", ird == 4, ird)?;
            for _ in 0..20 {
                let read = c.read(0, 2000);
                for _ in 0..4 {
                    c.ask(&read)?;
                }
                for _ in 0..4 {
                    c.response(&read)?;
                }
            }
            Ok(())
        });
    list.rows("P-TERM-6 V-DEA-3 V-INV-16 S-5042-4")
        .says("the source is deregistered in the middle of a Read: the Terminate quotes the rest")
        .runs(broken);
    list.rows("V-ST-19 V-TM-1 P-TERM-11").says("an error while the driver sends a long Read Response: whole segments, then the Terminate").runs(|w| {
            let mut c = w.conn()?;
            c.tcp.small_window(4096);
            let read = c.read(0, 65536);
            for _ in 0..8 {
                c.ask(&read)?;
            }
            let ulpdu = write(0, 0, b"bad");
            c.tcp.fpdu(&ulpdu)?;
            c.expect_async(event::ACCESS)?;
            whole_segments(&mut c, &terminate(0x1100, Some(&ulpdu)))
        });
}

/// Everything up to the Terminate is whole FPDUs; behind it comes the FIN.
pub fn whole_segments(c: &mut Conn, last: &[u8]) -> Res {
    loop {
        let seg = c.tcp.ulpdu()?;
        if seg[1] == bytes::TERMINATE {
            same("Terminate", &seg, last)?;
            return c.tcp.expect_end(End::Fin);
        }
        if !matches!(seg[1], bytes::READ_RESP | bytes::SEND | bytes::WRITE) {
            return Err(bytes::hex(&seg[..18]));
        }
    }
}

fn too_many(w: &mut World) -> Res {
    let request = mpa(REQ, C | S, 2, &words(0, 1, 1));
    let mut tcp = w.tcp()?;
    // Responses must not get away.
    tcp.small_window(2048);
    tcp.send(&request)?;
    let mut c = w.answer(tcp, "ird=1 ord=1")?;
    c.tcp.take(24)?;
    let read = c.read(0, 65536);
    let mut bad = Vec::new();
    // What TCP takes in the first place counts as answered.
    for _ in 0..200 {
        bad = read.request(c.read_msn);
        c.read_msn += 1;
        c.tcp.send_anyway(&fpdu(&bad));
        if w.ep.async_event(c.slot, 5)? == event::REQUEST {
            break;
        }
    }
    // The request that was one too many may be an earlier one than the last.
    let mut want = terminate(0x1202, Some(&bad));
    let mut seg;
    loop {
        seg = c.tcp.ulpdu()?;
        if seg[1] == bytes::TERMINATE {
            break;
        }
    }
    want[36..40].copy_from_slice(&seg[36..40]);
    same("Terminate", &seg, &want)?;
    c.tcp.expect_end(End::Fin)
}

fn broken(w: &mut World) -> Res {
    let request = mpa(REQ, C | S, 2, &words(0, 8, 8));
    let mut tcp = w.tcp()?;
    tcp.small_window(2048);
    tcp.send(&request)?;
    let mut c = w.answer(tcp, "ird=8 ord=8")?;
    c.tcp.take(24)?;
    let (stag, to) = super::access::region(&c, 4096, 1 << 18, 7, "")?;
    let read = Read {
        sink: (0x55, 0x9000),
        len: 1 << 18,
        source: (stag, to),
    };
    // One alone: of others behind it the driver might know before or after.
    c.tcp.fpdu(&read.request(1))?;
    let mut done = c.tcp.ulpdu()?.len() as u32 - 14;
    c.say("dereg", "1")?;
    loop {
        let seg = c.tcp.ulpdu()?;
        if seg[1] == bytes::READ_RESP {
            done += seg.len() as u32 - 14;
            if done >= read.len {
                return Err("all of it fits into the window".into());
            }
            continue;
        }
        let rest = Read {
            sink: (read.sink.0, read.sink.1 + u64::from(done)),
            len: read.len - done,
            source: (stag, to + u64::from(done)),
        };
        let want = terminate(0x0100, Some(&rest.request(1)));
        same("Terminate", &seg, &want)?;
        c.tcp.expect_end(End::Fin)?;
        return c.expect_async(event::ACCESS);
    }
}
