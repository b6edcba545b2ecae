// SPDX-License-Identifier: GPL-2.0

//! Every octet that went over the wire, for the report of a scenario.
#![forbid(unsafe_code)]

use crate::bytes::hex;
use std::cell::RefCell;
use std::rc::Rc;

/// Octets shown of one piece.
const SHOWN: usize = 160;
/// Pieces shown at each end of a long list.
const PIECES: usize = 12;

/// A list that all who talk add to.
#[derive(Clone, Default)]
pub struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    /// Notes octets; `what` says whose they are.
    pub fn bytes(&self, what: &str, bytes: &[u8]) {
        let shown = &bytes[..bytes.len().min(SHOWN)];
        let more = if bytes.len() > SHOWN { "..." } else { "" };
        self.text(format!("{what} {:5} {}{more}", bytes.len(), hex(shown)));
    }

    /// Notes anything else.
    pub fn text(&self, line: String) {
        self.0.borrow_mut().push(line);
    }

    /// Takes the lines out, the middle of long lists left out.
    pub fn take(&self) -> Vec<String> {
        let mut lines = std::mem::take(&mut *self.0.borrow_mut());
        if lines.len() > 2 * PIECES {
            let end = lines.len() - PIECES;
            lines.splice(PIECES..end, ["...".to_string()]);
        }
        lines
    }
}
