// SPDX-License-Identifier: GPL-2.0

//! A TCP connection that is read with time limits, and the FPDUs on it.
#![forbid(unsafe_code)]

use crate::bytes::{fpdu, hex, terminate};
use crate::crc::crc32c;
use crate::ffi;
use crate::log::Log;
use std::fmt::Debug;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

/// What goes wrong in a scenario, as text.
pub type Res<T = ()> = Result<T, String>;

/// Fails with what there is instead, unless it is `good`.
pub fn check(what: &str, good: bool, got: impl Debug) -> Res {
    if good {
        Ok(())
    } else {
        Err(format!("{what}: {got:?}"))
    }
}

/// Two rows of octets are the same.
pub fn same(what: &str, got: &[u8], want: &[u8]) -> Res {
    if got == want {
        return Ok(());
    }
    let (got, want) = (short(got), short(want));
    Err(format!("{what}:\n  got  {got}\n  want {want}"))
}

/// Milliseconds for what has to come, on a slow machine too.
pub const SOON: u64 = 30_000;
/// The same for the end of a stream: less than after which the driver would end one that waits.
pub const END: u64 = 10_000;
/// Milliseconds of silence that show that something does not come.
pub const QUIET: u64 = 60;

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Fin,
    Reset,
}

/// One end of a connection.
pub struct Tcp {
    /// None once it is closed here.
    tcp: Option<TcpStream>,
    log: Log,
    unread: Vec<u8>,
    end: Option<End>,
    /// Octets of stream read as FPDUs, where the peer was asked for markers.
    markers: Option<usize>,
    /// CRCs are checked.
    pub crc: bool,
    /// How much one read takes at most, and how long to wait before it.
    sip: Option<(usize, Duration)>,
}

impl Tcp {
    pub fn new(tcp: TcpStream, log: Log) -> Res<Self> {
        tcp.set_nodelay(true).map_err(|e| e.to_string())?;
        Ok(Tcp {
            tcp: Some(tcp),
            log,
            unread: Vec::new(),
            end: None,
            markers: None,
            crc: true,
            sip: None,
        })
    }

    fn stream(&self) -> io::Result<&TcpStream> {
        self.tcp.as_ref().ok_or(ErrorKind::NotConnected.into())
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.stream()?.write_all(bytes)
    }

    /// The own port.
    pub fn port(&self) -> u16 {
        let addr = self.stream().and_then(TcpStream::local_addr);
        addr.map_or(0, |a| a.port())
    }

    /// What comes from now on has markers.
    pub fn expect_markers(&mut self) {
        self.markers = Some(0);
    }

    pub fn send(&mut self, bytes: &[u8]) -> Res {
        self.log.bytes("->", bytes);
        self.write(bytes).map_err(|e| format!("send: {e}"))
    }

    /// Sends what may be refused because the other side is through.
    pub fn send_anyway(&mut self, bytes: &[u8]) {
        self.log.bytes("->", bytes);
        let _ = self.write(bytes);
    }

    /// Sends an ULPDU as an FPDU.
    pub fn fpdu(&mut self, ulpdu: &[u8]) -> Res {
        self.send(&fpdu(ulpdu))
    }

    /// Sends each octet in a segment of its own.
    pub fn drip(&mut self, bytes: &[u8]) -> Res {
        for b in bytes {
            self.write(&[*b]).map_err(|e| format!("send: {e}"))?;
        }
        self.log.bytes("-> (one by one)", bytes);
        Ok(())
    }

    pub fn fin(&mut self) {
        self.log.text("-> FIN".into());
        let _ = self.stream().map(|tcp| tcp.shutdown(Shutdown::Write));
    }

    pub fn reset(&mut self) {
        self.log.text("-> RST".into());
        if let Some(tcp) = self.tcp.take() {
            ffi::reset_on_close(&tcp);
        }
    }

    /// Closes this end, as its program does that is through.
    pub fn close(&mut self) {
        self.tcp = None;
    }

    /// Takes in what comes within `ms`; false if that is nothing.
    fn fill(&mut self, ms: u64) -> Res<bool> {
        if self.end.is_some() {
            return Ok(false);
        }
        let limit = Duration::from_millis(ms.max(1));
        let mut buf = [0; 65536];
        let mut room = &mut buf[..];
        if let Some((most, pause)) = self.sip {
            std::thread::sleep(pause);
            room = &mut buf[..most];
        }
        let read = |mut tcp: &TcpStream| {
            tcp.set_read_timeout(Some(limit))?;
            tcp.read(room)
        };
        match self.stream().and_then(read) {
            Ok(0) => {
                self.log.text("<- FIN".into());
                self.end = Some(End::Fin);
                Ok(true)
            }
            Ok(n) => {
                self.log.bytes("<-", &buf[..n]);
                self.unread.extend(&buf[..n]);
                Ok(true)
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(false),
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(true),
            Err(e) if e.kind() == ErrorKind::ConnectionReset => {
                self.log.text("<- RST".into());
                self.end = Some(End::Reset);
                Ok(true)
            }
            Err(e) => Err(format!("receive: {e}")),
        }
    }

    /// The next `n` octets of the stream.
    pub fn take(&mut self, n: usize) -> Res<Vec<u8>> {
        let until = Instant::now() + Duration::from_millis(SOON);
        while self.unread.len() < n {
            let left = until.saturating_duration_since(Instant::now());
            if !self.fill(left.as_millis() as u64)? {
                let what = match self.end {
                    Some(end) => format!("the stream ended ({end:?})"),
                    None => format!("silence for {SOON} ms"),
                };
                return Err(format!("{what}, {} of {n} octets came", self.unread.len()));
            }
        }
        Ok(self.unread.drain(..n).collect())
    }

    /// Exactly these octets come.
    pub fn expect(&mut self, what: &str, bytes: &[u8]) -> Res {
        let got = self.take(bytes.len()).map_err(|e| format!("{what}: {e}"))?;
        same(what, &got, bytes)
    }

    /// Octets of an FPDU, without the marker that may stand in front of them.
    fn piece(&mut self, n: usize, start: usize, all: &mut Vec<u8>) -> Res<Vec<u8>> {
        let mut out = Vec::new();
        while out.len() < n {
            let Some(at) = self.markers else {
                let bytes = self.take(n)?;
                all.extend(&bytes);
                return Ok(bytes);
            };
            if at % 512 == 0 {
                let marker = self.take(4)?;
                let back = if all.is_empty() {
                    0
                } else {
                    (at - start) as u16
                };
                let [hi, lo] = back.to_be_bytes();
                if marker != [0, 0, hi, lo] {
                    return Err(format!(
                        "marker at {at}: {} instead of a pointer {back}",
                        hex(&marker)
                    ));
                }
                all.extend(&marker);
                self.markers = Some(at + 4);
                continue;
            }
            let bytes = self.take((512 - at % 512).min(n - out.len()))?;
            self.markers = Some(at + bytes.len());
            all.extend(&bytes);
            out.extend(bytes);
        }
        Ok(out)
    }

    /// The ULPDU of the next FPDU, whose pad and CRC are right (M-MPA-1, M-MPA-2, M-MPA-4).
    pub fn ulpdu(&mut self) -> Res<Vec<u8>> {
        let mut all = Vec::new();
        // A marker in front of the length field is none that points back.
        if self.markers.is_some_and(|at| at % 512 == 0) {
            let marker = self.take(4)?;
            if marker != [0; 4] {
                return Err(format!("marker between FPDUs: {}", hex(&marker)));
            }
            all.extend(&marker);
            self.markers = self.markers.map(|at| at + 4);
        }
        let start = self.markers.unwrap_or(0);
        let len = self.piece(2, start, &mut all)?;
        let len = usize::from(u16::from_be_bytes([len[0], len[1]]));
        let ulpdu = self.piece(len, start, &mut all)?;
        let pad = self.piece((4 - (len + 2) % 4) % 4, start, &mut all)?;
        if pad.iter().any(|b| *b != 0) {
            return Err(format!("pad {}", hex(&pad)));
        }
        // The marker right behind the pad belongs to this FPDU (M-MPA-17).
        if self.markers.is_some_and(|at| at % 512 == 0) {
            self.piece_marker(start, &mut all)?;
        }
        let want = crc32c(&all);
        let crc = self.piece(4, start, &mut Vec::from([0]))?;
        if self.crc && crc != want {
            return Err(format!("CRC {} instead of {}", hex(&crc), hex(&want)));
        }
        Ok(ulpdu)
    }

    fn piece_marker(&mut self, start: usize, all: &mut Vec<u8>) -> Res {
        let at = self.markers.unwrap_or(0);
        let marker = self.take(4)?;
        let [hi, lo] = ((at - start) as u16).to_be_bytes();
        if marker != [0, 0, hi, lo] {
            return Err(format!("marker behind the pad at {at}: {}", hex(&marker)));
        }
        all.extend(&marker);
        self.markers = Some(at + 4);
        Ok(())
    }

    /// Exactly this ULPDU comes.
    pub fn expect_ulpdu(&mut self, what: &str, want: &[u8]) -> Res {
        let got = self.ulpdu().map_err(|e| format!("{what}: {e}"))?;
        same(what, &got, want)
    }

    /// The Terminate for `code`, bit by bit, then a FIN and nothing else (P-RDMAP-17).
    pub fn expect_terminate(&mut self, code: u16, bad: Option<&[u8]>) -> Res {
        self.expect_ulpdu(&format!("Terminate 0x{code:04x}"), &terminate(code, bad))?;
        self.expect_end(End::Fin)
    }

    /// The stream ends this way, and no further octet comes.
    pub fn expect_end(&mut self, want: End) -> Res {
        match self.end()? {
            end if end == want => Ok(()),
            end => Err(format!("the stream ends with {end:?} instead of {want:?}")),
        }
    }

    /// The stream ends one way or the other, and no further octet comes.
    pub fn expect_closed(&mut self) -> Res {
        self.end().map(|_| ())
    }

    /// How the stream ends, with no further octet.
    fn end(&mut self) -> Res<End> {
        let (rest, end) = self.rest(END)?;
        if !rest.is_empty() {
            return Err(format!(
                "{} octets before the end: {}",
                rest.len(),
                short(&rest)
            ));
        }
        end.ok_or(format!("the stream does not end within {END} ms"))
    }

    /// What comes until the end, or until nothing has come for `ms`.
    pub fn rest(&mut self, ms: u64) -> Res<(Vec<u8>, Option<End>)> {
        while self.end.is_none() && self.fill(ms)? {}
        Ok((std::mem::take(&mut self.unread), self.end))
    }

    /// Nothing comes for a while, the end neither.
    pub fn expect_silence(&mut self, ms: u64) -> Res {
        if self.unread.is_empty() && !self.fill(ms)? && self.end.is_none() {
            return Ok(());
        }
        Err(format!(
            "not silent: {} {:?}",
            short(&self.unread),
            self.end
        ))
    }

    /// What `ss` shows of this socket.
    pub fn shown(&self) -> Res<Shown> {
        Shown::of(&["ss"], &format!("sport = :{}", self.port()))
    }

    /// Reads at most `most` octets at a time from now on, `ms` milliseconds apart.
    pub fn read_slowly(&mut self, most: usize, ms: u64) {
        self.sip = Some((most, Duration::from_millis(ms)));
    }

    /// Lets no more than about `bytes` come in before they are read.
    pub fn small_window(&self, bytes: i32) {
        let _ = self.stream().map(|tcp| ffi::small_window(tcp, bytes));
    }
}

/// What `ss` shows of a socket.
pub struct Shown(String);

impl Shown {
    /// Of the connected socket that fits `filter`; `ss` is how the program is called.
    pub fn of(ss: &[&str], filter: &str) -> Res<Self> {
        let options = ["-Htmin", "state", "connected", filter];
        let shown = Command::new(ss[0]).args(&ss[1..]).args(options).output();
        let shown = shown.map_err(|e| format!("{ss:?}: {e}"))?;
        Ok(Shown(String::from_utf8_lossy(&shown.stdout).into_owned()))
    }

    /// The number right behind this name.
    pub fn number(&self, name: &str) -> Res<u64> {
        let mut words = self.0.split([' ', '\t', '\n', '(', ',', ')']);
        let number = words.find_map(|w| w.strip_prefix(name)?.parse().ok());
        number.ok_or(format!("no number behind '{name}': {}", self.0))
    }
}

/// The beginning of long octets.
pub fn short(bytes: &[u8]) -> String {
    if bytes.len() > 120 {
        format!("{}... ({} octets)", hex(&bytes[..120]), bytes.len())
    } else {
        hex(bytes)
    }
}
