// SPDX-License-Identifier: GPL-2.0

//! Requests that complete when the peer has placed them (`proto::placement`). The random traffic of
//! two peers shows that none completes before.

use super::*;
use crate::proto::drain::{Stop, Waker};
use crate::proto::sends::{Order, Record, Token};
use crate::support::tcp::waits;

fn placing(depth: u16) -> Sending {
    let mut sending = Sending::new(&params(depth), EMSS, 32);
    sending.await_placement();
    sending
}

fn completed(sending: &Sending) -> usize {
    let all = &sending.queue.completions;
    assert!(all.iter().all(|c| c.1 == Status::Success), "{all:?}");
    all.len()
}

/// Nothing completes when TCP has it; all of a run does when the peer has answered.
#[test]
fn completes_with_the_answer() {
    for posted in [send(10), write(0), write(70_000)] {
        let mut sending = placing(4);
        for _ in 0..3 {
            sending.post(posted);
        }
        sending.run();
        assert!(messages(&sending).contains(&Opcode::ReadRequest));
        assert_eq!(completed(&sending), 0, "{posted:?}");
        sending.settle();
        assert_eq!(completed(&sending), 3);
    }
}

/// One Read is under way at a time; what is sent meanwhile shares the next.
#[test]
fn one_at_a_time() {
    let mut sending = placing(4);
    sending.post(send(10));
    sending.run();
    for _ in 0..3 {
        sending.post(send(10));
        let marked = Waker::Read.mark(|| ());
        assert_eq!(sending.run_once(), Stop::For(marked));
    }
    let reads = |sending: &Sending| {
        let all = messages(sending);
        all.iter().filter(|m| **m == Opcode::ReadRequest).count()
    };
    assert_eq!((reads(&sending), completed(&sending)), (1, 0));
    assert!(sending.answer_in_parts(|_, _| {}), "the sender waits");
    assert_eq!(completed(&sending), 1);
    sending.run();
    assert_eq!((reads(&sending), completed(&sending)), (2, 1));
    assert!(!sending.answer_in_parts(|_, _| {}), "nobody waits");
    assert_eq!(completed(&sending), 4);
}

/// The peer is asked now and then also if there is always more to send.
#[test]
fn asks_while_there_is_more() {
    let mut sending = placing(4);
    sending.queue.is_endless = true;
    for _ in 0..8 {
        sending.post(write(600_000));
    }
    for _ in 0..40 {
        let _ = sending.run_once();
    }
    let sent = messages(&sending);
    assert_eq!(
        sent[..3],
        [Opcode::Write, Opcode::Write, Opcode::ReadRequest]
    );
    assert!(sent.len() > 4 && !sent[3..].contains(&Opcode::ReadRequest));
}

/// So it is where each Write has immediate data behind it, in a message of its own.
#[test]
fn asks_while_there_are_more_immediates() {
    let mut sending = placing(8);
    sending.queue.is_endless = true;
    for _ in 0..8 {
        let data = ImmediateData::from_short([1, 2, 3, 4]);
        sending.post(write_to(Stag(5), 600_000, Some(data)));
    }
    for _ in 0..40 {
        let _ = sending.run_once();
    }
    let sent = messages(&sending);
    let asked = sent.iter().position(|o| *o == Opcode::ReadRequest);
    assert_eq!(asked, Some(4), "{sent:?}");
}

/// T-47: and also if the peer always has another Read or Atomic Operation: the question takes the
/// turn of the send queue, one question at a time.
#[test]
fn asks_while_the_peer_reads() {
    let reads: fn(&mut Sending) = |sending| sending.peer_reads(peers_read(10));
    let changes: fn(&mut Sending) = |sending| sending.peer_changes(super::atomic::peers(1));
    for (asks, response) in [
        (reads, Opcode::ReadResponse),
        (changes, Opcode::AtomicResponse),
    ] {
        for posted in [send(10), write(10)] {
            let mut sending = placing(4);
            (0..4).for_each(|_| asks(&mut sending));
            sending.post(posted);
            sending.run();
            let sent = messages(&sending);
            let question = sent.iter().position(|o| *o == Opcode::ReadRequest);
            let last = sent.iter().rposition(|o| *o == response);
            assert!(question.is_some() && question < last, "{sent:?}");
            let all = |opcode| sent.iter().filter(|o| **o == opcode).count();
            assert_eq!((all(Opcode::ReadRequest), all(response)), (1, 4));

            // What is sent meanwhile shares the next question; responses do not wait for it.
            (0..4).for_each(|_| asks(&mut sending));
            sending.post(posted);
            sending.run();
            let more = messages(&sending).split_off(sent.len());
            assert_eq!(more.len(), 5, "{more:?}");
            assert!(!more.contains(&Opcode::ReadRequest));
            (0..4).for_each(|_| asks(&mut sending));
            assert!(sending.answer());
            sending.settle();
            assert_eq!(completed(&sending), 2);
        }
    }
}

/// A Read or an Atomic Operation of the consumer tells as much, and the sender asks nothing.
#[test]
fn reads_of_the_consumer_tell() {
    let mut sending = placing(4);
    sending.post(write(10));
    sending.post(read(10, false));
    sending.run();
    assert_eq!(messages(&sending), [Opcode::Write, Opcode::ReadRequest]);
    assert_eq!(completed(&sending), 0);
    assert!(sending.answer());
    assert_eq!(completed(&sending), 2);
    assert!(!sending.answer(), "nothing else is asked");

    // One in front of the Write does not.
    let mut sending = placing(4);
    sending.post(read(10, false));
    sending.post(write(10));
    sending.run();
    assert!(sending.answer());
    assert_eq!(completed(&sending), 1);
    assert!(sending.answer());
    assert_eq!(completed(&sending), 2);
}

/// What concerns this side only does not wait for the peer, and is not overtaken.
#[test]
fn local_requests_do_not_wait() {
    let register = Posted::new(Operation::Local(Local::Register), 0);
    let mut sending = placing(4);
    sending.post(register);
    sending.run();
    assert_eq!(completed(&sending), 1);
    assert!(sending.seen().is_empty());

    sending.post(write(10));
    sending.post(register);
    sending.run();
    assert_eq!(completed(&sending), 1);
    sending.settle();
    assert_eq!(completed(&sending), 3);
}

/// What the other end on this host has taken is placed, and nothing is asked.
#[test]
fn past_tcp() {
    let mut sending = placing(4);
    sending.tcp.direct = Some(Ok(true));
    for posted in [send(10), write(5_000)] {
        sending.post(posted);
    }
    sending.run();
    assert_eq!(completed(&sending), 2);
    assert!(sending.tcp.out.is_empty());
    // What TCP has is in front of that.
    sending.tcp.direct = Some(Ok(false));
    sending.post(send(10));
    sending.run();
    assert_eq!(completed(&sending), 2);
    sending.tcp.direct = Some(waits());
    sending.post(send(10));
    let _ = sending.run_once();
    sending.tcp.direct = Some(Ok(true));
    sending.run();
    assert_eq!(completed(&sending), 4);
}

/// What the peer has not confirmed is flushed, as is what was not sent.
#[test]
fn flushed() {
    let mut sending = placing(4);
    sending.post(write(10));
    sending.run();
    assert!(sending.answer());
    sending.post(write(10));
    sending.run();
    sending.post(write(10));
    sending.queue.flush();
    let all: Vec<_> = sending.queue.completions.iter().map(|c| c.1).collect();
    assert_eq!(all, [Status::Success, Status::Flushed, Status::Flushed]);
}

/// When the peer closes, what it has not told of completes, and what is not sent does not.
#[test]
fn peer_closes() {
    let mut sending = placing(4);
    sending.post(write(10));
    sending.run();
    sending.post(write(10));
    sending.run();
    assert_eq!(completed(&sending), 0);
    sending.queue.placed_all();
    assert_eq!(completed(&sending), 2);
    sending.post(write(10));
    sending.queue.flush();
    assert_eq!(sending.queue.completions[2].1, Status::Flushed);
}

/// When the peer leaves, it says how many messages it has placed, and what is known by that
/// completes: the rest of a run of which it has placed some is in doubt.
#[test]
fn peer_leaves() {
    let mut sending = placing(4);
    assert_eq!(sending.sender.placed(u32::MAX), None);
    for _ in 0..3 {
        sending.post(write(10));
    }
    sending.run();
    // The Read about these three is under way.
    sending.post(send(10));
    sending.post(send(10));
    sending.run();
    let tokens = [2, 3, 4, 5, 6].map(|placed| sending.sender.placed(placed));
    let (asked, all) = (Some(Token(2)), Some(Token(4)));
    assert_eq!(tokens, [None, asked, asked, all, all]);
    sending.queue.placed(Token(2));
    assert_eq!(completed(&sending), 3);
    sending.queue.placed(Token(4));
    assert_eq!(completed(&sending), 5);
}

/// A Send with immediate data fails by itself if the peer could not tell its consumer.
#[test]
fn send_with_immediate_data() {
    let posted = Posted::new(Operation::SendImmediate { data: [1, 2, 3, 4] }, 10);
    let mut sending = placing(4);
    sending.post(posted);
    assert!(matches!(sending.run_once(), Stop::Failed(_)));
    let fault = Status::Failed(Fault::LocalOperation);
    assert_eq!(sending.queue.completions[0].1, fault);
    let mut sending = placing(4);
    sending.sender.allow_send_immediate();
    sending.post(posted);
    sending.settle();
    assert_eq!(completed(&sending), 1);
    assert_eq!(messages(&sending)[0], Opcode::SendImmediate);
}

/// Without any Read of the consumer's allowed any more, the sender may still ask.
#[test]
fn no_reads_allowed() {
    let mut sending = placing(1);
    sending.queue.forbid_reads();
    sending.post(write(10));
    sending.settle();
    assert_eq!(completed(&sending), 1);
}

/// Without placement a message completes when TCP has it.
#[test]
fn not_awaited() {
    let mut order: Order<Vec<Record<u64, Fault>>> = Order::new(vec![Record::default(); 4]);
    let none = order.push_message(1).expect("room");
    assert_eq!(none, Token(0));
    order.done(none);
    assert_eq!(order.pop(), Some((1, Status::Success)), "not awaited");
}
