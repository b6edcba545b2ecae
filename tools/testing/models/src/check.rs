// SPDX-License-Identifier: GPL-2.0

//! Runs models, as written and with one ordering after the other weakened.

use kernel::{
    sync::atomic::any_order,
    weak::{self, Site, Strength},
};
use std::{
    cell::Cell,
    collections::BTreeSet,
    panic::{self, AssertUnwindSafe},
    path::Path,
    sync::Once,
};

/// How often at most loom takes the processor from a thread that could go on, in one run of a
/// model. What only shows with more than that is not found. `LOOM_MAX_PREEMPTIONS` is another number.
const PREEMPTIONS: usize = 3;

/// An ordering that is stronger than its models need.
pub(crate) struct Spare {
    /// A part of the line that has it.
    pub(crate) line: &'static str,
    /// What is enough for the models.
    pub(crate) enough: Strength,
    #[expect(dead_code, reason = "for who reads")]
    pub(crate) because: &'static str,
}

thread_local! {
    static IS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Keeps what is expected to fail from printing why.
fn print_only_surprises() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_EXPECTED.get() {
                print(info);
            }
        }));
    });
}

fn run(model: &fn()) {
    let mut loom = loom::model::Builder::new();
    loom.preemption_bound = loom.preemption_bound.or(Some(PREEMPTIONS));
    loom.max_branches = 100_000;
    let model = *model;
    loom.check(move || {
        any_order();
        model();
    });
}

fn holds(model: &fn(), site: Site, strength: Strength) -> bool {
    print_only_surprises();
    weak::set(Some((site, strength)));
    IS_EXPECTED.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(|| run(model)));
    IS_EXPECTED.set(false);
    weak::set(None);
    result.is_ok()
}

/// What a model shows, the model, and the model without it.
pub(crate) type Pair<'a> = (&'a str, fn(), fn());

/// Checks that each of `models` holds, and that it fails if what it shows is left out of it.
pub(crate) fn check_each(models: &[Pair<'_>]) {
    print_only_surprises();
    for (what, model, without) in models {
        run(model);
        IS_EXPECTED.set(true);
        let result = panic::catch_unwind(AssertUnwindSafe(|| run(without)));
        IS_EXPECTED.set(false);
        assert!(result.is_err(), "{what}: the model does not need it");
    }
}

/// Returns the lines of a file, without white space around them.
fn lines(file: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.trim().to_string()).collect()
}

fn orders(line: &str) -> bool {
    let orderings = ["Acquire)", "Release)", "Full)"];
    !line.starts_with("//") && orderings.iter().any(|text| line.contains(text))
}

/// Returns what orders memory in the driver's files among those of `met`, and was not met.
fn missed(met: &[Site]) -> String {
    let mut missed = String::new();
    let files: BTreeSet<_> = met.iter().map(|site| site.file).collect();
    for file in files.into_iter().filter(|file| file.contains("/drivers/")) {
        for (line, n) in lines(file).iter().zip(1..) {
            if orders(line) && !met.iter().any(|site| site.file == file && site.line == n) {
                missed += &format!("no model meets {file}:{n}: {line}\n");
            }
        }
    }
    missed
}

/// Checks that all `models` hold, and that for each ordering in `file` one of them fails if it is
/// any weaker, but for those that are `spare`.
pub(crate) fn check(file: &str, models: &[fn()], spare: &[Spare]) {
    weak::take_met();
    models.iter().for_each(run);
    let met = weak::take_met();
    let met: Vec<_> = met
        .into_iter()
        .filter(|site| site.file.ends_with(file))
        .collect();
    let mut wrong = missed(&met);
    let mut unused: Vec<_> = spare.iter().map(|spare| spare.line).collect();
    for site in met {
        let line = &lines(site.file)[site.line as usize - 1];
        let listed = spare.iter().find(|spare| line.contains(spare.line));
        unused.retain(|text| !line.contains(text));
        let enough = listed.map_or(site.written, |spare| spare.enough);
        let fails = |strength| models.iter().any(|model| !holds(model, site, strength));
        if enough != site.written && fails(enough) {
            wrong += &format!("{enough:?} is not enough in {}: {line}\n", site.file);
        }
        for weaker in enough.weaker() {
            if !fails(*weaker) {
                wrong += &format!("{weaker:?} is enough in {}: {line}\n", site.file);
            }
        }
    }
    for line in unused {
        wrong += &format!("no model meets {line}\n");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
