// SPDX-License-Identifier: GPL-2.0

//! KUnit suites for what needs a kernel to be tested. They run when the module is loaded into a
//! kernel with `CONFIG_KUNIT=y`, and are not there in others.
//!
//! The pure layers are tested in user space, at length and from the same files.
//!
//! The code of the macro is unsafe, so this file cannot forbid unsafe code; the tests have none.

#[kernel::macros::kunit_tests(rsiw_rings)]
mod rings {
    use crate::{
        abi::{
            Cqe,
            Rings, //
        },
        ffi::{
            mm::ring::{
                EntryLen,
                Place,
                Position,
                SharedMemory,
                SharedRing,
                SharedWord, //
            },
            module::Loaded,
        },
    };
    use kernel::{
        page::PAGE_SIZE,
        prelude::*, //
    };

    const LEN: EntryLen = EntryLen::of::<Cqe>();

    #[test]
    fn sizes() -> Result {
        let mem = SharedMemory::new(PAGE_SIZE, Loaded::for_test())?;
        assert_eq!(mem.size(), PAGE_SIZE);
        assert!(SharedMemory::new(0, Loaded::for_test()).is_err());
        assert!(SharedMemory::new(usize::MAX, Loaded::for_test()).is_err());
        // None, not a power of two, too many, far too many.
        for entries in [0, 3, 256, 1 << 31] {
            assert!(SharedRing::new(mem.clone(), entries, LEN).is_err());
        }
        assert_eq!(SharedRing::new(mem, 128, LEN)?.len(), 128);
        Ok(())
    }

    #[test]
    fn indices_wrap() -> Result {
        let ring = SharedRing::new(SharedMemory::new(1, Loaded::for_test())?, 4, LEN)?;
        let entry = Cqe {
            id: 0x1234_5678_9abc_def0,
            flags: 1,
            ..Cqe::default()
        };
        ring.entry(Position::FIRST - 1).publish(&entry, &[]);
        assert_eq!(ring.entry(Position::of(3)).short_flags(), 1);
        assert_eq!(ring.entry(Position::of(7)).front::<Cqe>().id, entry.id);
        for other in 0..3 {
            assert_eq!(ring.entry(Position::of(other)).short_flags(), 0);
            assert_eq!(ring.entry(Position::of(other)).front::<Cqe>().id, 0);
        }
        ring.entry(Position::of(3)).set_short_flags(0);
        assert_eq!(ring.entry(Position::FIRST - 1).short_flags(), 0);
        Ok(())
    }

    /// What is longer than an entry is not read, and not written into the next one.
    #[test]
    fn entries_end() -> Result {
        let at = Position::FIRST;
        for (rings, fits) in [(Rings::Stock, 0), (Rings::Own, 4)] {
            let mem = SharedMemory::new(PAGE_SIZE, Loaded::for_test())?;
            let ring = SharedRing::new(mem, 4, rings.layout().cqe)?;
            ring.entry(at).publish(&Cqe::default(), &[1; 5]);
            assert_eq!(ring.entry(at + 1).front::<[u64; 4]>(), [0; 4]);
            let behind = Place::at::<32>();
            let mut copy = [0u64; 5];
            assert!(!ring.entry(at).copy(behind, &mut copy));
            assert!(!ring.entry(at).copy(Place::at::<72>(), &mut copy[..0]));
            assert!(ring.entry(at).copy(behind, &mut copy[..fits]));
            assert!(copy.iter().take(fits).all(|word| *word == 1));
            // The whole entry moves.
            ring.entry(at + 3).carry_over(ring.entry(at));
            copy = [0; 5];
            assert!(ring.entry(at + 3).copy(behind, &mut copy[..fits]));
            assert!(copy.iter().take(fits).all(|word| *word == 1));
        }
        Ok(())
    }

    #[test]
    fn words() -> Result {
        let mem = SharedMemory::new(PAGE_SIZE, Loaded::for_test())?;
        assert!(SharedWord::new(mem.clone(), PAGE_SIZE).is_err());
        assert!(SharedWord::new(mem.clone(), PAGE_SIZE - 3).is_err());
        assert!(SharedWord::new(mem.clone(), 2).is_err());
        let word = SharedWord::new(mem, PAGE_SIZE - 4)?;
        assert_eq!(word.load(), 0);
        word.store(u32::MAX);
        assert_eq!(word.load(), u32::MAX);
        Ok(())
    }
}

/// Moving what waits in a ring to another one.
#[kernel::macros::kunit_tests(rsiw_moving)]
mod moving {
    use crate::{
        abi::{
            Cqe,
            Rings, //
        },
        ffi::{
            mm::ring::{
                Position,
                SharedMemory,
                SharedRing, //
            },
            module::Loaded,
        },
        queue::shared::{
            valid_from,
            Moving, //
        },
    };
    use kernel::prelude::*;

    /// Makes a ring of `len` entries, of which `n` from number `first` on are valid.
    fn ring(len: u32, first: Position, n: u32) -> Result<SharedRing> {
        let entry = Rings::Own.layout().rqe;
        let mem = SharedMemory::new(entry.times(len)?, Loaded::for_test())?;
        let ring = SharedRing::new(mem, len, entry)?;
        for at in (0..n).map(|i| first + i) {
            // A receive has these where a completion has them.
            let front = Cqe {
                id: at.number().into(),
                flags: 1,
                ..Cqe::default()
            };
            ring.entry(at).publish(&front, &[]);
        }
        Ok(ring)
    }

    fn id(ring: &SharedRing, at: Position) -> u64 {
        let [id] = ring.entry(at).front();
        id
    }

    /// Takes entries out, from number `first` on.
    fn take(ring: &SharedRing, first: Position, n: u32) {
        for i in 0..n {
            ring.entry(first + i).set_flags(0);
        }
    }

    #[test]
    fn numbers_stay() -> Result {
        let first = Position::FIRST - 3;
        for len in [8, 16, 64] {
            let mut old = ring(16, first, 7)?;
            let mut moving = Moving::new(old.clone(), ring(len, Position::FIRST, 0)?, first);
            moving.copy(|| Ok(first))?;
            assert!(moving.finish(&mut old, first));
            assert_eq!(old.len(), len);
            assert_eq!(valid_from(&old, first, len), 7);
            for i in 0..7 {
                let at = first + i;
                assert_eq!(id(&old, at), u64::from(at.number()));
            }
        }
        Ok(())
    }

    #[test]
    fn some_are_taken_meanwhile() -> Result {
        let mut old = ring(8, Position::FIRST, 8)?;
        let mut moving = Moving::new(old.clone(), ring(8, Position::FIRST, 0)?, Position::FIRST);
        // Two are taken before anything is copied.
        take(&old, Position::of(0), 2);
        moving.copy(|| Ok(Position::of(2)))?;
        take(&old, Position::of(2), 2);
        moving.forget(Position::of(4));
        take(&old, Position::of(4), 1);
        assert!(moving.finish(&mut old, Position::of(5)));
        assert_eq!(valid_from(&old, Position::of(5), 8), 3);
        assert_eq!(id(&old, Position::of(7)), 7);
        Ok(())
    }

    #[test]
    fn all_are_taken_meanwhile() -> Result {
        let mut old = ring(128, Position::FIRST, 100)?;
        let mut moving = Moving::new(old.clone(), ring(128, Position::FIRST, 0)?, Position::FIRST);
        moving.copy(|| Ok(Position::of(0)))?;
        // Too many to be forgotten at once.
        assert!(!moving.finish(&mut old, Position::of(100)));
        moving.forget(Position::of(100));
        assert!(moving.finish(&mut old, Position::of(100)));
        for number in 0..128 {
            assert_eq!(old.entry(Position::of(number)).flags(), 0);
        }
        Ok(())
    }

    #[test]
    fn there_is_no_room() -> Result {
        let old = ring(8, Position::FIRST, 5)?;
        let mut moving = Moving::new(old.clone(), ring(4, Position::FIRST, 0)?, Position::FIRST);
        assert_eq!(moving.copy(|| Ok(Position::of(0))), Err(EINVAL));
        // More were taken than the ring can have had.
        let mut moving = Moving::new(old, ring(8, Position::FIRST, 0)?, Position::FIRST);
        assert_eq!(moving.copy(|| Ok(Position::of(9))), Err(EINVAL));
        Ok(())
    }
}

/// Tables of regions and queue pairs.
#[kernel::macros::kunit_tests(rsiw_tables)]
mod tables {
    use crate::{
        ffi::{
            module::Loaded,
            sync::rcu_table::{
                RcuTable,
                PLACES, //
            },
        },
        mr::table::MAX_MR, //
    };
    use kernel::{
        prelude::*,
        sync::Arc, //
    };

    #[test]
    fn entries_come_and_go() -> Result {
        let table = KBox::pin_init(RcuTable::<u32>::new(0, Loaded::for_test()), GFP_KERNEL)?;
        let value = Arc::new(7, GFP_KERNEL)?;
        table.insert(MAX_MR, value.clone(), GFP_KERNEL)?;
        assert_eq!(table.insert(MAX_MR, value.clone(), GFP_KERNEL), Err(EBUSY));
        assert!(table
            .lookup(MAX_MR)
            .is_some_and(|v| Arc::ptr_eq(&v, &value)));
        assert!(table.lookup(0).is_none());
        assert!(table.remove(MAX_MR).is_some());
        assert!(table.remove(MAX_MR).is_none());
        assert!(table.lookup(MAX_MR).is_none());
        Ok(())
    }

    #[test]
    fn entries_in_one_place() -> Result {
        const FIRST: u32 = 5;
        const LAST: u32 = FIRST + PLACES;
        let table = RcuTable::<u32>::with_places(Loaded::for_test())?;
        let table = KBox::pin_init(table, GFP_KERNEL)?;
        let put = |index| table.insert(index, Arc::new(index, GFP_KERNEL)?, GFP_KERNEL);
        let found = |index| table.lookup(index).is_some_and(|v| *v == index);
        put(FIRST)?;
        put(LAST)?;
        assert!(found(FIRST) && found(LAST));
        // LAST came later, so it has the place that both share.
        assert!(table.remove(LAST).is_some());
        assert!(found(FIRST) && table.lookup(LAST).is_none());
        put(LAST)?;
        // FIRST is found without the place.
        assert!(table.remove(FIRST).is_some());
        assert!(found(LAST) && table.lookup(FIRST).is_none());
        put(FIRST)?;
        assert_eq!(put(LAST), Err(EBUSY));
        assert!(found(FIRST) && found(LAST));
        assert!(table.lookup(LAST + PLACES).is_none());
        Ok(())
    }

    #[test]
    fn free_indices() -> Result {
        let table = KBox::pin_init(RcuTable::<u32>::new(12, Loaded::for_test()), GFP_KERNEL)?;
        for n in [12, 10, 11] {
            let value = Arc::new(n, GFP_KERNEL)?;
            assert_eq!(table.insert_free(10..=12, value, GFP_KERNEL)?, n);
        }
        let value = Arc::new(3, GFP_KERNEL)?;
        assert!(table
            .insert_free(10..=12, value.clone(), GFP_KERNEL)
            .is_err());
        table.remove(11);
        assert_eq!(table.insert_free(10..=12, value, GFP_KERNEL)?, 11);
        let mut seen = 0;
        table.for_each(|_| seen += 1);
        assert_eq!(seen, 3);
        Ok(())
    }
}

#[kernel::macros::kunit_tests(rsiw_gates)]
mod gates {
    use crate::ffi::sync::gate::{
        Gate,
        GateGuard,
        Gated, //
    };
    use kernel::{
        prelude::*,
        sync::atomic::{
            Atomic,
            Relaxed, //
        },
    };

    /// An object that has another gate each time it is asked.
    #[pin_data]
    struct Fickle {
        asked: Atomic<u32>,
        #[pin]
        even: Gate,
        #[pin]
        odd: Gate,
    }

    impl Gated for Fickle {
        fn gate(&self) -> &Gate {
            if self.asked.fetch_add(1, Relaxed) % 2 == 0 {
                &self.even
            } else {
                &self.odd
            }
        }
    }

    #[test]
    fn guards_leave_by_the_gate_they_came_through() -> Result {
        let fickle = KBox::pin_init(
            pin_init!(Fickle {
                asked: Atomic::new(0),
                even <- Gate::new(),
                odd <- Gate::new(),
            }),
            GFP_KERNEL,
        )?;
        let guard = GateGuard::new(&*fickle).ok_or(EINVAL)?;
        assert!(core::ptr::eq(guard.gate(), &fickle.even));
        assert!(!fickle.even.is_empty());
        drop(guard);
        assert!(fickle.even.is_empty());
        assert!(fickle.odd.is_empty());
        Ok(())
    }

    #[test]
    fn closed_for_good() -> Result {
        let gate = KBox::pin_init(Gate::new(), GFP_KERNEL)?;
        assert!(gate.exclusively(|| gate.enter().is_none()) == Some(true));
        let guard = gate.enter().ok_or(EINVAL)?;
        assert!(gate.exclusively(|| ()).is_none());
        drop(guard);
        gate.close_and_wait();
        assert!(gate.enter().is_none());
        assert!(gate.exclusively(|| ()).is_none());
        assert!(gate.is_closed() && gate.is_empty());
        Ok(())
    }
}

#[kernel::macros::kunit_tests(rsiw_timers)]
mod timers {
    use crate::ffi::time::{
        Expires,
        Timer, //
    };
    use kernel::{
        prelude::*,
        sync::Arc, //
    };

    /// An object that names the timer of another one, if there is one.
    #[pin_data]
    struct Borrower {
        other: Option<Arc<Borrower>>,
        #[pin]
        timer: Timer<Self>,
    }

    impl Expires for Borrower {
        fn timer(&self) -> &Timer<Self> {
            match &self.other {
                Some(other) => &other.timer,
                None => &self.timer,
            }
        }

        fn expired(_this: Arc<Self>) {}
    }

    #[test]
    fn only_their_own() -> Result {
        let make = |other| {
            Arc::pin_init(
                pin_init!(Borrower { other, timer <- Timer::new() }),
                GFP_KERNEL,
            )
        };
        let own = make(None)?;
        assert!(Timer::of(&own).is_some_and(|timer| core::ptr::eq(timer, &own.timer)));
        let other = make(Some(own))?;
        assert!(Timer::of(&other).is_none());
        Ok(())
    }
}

/// Timers for microseconds, which keep their objects alive.
#[kernel::macros::kunit_tests(rsiw_short_timers)]
mod short_timers {
    use crate::ffi::time::hrtimer::{
        ExpiresSoon,
        ShortTimer, //
    };
    use kernel::{
        prelude::*,
        sync::{
            atomic::{
                Atomic,
                Relaxed, //
            },
            Arc, //
        },
        time::{
            delay::fsleep,
            Delta, //
        },
    };

    /// Far longer than any test takes.
    const LATER_US: u32 = 600_000_000;

    /// An object that starts its timer again until the timer has run out `left` times.
    #[pin_data]
    struct Counter {
        left: Arc<Atomic<u32>>,
        #[pin]
        timer: ShortTimer<Self>,
    }

    impl ExpiresSoon for Counter {
        fn short_timer(&self) -> &ShortTimer<Self> {
            &self.timer
        }

        fn soon_expired(this: Arc<Self>) {
            if this.left.fetch_add(u32::MAX, Relaxed) > 1 {
                ShortTimer::start(&this, 1);
            }
        }
    }

    fn counter(left: &Arc<Atomic<u32>>) -> Result<Arc<Counter>> {
        let left = left.clone();
        let init = pin_init!(Counter { left, timer <- ShortTimer::new() });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Only the timer keeps the object, until it has run out for the last time.
    #[test]
    fn runs_out() -> Result {
        let left = Arc::new(Atomic::new(3), GFP_KERNEL)?;
        let counter = counter(&left)?;
        ShortTimer::start(&counter, 1);
        drop(counter);
        for _ in 0..1_000 {
            if left.load(Relaxed) == 0 {
                break;
            }
            fsleep(Delta::from_millis(10));
        }
        assert_eq!(left.load(Relaxed), 0);
        Ok(())
    }

    /// A stopped timer does not run out, and may be started again.
    #[test]
    fn is_stopped() -> Result {
        let left = Arc::new(Atomic::new(1), GFP_KERNEL)?;
        let counter = counter(&left)?;
        ShortTimer::stop(&counter);
        for _ in 0..2 {
            ShortTimer::start(&counter, LATER_US);
            ShortTimer::start(&counter, LATER_US);
            ShortTimer::stop(&counter);
        }
        assert_eq!(left.load(Relaxed), 1);
        // The timer has let go of the object.
        drop(counter);
        assert!(Arc::into_unique_or_drop(left).is_some());
        Ok(())
    }
}

#[kernel::macros::kunit_tests(rsiw_maker)]
mod maker {
    use crate::ffi::{
        net::netdev::NetDevice,
        rdma::device::{
            LinkName,
            LinkOps,
            Maker, //
        },
    };
    use kernel::{
        prelude::*,
        sync::Arc, //
    };

    struct Second;

    impl LinkOps for Second {
        fn new_link(&self, _name: LinkName<'_>, _netdev: &NetDevice) -> Result {
            Ok(())
        }
    }

    /// The module has a maker, which stays when another one is refused.
    #[test]
    fn once() -> Result {
        for _ in 0..2 {
            let second = Maker::new(Arc::new(Second, GFP_KERNEL)?);
            assert!(second.is_err_and(|e| e == EBUSY));
        }
        Ok(())
    }
}

#[kernel::macros::kunit_tests(rsiw_batches)]
mod batches {
    use crate::ffi::net::{
        Chunk,
        ChunkPool,
        Mark,
        TxBatch,
        SHORT_LEN, //
    };
    use kernel::{
        prelude::*,
        sync::Arc, //
    };

    /// More octets than a long chunk of 32 KiB has.
    const LEN: u32 = 40_000;

    fn pool() -> Result<Arc<ChunkPool>> {
        Arc::pin_init(ChunkPool::new(), GFP_KERNEL)
    }

    fn batch() -> Result<TxBatch> {
        TxBatch::new(pool()?, 20)
    }

    fn count(batch: &TxBatch, mark: Mark) -> Result<usize> {
        Ok(batch.since(mark)?.map(<[u8]>::len).sum())
    }

    #[test]
    fn marks() -> Result {
        let mut batch = batch()?;
        let octets = KVec::from_elem(7u8, 1000, GFP_KERNEL)?;
        batch.reserve(LEN, true)?;
        let begin = batch.mark();
        for _ in 0..40 {
            batch.push_bytes(&octets)?;
        }
        let end = batch.mark();
        assert_eq!(count(&batch, begin)?, 40_000);
        assert_eq!(count(&batch, end)?, 0);
        batch.reserve(8, true)?;
        batch.push_bytes(b"and more")?;
        batch.truncate(end)?;
        assert_eq!(batch.remaining(), 40_000);
        batch.truncate(begin)?;
        assert!(batch.is_empty());
        Ok(())
    }

    #[test]
    fn what_was_sent_is_not_written_again() -> Result {
        let mut batch = batch()?;
        batch.reserve(LEN, true)?;
        batch.push_bytes(b"first")?;
        let mark = batch.mark();
        batch.push_bytes(b"second")?;
        batch.advance(5)?;
        assert_eq!(count(&batch, mark)?, 6);
        batch.advance(1)?;
        assert!(batch.truncate(mark).is_err());
        assert!(batch.since(mark).is_err());
        assert_eq!(batch.remaining(), 5);
        batch.clear();
        assert!(batch.is_empty() && batch.truncate(mark).is_err());
        Ok(())
    }

    #[test]
    fn the_first_page_is_not_kept() -> Result {
        let pool = pool()?;
        let mut batch = TxBatch::new(pool.clone(), 20)?;
        batch.reserve(5, true)?;
        batch.push_bytes(b"first")?;
        drop(batch);
        // If the pool had kept the page, it would give out that page now.
        assert!(pool.take(true)?.len() > SHORT_LEN);
        Ok(())
    }

    #[test]
    fn pages_instead_of_more_are_kept() -> Result {
        let pool = pool()?;
        let mut chunk = Chunk::new(SHORT_LEN, true)?;
        let mut fills = 0;
        // New chunks are longer.
        while chunk.len() == SHORT_LEN {
            fills += 1;
            assert!(fills < 100);
            pool.give(chunk);
            chunk = pool.take(true)?;
        }
        // The page was filled several times, but not for ever.
        assert!(fills > 4);
        Ok(())
    }
}
