// SPDX-License-Identifier: GPL-2.0

//! `ffi/sync/rcu_table.rs`, and its helpers in `ffi/helpers/mem.c`: who looks up an STag meets who
//! makes it known, and who takes it away.

use crate::{
    check::check,
    copies::Copied,
    ffi::{
        module::Loaded,
        sync::rcu_table::{RcuTable, PLACES},
    },
    models::Plain,
};
use kernel::{
    init::PinInit,
    prelude::*,
    sync::{rcu, Arc},
};
use loom::thread;

pub(crate) const COPIED: &[Copied] = &[
    Copied {
        file: "drivers/infiniband/sw/rsiw/ffi/helpers/mem.c",
        from: "int rsiw_helper_xa_insert_irq(",
        lines: &[
            "xa_lock_irq(xa);",
            "err = __xa_insert(xa, index, entry, gfp);",
            "smp_store_release(place, entry);",
            "xa_unlock_irq(xa);",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/ffi/helpers/mem.c",
        from: "void *rsiw_helper_xa_erase_irqsave(",
        lines: &[
            "xa_lock_irqsave(xa, flags);",
            "entry = __xa_erase(xa, index);",
            "if (place && *place == entry)",
            "WRITE_ONCE(*place, NULL);",
            "xa_unlock_irqrestore(xa, flags);",
        ],
    },
];

const STAG: u32 = 5;
/// Has the same place.
const OTHER: u32 = STAG + PLACES;

struct Region {
    index: u32,
    content: Plain,
}

type Table = Arc<RcuTable<Region>>;

fn region(index: u32) -> Arc<Region> {
    let region = Region {
        index,
        content: Plain::new(),
    };
    region.content.write();
    Arc::new(region, GFP_KERNEL).unwrap()
}

fn insert(table: &RcuTable<Region>, index: u32) {
    table.insert(index, region(index), GFP_KERNEL).unwrap();
}

fn look_up(table: &RcuTable<Region>, index: u32) -> bool {
    let found = table.lookup(index);
    if let Some(region) = &found {
        assert_eq!(region.index, index);
        region.content.read();
    }
    found.is_some()
}

fn table() -> Table {
    rcu::begin();
    let table = RcuTable::with_places(Loaded).unwrap().init();
    Arc::new(table, GFP_KERNEL).unwrap()
}

/// What is found is complete.
fn comes() {
    let table = table();
    let thread = {
        let table = table.clone();
        thread::spawn(move || insert(&table, STAG))
    };
    look_up(&table, STAG);
    thread.join().unwrap();
    assert!(look_up(&table, STAG));
}

/// What is found lives, and what shares its place is found all the same.
fn goes() {
    let table = table();
    insert(&table, OTHER);
    insert(&table, STAG);
    let thread = {
        let table = table.clone();
        thread::spawn(move || drop(table.remove(STAG)))
    };
    look_up(&table, STAG);
    assert!(look_up(&table, OTHER));
    thread.join().unwrap();
    assert!(!look_up(&table, STAG));
    assert!(look_up(&table, OTHER));
}

#[test]
fn rcu_table() {
    check("", &[comes, goes], &[]);
}
