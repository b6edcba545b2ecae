// SPDX-License-Identifier: GPL-2.0

//! What holds the source and the copies in the models together: whoever changes one of these lines,
//! or adds one that orders memory, has to look at the model, too.

use crate::{models, mr, qp};
use std::path::{Path, PathBuf};

/// Lines that a model has a copy of.
pub(crate) struct Copied {
    /// In the repository.
    pub(crate) file: &'static str,
    /// Where the function or macro begins that has them.
    pub(crate) from: &'static str,
    /// Parts of lines, in their order. All of the function that order memory are among them.
    pub(crate) lines: &'static [&'static str],
}

/// Words of lines that order memory.
const ORDER: [&str; 8] = [
    "Relaxed)",
    "Acquire)",
    "Release)",
    "Full)",
    "smp_",
    "READ_ONCE",
    "WRITE_ONCE",
    "__atomic",
];

impl Copied {
    /// Returns the function or macro.
    fn text(&self) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let all = std::fs::read_to_string(root.join(self.file)).unwrap();
        let from = all
            .find(self.from)
            .unwrap_or_else(|| panic!("{} has no {}", self.file, self.from));
        let all = &all[from..];
        let indent = self.from.len() - self.from.trim_start().len();
        let end = if self.from.starts_with('#') {
            "\n\n".to_string()
        } else {
            format!("\n{}}}\n", " ".repeat(indent))
        };
        all[..all.find(&end).unwrap()].to_string()
    }

    fn check(&self) {
        let text = self.text();
        let mut rest = text.as_str();
        for line in self.lines {
            let Some(at) = rest.find(line) else {
                panic!(
                    "{}: {} has no line any more, or not there: {line}",
                    self.file, self.from
                );
            };
            rest = &rest[at + line.len()..];
        }
        for line in text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
        {
            let orders = ORDER.iter().any(|word| line.contains(word));
            if orders && !self.lines.iter().any(|copied| line.contains(copied)) {
                panic!("{}: {}: not in the model: {line}", self.file, self.from);
            }
        }
    }
}

const COPIES: &[&[Copied]] = &[
    models::bits::COPIED,
    models::completions::COPIED,
    models::gate::COPIED,
    models::look_word::COPIED,
    models::placement::COPIED,
    models::rcu_table::COPIED,
    models::recv_ring::COPIED,
    models::room::COPIED,
    models::send_ring::COPIED,
    models::wakers::COPIED,
    mr::model::COPIED,
    qp::model::COPIED,
];

#[test]
fn copies() {
    COPIES.iter().copied().flatten().for_each(Copied::check);
}

/// Files that run in a model as they are. [`check`](crate::check) sees to it that models meet all
/// of their orderings.
const RUN: &[&str] = &[
    "ffi/mm/movable.rs",
    "ffi/sync/gate.rs",
    "ffi/sync/rcu_table.rs",
    "ffi/time/hrtimer.rs",
    "mr/window/count.rs",
    "notes.rs",
    "qp/shared/published.rs",
];

/// A line that orders memory, of which there is no model.
struct Without {
    file: &'static str,
    /// A part of it.
    line: &'static str,
    #[expect(dead_code, reason = "for who reads")]
    because: &'static str,
}

const fn without(file: &'static str, line: &'static str, because: &'static str) -> Without {
    Without {
        file,
        line,
        because,
    }
}

/// The gate of both was closed before, which orders all but this.
const ONCE: &str = "lets one caller in; the gate orders what it finds";
/// The core has locks of its own, under which it finds an object of its tables.
const OBJECT: &str = "a pointer that is stored once, before the core lets others find the object";

const WITHOUT: &[Without] = &[
    without(
        "ffi/helpers/net.c",
        "smp_mb__after_atomic();",
        "TCP has the other side of it",
    ),
    without(
        "ffi/mm/page.rs",
        "cmpxchg(ptr, seen, change(seen), Full)",
        "octets of a program",
    ),
    without(
        "ffi/net/socket.rs",
        "smp_mb(Read);",
        "TCP has the other side, under its locks",
    ),
    without(
        "ffi/net/socket.rs",
        "self.is_claimed.xchg(true, Full)",
        "a lock for which nobody waits",
    ),
    without(
        "ffi/net/socket.rs",
        "self.0.is_claimed.store(false, Release);",
        "likewise",
    ),
    without("ffi/rdma/kmr.rs", "self.released.xchg(true, Full)", ONCE),
    without("ffi/rdma/umem.rs", "self.released.xchg(true, Full)", ONCE),
    without(
        "ffi/rdma/udata.rs",
        "self.entry.xchg(",
        "lets one caller have the entry",
    ),
    without(
        "ffi/rdma/device.rs",
        "MAKER_STATE",
        "once, when the module is loaded",
    ),
    without(
        "ffi/rdma/handle.rs",
        "inner }.store(inner.into_raw(), Release)",
        OBJECT,
    ),
    without(
        "ffi/rdma/handle.rs",
        "handle }.store(handle.into_raw(), Release)",
        OBJECT,
    ),
    without("ffi/rdma/handle.rs", "inner }.load(Acquire)", OBJECT),
    without("ffi/rdma/handle.rs", "handle }.load(Acquire)", OBJECT),
    without(
        "ffi/rdma/handle.rs",
        "xchg(core::ptr::null(), Full)",
        "nobody else uses it then",
    ),
    without(
        "qp/shared.rs",
        "heard.",
        "a bit by itself: nothing goes with it",
    ),
];

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path
            .extension()
            .is_some_and(|e| e == "rs" || e == "c" || e == "h")
        {
            found.push(path);
        }
    }
}

/// Returns whether a line of the driver, not a comment, orders memory.
fn orders(line: &str) -> bool {
    let line = line.trim_start();
    let words = [
        " Acquire)",
        ".load(Acquire)",
        " Release)",
        " Full)",
        "smp_mb(",
        "smp_mb__",
        "smp_rmb",
        "smp_wmb",
        "smp_load_",
        "smp_store_",
    ];
    let is_comment = ["//", "/*", "*"]
        .iter()
        .any(|start| line.starts_with(start));
    !is_comment && words.iter().any(|word| line.contains(word))
}

/// Whatever orders memory in the driver is met by a model, or is known to need none.
#[test]
fn all_are_met() {
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../drivers/infiniband/sw/rsiw");
    let mut found = Vec::new();
    files(&driver, &mut found);
    let mut wrong = String::new();
    let mut unused: Vec<_> = WITHOUT.iter().map(|w| (w.file, w.line)).collect();
    for path in found {
        let file = path.strip_prefix(&driver).unwrap().to_str().unwrap();
        if RUN.contains(&file) || file.starts_with("compat/") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for (line, n) in text.lines().zip(1..).filter(|(line, _)| orders(line)) {
            let is_copied = COPIES.iter().copied().flatten().any(|copied| {
                copied.file.ends_with(file) && copied.lines.iter().any(|part| line.contains(part))
            });
            let known = |w: &Without| w.file == file && line.contains(w.line);
            unused.retain(|(f, l)| !(*f == file && line.contains(l)));
            if !is_copied && !WITHOUT.iter().any(known) {
                wrong += &format!("no model meets {file}:{n}: {}\n", line.trim());
            }
        }
    }
    for (file, line) in unused {
        wrong += &format!("{file} has no line any more: {line}\n");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
