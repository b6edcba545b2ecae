// SPDX-License-Identifier: GPL-2.0

//! What holds the source and the copies in the models together: whoever changes one of these lines,
//! or adds one that orders memory, has to look at the model, too.

use crate::{models, mr, qp};
use std::path::Path;

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

#[test]
fn copies() {
    let all = [
        models::bits::COPIED,
        models::completions::COPIED,
        models::gate::COPIED,
        models::look_word::COPIED,
        models::placement::COPIED,
        models::rcu_table::COPIED,
        models::send_ring::COPIED,
        mr::model::COPIED,
        qp::model::COPIED,
    ];
    all.into_iter().flatten().for_each(Copied::check);
}
