// SPDX-License-Identifier: GPL-2.0

//! Segments that the other end of the connection hands over: `proto::receiver`'s `direct`.

use super::receiver::{completed, counted, receiving, Peer};
use crate::proto::counters::Counter;
use crate::proto::deframer::Budget;
use crate::proto::receiver::Lack;
use crate::support::around::Did;
use crate::support::piece::Handed;
use crate::support::receiving::Receiving;
use crate::support::tuning::SOFTIRQ;
use crate::wire::ddp::{Header, TAGGED_LEN};
use crate::wire::fpdu::LEN_FIELD;
use crate::wire::terminate::TermError;

/// Hands over the segment of an FPDU, if the receiver is ready for it. Returns whether it was.
fn hand_over(receiving: &mut Receiving, fpdu: &[u8]) -> bool {
    let (len, rest) = fpdu.split_first_chunk::<LEN_FIELD>().expect("an FPDU");
    let ulpdu_len = u16::from_be_bytes(*len);
    let (_, payload) = Header::parse(&rest[..ulpdu_len.into()]).expect("a header");
    let segment = &fpdu[..LEN_FIELD + usize::from(ulpdu_len)];
    let front = &segment[..segment.len() - payload.len()];
    let Receiving {
        receiver, around, ..
    } = receiving;
    around.begin(receiver, SOFTIRQ);
    let is_admitted = around.admit(receiver, front) == Lack::Nothing;
    if is_admitted {
        assert_ne!(
            around.take(receiver, &Handed { front, payload }),
            0,
            "it is lost"
        );
    }
    is_admitted
}

/// P-ERR-10, V-TM-4: behind the end of the stream segments are taken, so that their sender does not
/// wait, and dropped without being counted.
#[test]
fn v_tm_4_behind_the_end() {
    let mut peer = Peer::new(100);
    let mut receiving = receiving();
    receiving.around.recvs.push_back(Some(40));
    let [first, second, third] = [(); 3].map(|()| peer.send(40).concat());
    assert!(hand_over(&mut receiving, &first));
    assert_eq!(receiving.did().last(), Some(&completed(0, 40)));
    assert!(hand_over(&mut receiving, &second));
    let none = Did::Failed(TermError::UntaggedNoBuffer);
    assert_eq!(receiving.did(), [none]);
    receiving.around.recvs.push_back(Some(40));
    assert!(hand_over(&mut receiving, &third));
    assert_eq!(receiving.did(), []);
    assert_eq!(receiving.around.recvs, [Some(40)]);
    assert_eq!(counted(&mut receiving, Counter::RxFpdus), 2);
}

/// V-WR-19: a receive that makes no sense ends the stream also where a segment might wait for one.
#[test]
fn v_wr_19_receive_makes_no_sense() {
    let mut peer = Peer::new(100);
    let mut receiving = receiving();
    receiving.receiver.set_patience(100);
    let send = peer.send(40).concat();
    assert!(!hand_over(&mut receiving, &send));
    assert_eq!(receiving.did(), []);
    receiving.around.recvs.push_back(None);
    assert!(hand_over(&mut receiving, &send));
    let bad = Did::Failed(TermError::LocalCatastrophic);
    assert_eq!(receiving.did(), [bad]);
    let failure = receiving.around.failure.as_ref();
    assert!(failure.is_some_and(|f| f.quote.is_some()));
    assert!(hand_over(&mut receiving, &peer.send(40).concat()));
    assert_eq!(receiving.did(), []);
}

/// V-SEC-1: with a budget that is used up no segment is admitted; with another one it is.
#[test]
fn v_sec_1_budget_past_tcp() {
    let mut peer = Peer::new(100);
    let mut receiving = receiving();
    let front = &peer.write(8)[..LEN_FIELD + TAGGED_LEN];
    let Receiving {
        receiver, around, ..
    } = &mut receiving;
    for (budget, outcome) in [(Budget::NONE, Lack::Turn), (SOFTIRQ, Lack::Nothing)] {
        around.begin(receiver, budget);
        assert_eq!(around.admit(receiver, front), outcome);
    }
    assert_eq!(receiving.did(), []);
}
