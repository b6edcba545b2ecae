// SPDX-License-Identifier: GPL-2.0

//! Every octet that went over the wire, for the report of a scenario. Each line begins with the
//! milliseconds since the first one.
#![forbid(unsafe_code)]

use crate::bytes::hex;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

/// Octets shown of one piece.
const SHOWN: usize = 160;
/// Pieces shown at each end of a long list.
const PIECES: usize = 12;

/// A list that all who talk add to.
#[derive(Clone, Default)]
pub struct Log(Rc<RefCell<Vec<(Instant, String)>>>);

impl Log {
    /// Notes octets; `what` says whose they are.
    pub fn bytes(&self, what: &str, bytes: &[u8]) {
        let shown = &bytes[..bytes.len().min(SHOWN)];
        let more = if bytes.len() > SHOWN { "..." } else { "" };
        self.text(format!("{what} {:5} {}{more}", bytes.len(), hex(shown)));
    }

    /// Notes anything else.
    pub fn text(&self, line: String) {
        self.0.borrow_mut().push((Instant::now(), line));
    }

    /// Takes the lines out, the middle of long lists left out.
    pub fn take(&self) -> Vec<String> {
        let lines = std::mem::take(&mut *self.0.borrow_mut());
        let Some((start, _)) = lines.first().cloned() else {
            return Vec::new();
        };
        let with_time = |(at, line): (Instant, String)| {
            let ms = at.duration_since(start).as_millis();
            format!("{ms:6} {line}")
        };
        let mut lines: Vec<_> = lines.into_iter().map(with_time).collect();
        if lines.len() > 2 * PIECES {
            let end = lines.len() - PIECES;
            lines.splice(PIECES..end, ["...".to_string()]);
        }
        lines
    }
}
