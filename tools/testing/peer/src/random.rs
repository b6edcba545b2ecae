// SPDX-License-Identifier: GPL-2.0

//! Random mode: valid connections with valid traffic, and then the same traffic changed somewhere.
//! The driver must answer with nothing but well-formed FPDUs, and the next connection must work.
#![forbid(unsafe_code)]

use crate::bytes::{self, fpdu, fpdu_odd, mpa, pattern, send, tagged, untagged, words, write};
use crate::bytes::{
    hex, C, READ_RESP, REQ, S, SEND, SEND_INV, T, TERMINATE, T_LAST, U, U_LAST, WRITE,
};
use crate::net::{Res, Tcp};
use crate::wire::{ddp, rdmap, terminate};
use crate::world::{op, Conn, World, BUFFER_LEN};
use std::time::{Duration, Instant};

/// Where Writes and Reads, of the same memory, begin at the latest: no payload is longer than the
/// rest.
const ROOM: u64 = BUFFER_LEN as u64 - 8192;

/// The xorshift64* generator.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    /// A number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.bits() % n.max(1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A number at a limit, or any.
    fn number(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => 1,
            2 => u64::from(u32::MAX),
            3 => u64::MAX,
            4 => 1 << 31,
            5 => self.below(64),
            6 => self.below(1 << 17),
            _ => self.bits(),
        }
    }
}

/// Plays for `seconds`; the seed of a round that goes wrong is printed.
pub fn run(w: &mut World, seed: u64, seconds: u64) -> Res<bool> {
    println!("# seed {seed}, {seconds} s");
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut rounds, mut closed) = (0u64, 0u64);
    while Instant::now() < end {
        let round_seed = seed.wrapping_add(rounds);
        let result = round(w, &mut Rng::new(round_seed), &mut closed);
        let log = w.log.take();
        let cleaned = w.clean();
        if let Err(why) = result.and(cleaned) {
            for line in log {
                println!("# {line}");
            }
            println!("not ok 1 random: seed {round_seed}: {why}");
            return Ok(false);
        }
        w.log.take();
        rounds += 1;
    }
    println!("ok 1 random: {rounds} connections from seed {seed} on, {closed} ended by the driver");
    Ok(true)
}

/// One connection: some good traffic, then changed traffic, then a look at what came back.
fn round(w: &mut World, rng: &mut Rng, closed: &mut u64) -> Res {
    if rng.one_in(8) {
        return frame(w, rng);
    }
    let mut c = if rng.one_in(2) {
        w.conn_with("ird=4 recv=16")?
    } else {
        w.enhanced(rng.below(16) as u8, 4, 4, "ird=4 ord=4 recv=16")?
            .0
    };
    c.sync()?;
    if rng.one_in(3) {
        for id in 0..1 + rng.below(6) {
            let opcode = [op::SEND, op::WRITE, op::READ][rng.below(3) as usize];
            c.post(
                id,
                opcode,
                131_072,
                rng.below(70_000) as usize,
                "raddr=4096 rkey=77",
            )?;
        }
    }
    let mut stream = Vec::new();
    for _ in 0..1 + rng.below(12) {
        let ulpdu = segment(rng, &mut c);
        let bad_crc = if rng.one_in(40) {
            1 << rng.below(32)
        } else {
            0
        };
        stream.extend(fpdu_odd(&ulpdu, 0, bad_crc));
    }
    if rng.one_in(6) {
        let at = rng.below(stream.len() as u64) as usize;
        stream[at] ^= 1 << rng.below(8);
    }
    if rng.one_in(6) {
        let n = rng.below(stream.len() as u64) as usize;
        stream.truncate(n);
    }
    pieces(rng, &mut c.tcp, &stream);
    match rng.below(6) {
        0 => c.tcp.reset(),
        n => {
            if n < 4 {
                c.tcp.fin();
            }
            *closed += u64::from(look(&mut c.tcp)?);
        }
    }
    Ok(())
}

/// Sends octets in pieces of random length.
fn pieces(rng: &mut Rng, tcp: &mut Tcp, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let n = match rng.below(4) {
            0 => 1 + rng.below(4),
            1 => 1 + rng.below(100),
            _ => 1 + rng.below(bytes.len() as u64),
        };
        let (now, later) = bytes.split_at((n as usize).min(bytes.len()));
        tcp.send_anyway(now);
        bytes = later;
    }
}

/// A segment that fits the state of the connection, often with one field changed.
fn segment(rng: &mut Rng, c: &mut Conn) -> Vec<u8> {
    let most = if rng.one_in(8) { 5000 } else { 80 };
    let payload = pattern(rng.below(most) as usize, 1);
    let at = c.to + rng.below(ROOM);
    let msn = c.send_msn;
    let mut v = match rng.below(12) {
        0..=2 => write(c.stag, at, &payload),
        3 => tagged(T, WRITE, c.stag, at, &payload),
        4 | 5 => {
            c.send_msn += 1;
            send(msn, &payload)
        }
        6 => untagged(U, SEND, 0, [0, msn, 0], &payload),
        7 | 8 => {
            c.read_msn += 1;
            c.read(rng.below(ROOM), rng.below(3000) as u32)
                .request(c.read_msn - 1)
        }
        9 => tagged(T_LAST, READ_RESP, rng.bits() as u32, at, &payload),
        10 => {
            c.send_msn += 1;
            untagged(U_LAST, SEND_INV, rng.bits() as u32, [0, msn, 0], &payload)
        }
        _ => untagged(U_LAST, TERMINATE, 0, [2, 1, 0], &payload),
    };
    if rng.one_in(3) {
        match rng.below(7) {
            0 => v[0] = rng.bits() as u8,
            1 => v[1] = 0x40 | rng.below(16) as u8,
            2 => v.truncate(rng.below(v.len() as u64 + 1) as usize),
            3 => v.resize(v.len() + rng.below(64) as usize, 0xaa),
            4 => field(rng, &mut v, 2, 4),
            5 => field(rng, &mut v, 6, 8),
            _ => field(rng, &mut v, 10, 4),
        }
    }
    v
}

/// Puts another number into a field.
fn field(rng: &mut Rng, v: &mut [u8], at: usize, len: usize) {
    let n = rng.number().to_be_bytes();
    for (to, from) in v.iter_mut().skip(at).take(len).zip(&n[8 - len..]) {
        *to = *from;
    }
}

/// Reads what the driver says until it ends or falls silent. Returns whether it ended. Every FPDU
/// has to be whole and right, in the eyes of the driver's own formats too.
fn look(tcp: &mut Tcp) -> Res<bool> {
    let (bytes, end) = tcp.rest(30)?;
    let mut rest = &bytes[..];
    let mut over = false;
    while rest.len() >= 2 {
        let len = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
        let whole = (len + 2).div_ceil(4) * 4 + 4;
        if rest.len() < whole {
            break;
        }
        let ulpdu = &rest[2..2 + len];
        if rest[..whole] != fpdu(ulpdu)[..] {
            return Err(format!("bad FPDU {}", hex(&rest[..whole.min(80)])));
        }
        if over {
            return Err(format!("behind the Terminate: {}", hex(ulpdu)));
        }
        over = judge(ulpdu)?;
        rest = &rest[whole..];
    }
    // After a reset the last one may be cut.
    if !rest.is_empty() && end == Some(crate::net::End::Fin) {
        return Err(format!("{} octets of an FPDU before the FIN", rest.len()));
    }
    Ok(end.is_some())
}

/// Reads an ULPDU with the driver's formats. Returns whether it is a Terminate.
fn judge(ulpdu: &[u8]) -> Res<bool> {
    let (header, rest) = ddp::Header::parse(ulpdu).ok_or(format!("header {}", hex(ulpdu)))?;
    let opcode = rdmap::Control(header.rdmap()).opcode();
    if header.control().version() != ddp::VERSION {
        return Err(format!("DDP version: {}", hex(ulpdu)));
    }
    match opcode {
        Some(rdmap::Opcode::Terminate) => {
            let told =
                terminate::Received::parse(rest).ok_or("a Terminate without control word")?;
            let code = told.code;
            // Codes that the RFCs have assigned (X-IANA-1).
            let known = matches!(code, 0x0000 | 0x0100..=0x0104 | 0x0109 | 0x0205..=0x0209
                | 0x1100..=0x1104 | 0x1201..=0x1206 | 0x2002 | 0x2003 | 0x2005..=0x2007);
            if !known {
                return Err(format!("Terminate 0x{code:04x}"));
            }
            Ok(true)
        }
        Some(_) => Ok(false),
        None => Err(format!("opcode: {}", hex(ulpdu))),
    }
}

/// A set-up frame with something changed.
fn frame(w: &mut World, rng: &mut Rng) -> Res {
    let mut data = words(rng.below(16) as u8, rng.bits() as u16, rng.bits() as u16).to_vec();
    data.extend(pattern(rng.below(300) as usize, 3));
    let mut bytes = mpa(
        REQ,
        C | if rng.one_in(2) { S } else { 0 },
        1 + rng.below(2) as u8,
        &data,
    );
    for _ in 0..rng.below(3) {
        let at = rng.below(24) as usize;
        bytes[at] ^= 1 << rng.below(8);
    }
    bytes.truncate(bytes.len() - rng.below(3) as usize);
    bytes.extend(bytes::fpdu(&send(1, b"first")));
    let mut tcp = w.tcp()?;
    pieces(rng, &mut tcp, &bytes);
    if rng.one_in(2) {
        tcp.fin();
    }
    let _ = tcp.rest(10)?;
    Ok(())
}
