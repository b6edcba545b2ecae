// SPDX-License-Identifier: GPL-2.0

//! The verbs program on the other side (`peer_ep`): started as a child, told by lines what to do.
#![forbid(unsafe_code)]

use crate::bytes::{hex, unhex};
use crate::log::Log;
use crate::net::{check, Res, Shown};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;

struct Inner {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    log: Log,
}

/// A handle to the program; all are the same.
#[derive(Clone)]
pub struct Ep(Rc<RefCell<Inner>>);

/// A completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wc {
    pub id: u64,
    pub status: u32,
    pub len: u32,
    pub flags: u32,
    pub invalidated: u32,
}

/// `enum ibv_wc_status`.
pub mod status {
    pub const LOC_LEN_ERR: u32 = 1;
    pub const LOC_QP_OP_ERR: u32 = 2;
    pub const LOC_PROT_ERR: u32 = 4;
    pub const FLUSHED: u32 = 5;
    pub const REM_INV_REQ_ERR: u32 = 9;
    pub const REM_ACCESS_ERR: u32 = 10;
}

/// `enum ibv_event_type`, those of a QP.
pub mod event {
    pub const NONE: i32 = -1;
    pub const FATAL: i32 = 1;
    pub const REQUEST: i32 = 2;
    pub const ACCESS: i32 = 3;
}

/// `enum ibv_qp_state`.
pub mod state {
    pub const INIT: u32 = 1;
    pub const SQD: u32 = 4;
    pub const SQE: u32 = 5;
    pub const ERR: u32 = 6;
}

/// What ended a connection without a Terminate (rsiw-observing.rst).
pub mod ended {
    pub const FIN: u32 = 0x40004;
    pub const RESET: u32 = 0x40005;
}

/// `enum ibv_access_flags`.
pub mod right {
    pub const LOCAL: u32 = 1;
    pub const WRITE: u32 = 2;
    pub const READ: u32 = 4;
    pub const ATOMIC: u32 = 8;
    pub const ZERO_BASED: u32 = 32;
}

/// An event of the connection manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmEvent {
    pub name: String,
    pub status: i32,
    pub ird: u16,
    pub ord: u16,
    pub data: Vec<u8>,
}

impl Ep {
    /// Starts the program; gives the port it listens on.
    pub fn start(program: &str, args: &[String], log: Log) -> Res<(Self, u16)> {
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{program}: {e}"))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".into());
        };
        let from = BufReader::new(from);
        let ep = Ep(Rc::new(RefCell::new(Inner {
            child,
            to,
            from,
            log,
        })));
        let port = ep.reply("start")?;
        let port = port.parse().map_err(|_| format!("no port: {port}"))?;
        Ok((ep, port))
    }

    fn reply(&self, what: &str) -> Res<String> {
        let mut inner = self.0.borrow_mut();
        let mut line = String::new();
        let n = inner.from.read_line(&mut line).map_err(|e| e.to_string())?;
        if n == 0 {
            let status = inner.child.wait().map_or(String::new(), |s| s.to_string());
            return Err(format!("the verbs program died at '{what}': {status}"));
        }
        let line = line.trim_end();
        inner.log.text(format!("     # {what}: {line}"));
        match line.strip_prefix("ok") {
            Some(rest) => Ok(rest.trim_start().to_string()),
            None => Err(format!("'{what}' says {line}")),
        }
    }

    fn tell(&self, lines: &str) -> Res {
        let mut inner = self.0.borrow_mut();
        writeln!(inner.to, "{lines}")
            .and_then(|()| inner.to.flush())
            .map_err(|e| format!("the verbs program is gone: {e}"))
    }

    /// Says a line and gives what follows the "ok".
    pub fn say(&self, line: &str) -> Res<String> {
        self.tell(line)?;
        self.reply(line)
    }

    /// Says some lines before it looks at the answers: what fits into a pipe.
    pub fn say_all(&self, lines: &[String]) -> Res<Vec<String>> {
        self.tell(&lines.join("\n"))?;
        lines.iter().map(|line| self.reply(line)).collect()
    }

    /// The words of the answer, as numbers.
    pub fn numbers(&self, line: &str) -> Res<Vec<u64>> {
        let answer = self.say(line)?;
        let numbers: Result<Vec<u64>, _> = answer.split(' ').map(str::parse).collect();
        numbers.map_err(|_| format!("'{line}' says {answer}"))
    }

    /// A completion of the send ("s") or receive ("r") queue within `ms`.
    pub fn wc(&self, slot: usize, queue: &str, ms: u64) -> Res<Option<Wc>> {
        let line = format!("wc {slot} {queue} {ms}");
        let answer = self.say(&line)?;
        if answer == "none" {
            return Ok(None);
        }
        let n: Vec<u64> = answer.split(' ').filter_map(|w| w.parse().ok()).collect();
        match n[..] {
            [id, status, _, len, flags, invalidated] => Ok(Some(Wc {
                id,
                status: status as u32,
                len: len as u32,
                flags: flags as u32,
                invalidated: invalidated as u32,
            })),
            _ => Err(format!("'{line}' says {answer}")),
        }
    }

    fn cm_event(&self, line: &str) -> Res<Option<CmEvent>> {
        let answer = self.say(line)?;
        let w: Vec<&str> = answer.split(' ').collect();
        match w[..] {
            ["none"] => Ok(None),
            [name, status, ird, ord, data] => Ok(Some(CmEvent {
                name: name.to_string(),
                status: status.parse().unwrap_or(0),
                ird: ird.parse().unwrap_or(0),
                ord: ord.parse().unwrap_or(0),
                data: unhex(data),
            })),
            _ => Err(format!("'{line}' says {answer}")),
        }
    }

    /// The next event of the connection within `ms`.
    pub fn event(&self, slot: usize, ms: u64) -> Res<Option<CmEvent>> {
        self.cm_event(&format!("event {slot} {ms}"))
    }

    /// The request of the TCP connection from `port` within `ms`.
    pub fn request(&self, slot: usize, ms: u64, port: u16) -> Res<Option<CmEvent>> {
        self.cm_event(&format!("request {slot} {ms} {port}"))
    }

    /// The next asynchronous event of the QP within `ms`, or `event::NONE`.
    pub fn async_event(&self, slot: usize, ms: u64) -> Res<i32> {
        let line = format!("async {slot} {ms}");
        let answer = self.say(&line)?;
        answer
            .parse()
            .map_err(|_| format!("'{line}' says {answer}"))
    }

    /// The state of the QP.
    pub fn state(&self, slot: usize) -> Res<u32> {
        let n = self.numbers(&format!("state {slot}"))?;
        Ok(n.first().map_or(u32::MAX, |n| *n as u32))
    }

    /// The QP is in this state.
    pub fn expect_state(&self, slot: usize, want: u32) -> Res {
        match self.state(slot)? {
            state if state == want => Ok(()),
            other => Err(format!("state {other} instead of {want}")),
        }
    }

    /// The driver says that this ended the last connection of the QP with this number.
    pub fn expect_ended_by(&self, qpn: u64, want: u32) -> Res {
        let (pid, qpn) = (self.0.borrow().child.id().to_string(), qpn.to_string());
        let shown = Command::new("rdma")
            .args(["-dd", "resource", "show", "qp", "pid", &pid, "lqpn", &qpn])
            .output()
            .map_err(|e| format!("rdma: {e}"))?;
        let text = String::from_utf8_lossy(&shown.stdout);
        let mut words = text.split_whitespace();
        let got = words.find(|w| *w == "drv_ended_by").and(words.next());
        check("ended_by", got == Some(&format!("{want:#x}")), &text)
    }

    /// What `ss` shows of the driver's socket that is connected to `port`.
    pub fn shown(&self, port: u16) -> Res<Shown> {
        let pid = self.0.borrow().child.id().to_string();
        let ss = ["nsenter", "--target", &pid, "--net", "ss"];
        Shown::of(&ss, &format!("dport = :{port}"))
    }

    /// Octets of the arena.
    pub fn peek(&self, slot: usize, at: usize, len: usize) -> Res<Vec<u8>> {
        Ok(unhex(&self.say(&format!("peek {slot} {at} {len}"))?))
    }

    /// Ends all connections.
    pub fn clean(&self) -> Res {
        self.say("reset").map(|_| ())
    }
}

/// A `pd=` option.
pub fn pd(data: &[u8]) -> String {
    if data.is_empty() {
        String::new()
    } else {
        format!(" pd={}", hex(data))
    }
}
