// SPDX-License-Identifier: GPL-2.0

//! Any segmentation gives the same FPDUs (M-MPA-11, M-MPA-13, P-TERM-10).

use crate::proto::deframer::{Deframer, Place, Step};
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

/// Runs `chunks` through a deframer as a driver does.
fn run<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, usize) {
    let mut deframer = Deframer::new();
    let mut staging = vec![0; MAX_FPDU];
    let mut fpdus = Vec::new();
    let mut in_chunk = 0;
    for mut chunk in chunks {
        loop {
            match deframer.next(&chunk).unwrap() {
                Step::NeedMore => break,
                Step::Stage { at, n } => {
                    assert!(n > 0);
                    staging[at..at + n].copy_from_slice(&chunk[..n]);
                    chunk = &chunk[n..];
                }
                Step::Fpdu(fpdu) => {
                    assert_eq!(fpdu.len, fpdu_len(fpdu.ulpdu_len));
                    assert_eq!(fpdu.crc_covers(), fpdu.len - 4);
                    match fpdu.place {
                        Place::Chunk => {
                            fpdus.push(chunk[..fpdu.len].to_vec());
                            chunk = &chunk[fpdu.len..];
                            in_chunk += 1;
                        }
                        Place::Staging => fpdus.push(staging[..fpdu.len].to_vec()),
                    }
                }
            }
        }
        assert!(chunk.is_empty());
    }
    assert_eq!(deframer.staged(), 0);
    (fpdus, in_chunk)
}

#[test]
fn whole_fpdus_are_used_in_place() {
    let (bytes, want) = stream(&[14, 18, 1442, 46, 65535]);
    let (got, in_chunk) = run([&bytes[..]].into_iter());
    assert_eq!((got, in_chunk), (want, 5));
}

#[test]
fn m_mpa_13_every_cut() {
    let (bytes, want) = stream(&[18, 14, 15, 16, 17, 46, 70, 128]);
    for cut in 0..=bytes.len() {
        let (a, b) = bytes.split_at(cut);
        assert_eq!(run([a, b].into_iter()).0, want, "cut at {cut}");
        for more in cut..=bytes.len().min(cut + 80) {
            let (b, c) = b.split_at(more - cut);
            assert_eq!(run([a, b, c].into_iter()).0, want, "cut at {cut}, {more}");
        }
    }
}

#[test]
fn m_mpa_13_equal_chunks_of_every_size() {
    let (bytes, want) = stream(&[18, 1442, 14, 15, 1442, 46, 333]);
    for size in 1..=bytes.len() {
        assert_eq!(run(bytes.chunks(size)).0, want, "chunks of {size}");
    }
}

/// M-MPA-11: the longest FPDUs, over small segments and at random.
#[test]
fn m_mpa_11_long_fpdus_at_random_cuts() {
    let (bytes, want) = stream(&[64768, 14, 65535, 65533, 1442, 65534]);
    assert_eq!(run(bytes.chunks(1448)).0, want);
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut rest = &bytes[..];
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            let n = match rng.below(3) {
                0 => 1 + rng.below(3),
                1 => 1 + rng.below(2000),
                _ => 1 + rng.below(100_000),
            };
            let (chunk, tail) = rest.split_at(n.min(rest.len()));
            chunks.push(chunk);
            rest = tail;
        }
        assert_eq!(run(chunks.into_iter()).0, want, "seed {seed}");
    }
}

/// P-ERR-3: shorter than any DDP header, also when the length field is cut.
#[test]
fn p_err_3_short_ulpdu() {
    for len in 0..14u16 {
        let bytes = len.to_be_bytes();
        let mut deframer = Deframer::new();
        assert_eq!(deframer.next(&&bytes[..]), Err(TermError::MpaFpdu));
        let mut deframer = Deframer::new();
        assert_eq!(deframer.next(&&bytes[..1]), Ok(Step::Stage { at: 0, n: 1 }));
        assert_eq!(deframer.next(&&bytes[1..]), Err(TermError::MpaFpdu));
    }
}

/// A FIN in the middle of an FPDU can be told from one between two.
#[test]
fn staged_tells_of_a_cut_stream() {
    let (bytes, _) = stream(&[40]);
    let mut deframer = Deframer::new();
    assert_eq!(deframer.next(&&bytes[..0]), Ok(Step::NeedMore));
    assert_eq!(deframer.staged(), 0);
    assert_eq!(deframer.next(&&bytes[..9]), Ok(Step::Stage { at: 0, n: 9 }));
    assert_eq!(deframer.next(&&bytes[..0]), Ok(Step::NeedMore));
    assert_eq!(deframer.staged(), 9);
}
