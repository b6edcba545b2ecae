// SPDX-License-Identifier: GPL-2.0

//! The table of counters, and what is counted of known traffic.

use super::two_peers::{atomic, config, connected, read, send, settle, write, BASE, SOURCE};
use crate::proto::connection::{Code, Error, Event, Log};
use crate::proto::counters::{Counter, Tally, COUNT, TALLIED};
use crate::proto::failure::{Failure, Fault};
use crate::proto::negotiate::EventDepths;
use crate::proto::segment::{Action, Segment};
use crate::proto::sends::Status;
use crate::wire::mpa::REV_2;
use crate::wire::terminate::TermError;
use std::collections::{BTreeMap, BTreeSet};

/// The page that explains them to the administrator.
const PAGE: &str = include_str!("../../../../../Documentation/infiniband/rsiw-observing.rst");

/// What there is, by name, without zeros.
fn counts(tally: &mut Tally) -> BTreeMap<&'static str, u64> {
    let Some((counts, marks)) = tally.take() else {
        return BTreeMap::new();
    };
    let mut found = BTreeMap::new();
    for counter in &Counter::ALL[..TALLIED] {
        let n = std::mem::take(&mut counts[counter.index()]);
        assert!(n == 0 || (marks >> counter.index()) & 1 == 1, "{counter:?}");
        if n > 0 {
            found.insert(counter.name().to_str().unwrap(), n);
        }
    }
    found
}

#[test]
fn names_are_unique_documented_and_fit_one_message_of_netlink() {
    let names: BTreeSet<_> = Counter::ALL.iter().map(|c| c.name()).collect();
    assert_eq!(names.len(), COUNT);
    let mut octets = 0;
    for (at, counter) in Counter::ALL.iter().enumerate() {
        assert_eq!(counter.index(), at);
        let name = counter.name().to_str().unwrap();
        assert!(name.bytes().all(|c| c == b'_' || c.is_ascii_lowercase()));
        assert!(PAGE.contains(&format!("``{name}``")), "{name}");
        // An attribute that has one with the name, and one with a value of 64 bits, padded.
        octets += 4 + (4 + name.len() + 1).next_multiple_of(4) + 16;
    }
    // The core fills one skb of a page with all of them, and shows none if they do not fit.
    assert!(octets < 3000, "{octets}");
}

#[test]
fn a_tally_is_taken_once() {
    let mut tally = Tally::new();
    assert!(tally.take().is_none());
    tally.add(Counter::ALL[TALLIED - 1], 7);
    // No half counts this.
    tally.add(Counter::ALL[TALLIED], 9);
    tally.add(Counter::TxSends, 1);
    tally.add(Counter::TxSends, 2);
    let (taken, marks) = tally.take().unwrap();
    assert_eq!(marks, 1 | (1 << (TALLIED - 1)));
    assert_eq!((taken[0], taken[TALLIED - 1]), (3, 7));
    assert!(tally.take().is_none());
}

#[test]
fn traffic_is_counted_to_the_octet() {
    let (mut a, mut b) = connected(config(REV_2, true, false), config(REV_2, true, false));
    assert_eq!(counts(a.tx_tally()), BTreeMap::new());
    for len in [0, 1, 5000] {
        b.post_recv(len);
        a.post(1, send(&vec![7; len]), false);
    }
    a.post(2, write(BASE, vec![8; 3000]), false);
    a.post(3, read(SOURCE, BASE, 10_000, BASE), false);
    assert_eq!(a.under_way(), (0, 0));
    settle(&mut a, &mut b);
    assert_eq!((a.under_way(), b.under_way()), ((0, 0), (0, 0)));

    let sent = counts(a.tx_tally());
    let fpdus = sent["tx_fpdus"];
    let want = [
        ("tx_fpdus", fpdus),
        ("tx_read_requests", 1),
        ("tx_send_bytes", 5001),
        ("tx_send_requests", 3),
        ("tx_write_bytes", 3000),
        ("tx_write_requests", 1),
    ];
    assert_eq!(sent, want.into());
    let want = [
        ("rx_fpdus", fpdus),
        ("rx_read_requests", 1),
        ("rx_send_bytes", 5001),
        ("rx_send_requests", 3),
        ("rx_write_bytes", 3000),
        ("rx_write_requests", 1),
    ];
    assert_eq!(counts(b.rx_tally()), want.into());

    let sent = counts(b.tx_tally());
    let fpdus = sent["tx_fpdus"];
    let want = [
        ("tx_fpdus", fpdus),
        ("tx_read_response_bytes", 10_000),
        ("tx_read_responses", 1),
    ];
    assert_eq!(sent, want.into());
    let want = [
        ("rx_fpdus", fpdus),
        ("rx_read_response_bytes", 10_000),
        ("rx_read_responses", 1),
    ];
    assert_eq!(counts(a.rx_tally()), want.into());
}

#[test]
fn what_goes_past_tcp_is_counted() {
    let (mut a, mut b) = connected(config(REV_2, true, false), config(REV_2, true, false));
    // The first message goes through TCP, and so does what is told about the last one.
    for len in [10, 0, 100_000] {
        b.post_recv(len);
        a.post(1, send(&vec![7; len]), false);
        settle(&mut a, &mut b);
        a.go_direct();
    }
    a.post(2, send(b"nobody waits"), false);
    settle(&mut a, &mut b);
    let (tx, rx) = (counts(a.tx_tally()), counts(b.rx_tally()));
    assert_eq!((tx["tx_send_requests"], tx["tx_fpdus"]), (4, 5));
    let direct = ["messages", "segments", "bytes"].map(|what| tx[&*format!("tx_direct_{what}")]);
    assert_eq!(direct, [3, 4, 100_012]);
    assert_eq!((rx["rx_fpdus"], rx["rx_direct_segments"]), (5, 4));
    assert_eq!(counts(b.tx_tally()), [("tx_terminate_ddp", 1)].into());
    let want = [("rx_fpdus", 1), ("rx_terminate_ddp", 1)];
    assert_eq!(counts(a.rx_tally()), want.into());
}

#[test]
fn terminates_are_counted_by_layer_at_both_ends() {
    let (mut a, mut b) = connected(config(REV_2, true, false), config(REV_2, true, false));
    // There is no receive: an error of DDP.
    a.post(1, send(b"x"), false);
    settle(&mut a, &mut b);
    assert_eq!(b.sent_terminate, Some(TermError::UntaggedNoBuffer));
    assert_eq!(counts(b.tx_tally()), [("tx_terminate_ddp", 1)].into());
    let want = [("rx_fpdus", 1), ("rx_terminate_ddp", 1)];
    assert_eq!(counts(a.rx_tally()), want.into());
}

#[test]
fn each_layer_has_its_terminates() {
    for (error, sent, received) in [
        (
            TermError::RemoteStag,
            "tx_terminate_rdmap",
            "rx_terminate_rdmap",
        ),
        (
            TermError::UntaggedQn,
            "tx_terminate_ddp",
            "rx_terminate_ddp",
        ),
        (TermError::MpaCrc, "tx_terminate_mpa", "rx_terminate_mpa"),
    ] {
        let mut tally = Tally::new();
        tally.terminate_sent(error);
        assert_eq!(counts(&mut tally), [(sent, 1)].into());
        let (code, read) = (error.code(), None);
        tally.received(&Segment {
            header_len: 0,
            payload_len: 0,
            first: false,
            action: Action::Terminate {
                code,
                read,
                placed: None,
            },
        });
        assert_eq!(counts(&mut tally), [(received, 1)].into());
    }
    // The end of a stream between queue pairs that are connected by number is no error.
    let mut tally = Tally::new();
    tally.received(&Segment {
        header_len: 0,
        payload_len: 0,
        first: false,
        action: Action::Terminate {
            code: TermError::Leaving.code(),
            read: None,
            placed: Some(1),
        },
    });
    assert_eq!(counts(&mut tally), [].into());
    let of_no_layer = Counter::of_terminate(0x3000);
    assert_eq!(of_no_layer, Counter::of_terminate(0x2002));
}

#[test]
fn events_logs_failures_and_completions_have_their_counters() {
    let depths = EventDepths::default();
    let reply = |error| Event::Reply {
        error,
        depths,
        data: 0,
    };
    let established = |error| Event::Established { error, depths };
    for (event, want) in [
        (
            Event::Request { depths, data: 0 },
            Some(Counter::ConnRequested),
        ),
        (reply(None), Some(Counter::ConnEstablished)),
        (reply(Some(Error::Refused)), Some(Counter::ConnRefused)),
        (reply(Some(Error::TimedOut)), Some(Counter::ConnTimedOut)),
        (
            reply(Some(Error::Other(Code(-5)))),
            Some(Counter::ConnFailed),
        ),
        (established(None), Some(Counter::ConnEstablished)),
        (established(Some(Error::Reset)), Some(Counter::ConnFailed)),
        (Event::Disconnect, None),
        (Event::Close, None),
    ] {
        assert_eq!(Counter::of_event(&event), want, "{event:?}");
    }
    assert_eq!(
        Counter::of_log(&Log::NoRequest),
        Some(Counter::ConnTimedOut)
    );
    assert_eq!(Counter::of_log(&Log::RequestCut), Some(Counter::ConnFailed));
    // The reply event tells of it.
    assert_eq!(Counter::of_log(&Log::EventLost), None);

    let of = |error: TermError| Counter::of_failure(&error.into());
    assert_eq!(of(TermError::MpaCrc), Some(Counter::RxCrcErrors));
    assert_eq!(of(TermError::UntaggedNoBuffer), Some(Counter::OutOfBuffer));
    assert_eq!(
        of(TermError::TaggedBounds),
        Some(Counter::RemoteAccessErrors)
    );
    assert_eq!(
        of(TermError::RemoteCannotInvalidate),
        Some(Counter::RemoteAccessErrors)
    );
    assert_eq!(of(TermError::TaggedVersion), None);
    assert_eq!(of(TermError::UntaggedQn), None);
    let denied = Failure {
        denied: true,
        ..TermError::UntaggedQn.into()
    };
    assert_eq!(
        Counter::of_failure(&denied),
        Some(Counter::RemoteAccessErrors)
    );

    let failed = Status::Failed(Fault::LocalLength);
    assert_eq!(Counter::of_send(Status::Success), [None, None]);
    assert_eq!(Counter::of_send(failed), [Some(Counter::SendErrors), None]);
    let want = [Some(Counter::SendErrors), Some(Counter::SendsFlushed)];
    assert_eq!(Counter::of_send(Status::Flushed), want);
    assert_eq!(Counter::of_recv(Status::Success), [None, None]);
    let want = [Some(Counter::RecvErrors), Some(Counter::LengthErrors)];
    assert_eq!(Counter::of_recv(failed), want);
    let want = [Some(Counter::RecvErrors), Some(Counter::RecvsFlushed)];
    assert_eq!(Counter::of_recv(Status::Flushed), want);
    let other = Status::Failed(Fault::General);
    assert_eq!(Counter::of_recv(other), [Some(Counter::RecvErrors), None]);
}

/// Atomic Requests are counted at both ends, if the operation is known.
#[test]
fn atomic_requests_are_counted() {
    let (mut a, mut b) = connected(config(REV_2, true, false), config(REV_2, true, false));
    for n in 0..3 {
        a.post(n, atomic::add(1, 0, 0), false);
    }
    settle(&mut a, &mut b);
    let want = [("tx_atomic_requests", 3), ("tx_fpdus", 3)];
    assert_eq!(counts(a.tx_tally()), want.into());
    let want = [("rx_atomic_requests", 3), ("rx_fpdus", 3)];
    assert_eq!(counts(b.rx_tally()), want.into());
    assert_eq!(counts(b.tx_tally()), [("tx_fpdus", 3)].into());
    assert_eq!(counts(a.rx_tally()), [("rx_fpdus", 3)].into());
}
