// SPDX-License-Identifier: GPL-2.0

//! The list of scenarios, and how they are run and reported.
#![forbid(unsafe_code)]

use crate::net::Res;
use crate::world::World;
use std::time::Instant;

/// When a scenario is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Takes less than a second.
    Quick,
    /// Takes longer.
    Long,
    /// Takes long, and is many connections or much data.
    Storm,
    /// Wants a driver that does not ask for CRCs.
    CrcOff,
}

type Run = Box<dyn Fn(&mut World) -> Res>;

/// One scenario, which shows one or more rows of the conformance matrix.
pub struct Scenario {
    pub ids: Vec<&'static str>,
    pub text: String,
    pub kind: Kind,
    run: Run,
}

/// Scenarios in the order in which they were added.
#[derive(Default)]
pub struct List(pub Vec<Scenario>);

impl List {
    /// Adds a quick scenario; `ids` are the rows, separated by blanks.
    pub fn add(
        &mut self,
        ids: &'static str,
        text: impl Into<String>,
        run: impl Fn(&mut World) -> Res + 'static,
    ) {
        self.0.push(Scenario {
            ids: ids.split(' ').collect(),
            text: text.into(),
            kind: Kind::Quick,
            run: Box::new(run),
        });
    }

    /// Adds one that takes long.
    pub fn add_long(
        &mut self,
        ids: &'static str,
        text: impl Into<String>,
        run: impl Fn(&mut World) -> Res + 'static,
    ) {
        self.add(ids, text, run);
        self.last_is(Kind::Long);
    }

    /// Adds a storm.
    pub fn add_storm(
        &mut self,
        ids: &'static str,
        text: impl Into<String>,
        run: impl Fn(&mut World) -> Res + 'static,
    ) {
        self.add(ids, text, run);
        self.last_is(Kind::Storm);
    }

    /// What was added last is of this kind.
    pub fn last_is(&mut self, kind: Kind) {
        if let Some(last) = self.0.last_mut() {
            last.kind = kind;
        }
    }
}

impl Scenario {
    /// Whether one of its rows, or its text, fits a pattern that may end in `*`.
    pub fn fits(&self, patterns: &[String]) -> bool {
        let one = |p: &String| match p.strip_suffix('*') {
            Some(p) => self.ids.iter().any(|id| id.starts_with(p)),
            None => self.ids.contains(&p.as_str()) || self.text.contains(p),
        };
        patterns.is_empty() || patterns.iter().any(one)
    }

    /// Runs it and prints a line of TAP for each row, with what went over the wire if it fails
    /// or `verbose`. Returns whether it is fine.
    pub fn report(&self, world: &mut World, number: &mut usize, verbose: bool) -> Res<bool> {
        let start = Instant::now();
        let result = (self.run)(world);
        let cleaned = world.clean();
        let ms = start.elapsed().as_millis();
        let log = world.log.take();
        if verbose || result.is_err() {
            for line in log {
                println!("# {line}");
            }
        }
        if let Err(why) = &result {
            for line in why.lines() {
                println!("# {line}");
            }
        }
        for id in &self.ids {
            *number += 1;
            let not = if result.is_ok() { "" } else { "not " };
            println!("{not}ok {number} {id} {} # time={ms}ms", self.text);
        }
        cleaned.map(|()| result.is_ok())
    }
}
