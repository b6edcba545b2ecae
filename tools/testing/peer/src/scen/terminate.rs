// SPDX-License-Identifier: GPL-2.0

//! Terminates that the driver receives (RFC 5040 sections 4.8, 5.4 and 6.2.1).
#![forbid(unsafe_code)]

use crate::bytes::{
    self, fpdu, fpdu_odd, terminate, terminate_raw, untagged, write, TERMINATE, U, U_LAST,
};
use crate::ep::{event, state, status};
use crate::net::{End, Res, END, SOON};
use crate::scenario::List;
use crate::world::{op, Conn, World};

/// The driver takes `ulpdu` for the end: an event, no Terminate back, FIN, all flushed.
fn ended(w: &mut World, class: i32, ulpdu: &[u8]) -> Res {
    let mut c = w.conn_with("recv=1")?;
    c.sync()?;
    c.tcp.fpdu(ulpdu)?;
    over(c, class)?;
    w.clean()
}

/// What has to follow a Terminate that the driver received; the event tells its class (V-AE-2).
fn over(mut c: Conn, class: i32) -> Res {
    c.tcp.expect_end(End::Fin)?;
    c.expect_async(class)?;
    c.expect_event("ESTABLISHED", 0)?;
    // The driver waits for ours before it is through.
    c.tcp.fin();
    c.expect_event("DISCONNECTED", 0)?;
    let (ep, slot) = (c.ep.clone(), c.slot);
    drop(c.tcp);
    let wc = ep
        .wc(slot, "r", SOON)?
        .ok_or("the receive is not flushed")?;
    if (wc.id, wc.status) != (0, status::FLUSHED) {
        return Err(format!("{wc:?}"));
    }
    ep.expect_state(slot, state::ERR)
}

pub fn add(list: &mut List) {
    list.add(
        "V-ST-15 V-CM-8 P-RDMAP-18 V-AE-2 V-TM-9 P-TERM-2",
        "Terminates of all kinds: event, no Terminate back, FIN, flushed",
        |w| {
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
        },
    );
    list.add(
        "X-IANA-1",
        "codes that nobody has assigned are tolerated",
        |w| {
            for code in [0x0a7f, 0xffff, 0x10ff, 0x3000] {
                let [a, b] = u16::to_be_bytes(code);
                ended(w, event::FATAL, &terminate_raw(&[a, b, 0, 0]))?;
            }
            Ok(())
        },
    );
    list.add("P-TERM-3", "reserved bits are ignored", |w| {
        ended(w, event::ACCESS, &terminate_raw(&[0x11, 0, 0x1f, 0xff]))
    });
    list.add(
        "P-TERM-2",
        "parts that are announced but missing, or cut, or too much",
        |w| {
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
        },
    );
    list.add(
        "P-TERM-10",
        "a Terminate one octet per segment, and cut at every octet",
        |w| {
            let bytes = fpdu(&terminate(0x1101, Some(&write(1, 2, b"data"))));
            for cut in 0..bytes.len() {
                let mut c = w.conn_with("recv=1")?;
                c.sync()?;
                if cut == 0 {
                    c.tcp.drip(&bytes)?;
                } else {
                    c.tcp.send(&bytes[..cut])?;
                    c.tcp.send(&bytes[cut..])?;
                }
                over(c, event::ACCESS).map_err(|e| format!("cut {cut}: {e}"))?;
                w.clean()?;
            }
            Ok(())
        },
    );
    list.add(
        "P-TERM-9",
        "a Terminate with a wrong CRC is not believed: 0x2002 goes back",
        |w| {
            let mut c = w.conn()?;
            c.sync()?;
            c.tcp.send(&fpdu_odd(&terminate(0x1100, None), 0, 1 << 9))?;
            c.tcp.expect_terminate(0x2002, None)
        },
    );
    list.add(
        "P-ERR-29 D-DDP-23 V-TM-4",
        "what follows a Terminate is ignored",
        |w| {
            let mut c = w.conn_with("recv=1")?;
            c.sync()?;
            let mut bytes = fpdu(&terminate(0x0000, None));
            bytes.extend(fpdu(&write(c.stag, c.to, b"late")));
            bytes.extend(fpdu(&bytes::send(1, b"late")));
            bytes.extend(fpdu_odd(&bytes::send(1, b"late"), 0, 1));
            c.tcp.send(&bytes)?;
            c.expect_untouched(0, 8)?;
            over(c, event::FATAL)
        },
    );
    list.add(
        "P-RDMAP-17",
        "a Terminate with odd number, offset or without the last flag ends all the same",
        |w| {
            for (control, at) in [
                (U_LAST, [2, 2, 0]),
                (U_LAST, [2, 0, 0]),
                (U_LAST, [2, 1, 4]),
                (U, [2, 1, 0]),
            ] {
                let mut c = w.conn()?;
                c.sync()?;
                c.tcp
                    .fpdu(&untagged(control, TERMINATE, 0, at, &[0x11, 0, 0, 0]))?;
                let (_, end) = c.tcp.rest(END)?;
                end.ok_or(format!("{at:?}: the stream does not end"))?;
            }
            Ok(())
        },
    );
    list.add(
        "P-RDMAP-18 V-ST-19",
        "requests behind a received Terminate are flushed, nothing is sent",
        |w| {
            let mut c = w.conn_with("recv=0")?;
            c.sync()?;
            c.tcp.fpdu(&terminate(0x0000, None))?;
            c.tcp.expect_end(End::Fin)?;
            c.post(1, op::SEND, 0, 8, "")?;
            c.post(2, op::WRITE, 0, 8, "raddr=1 rkey=1")?;
            let (ep, slot) = (w.ep.clone(), c.slot);
            drop(c.tcp);
            for id in [1, 2] {
                let wc = ep.wc(slot, "s", SOON)?.ok_or("not flushed")?;
                if (wc.id, wc.status) != (id, status::FLUSHED) {
                    return Err(format!("{wc:?}"));
                }
            }
            Ok(())
        },
    );
    list.add(
        "P-RDMAP-18",
        "a Read that waits for its response is flushed",
        |w| {
            let mut c = w.conn_with("recv=0")?;
            c.sync()?;
            c.post(1, op::READ, 131_072, 8, "raddr=1 rkey=1")?;
            c.tcp.ulpdu()?;
            c.tcp.fpdu(&terminate(0x0000, None))?;
            c.tcp.expect_end(End::Fin)?;
            let (ep, slot) = (w.ep.clone(), c.slot);
            drop(c.tcp);
            let wc = ep.wc(slot, "s", SOON)?.ok_or("not flushed")?;
            if wc.id != 1 || wc.status == 0 {
                return Err(format!("{wc:?}"));
            }
            Ok(())
        },
    );
    list.add(
        "V-WC-5",
        "a Terminate that quotes a Read fails that Read with the peer's reason",
        |w| {
            const ACCESS: u32 = 10;
            // What user space gets has no REM_OP_ERR, so 0x0207 is one of these too.
            const REQUEST: u32 = status::REM_INV_REQ_ERR;
            for (code, want) in [
                (0x0100, ACCESS),
                (0x0102, ACCESS),
                (0x1201, REQUEST),
                (0x0207, REQUEST),
            ] {
                let mut c = w.conn_with("recv=0")?;
                c.sync()?;
                c.post(1, op::READ, 131_072, 8, "raddr=1 rkey=1")?;
                c.post(2, op::READ, 131_072, 8, "raddr=1 rkey=2")?;
                c.tcp.ulpdu()?;
                let second = c.tcp.ulpdu()?;
                c.tcp.fpdu(&terminate(code, Some(&second)))?;
                c.tcp.expect_end(End::Fin)?;
                let (ep, slot) = (w.ep.clone(), c.slot);
                drop(c.tcp);
                for (id, status) in [(1, status::FLUSHED), (2, want)] {
                    let wc = ep.wc(slot, "s", SOON)?.ok_or("no completion")?;
                    if (wc.id, wc.status) != (id, status) {
                        return Err(format!("0x{code:04x}: {wc:?} instead of {status}"));
                    }
                }
            }
            Ok(())
        },
    );
}
