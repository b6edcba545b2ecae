// SPDX-License-Identifier: GPL-2.0

//! Any segmentation gives the same FPDUs (M-MPA-11, M-MPA-13, P-TERM-10).

use crate::proto::deframer::{Chunk, Deframer, Fpdu, Next, Reach, Source};
use crate::support::piece::{next, Piece};
use crate::support::rng::{Choices, Rng};
use crate::wire::fpdu::{fpdu_len, MAX_FPDU};
use crate::wire::terminate::TermError;

/// A stream of FPDUs with these ULPDU lengths, recognisable contents.
fn stream(lens: &[u16]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut rng = Rng::new(lens.len() as u64);
    let fpdus: Vec<Vec<u8>> = lens
        .iter()
        .map(|&len| {
            let mut fpdu = rng.bytes(fpdu_len(len));
            fpdu[..2].copy_from_slice(&len.to_be_bytes());
            fpdu
        })
        .collect();
    (fpdus.concat(), fpdus)
}

fn deframer() -> Deframer<Vec<u8>> {
    let mut deframer = Deframer::new();
    deframer.set_buffer(vec![0; MAX_FPDU]);
    deframer
}

/// What a deframer makes of a stream.
#[derive(Default)]
struct Found {
    fpdus: Vec<Vec<u8>>,
    /// Those that were used where they are.
    in_place: usize,
    /// Those of them that ended behind their chunk.
    joined: usize,
}

impl Found {
    fn add(&mut self, fpdu: &Fpdu<'_, Piece<'_>>) {
        assert_eq!(fpdu.len, fpdu_len(fpdu.ulpdu_len));
        let mut octets = vec![0; fpdu.len];
        fpdu.source.copy_to(0, &mut octets).expect("all is there");
        assert!(octets.starts_with(&fpdu.front));
        self.in_place += usize::from(matches!(fpdu.source, Source::Chunk { .. }));
        self.fpdus.push(octets);
    }

    /// Takes what a deframer finds in a chunk, as a receiver does. Returns how much of it was used.
    fn feed(&mut self, deframer: &mut Deframer<Vec<u8>>, chunk: &Piece<'_>) -> usize {
        let mut at = deframer.skip(chunk.len());
        loop {
            if let Some(fpdu) = deframer.collected().expect("it fits") {
                self.add(&fpdu);
                deframer.use_up_collected();
            }
            let left = chunk.len() - at;
            at += match next(deframer, chunk, at).expect("no length is wrong") {
                Next::Nothing => return at,
                Next::Collected(n) => {
                    assert!(n > 0);
                    n
                }
                Next::Fpdu(fpdu) => {
                    self.add(&fpdu);
                    self.joined += usize::from(fpdu.len > left);
                    deframer.use_up(fpdu.len, left)
                }
            };
        }
    }
}

/// Runs a stream through a deframer in chunks of these lengths, each by itself.
fn apart(mut bytes: &[u8], lens: impl IntoIterator<Item = usize>) -> Found {
    let (mut deframer, mut found) = (deframer(), Found::default());
    for len in lens {
        let (chunk, rest) = bytes.split_at(len.min(bytes.len()));
        assert_eq!(found.feed(&mut deframer, &Piece::all(chunk)), chunk.len());
        bytes = rest;
    }
    assert!(bytes.is_empty() && !deframer.is_collecting());
    assert_eq!(found.joined, 0);
    found
}

/// The same, where chunks behind can be read.
fn joined(mut bytes: &[u8], lens: impl IntoIterator<Item = usize>) -> Found {
    let (mut deframer, mut found) = (deframer(), Found::default());
    for len in lens {
        let len = len.min(bytes.len());
        let chunk = Piece::front(bytes, len, Reach::Apart);
        assert_eq!(found.feed(&mut deframer, &chunk), len);
        bytes = &bytes[len..];
    }
    assert!(bytes.is_empty() && !deframer.is_collecting());
    assert_eq!(found.in_place, found.fpdus.len());
    found
}

fn equal(bytes: &[u8], len: usize) -> impl Iterator<Item = usize> {
    std::iter::repeat_n(len, bytes.len().div_ceil(len))
}

#[test]
fn whole_fpdus_are_used_in_place() {
    let (bytes, want) = stream(&[14, 18, 1442, 46, 65535]);
    let found = apart(&bytes, [bytes.len()]);
    assert_eq!((found.fpdus, found.in_place), (want, 5));
}

#[test]
fn m_mpa_13_fpdu_at_every_cut() {
    let (bytes, want) = stream(&[18, 14, 15, 16, 17, 46, 70, 128]);
    for cut in 0..=bytes.len() {
        let two = [cut, bytes.len() - cut];
        assert_eq!(apart(&bytes, two).fpdus, want, "cut at {cut}");
        assert_eq!(joined(&bytes, two).fpdus, want, "cut at {cut}");
        for more in cut..=bytes.len().min(cut + 80) {
            let three = [cut, more - cut, bytes.len() - more];
            assert_eq!(apart(&bytes, three).fpdus, want, "cut at {cut}, {more}");
            assert_eq!(joined(&bytes, three).fpdus, want, "cut at {cut}, {more}");
        }
    }
}

#[test]
fn m_mpa_13_equal_chunks_of_every_size() {
    let (bytes, want) = stream(&[18, 1442, 14, 15, 1442, 46, 333]);
    let mut several = 0;
    for size in 1..=bytes.len() {
        let lens = equal(&bytes, size);
        assert_eq!(apart(&bytes, lens).fpdus, want, "chunks of {size}");
        let found = joined(&bytes, equal(&bytes, size));
        assert_eq!(found.fpdus, want, "chunks of {size}");
        several += found.joined;
    }
    assert!(several > 1_000, "{several}");
}

/// M-MPA-11: the longest FPDUs, over small segments and at random.
#[test]
fn m_mpa_11_long_fpdus_at_random_cuts() {
    let (bytes, want) = stream(&[64768, 14, 65535, 65533, 1442, 65534]);
    assert_eq!(apart(&bytes, equal(&bytes, 1448)).fpdus, want);
    assert_eq!(joined(&bytes, equal(&bytes, 1448)).fpdus, want);
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let (mut left, mut lens) = (bytes.len(), Vec::new());
        while left > 0 {
            let n = match rng.below(3) {
                0 => 1 + rng.below(3),
                1 => 1 + rng.below(2000),
                _ => 1 + rng.below(100_000),
            };
            lens.push(n.min(left));
            left -= n.min(left);
        }
        assert_eq!(apart(&bytes, lens.clone()).fpdus, want, "seed {seed}");
        assert_eq!(joined(&bytes, lens).fpdus, want, "seed {seed}");
    }
}

/// What begins in a chunk, if it has an error.
fn error(deframer: &mut Deframer<Vec<u8>>, octets: &[u8], missing: Reach) -> Option<TermError> {
    let chunk = Piece::front(octets, octets.len(), missing);
    next(deframer, &chunk, 0).err().map(|failure| failure.error)
}

/// P-ERR-3: shorter than any DDP header, also when the length field is cut.
#[test]
fn p_err_3_short_ulpdu() {
    let short = Some(TermError::MpaFpdu);
    for len in 0..14u16 {
        let bytes = len.to_be_bytes();
        for missing in [Reach::Apart, Reach::Later] {
            assert_eq!(error(&mut Deframer::new(), &bytes, missing), short);
        }
        let mut deframer = deframer();
        assert_eq!(error(&mut deframer, &bytes[..1], Reach::Apart), None);
        assert!(deframer.is_collecting());
        assert_eq!(error(&mut deframer, &bytes[1..], Reach::Apart), short);
    }
}

/// A FIN in the middle of an FPDU can be told from one between two.
#[test]
fn what_is_collected_tells_of_a_cut_stream() {
    let (bytes, _) = stream(&[40]);
    let (mut deframer, mut found) = (deframer(), Found::default());
    assert_eq!(found.feed(&mut deframer, &Piece::all(&[])), 0);
    assert!(!deframer.is_collecting());
    assert_eq!(found.feed(&mut deframer, &Piece::all(&bytes[..9])), 9);
    assert!(deframer.is_collecting());
    assert_eq!(found.feed(&mut deframer, &Piece::all(&[])), 0);
    assert!(deframer.is_collecting() && found.fpdus.is_empty());
}

/// What can still come is waited for, without a buffer.
#[test]
fn rest_that_may_come_is_waited_for() {
    let (bytes, want) = stream(&[40]);
    let (mut deframer, mut found) = (Deframer::new(), Found::default());
    for n in 0..bytes.len() {
        let chunk = Piece::front(&bytes[..n], n, Reach::Later);
        assert_eq!(found.feed(&mut deframer, &chunk), 0);
    }
    assert!(!deframer.wants_buffer());
    assert_eq!(found.feed(&mut deframer, &Piece::all(&bytes)), bytes.len());
    assert_eq!((found.fpdus, found.in_place), (want, 1));
}

/// A buffer that was lacking is no longer asked for if the rest has come in the same chunk by the
/// next turn.
#[test]
fn a_buffer_is_lacking_for_one_turn() {
    let (bytes, want) = stream(&[40]);
    let (mut deframer, mut found) = (Deframer::new(), Found::default());
    assert_eq!(found.feed(&mut deframer, &Piece::all(&bytes[..9])), 0);
    assert!(deframer.wants_buffer());
    deframer.begin();
    assert_eq!(found.feed(&mut deframer, &Piece::all(&bytes)), bytes.len());
    assert!(!deframer.wants_buffer());
    assert_eq!((found.fpdus, found.in_place), (want, 1));
}
