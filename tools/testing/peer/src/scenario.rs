// SPDX-License-Identifier: GPL-2.0

//! The list of scenarios, and how they are run and reported.
#![forbid(unsafe_code)]

use crate::net::Res;
use crate::world::World;
use std::fmt::Debug;
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
    /// Begins a quick scenario for these rows, which are separated by blanks.
    pub fn rows(&mut self, ids: &'static str) -> Draft<'_> {
        Draft {
            list: self,
            ids,
            text: String::new(),
            kind: Kind::Quick,
        }
    }
}

/// A scenario that is being described.
pub struct Draft<'l> {
    list: &'l mut List,
    ids: &'static str,
    text: String,
    kind: Kind,
}

impl<'l> Draft<'l> {
    /// What it shows.
    pub fn says(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// It is not a quick one.
    pub fn is(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// It is run with each of these.
    pub fn each<V>(self, values: V) -> Each<'l, V> {
        Each {
            draft: self,
            values,
        }
    }

    /// Adds it to the list.
    pub fn runs(self, run: impl Fn(&mut World) -> Res + 'static) {
        self.list.0.push(Scenario {
            ids: self.ids.split(' ').collect(),
            text: self.text,
            kind: self.kind,
            run: Box::new(run),
        });
    }
}

/// A scenario that is run with one value after the other.
pub struct Each<'l, V> {
    draft: Draft<'l>,
    values: V,
}

impl<V: IntoIterator<Item: Debug> + Clone + 'static> Each<'_, V> {
    /// Adds it to the list. Nothing is left from one value to the next, and what goes wrong is told
    /// with its value.
    pub fn runs(self, run: impl Fn(&mut World, V::Item) -> Res + 'static) {
        let values = self.values;
        self.draft.runs(move |w| {
            for value in values.clone() {
                let name = format!("{value:?}");
                run(w, value).map_err(|e| format!("{name}: {e}"))?;
                w.clean()?;
            }
            Ok(())
        });
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
