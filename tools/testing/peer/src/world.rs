// SPDX-License-Identifier: GPL-2.0

//! What a scenario has: the verbs program, addresses, and connections set up in one call.
#![forbid(unsafe_code)]

use crate::bytes::{self, hex, mpa, words, Read, C, M, REP, REQ, S};
use crate::ep::{pd, CmEvent, Ep, Wc};
use crate::log::Log;
use crate::net::{check, Res, Tcp, QUIET, SOON};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Where region 0 begins in the arena, and its length.
pub const BUFFER: usize = 4096;
pub const BUFFER_LEN: usize = 65536;
/// Where the buffers of receives are.
pub const RECEIVES: usize = 1 << 19;

/// Everything there is.
pub struct World {
    pub ep: Ep,
    pub log: Log,
    /// The driver's listener.
    pub server: SocketAddr,
    /// The own address.
    pub own: IpAddr,
    slots: usize,
}

/// A connection in iWARP mode: this end, and the other one's slot and region 0.
pub struct Conn {
    pub tcp: Tcp,
    pub ep: Ep,
    pub slot: usize,
    pub qpn: u64,
    pub stag: u32,
    pub to: u64,
    /// Address of the arena.
    pub arena: u64,
    /// Numbers of our next messages.
    pub send_msn: u32,
    pub read_msn: u32,
}

impl World {
    pub fn new(ep: Ep, log: Log, server: SocketAddr, own: IpAddr) -> Self {
        World {
            ep,
            log,
            server,
            own,
            slots: 0,
        }
    }

    /// After a scenario.
    pub fn clean(&mut self) -> Res {
        self.slots = 0;
        self.ep.clean()
    }

    /// A number for a connection of this scenario.
    pub fn slot(&mut self) -> usize {
        self.slots += 1;
        (self.slots - 1) % 8
    }

    /// A TCP connection to the driver.
    pub fn tcp(&self) -> Res<Tcp> {
        let limit = Duration::from_millis(SOON);
        let tcp =
            TcpStream::connect_timeout(&self.server, limit).map_err(|e| format!("connect: {e}"))?;
        Tcp::new(tcp, self.log.clone())
    }

    /// Sends `request` and lets the verbs program accept it with these options.
    pub fn serve(&mut self, request: &[u8], options: &str) -> Res<Conn> {
        let mut tcp = self.tcp()?;
        tcp.send(request)?;
        self.answer(tcp, options)
    }

    /// Lets the verbs program accept the request that was sent on `tcp`.
    pub fn answer(&mut self, tcp: Tcp, options: &str) -> Res<Conn> {
        let slot = self.slot();
        let line = format!("serve {slot} {SOON} {} {options}", tcp.port());
        let n = self.ep.numbers(&line)?;
        conn(tcp, &self.ep, slot, &n)
    }

    /// Sets up a connection: unenhanced, with CRC.
    pub fn conn(&mut self) -> Res<Conn> {
        self.conn_with("")
    }

    /// The same with options for the verbs program.
    pub fn conn_with(&mut self, options: &str) -> Res<Conn> {
        let mut c = self.serve(&mpa(REQ, C, 1, &[]), options)?;
        c.tcp.expect("Reply", &mpa(REP, C, 1, &[]))?;
        Ok(c)
    }

    /// The same, and the driver has seen an FPDU, without which a responder sends none.
    pub fn synced(&mut self, options: &str) -> Res<Conn> {
        let mut c = self.conn_with(options)?;
        c.sync()?;
        Ok(c)
    }

    /// An enhanced set-up with these flags (A=8, B=4, C=2, D=1) and depths; gives those of the
    /// Reply too.
    pub fn enhanced(
        &mut self,
        abcd: u8,
        ird: u16,
        ord: u16,
        options: &str,
    ) -> Res<(Conn, (u8, u16, u16))> {
        let request = mpa(REQ, C | S, 2, &words(abcd, ird, ord));
        let mut c = self.serve(&request, options)?;
        c.tcp
            .expect("Reply header", &mpa(REP, C | S, 2, &[0; 4])[..20])?;
        let w = c.tcp.take(4)?;
        Ok((c, bytes::read_words(&w)))
    }

    /// A listener for the verbs program to connect to.
    pub fn listen(&self) -> Res<TcpListener> {
        TcpListener::bind((self.own, 0)).map_err(|e| format!("listen: {e}"))
    }

    /// Lets the verbs program connect to `listener`; gives this end with its Request read, the
    /// slot, and what creation printed.
    pub fn dialled(&mut self, listener: &TcpListener, options: &str) -> Res<(Conn, Vec<u8>)> {
        let port = listener.local_addr().map_err(|e| e.to_string())?.port();
        let slot = self.slot();
        self.ep
            .say(&format!("resolve {slot} {} {port}", self.own))?;
        let n = self.ep.numbers(&format!("create {slot} {options}"))?;
        self.ep.say(&format!("connect {slot} {options}"))?;
        let tcp = self.take(listener)?;
        let mut c = conn(tcp, &self.ep, slot, &n)?;
        let request = c.request()?;
        Ok((c, request))
    }

    /// Accepts a TCP connection.
    pub fn take(&self, listener: &TcpListener) -> Res<Tcp> {
        listener.set_nonblocking(true).map_err(|e| e.to_string())?;
        let until = Instant::now() + Duration::from_millis(SOON);
        while Instant::now() < until {
            if let Ok((tcp, _)) = listener.accept() {
                tcp.set_nonblocking(false).map_err(|e| e.to_string())?;
                return Tcp::new(tcp, self.log.clone());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(format!("nobody connects within {SOON} ms"))
    }

    /// The driver connected to us in peer-to-peer mode, with a Write as the first message, and
    /// nothing of it is left to be read. `flags` and the depths are those of the Reply.
    pub fn active_with(&mut self, options: &str, flags: u8, ird: u16, ord: u16) -> Res<Conn> {
        let listener = self.listen()?;
        let (mut c, _) = self.dialled(&listener, options)?;
        c.tcp.send(&mpa(REP, flags, 2, &words(8 | 2, ird, ord)))?;
        if flags & M != 0 {
            c.tcp.expect_markers();
        }
        c.expect_event("ESTABLISHED", 0)?;
        let rtr = c.tcp.ulpdu()?;
        if rtr[..2] != [0xc1, 0x40] || rtr.len() != 14 {
            return Err(format!("first message {}", hex(&rtr)));
        }
        Ok(c)
    }
}

fn conn(tcp: Tcp, ep: &Ep, slot: usize, created: &[u64]) -> Res<Conn> {
    let [qpn, stag, to, arena] = created[..] else {
        return Err(format!("created: {created:?}"));
    };
    Ok(Conn {
        tcp,
        ep: ep.clone(),
        slot,
        qpn,
        stag: stag as u32,
        to,
        arena,
        send_msn: 1,
        read_msn: 1,
    })
}

impl Conn {
    /// The MPA Request of the driver.
    pub fn request(&mut self) -> Res<Vec<u8>> {
        let mut frame = self.tcp.take(20)?;
        let n = usize::from(u16::from_be_bytes([frame[18], frame[19]]));
        frame.extend(self.tcp.take(n)?);
        Ok(frame)
    }

    /// Tells the verbs program something about this connection.
    pub fn say(&self, command: &str, rest: &str) -> Res<String> {
        self.ep.say(&format!("{command} {} {rest}", self.slot))
    }

    /// Sends a Send of one segment.
    pub fn send(&mut self, payload: &[u8]) -> Res {
        let ulpdu = bytes::send(self.send_msn, payload);
        self.send_msn += 1;
        self.tcp.fpdu(&ulpdu)
    }

    /// The next receive completes with this many octets.
    pub fn received(&self, id: u64, len: usize) -> Res {
        let wc = self.wc("r")?;
        let good = (wc.id, wc.status, wc.len) == (id, 0, len as u32);
        check(&format!("receive {id} of {len} octets"), good, wc)
    }

    /// A completion that has to come.
    pub fn wc(&self, queue: &str) -> Res<Wc> {
        let wc = self.ep.wc(self.slot, queue, SOON)?;
        wc.ok_or(format!("no completion ({queue}) within {SOON} ms"))
    }

    /// The next completion of a queue has this status.
    pub fn expect_wc(&self, queue: &str, id: u64, status: u32) -> Res {
        let wc = self.wc(queue)?;
        let good = (wc.id, wc.status) == (id, status);
        check(&format!("number {id} with status {status}"), good, wc)
    }

    /// Takes the next completion of the send queue, which has to be a good one. Returns whether
    /// there is one: none comes once TCP is full, until something is read here.
    pub fn completes(&self) -> Res<bool> {
        let until = Instant::now() + Duration::from_millis(SOON);
        loop {
            let is_full = self.is_full()?;
            if is_full {
                // TCP takes nothing more. Whoever was still at work on the queue pair is through
                // when a change of it is, here of nothing.
                self.say("modify", "")?;
            }
            match self.ep.wc(self.slot, "s", 0)? {
                Some(wc) => return check("completion", wc.status == 0, wc).map(|()| true),
                None if is_full => return Ok(false),
                None if Instant::now() > until => {
                    return Err(format!("neither completed nor held up within {SOON} ms"))
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Whether TCP is full on both sides: this side's refuses what comes, the driver's knows of all
    /// that was taken before, and has no room for more.
    fn is_full(&self) -> Res<bool> {
        let here = self.tcp.shown()?;
        if here.number("d")? == 0 {
            return Ok(false);
        }
        let there = self.ep.shown(self.tcp.port())?;
        let told = there.number("bytes_acked:")? >= here.number("bytes_received:")?;
        Ok(told && there.number("w")? >= there.number("tb")?)
    }

    /// No completion comes.
    pub fn no_wc(&self, queue: &str) -> Res {
        let wc = self.ep.wc(self.slot, queue, QUIET)?;
        check("no completion", wc.is_none(), wc)
    }

    /// The next event of the connection manager.
    pub fn event(&self) -> Res<CmEvent> {
        let event = self.ep.event(self.slot, SOON)?;
        event.ok_or(format!("no event within {SOON} ms"))
    }

    /// The next event is this one.
    pub fn expect_event(&self, name: &str, status: i32) -> Res<CmEvent> {
        let event = self.event()?;
        if event.name == name && event.status == status {
            return Ok(event);
        }
        Err(format!("event {event:?} instead of {name} {status}"))
    }

    /// The next asynchronous event is this one, and there is no other.
    pub fn expect_async(&self, want: i32) -> Res {
        let next = |ms| self.ep.async_event(self.slot, ms);
        let got = next(if want < 0 { QUIET } else { SOON })?;
        let more = if got < 0 { got } else { next(1)? };
        let good = got == want && more < 0;
        check(&format!("asynchronous event {want}"), good, (got, more))
    }

    /// The driver says that this ended the connection.
    pub fn expect_ended_by(&self, want: u32) -> Res {
        self.ep.expect_ended_by(self.qpn, want)
    }

    /// A Read Request for `len` octets of region 0 that names a sink of ours.
    pub fn read(&self, at: u64, len: u32) -> Read {
        Read {
            sink: (0x1234_5678, 0x10_0000_0000),
            len,
            source: (self.stag, self.to.wrapping_add(at)),
        }
    }

    /// Sends a Read Request.
    pub fn ask(&mut self, read: &Read) -> Res {
        let ulpdu = read.request(self.read_msn);
        self.read_msn += 1;
        self.tcp.fpdu(&ulpdu)
    }

    /// The response to `read` comes, in order and whole; gives its payload.
    pub fn response(&mut self, read: &Read) -> Res<Vec<u8>> {
        let mut data = Vec::new();
        loop {
            let seg = self.tcp.ulpdu()?;
            let to = read.sink.1 + data.len() as u64;
            let last = data.len() + seg.len().saturating_sub(14) >= read.len as usize;
            let control = if last { bytes::T_LAST } else { bytes::T };
            let want = bytes::tagged(control, bytes::READ_RESP, read.sink.0, to, &[]);
            if seg.len() < 14 || seg[..14] != want[..] {
                return Err(format!(
                    "Read Response {} instead of {}",
                    hex(&seg[..seg.len().min(18)]),
                    hex(&want)
                ));
            }
            data.extend(&seg[14..]);
            if last && data.len() == read.len as usize {
                return Ok(data);
            } else if last {
                return Err(format!("{} octets for a Read of {}", data.len(), read.len));
            }
        }
    }

    /// Asks for nothing.
    pub fn sync_later(&mut self) -> Res {
        self.ask(&NOTHING)
    }

    /// All that was sent has been taken in: a Read of nothing is answered.
    pub fn sync(&mut self) -> Res {
        self.sync_later()?;
        self.response(&NOTHING).map(|_| ())
    }

    /// Region 0 holds these octets.
    pub fn expect_buffer(&self, at: usize, want: &[u8]) -> Res {
        self.expect_arena(BUFFER + at, want)
    }

    /// The arena holds these octets.
    pub fn expect_arena(&self, at: usize, want: &[u8]) -> Res {
        let got = self.ep.peek(self.slot, at, want.len())?;
        match got.iter().zip(want).position(|(a, b)| a != b) {
            None => Ok(()),
            Some(n) => Err(format!(
                "memory differs at {}: {:02x} instead of {:02x}",
                at + n,
                got[n],
                want[n]
            )),
        }
    }

    /// Octets of region 0 nobody has written to.
    pub fn expect_untouched(&self, at: usize, len: usize) -> Res {
        self.expect_buffer(at, &vec![0xee; len])
            .map_err(|e| format!("something was placed: {e}"))
    }

    /// Posts a request with number `id`; `rest` are options.
    pub fn post(&self, id: u64, opcode: u32, at: usize, len: usize, rest: &str) -> Res {
        self.say("send", &format!("{id} {opcode} {at} {len} {rest}"))
            .map(|_| ())
    }
}

/// A Read of nothing, whose keys nobody may look at (T-23).
const NOTHING: Read = Read {
    sink: (7, 9),
    len: 0,
    source: (0xdead_beef, u64::MAX),
};

/// `enum ibv_wr_opcode`.
pub mod op {
    pub const WRITE: u32 = 0;
    pub const SEND: u32 = 2;
    pub const READ: u32 = 4;
}

/// Options with private data.
pub fn with_data(options: &str, data: &[u8]) -> String {
    format!("{options}{}", pd(data))
}
