// SPDX-License-Identifier: GPL-2.0

//! Terminates that the driver receives (RFC 5040 sections 4.8, 5.4 and 6.2.1).
#![forbid(unsafe_code)]

use crate::bytes::{
    self, fpdu, fpdu_odd, terminate, terminate_raw, untagged, write, TERMINATE, U, U_LAST,
};
use crate::ep::{event, state, status};
use crate::net::{check, End, Res, END};
use crate::scenario::List;
use crate::world::{op, Conn, World};

/// The driver takes `ulpdu` for the end: an event, no Terminate back, FIN, all flushed.
fn ended(w: &mut World, class: i32, ulpdu: &[u8]) -> Res {
    let mut c = w.synced("recv=1")?;
    c.tcp.fpdu(ulpdu)?;
    over(&mut c, class)?;
    w.clean()
}

/// What has to follow a Terminate that the driver received; the event tells its class (V-AE-2).
fn over(c: &mut Conn, class: i32) -> Res {
    c.tcp.expect_end(End::Fin)?;
    c.expect_async(class)?;
    c.expect_event("ESTABLISHED", 0)?;
    // The driver waits for ours before it is through.
    c.tcp.fin();
    c.expect_event("DISCONNECTED", 0)?;
    c.tcp.close();
    c.expect_wc("r", 0, status::FLUSHED)?;
    c.ep.expect_state(c.slot, state::ERR)
}

pub fn add(list: &mut List) {
    list.rows("V-ST-15 V-CM-8 P-RDMAP-18 V-AE-2 V-TM-9 P-TERM-2")
        .says("Terminates of all kinds: event, no Terminate back, FIN, flushed")
        .runs(|w| {
            let quoted = write(1, 2, b"data");
            let asked = bytes::Read {
                sink: (1, 2),
                len: 3,
                source: (4, 5),
            }
            .request(1);
            for (class, ulpdu) in [
                (event::FATAL, terminate(0x0000, None)),
                (event::ACCESS, terminate(0x1101, Some(&quoted))),
                (
                    event::REQUEST,
                    terminate(0x1203, Some(&bytes::send(9, &[]))),
                ),
                (event::ACCESS, terminate(0x0101, Some(&asked))),
                (event::REQUEST, terminate(0x0207, Some(&quoted))),
                (event::FATAL, terminate(0x2002, None)),
            ] {
                ended(w, class, &ulpdu)?;
            }
            Ok(())
        });
    list.rows("X-IANA-1")
        .says("codes that nobody has assigned are tolerated")
        .each([0x0a7f, 0xffff, 0x10ff, 0x3000])
        .runs(|w, code| {
            let [a, b] = u16::to_be_bytes(code);
            ended(w, event::FATAL, &terminate_raw(&[a, b, 0, 0]))
        });
    list.rows("P-TERM-3")
        .says("reserved bits are ignored")
        .runs(|w| ended(w, event::ACCESS, &terminate_raw(&[0x11, 0, 0x1f, 0xff])));
    list.rows("P-TERM-2")
        .says("parts that are announced but missing, or cut, or too much")
        .runs(|w| {
            let mut long = vec![0x01, 0x00, 0xe0, 0];
            long.extend([0xff; 2000]);
            for payload in [
                &[0x11, 0x00, 0xe0, 0][..],
                &[0x11, 0x00, 0xe0, 0, 0],
                &[0x11, 0x00, 0xe0, 0, 0, 9, 0xc1],
                &[0x01, 0x00, 0x20, 0],
                &[0x01, 0x00, 0xc0, 0, 0, 46, 0x41, 0x41, 0, 0],
                &long[..1400],
                &[0x11],
                &[],
            ] {
                let class = if payload.len() < 2 {
                    event::FATAL
                } else {
                    event::ACCESS
                };
                ended(w, class, &terminate_raw(payload))
                    .map_err(|e| format!("{}: {e}", bytes::hex(payload)))?;
            }
            Ok(())
        });
    list.rows("P-TERM-10")
        .says("a Terminate one octet per segment, and cut at every octet")
        .runs(|w| {
            let bytes = fpdu(&terminate(0x1101, Some(&write(1, 2, b"data"))));
            for cut in 0..bytes.len() {
                let mut c = w.synced("recv=1")?;
                if cut == 0 {
                    c.tcp.drip(&bytes)?;
                } else {
                    c.tcp.send(&bytes[..cut])?;
                    c.tcp.send(&bytes[cut..])?;
                }
                over(&mut c, event::ACCESS).map_err(|e| format!("cut {cut}: {e}"))?;
                w.clean()?;
            }
            Ok(())
        });
    list.rows("P-TERM-9")
        .says("a Terminate with a wrong CRC is not believed: 0x2002 goes back")
        .runs(|w| {
            let mut c = w.synced("")?;
            c.tcp.send(&fpdu_odd(&terminate(0x1100, None), 0, 1 << 9))?;
            c.tcp.expect_terminate(0x2002, None)
        });
    list.rows("P-ERR-29 D-DDP-23 V-TM-4")
        .says("what follows a Terminate is ignored")
        .runs(|w| {
            let mut c = w.synced("recv=1")?;
            let mut bytes = fpdu(&terminate(0x0000, None));
            bytes.extend(fpdu(&write(c.stag, c.to, b"late")));
            bytes.extend(fpdu(&bytes::send(1, b"late")));
            bytes.extend(fpdu_odd(&bytes::send(1, b"late"), 0, 1));
            c.tcp.send(&bytes)?;
            c.expect_untouched(0, 8)?;
            over(&mut c, event::FATAL)
        });
    list.rows("P-RDMAP-17")
        .says("a Terminate with odd number, offset or without the last flag ends all the same")
        .each([
            (U_LAST, [2, 2, 0]),
            (U_LAST, [2, 0, 0]),
            (U_LAST, [2, 1, 4]),
            (U, [2, 1, 0]),
        ])
        .runs(|w, (control, at)| {
            let mut c = w.synced("")?;
            c.tcp
                .fpdu(&untagged(control, TERMINATE, 0, at, &[0x11, 0, 0, 0]))?;
            let (_, end) = c.tcp.rest(END)?;
            check("the stream's end", end.is_some(), end)
        });
    list.rows("P-RDMAP-18 V-ST-19")
        .says("requests behind a received Terminate are flushed, nothing is sent")
        .runs(|w| {
            let mut c = w.synced("recv=0")?;
            c.tcp.fpdu(&terminate(0x0000, None))?;
            c.tcp.expect_end(End::Fin)?;
            c.post(1, op::SEND, 0, 8, "")?;
            c.post(2, op::WRITE, 0, 8, "raddr=1 rkey=1")?;
            c.tcp.close();
            for id in [1, 2] {
                c.expect_wc("s", id, status::FLUSHED)?;
            }
            Ok(())
        });
    list.rows("P-RDMAP-18")
        .says("a Read that waits for its response is flushed")
        .runs(|w| {
            let mut c = w.synced("recv=0")?;
            c.post(1, op::READ, 131_072, 8, "raddr=1 rkey=1")?;
            c.tcp.ulpdu()?;
            c.tcp.fpdu(&terminate(0x0000, None))?;
            c.tcp.expect_end(End::Fin)?;
            c.tcp.close();
            let wc = c.wc("s")?;
            check("the Read", wc.id == 1 && wc.status != 0, wc)
        });
    list.rows("V-WC-5")
        .says("a Terminate that quotes a Read fails that Read with the peer's reason")
        // What user space gets has no REM_OP_ERR: 0x0207 is one of the others.
        .each([
            (0x0100, status::REM_ACCESS_ERR),
            (0x0102, status::REM_ACCESS_ERR),
            (0x1201, status::REM_INV_REQ_ERR),
            (0x0207, status::REM_INV_REQ_ERR),
        ])
        .runs(|w, (code, want)| {
            let mut c = w.synced("recv=0")?;
            c.post(1, op::READ, 131_072, 8, "raddr=1 rkey=1")?;
            c.post(2, op::READ, 131_072, 8, "raddr=1 rkey=2")?;
            c.tcp.ulpdu()?;
            let second = c.tcp.ulpdu()?;
            c.tcp.fpdu(&terminate(code, Some(&second)))?;
            c.tcp.expect_end(End::Fin)?;
            c.tcp.close();
            c.expect_wc("s", 1, status::FLUSHED)?;
            c.expect_wc("s", 2, want)
        });
}
