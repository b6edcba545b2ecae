// SPDX-License-Identifier: GPL-2.0

//! The fuzz targets on arbitrary input, and on what fuzzers have found before.

use crate::fuzz::TARGETS;
use crate::support::rng::{Choices, Rng};
use std::path::Path;

#[test]
fn random_input() {
    for (name, target) in TARGETS {
        for seed in 0..3000 {
            let mut rng = Rng::new(seed);
            let len = rng.below(600);
            let mut data = rng.bytes(len);
            if name == "setup" && rng.one_in(2) && data.len() > 30 {
                let key = if rng.one_in(2) { b"q" } else { b"p" };
                data[1..17].copy_from_slice(b"MPA ID Re\0 Frame");
                data[10] = key[0];
                data[17] &= 0xf0;
                data[18] %= 3;
                data[19] = 0;
            }
            target(&data);
        }
    }
}

/// `tools/testing/fuzz/corpus/TARGET/*`, for each target.
#[test]
fn corpus() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for (name, target) in TARGETS {
        let mut files = 0;
        for entry in root
            .join(name)
            .read_dir()
            .expect("a corpus for each target")
        {
            target(&std::fs::read(entry.unwrap().path()).unwrap());
            files += 1;
        }
        assert!(files > 0, "{name}");
    }
}
