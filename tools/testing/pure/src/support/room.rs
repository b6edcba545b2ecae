// SPDX-License-Identifier: GPL-2.0

//! Room in one piece at the end of a batch, for both links of the tests.

/// Has room in turn for no FPDU, for one, for three, and for as many as are wanted.
#[derive(Debug, Default)]
pub(super) struct Room {
    turn: usize,
    piece: Vec<u8>,
}

impl Room {
    /// Returns room for some of `count` FPDUs of `len` octets, for `most` of them at most.
    pub(super) fn get(&mut self, len: u32, count: u32, most: u32) -> Option<&mut [u8]> {
        self.turn = (self.turn + 1) % 4;
        let turn = [0, 1, 3, u32::MAX][self.turn];
        let len = len * count.min(turn).min(most);
        if len == 0 {
            return None;
        }
        self.piece = vec![0xa5; len as usize];
        Some(&mut self.piece)
    }

    /// Appends what was written there to `batch`.
    pub(super) fn commit(&mut self, len: u32, batch: &mut Vec<u8>) {
        assert_eq!(self.piece.len(), len as usize, "what was asked for");
        batch.append(&mut self.piece);
    }
}
