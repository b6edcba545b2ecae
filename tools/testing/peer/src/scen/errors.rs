// SPDX-License-Identifier: GPL-2.0

//! Segments that end the stream: each field of each header, and the Terminate that has to come
//! back, bit by bit (RFC 5040 section 4.8 and 7, RFC 5041 section 7).
#![forbid(unsafe_code)]

use crate::bytes::{self, tagged, untagged, write, READ_REQ, READ_RESP, SEND, TERMINATE, WRITE};
use crate::bytes::{T, T_LAST, U, U_LAST};
use crate::ep::{event, status};
use crate::net::{same, Res};
use crate::scenario::List;
use crate::world::{Conn, World};

/// Sends the segment; the Terminate for `code` quotes it, memory stays, the consumer is told.
pub fn bad(
    w: &mut World,
    options: &str,
    code: u16,
    class: i32,
    make: impl Fn(&Conn) -> Vec<u8>,
) -> Res {
    let mut c = w.conn_with(options)?;
    bad_on(&mut c, code, class, make)?;
    w.clean()
}

/// The same on a connection that is there.
pub fn bad_on(c: &mut Conn, code: u16, class: i32, make: impl Fn(&Conn) -> Vec<u8>) -> Res {
    let ulpdu = make(c);
    let told = |e| format!("{}: {e}", bytes::hex(&ulpdu[..ulpdu.len().min(46)]));
    c.tcp.fpdu(&ulpdu)?;
    c.tcp.expect_terminate(code, Some(&ulpdu)).map_err(told)?;
    c.expect_async(class).map_err(told)
}

fn many(w: &mut World, code: u16, class: i32, segments: &[Vec<u8>]) -> Res {
    for ulpdu in segments {
        bad(w, "", code, class, |_| ulpdu.clone())?;
    }
    Ok(())
}

/// A Read Request with another DDP header.
fn request(control: u8, rdmap: u8, at: [u32; 3], payload: usize) -> Vec<u8> {
    let read = bytes::Read {
        sink: (1, 2),
        len: 0,
        source: (3, 4),
    };
    let mut header = read.header();
    header.resize(payload, 0);
    untagged(control, rdmap, 0, at, &header)
}

pub fn add(list: &mut List) {
    list.rows("D-DDP-1 P-RDMAP-1 P-RDMAP-3")
        .says("reserved bits and the unused octets are ignored")
        .runs(|w| {
            let mut c = w.conn()?;
            c.tcp.fpdu(&untagged(
                U_LAST | 0x3c,
                SEND | 0x30,
                0xffff_ffff,
                [0, 1, 0],
                b"ab",
            ))?;
            c.received(0, 2)?;
            c.tcp
                .fpdu(&tagged(T_LAST | 0x3c, WRITE | 0x30, c.stag, c.to, b"cd"))?;
            let read = c.read(0, 2);
            c.tcp.fpdu(&untagged(
                U_LAST | 0x3c,
                READ_REQ | 0x30,
                0x1234,
                [1, 1, 0],
                &read.header(),
            ))?;
            same("octets of the Read", &c.response(&read)?, b"cd")
        });
    list.rows("P-ERR-4 V-AE-8")
        .says("tagged with DDP version 0, 2, 3: 0x1104")
        .runs(|w| {
            let v = [0x80, 0x82, 0x83, 0xc0].map(|ctl| tagged(ctl, WRITE, 1, 2, b"data"));
            many(w, 0x1104, event::REQUEST, &v)
        });
    list.rows("P-ERR-5 V-AE-8")
        .says("untagged with DDP version 0, 2, 3: 0x1206")
        .runs(|w| {
            let v = [0x00, 0x02, 0x03, 0x40].map(|ctl| untagged(ctl, SEND, 0, [0, 1, 0], b"data"));
            many(w, 0x1206, event::REQUEST, &v)
        });
    list.rows("P-ERR-6 V-AE-9")
        .says("RDMAP version 0, 2, 3: 0x0205")
        .each([0x00, 0x80, 0xc0])
        .runs(|w, rv| {
            let v = [
                untagged(U_LAST, rv | 3, 0, [0, 1, 0], b"data"),
                tagged(T_LAST, rv, 1, 2, b"data"),
                request(U_LAST, rv | 1, [1, 1, 0], 28),
            ];
            many(w, 0x0205, event::REQUEST, &v)
        });
    list.rows("P-ERR-7 X-IANA-2 V-AE-10")
        .says("opcodes 12 to 15: 0x0206")
        .each(12..16)
        .runs(|w, opcode| {
            let v = [
                untagged(U_LAST, 0x40 | opcode, 0, [0, 1, 0], b"datadata"),
                tagged(T_LAST, 0x40 | opcode, 1, 2, b"data"),
            ];
            many(w, 0x0206, event::REQUEST, &v)
        });
    list.rows("P-ERR-8 P-RDMAP-2 P-RDMAP-4")
        .says("opcode and T flag do not fit: 0x0206")
        .runs(|w| {
            let mut v = Vec::new();
            for rdmap in [WRITE, READ_RESP] {
                v.push(untagged(U_LAST, rdmap, 0, [0, 1, 0], b"data"));
                v.push(untagged(U, rdmap, 0, [1, 1, 0], &[]));
            }
            for opcode in [1, 3, 4, 5, 6, 7, 8, 9, 10, 11] {
                v.push(tagged(T_LAST, 0x40 | opcode, 1, 2, b"data"));
            }
            many(w, 0x0206, event::REQUEST, &v)
        });
    list.rows("P-ERR-9 D-DDP-21 V-AE-11")
        .says("a Send on another queue than 0: 0x1201")
        .runs(|w| {
            let v = [1, 2, 3, 4, 255, u32::MAX]
                .map(|qn| untagged(U_LAST, SEND, 0, [qn, 1, 0], b"data"));
            many(w, 0x1201, event::REQUEST, &v)
        });
    list.rows("P-ERR-22 P-RDMAP-5")
        .says("a Read Request on another queue than 1: 0x1201")
        .runs(|w| {
            let v = [0, 2, 3, 256, u32::MAX].map(|qn| request(U_LAST, READ_REQ, [qn, 1, 0], 28));
            many(w, 0x1201, event::REQUEST, &v)
        });
    list.rows("P-ERR-9")
        .says("a Terminate on another queue than 2: 0x1201")
        .runs(|w| {
            let v = [0, 1, 3].map(|qn| untagged(U_LAST, TERMINATE, 0, [qn, 1, 0], &[0; 4]));
            many(w, 0x1201, event::REQUEST, &v)
        });
    list.rows("P-ERR-10 V-AE-23")
        .says("a Send without a receive: 0x1202")
        .runs(|w| {
            bad(w, "recv=0", 0x1202, event::REQUEST, |_| {
                bytes::send(1, b"data")
            })?;
            bad(w, "recv=0", 0x1202, event::REQUEST, |_| bytes::send(1, b""))?;
            let mut c = w.conn_with("recv=2")?;
            c.send(b"1")?;
            c.send(b"2")?;
            bad_on(&mut c, 0x1202, event::REQUEST, |_| bytes::send(3, b"3"))?;
            c.received(0, 1)?;
            c.received(1, 1)
        });
    list.rows("P-ERR-11 V-AE-23")
        .says("a Send with another number than the next: 0x1203")
        .runs(|w| {
            let v = [0, 2, 3, 0x8000_0000, u32::MAX].map(|msn| bytes::send(msn, b"data"));
            many(w, 0x1203, event::REQUEST, &v)?;
            let mut c = w.conn()?;
            c.send(b"1")?;
            bad_on(&mut c, 0x1203, event::REQUEST, |_| bytes::send(1, b"again"))
        });
    list.rows("P-ERR-12 D-DDP-21")
        .says("a Send that begins at another offset than 0: 0x1204")
        .runs(|w| {
            let v = [1, 2, 4096, u32::MAX].map(|mo| untagged(U_LAST, SEND, 0, [0, 1, mo], b"data"));
            many(w, 0x1204, event::REQUEST, &v)
        });
    list.rows("P-ERR-12")
        .says("a Send that goes on at another offset: 0x1204")
        .each([0, 3, 5, 8, u32::MAX])
        .runs(|w, mo| {
            let mut c = w.conn()?;
            c.tcp.fpdu(&untagged(U, SEND, 0, [0, 1, 0], b"data"))?;
            bad_on(&mut c, 0x1204, event::REQUEST, |_| {
                untagged(U_LAST, SEND, 0, [0, 1, mo], b"more")
            })
        });
    list.rows("P-ERR-13 V-WC-11 P-RDMAP-14")
        .says("a Send longer than its receive: 0x1205")
        .each([101, 200, 4000])
        .runs(|w, len| {
            let mut c = w.conn_with("recv=2 rsize=100")?;
            let ulpdu = bytes::send(1, &vec![7; len]);
            bad_on(&mut c, 0x1205, event::NONE, |_| ulpdu.clone())?;
            c.expect_wc("r", 0, status::LOC_LEN_ERR)?;
            c.tcp.close();
            c.expect_wc("r", 1, status::FLUSHED)
        });
    list.rows("P-ERR-13 V-ST-26")
        .says("a Send that gets too long with its second segment: 0x1205")
        .runs(|w| {
            let mut c = w.conn_with("recv=1 rsize=100")?;
            c.tcp.fpdu(&untagged(U, SEND, 0, [0, 1, 0], &[1; 99]))?;
            bad_on(&mut c, 0x1205, event::NONE, |_| {
                untagged(U_LAST, SEND, 0, [0, 1, 99], &[2; 2])
            })?;
            c.expect_wc("r", 0, status::LOC_LEN_ERR)
        });
    list.rows("P-ERR-26 D-DDP-6")
        .says("a message begins inside another: 0x1203, and 0x0206 for another opcode")
        .runs(|w| {
            let open = untagged(U, SEND, 0, [0, 1, 0], b"data");
            let mut c = w.conn()?;
            c.tcp.fpdu(&open)?;
            bad_on(&mut c, 0x1203, event::REQUEST, |_| bytes::send(2, b"next"))?;
            let mut c = w.conn()?;
            c.tcp.fpdu(&open)?;
            bad_on(&mut c, 0x0206, event::REQUEST, |_| {
                untagged(U_LAST, bytes::SEND_SE, 0, [0, 1, 4], b"more")
            })
        });
    list.rows("P-RDMAP-5 V-AE-14")
        .says("a Read Request of 0 to 27 and of 29 octets")
        .runs(|w| {
            for n in [0, 1, 27] {
                bad(w, "", 0x1204, event::REQUEST, |_| {
                    request(U_LAST, READ_REQ, [1, 1, 0], n)
                })?;
            }
            for n in [29, 100] {
                bad(w, "", 0x1205, event::REQUEST, |_| {
                    request(U_LAST, READ_REQ, [1, 1, 0], n)
                })?;
            }
            Ok(())
        });
    list.rows("P-RDMAP-5 V-AE-14")
        .says("a Read Request at an offset: 0x1204")
        .runs(|w| {
            let v = [1, 28, u32::MAX].map(|mo| request(U_LAST, READ_REQ, [1, 1, mo], 28));
            many(w, 0x1204, event::REQUEST, &v)
        });
    list.rows("P-RDMAP-5 V-AE-15")
        .says("a Read Request without the last flag: 0x0207")
        .runs(|w| {
            bad(w, "", 0x0207, event::FATAL, |_| {
                request(U, READ_REQ, [1, 1, 0], 28)
            })
        });
    list.rows("P-ERR-21 V-AE-24")
        .says("a Read Request with another number than the next: 0x1203")
        .runs(|w| {
            let v = [0, 2, u32::MAX].map(|msn| request(U_LAST, READ_REQ, [1, msn, 0], 28));
            many(w, 0x1203, event::REQUEST, &v)?;
            let mut c = w.synced("")?;
            bad_on(&mut c, 0x1203, event::REQUEST, |_| {
                request(U_LAST, READ_REQ, [1, 1, 0], 28)
            })
        });
    list.rows("P-RDMAP-23 V-TM-7")
        .says("of two bad segments the first one counts")
        .runs(|w| {
            let mut c = w.conn()?;
            let first = write(0, 0, b"data");
            let mut bytes = bytes::fpdu(&first);
            bytes.extend(bytes::fpdu(&untagged(U_LAST, SEND, 0, [9, 1, 0], b"data")));
            c.tcp.send(&bytes)?;
            c.tcp.expect_terminate(0x1100, Some(&first))?;
            c.expect_async(event::ACCESS)
        });
    list.rows("P-TERM-5 V-TM-8")
        .says("a segment split over TCP segments is quoted all the same")
        .runs(|w| {
            let mut c = w.conn()?;
            let ulpdu = write(c.stag.wrapping_add(1), c.to, &[3; 100]);
            let bytes = bytes::fpdu(&ulpdu);
            c.tcp.send(&bytes[..9])?;
            c.tcp.send(&bytes[9..60])?;
            c.tcp.send(&bytes[60..])?;
            c.tcp.expect_terminate(0x1100, Some(&ulpdu))
        });
    list.rows("P-TERM-4")
        .says("a non-last segment is quoted as it was (T-1)")
        .runs(|w| {
            bad(w, "", 0x1100, event::ACCESS, |_| {
                tagged(T, WRITE, 0x100, 5, &[1; 9])
            })
        });
}
