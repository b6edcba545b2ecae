// SPDX-License-Identifier: GPL-2.0

//! Atomic Operations of the peer, which the driver carries out on regions of a program (RFC 7306
//! section 5).
#![forbid(unsafe_code)]

use super::access::region;
use super::errors::bad_on;
use crate::bytes::{self, hex, mpa, untagged, Read, C, READ_REQ, REQ, S, U, U_LAST};
use crate::ep::{event, right};
use crate::net::{End, Res};
use crate::scenario::List;
use crate::world::{Conn, World};

const ATOMIC_REQ: u8 = 0x4a;
const ATOMIC_RESP: u8 = 0x4b;

/// Where the words are in the arena, and how many octets they take.
const WORDS: usize = 4096;
const LEN: usize = 4096;
const RIGHTS: u32 = right::LOCAL | right::READ | right::ATOMIC;

/// An Atomic Request header (RFC 7306 section 5.2.1): AOpcode, target, data, mask, compare data and
/// mask.
fn header(first: u32, id: u32, (stag, to): (u32, u64), operands: [u64; 4]) -> Vec<u8> {
    let mut v = first.to_be_bytes().to_vec();
    v.extend(id.to_be_bytes());
    v.extend(stag.to_be_bytes());
    v.extend(to.to_be_bytes());
    for operand in operands {
        v.extend(operand.to_be_bytes());
    }
    v
}

fn request(msn: u32, header: &[u8]) -> Vec<u8> {
    untagged(U_LAST, ATOMIC_REQ, 0, [1, msn, 0], header)
}

fn fetch_add(id: u32, at: (u32, u64), add: u64, mask: u64) -> Vec<u8> {
    header(0, id, at, [add, mask, 0, u64::MAX])
}

/// The response number `msn`, octet by octet.
fn response(msn: u32, id: u32, original: u64) -> Vec<u8> {
    let mut v = id.to_be_bytes().to_vec();
    v.extend(original.to_be_bytes());
    untagged(U_LAST, ATOMIC_RESP, 0, [3, msn, 0], &v)
}

/// A region of words, and how far the responses are.
struct Words {
    c: Conn,
    stag: u32,
    to: u64,
    answers: u32,
}

impl Words {
    fn new(mut c: Conn, rights: u32) -> Res<Self> {
        c.ep.say(&format!("fill {} {WORDS} {LEN} 0", c.slot))?;
        let (stag, to) = region(&c, WORDS, LEN, rights, "")?;
        c.sync()?;
        let answers = 0;
        Ok(Words {
            c,
            stag,
            to,
            answers,
        })
    }

    fn at(&self, n: u64) -> (u32, u64) {
        (self.stag, self.to + 8 * n)
    }

    /// Asks for it.
    fn ask(&mut self, header: &[u8]) -> Res {
        let ulpdu = request(self.c.read_msn, header);
        self.c.read_msn += 1;
        self.c.tcp.fpdu(&ulpdu)
    }

    /// The next message is the response to `id`.
    fn answered(&mut self, id: u32, original: u64) -> Res {
        self.answers += 1;
        let want = response(self.answers, id, original);
        self.c.tcp.expect_ulpdu("Atomic Response", &want)
    }

    /// Both.
    fn run(&mut self, header: &[u8], id: u32, original: u64) -> Res {
        self.ask(header)?;
        self.answered(id, original)
    }

    /// The word is this, in the byte order of the host.
    fn expect(&self, n: usize, want: u64) -> Res {
        let got = self.c.ep.peek(self.c.slot, WORDS + 8 * n, 8)?;
        if got == want.to_ne_bytes() {
            return Ok(());
        }
        Err(format!("word {n} is {} instead of {want:#x}", hex(&got)))
    }
}

fn words(w: &mut World) -> Res<Words> {
    Words::new(w.conn_with("ird=8")?, RIGHTS)
}

/// A request that has to be refused; all words stay what they are.
fn refused(
    w: &mut World,
    rights: u32,
    code: u16,
    class: i32,
    make: impl Fn(&Words) -> Vec<u8>,
) -> Res {
    let mut l = Words::new(w.conn_with("ird=8")?, rights)?;
    let header = make(&l);
    let msn = l.c.read_msn;
    bad_on(&mut l.c, code, class, |_| request(msn, &header))?;
    if l.c
        .ep
        .peek(l.c.slot, WORDS, LEN)?
        .iter()
        .any(|octet| *octet != 0)
    {
        return Err("a word was changed".into());
    }
    w.clean()
}

pub fn add(list: &mut List) {
    list.rows("X-ATM-1 X-ATM-2 X-ATM-3 X-ATM-12 X-ATM-15 X-ATM-18")
        .says("FetchAdd: octets of the responses, words in the host's byte order")
        .runs(|w| {
            let mut l = words(w)?;
            let at = l.at(3);
            l.run(&fetch_add(77, at, 0x0102_0304_0506_0708, 0), 77, 0)?;
            l.run(&fetch_add(77, at, 1, 0), 77, 0x0102_0304_0506_0708)?;
            l.run(
                &fetch_add(u32::MAX, at, u64::MAX, 0),
                u32::MAX,
                0x0102_0304_0506_0709,
            )?;
            l.expect(3, 0x0102_0304_0506_0708)?;
            l.expect(2, 0)?;
            l.expect(4, 0)?;
            // The last word there is; adding nothing is safe.
            let last = l.at(LEN as u64 / 8 - 1);
            l.run(&fetch_add(1, last, 0, 0), 1, 0)?;
            l.run(&fetch_add(2, last, 5, 0), 2, 0)?;
            l.run(&fetch_add(3, last, 0, 0), 3, 5)
        });
    list.rows("X-ATM-5")
        .says("FetchAdd with fields: what is carried out of one is lost")
        .runs(|w| {
            let mut l = words(w)?;
            let at = l.at(0);
            let bytes = 0x8080_8080_8080_8080;
            l.run(&fetch_add(1, at, 0x00ff_01ff_ffff_00ff, 0), 1, 0)?;
            l.run(
                &fetch_add(2, at, 0x0101_0101_0101_0101, bytes),
                2,
                0x00ff_01ff_ffff_00ff,
            )?;
            l.expect(0, 0x0100_0200_0000_0100)?;
            // Each bit by itself.
            l.run(
                &fetch_add(3, at, 0x0100_0200_0000_0001, u64::MAX),
                3,
                0x0100_0200_0000_0100,
            )?;
            l.expect(0, 0x0101)
        });
    list.rows("X-ATM-7")
        .says("CmpSwap: compares and swaps under its masks, and returns what was there either way")
        .runs(|w| {
            let mut l = words(w)?;
            let at = l.at(1);
            let all = u64::MAX;
            let swap = |id, operands| header(2, id, at, operands);
            l.run(&swap(1, [5, all, 0, all]), 1, 0)?;
            l.expect(1, 5)?;
            l.run(&swap(2, [6, all, 4, all]), 2, 5)?;
            l.expect(1, 5)?;
            // Only bit 0 is looked at, only the octet above is changed.
            l.run(&swap(3, [0xabcd, 0xff00, 0x31, 1]), 3, 5)?;
            l.expect(1, 0xab05)?;
            // Nothing is compared, nothing is changed.
            l.run(&swap(4, [all, 0, all, 0]), 4, 0xab05)?;
            l.expect(1, 0xab05)
        });
    list.rows("X-ATM-2 X-ATM-4 X-ATM-6")
        .says("reserved bits, and what FetchAdd compares with, are ignored")
        .runs(|w| {
            let mut l = words(w)?;
            let at = l.at(1);
            l.run(&header(0xffff_fff0, 9, at, [3, 0, 77, 88]), 9, 0)?;
            l.run(
                &header(0xffff_fff2, 8, at, [7, u64::MAX, 3, u64::MAX]),
                8,
                3,
            )?;
            let ulpdu = untagged(
                U_LAST | 0x3c,
                ATOMIC_REQ | 0x30,
                0x1234,
                [1, l.c.read_msn, 0],
                &fetch_add(10, at, 1, 0),
            );
            l.c.read_msn += 1;
            l.c.tcp.fpdu(&ulpdu)?;
            l.answered(10, 7)?;
            l.expect(1, 8)
        });
    list.rows("X-ATM-4")
        .says("AOpcodes 1 and 3 to 15: 0x0206")
        .each([1, 3, 4, 8, 15])
        .runs(|w, aopcode| {
            let make = |l: &Words| header(aopcode, 1, l.at(0), [1, 0, 0, u64::MAX]);
            refused(w, RIGHTS, 0x0206, event::REQUEST, make)
        });
    list.rows("X-ATM-9 X-ATM-19")
        .says("a word that is not at a multiple of eight: 0x0207, and nothing is changed")
        .runs(|w| {
            for at in [1, 2, 4, 7, LEN as u64 - 9] {
                let make = |l: &Words| fetch_add(1, (l.stag, l.to + at), 1, 0);
                refused(w, RIGHTS, 0x0207, event::FATAL, make)?;
            }
            // It is the address that counts, whatever the offset is: here from zero on.
            for (from, to, is_good) in [(3, 5, true), (4, 4, true), (4, 0, false), (3, 8, false)] {
                let mut l = words(w)?;
                let rights = RIGHTS | right::ZERO_BASED;
                let (stag, _) = region(&l.c, WORDS + LEN + from, 64, rights, "")?;
                if is_good {
                    l.run(&fetch_add(1, (stag, to), 0, 0), 1, 0xeeee_eeee_eeee_eeee)?;
                } else {
                    let ulpdu = request(l.c.read_msn, &fetch_add(1, (stag, to), 1, 0));
                    bad_on(&mut l.c, 0x0207, event::FATAL, |_| ulpdu.clone())?;
                }
                w.clean()?;
            }
            Ok(())
        });
    list.rows("X-ATM-10 X-ATM-19")
        .says("keys, bounds, rights: 0x0100 to 0x0104, without the header of the request")
        .runs(|w| {
            let access = event::ACCESS;
            let from = |l: &Words, at: u64| fetch_add(1, (l.stag, l.to.wrapping_add(at)), 1, 0);
            refused(w, RIGHTS, 0x0100, access, |l| {
                fetch_add(1, (l.stag ^ 1, l.to), 1, 0)
            })?;
            refused(w, RIGHTS, 0x0100, access, |_| fetch_add(1, (0, 8), 1, 0))?;
            refused(w, RIGHTS, 0x0101, access, |l| from(l, LEN as u64))?;
            refused(w, RIGHTS, 0x0101, access, |l| from(l, LEN as u64 - 4))?;
            refused(w, RIGHTS, 0x0101, access, |l| from(l, 8u64.wrapping_neg()))?;
            refused(w, RIGHTS, 0x0104, access, |l| {
                fetch_add(1, (l.stag, u64::MAX - 3), 1, 0)
            })?;
            let (local, read, write) = (right::LOCAL, right::READ, right::WRITE);
            for rights in [local, read, local | read | write] {
                refused(w, rights, 0x0102, access, |l| from(l, 0))?;
            }
            // What may be changed by these only.
            let mut l = Words::new(w.conn()?, right::LOCAL | right::ATOMIC)?;
            let at = l.at(0);
            l.run(&fetch_add(1, at, 1, 0), 1, 0)?;
            let read = Read {
                sink: (1, 2),
                len: 8,
                source: at,
            };
            let ulpdu = read.request(l.c.read_msn);
            bad_on(&mut l.c, 0x0102, access, |_| ulpdu.clone())
        });
    list.rows("X-ATM-13 X-ATM-1")
        .says(
            "an Atomic Request with a wrong queue, number, offset, length, or not the last segment",
        )
        .runs(|w| {
            let control = |l: &Words, ctl, at: [u32; 3], len: usize| {
                let mut header = fetch_add(1, l.at(0), 1, 0);
                header.resize(len, 0);
                untagged(ctl, ATOMIC_REQ, 0, at, &header)
            };
            for (qn, skip, mo, len, ctl, code) in [
                (0, 0, 0, 52, U_LAST, 0x1201),
                (2, 0, 0, 52, U_LAST, 0x1201),
                (3, 0, 0, 52, U_LAST, 0x1201),
                (1, 1, 0, 52, U_LAST, 0x1203),
                (1, u32::MAX, 0, 52, U_LAST, 0x1203),
                (1, 0, 4, 52, U_LAST, 0x1204),
                (1, 0, 0, 0, U_LAST, 0x1204),
                (1, 0, 0, 51, U_LAST, 0x1204),
                (1, 0, 0, 53, U_LAST, 0x1205),
                (1, 0, 0, 52, U, 0x0207),
            ] {
                let mut l = words(w)?;
                let msn = l.c.read_msn.wrapping_add(skip);
                let ulpdu = control(&l, ctl, [qn, msn, mo], len);
                let class = if code == 0x0207 {
                    event::FATAL
                } else {
                    event::REQUEST
                };
                bad_on(&mut l.c, code, class, |_| ulpdu.clone())?;
                l.expect(0, 0)?;
                w.clean()?;
            }
            Ok(())
        });
    list.rows("X-ATM-13 X-ATM-14").says("Reads and Atomic Operations in one burst are answered in their order, each seeing those before").runs(|w| {
            let mut l = words(w)?;
            let at = l.at(0);
            let read = Read {
                sink: (5, 0x1000),
                len: 2048,
                source: at,
            };
            for round in 0..20u64 {
                let mut burst = Vec::new();
                for n in 0..4 {
                    let msn = l.c.read_msn;
                    let header = fetch_add(n, at, 1, 0);
                    burst.extend(bytes::fpdu(&request(msn, &header)));
                    burst.extend(bytes::fpdu(&read.request(msn + 1)));
                    l.c.read_msn += 2;
                }
                l.c.tcp.send(&burst)?;
                for n in 0..4 {
                    let before = 4 * round + u64::from(n);
                    l.answered(n, before)?;
                    let got = l.c.response(&read)?;
                    if got[..8] != (before + 1).to_ne_bytes() {
                        return Err(format!("a Read behind {before} sees {}", hex(&got[..8])));
                    }
                }
            }
            Ok(())
        });
    list.rows("X-ATM-13 V-RD-9")
        .says("more Atomic Requests than the depth: 0x1202")
        .runs(too_many);
    list.rows("X-ATM-15 X-ATM-19")
        .says("an Atomic Response that nobody has asked for: 0x1202, and errors in its header")
        .each([
            ([3, 1, 0], 12, U_LAST, 0x1202),
            ([3, 2, 0], 12, U_LAST, 0x1203),
            ([3, 1, 1], 12, U_LAST, 0x1204),
            ([3, 1, 0], 11, U_LAST, 0x1204),
            ([3, 1, 0], 13, U_LAST, 0x1205),
            ([1, 1, 0], 12, U_LAST, 0x1201),
            ([3, 1, 0], 12, U, 0x0207),
        ])
        .runs(|w, (at, len, ctl, code)| {
            let mut c = w.conn()?;
            let class = if code == 0x0207 {
                event::FATAL
            } else {
                event::REQUEST
            };
            let ulpdu = untagged(ctl, ATOMIC_RESP, 0, at, &vec![0; len]);
            bad_on(&mut c, code, class, |_| ulpdu.clone())
        });
    list.rows("X-ATM-10 V-ACC-10")
        .says("Atomic Operations of a peer that may only read, or only write: 0x1201")
        .each([right::READ, right::WRITE])
        .runs(|w, rights| {
            let mut l = words(w)?;
            l.c.say("modify", &format!("access={rights}"))?;
            let ulpdu = request(l.c.read_msn, &fetch_add(1, l.at(0), 1, 0));
            bad_on(&mut l.c, 0x1201, event::ACCESS, |_| ulpdu.clone())?;
            l.expect(0, 0)
        });
}

fn too_many(w: &mut World) -> Res {
    let wanted = mpa(REQ, C | S, 2, &crate::bytes::words(0, 2, 2));
    let mut tcp = w.tcp()?;
    // Responses must not get away.
    tcp.small_window(2048);
    tcp.send(&wanted)?;
    let mut c = w.answer(tcp, "ird=2 ord=2")?;
    c.tcp.take(24)?;
    let (stag, to) = region(&c, WORDS, LEN, RIGHTS, "")?;
    let read = c.read(0, 65536);
    let mut asked = 0;
    // What TCP takes in the first place counts as answered.
    for n in 0..400 {
        let msn = c.read_msn;
        c.read_msn += 1;
        let ulpdu = match n % 2 {
            0 => read.request(msn),
            _ => request(msn, &fetch_add(n, (stag, to), 1, 0)),
        };
        c.tcp.send_anyway(&bytes::fpdu(&ulpdu));
        asked += 1;
        if w.ep.async_event(c.slot, 5)? == event::REQUEST {
            break;
        }
    }
    loop {
        let seg = c.tcp.ulpdu()?;
        if seg[1] != bytes::TERMINATE {
            continue;
        }
        // The one that was too many may be an earlier one than the last, of either kind.
        let quoted = seg.get(25).copied();
        if seg[18..20] != [0x12, 0x02] || ![Some(ATOMIC_REQ), Some(READ_REQ)].contains(&quoted) {
            return Err(format!("of {asked} requests: {}", hex(&seg)));
        }
        return c.tcp.expect_end(End::Fin);
    }
}
