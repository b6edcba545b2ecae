// SPDX-License-Identifier: GPL-2.0

//! QP states: all 25 pairs of `modify_qp`, and every event in every state (V-ST).

use crate::proto::state::{
    async_class, next, remote_class, Async, Effects, Illegal, Post, QpEvent, QpState, Tcp,
};
use crate::support::rng::{Choices, Rng};
use crate::wire::terminate::TermError;
use QpState::{Closing, Draining, Error, Idle, Rts, Terminate};

/// Those of the verbs.
const STATES: [QpState; 5] = [Idle, Rts, Closing, Terminate, Error];

fn modify(from: QpState, to: QpState) -> Result<(QpState, Effects), Illegal> {
    next(
        from,
        QpEvent::Modify {
            to,
            idle: true,
            flushed: true,
        },
    )
}

/// What all transitions to Error have in common.
fn error(tcp: Tcp, event: Option<Async>, close: bool) -> Result<(QpState, Effects), Illegal> {
    let effects = Effects {
        tcp,
        flush_sq: true,
        flush_rq: true,
        last_wqe: true,
        event,
        close,
        ..Effects::default()
    };
    Ok((Error, effects))
}

/// V-ST-1, V-ST-22, V-ST-38, T-34: the 25 pairs. Closing is what a disconnect asks for, which is
/// done where there is no connection, or an end is under way (L-CORE-6).
#[test]
fn v_st_1_modify_matrix() {
    // Rows and columns: Idle, RTS, Closing, Terminate, Error; the target if it is legal.
    let legal = [
        [true, false, true, false, true],
        [false, true, true, true, true],
        [false, false, true, false, true],
        [false, false, true, false, true],
        [true, false, true, false, true],
    ];
    for (from, row) in STATES.into_iter().zip(legal) {
        for (to, ok) in STATES.into_iter().zip(row) {
            match modify(from, to) {
                Ok((state, effects)) => {
                    assert!(ok, "{from:?} -> {to:?}");
                    let stays = to == Closing && from != Rts;
                    assert_eq!(state, if stays { from } else { to });
                    assert!(!stays || effects == Effects::default());
                    // V-QP-23: nothing happens on the way to where one is.
                    assert!(from != to || effects == Effects::default());
                }
                Err(Illegal) => assert!(!ok, "{from:?} -> {to:?}"),
            }
        }
    }
}

/// T-34: ERR always works; V-ST-7, V-ST-16, T-36, T-32: how TCP ends.
#[test]
fn t_36_to_error() {
    assert_eq!(modify(Idle, Error), error(Tcp::Keep, None, false));
    assert_eq!(modify(Rts, Error), error(Tcp::Reset, None, true));
    assert_eq!(modify(Draining, Error), error(Tcp::Keep, None, true));
    assert_eq!(modify(Closing, Error), error(Tcp::Keep, None, true));
    assert_eq!(modify(Terminate, Error), error(Tcp::Keep, None, true));
    assert_eq!(modify(Error, Error), Ok((Error, Effects::default())));
}

/// V-QP-25: destruction resets TCP only if something is cut off by it.
#[test]
fn v_qp_25_destroy() {
    for idle in [false, true] {
        let destroy = |state| next(state, QpEvent::Destroy { idle });
        let tcp = if idle { Tcp::Keep } else { Tcp::Reset };
        assert_eq!(destroy(Rts), error(tcp, None, true));
        for state in [Idle, Draining, Closing, Terminate, Error] {
            assert_eq!(destroy(state), modify(state, Error));
        }
    }
}

/// V-ST-9, V-ST-10, V-ST-33, T-36: RTS to Closing.
#[test]
fn v_st_9_10_to_closing() {
    let (state, effects) = modify(Rts, Closing).unwrap();
    let want = Effects {
        tcp: Tcp::Fin,
        start_timer: true,
        flush_rq: true,
        ..Effects::default()
    };
    assert_eq!((state, effects), (Closing, want));
    assert_eq!(next(Rts, BUSY), Ok((Draining, STARTED)));
}

/// SQD with work under way.
const BUSY: QpEvent = QpEvent::Modify {
    to: Closing,
    idle: false,
    flushed: false,
};

/// What Draining begins with.
const STARTED: Effects = Effects {
    terminate: None,
    tcp: Tcp::Keep,
    start_timer: true,
    flush_sq: false,
    flush_rq: false,
    last_wqe: false,
    renew: false,
    event: None,
    disconnect: false,
    close: false,
};

/// V-ST-10, V-ST-22, V-ST-37: as RTS while there is work, Closing for the verbs; then a FIN.
#[test]
fn v_st_10_draining() {
    assert_eq!(Draining.in_verbs(), Closing);
    assert_eq!(STATES.map(QpState::in_verbs), STATES);
    assert!(Draining.sends());
    assert_eq!(Draining.post_send(false), Post::Queue);
    assert_eq!(Draining.post_recv(), Post::Queue);
    assert_eq!(next(Draining, QpEvent::Drained), modify(Rts, Closing));
    for to in [Idle, Rts, Terminate] {
        assert_eq!(modify(Draining, to), Err(Illegal));
    }
    for idle in [false, true] {
        let again = QpEvent::Modify {
            to: Closing,
            idle,
            flushed: false,
        };
        assert_eq!(next(Draining, again), Ok((Draining, Effects::default())));
    }
    for event in [
        QpEvent::PeerFin { idle: true },
        QpEvent::PeerFin { idle: false },
        QpEvent::PeerReset,
        QpEvent::Lost,
        QpEvent::Closed,
        QpEvent::TerminateReceived { event: None },
        QpEvent::LocalError {
            error: TermError::TaggedStag,
            in_completion: false,
            can_send: true,
        },
        QpEvent::Connected,
        QpEvent::PostedTooLate,
        QpEvent::DataInClosing,
    ] {
        assert_eq!(next(Draining, event), next(Rts, event), "{event:?}");
    }
    let fatal = Some(Async::Fatal);
    assert_eq!(
        next(Draining, QpEvent::Timeout),
        error(Tcp::Reset, fatal, true)
    );
    for state in STATES {
        assert_eq!(next(state, QpEvent::Drained), Err(Illegal));
    }
}

/// V-ST-13: RTS to Terminate by the consumer: layer 0, type 0, and no event.
#[test]
fn v_st_13_to_terminate() {
    let (state, effects) = modify(Rts, Terminate).unwrap();
    let want = Effects {
        terminate: Some(TermError::LocalCatastrophic),
        tcp: Tcp::Fin,
        start_timer: true,
        ..Effects::default()
    };
    assert_eq!((state, effects), (Terminate, want));
}

/// V-ST-30, T-35: Error to Idle once all is flushed.
#[test]
fn v_st_30_error_to_idle() {
    let flushing = QpEvent::Modify {
        to: Idle,
        idle: true,
        flushed: false,
    };
    assert_eq!(next(Error, flushing), Err(Illegal));
    let want = Effects {
        renew: true,
        ..Effects::default()
    };
    assert_eq!(modify(Error, Idle), Ok((Idle, want)));
}

/// V-ST-3: only the connection manager brings a QP to RTS, only from Idle.
#[test]
fn v_st_3_connected() {
    assert_eq!(
        next(Idle, QpEvent::Connected),
        Ok((Rts, Effects::default()))
    );
    for state in [Rts, Draining, Closing, Terminate, Error] {
        assert_eq!(next(state, QpEvent::Connected), Err(Illegal));
    }
}

/// V-ST-11, V-ST-12, V-ST-36, T-37: the peer's FIN.
#[test]
fn t_37_peer_fin() {
    let (state, effects) = next(Rts, QpEvent::PeerFin { idle: true }).unwrap();
    assert_eq!(
        (state, effects.tcp, effects.terminate),
        (Closing, Tcp::Fin, None)
    );
    assert!(effects.disconnect && effects.event.is_none() && !effects.close);
    let (state, effects) = next(state, QpEvent::Closed).unwrap();
    let want = Effects {
        last_wqe: true,
        renew: true,
        close: true,
        ..Effects::default()
    };
    assert_eq!((state, effects), (Idle, want));

    let (state, effects) = next(Rts, QpEvent::PeerFin { idle: false }).unwrap();
    assert_eq!((state, effects.tcp), (Terminate, Tcp::Fin));
    assert_eq!(effects.terminate, Some(TermError::CatastrophicStream));
    assert_eq!(effects.event, Some(Async::Fatal));
}

/// V-ST-35, T-32, T-33: an error of this side in Closing does not destroy what has completed in front of
/// the FIN, and is told of once.
#[test]
fn t_33_local_errors_in_closing() {
    for (in_completion, event) in [(true, None), (false, Some(Async::Fatal))] {
        let failed = QpEvent::LocalError {
            error: TermError::CatastrophicStream,
            in_completion,
            can_send: true,
        };
        assert_eq!(
            next(Closing, failed),
            error(Tcp::ResetIfDelivered, event, true)
        );
    }
}

/// V-ST-14, V-ST-24, V-TM-3, T-33: an error on this side.
#[test]
fn t_33_local_errors() {
    let local = |error, in_completion, can_send| {
        let event = QpEvent::LocalError {
            error,
            in_completion,
            can_send,
        };
        next(Rts, event).unwrap()
    };
    let (state, effects) = local(TermError::TaggedBounds, false, true);
    assert_eq!((state, effects.tcp), (Terminate, Tcp::Fin));
    assert_eq!(effects.terminate, Some(TermError::TaggedBounds));
    assert_eq!(effects.event, Some(Async::Access));
    let (_, effects) = local(TermError::LocalCatastrophic, true, true);
    assert_eq!(effects.event, None);
    assert!(effects.terminate.is_some());
    let (state, effects) = local(TermError::UntaggedMsn, false, false);
    assert_eq!(
        (state, effects.tcp, effects.terminate),
        (Error, Tcp::Reset, None)
    );
    assert_eq!(effects.event, Some(Async::Request));
}

/// V-ST-15, V-ST-20, T-32: none in answer to a received Terminate.
#[test]
fn v_st_15_terminate_received() {
    let (state, effects) = next(
        Rts,
        QpEvent::TerminateReceived {
            event: Some(Async::Fatal),
        },
    )
    .unwrap();
    assert_eq!(
        (state, effects.tcp, effects.terminate),
        (Terminate, Tcp::Fin, None)
    );
    assert_eq!(effects.event, Some(Async::Fatal));
}

/// V-ST-17, V-ST-18, V-ST-34, V-ST-35: resets, losses and time-outs.
#[test]
fn v_st_34_35_bad_close() {
    use QpEvent::{Closed, DataInClosing, Lost, PeerReset, PostedTooLate, Timeout};
    let fatal = Some(Async::Fatal);
    for event in [PeerReset, Lost] {
        let (state, effects) = next(Rts, event).unwrap();
        let found = (state, effects.tcp, effects.event);
        assert_eq!(found, (Error, Tcp::Reset, fatal));
    }
    for (from, event, tcp, told) in [
        (Closing, PeerReset, Tcp::Reset, fatal),
        (Closing, Lost, Tcp::Reset, fatal),
        (Closing, Timeout, Tcp::Reset, fatal),
        (Closing, PostedTooLate, Tcp::ResetIfDelivered, fatal),
        (Closing, DataInClosing, Tcp::ResetIfDelivered, fatal),
        (Terminate, PeerReset, Tcp::Reset, None),
        (Terminate, Lost, Tcp::Reset, None),
        (Terminate, Timeout, Tcp::Reset, None),
        (Terminate, Closed, Tcp::Keep, None),
    ] {
        assert_eq!(next(from, event), error(tcp, told, true), "{event:?}");
    }
    let fin = QpEvent::PeerFin { idle: true };
    for state in [Closing, Terminate] {
        assert_eq!(next(state, fin), Ok((state, Effects::default())));
    }
}

/// V-ST-37: a post finds a closed connection, whether Closing is over or not.
#[test]
fn v_st_37_post_after_close() {
    assert_eq!(Idle.post_send(true), Post::TooLate);
    assert_eq!(
        next(Idle, QpEvent::PostedTooLate),
        error(Tcp::Keep, None, false)
    );
    for state in [Rts, Terminate, Error] {
        assert_eq!(next(state, QpEvent::PostedTooLate), Err(Illegal));
    }
}

/// V-ST-2, V-ST-19, V-ST-29, V-ST-32, V-ST-37, T-34: what becomes of posts and traffic.
#[test]
fn v_st_37_posts() {
    let posts = STATES.map(|s| (s.post_send(false), s.post_recv()));
    let want = [
        (Post::Queue, Post::Queue),
        (Post::Queue, Post::Queue),
        (Post::TooLate, Post::Flush),
        (Post::Queue, Post::Queue),
        (Post::Flush, Post::Flush),
    ];
    assert_eq!(posts, want);
    assert_eq!(
        STATES.map(QpState::sends),
        [false, true, false, false, false]
    );
}

/// V-AE-2: what a peer's Terminate tells of goes by layer and type, whatever the code.
#[test]
fn v_ae_2_remote_classes() {
    for code in 0..=0xff {
        let class = |layer_and_type: u16| remote_class((layer_and_type << 8) | code);
        assert_eq!([0x01, 0x11].map(class), [Async::Access; 2]);
        assert_eq!([0x02, 0x12].map(class), [Async::Request; 2]);
        assert_eq!([0x00, 0x10, 0x20, 0xff].map(class), [Async::Fatal; 4]);
    }
}

/// V-AE-5 to V-AE-28.
#[test]
fn v_ae_classes() {
    for (error, class) in [
        (TermError::MpaCrc, Async::Fatal),
        (TermError::MpaFpdu, Async::Fatal),
        (TermError::LocalCatastrophic, Async::Fatal),
        (TermError::DdpLocalCatastrophic, Async::Fatal),
        (TermError::CatastrophicStream, Async::Fatal),
        (TermError::CatastrophicGlobal, Async::Fatal),
        (TermError::OpCannotInvalidate, Async::Request),
        (TermError::TaggedVersion, Async::Request),
        (TermError::UntaggedVersion, Async::Request),
        (TermError::RdmapVersion, Async::Request),
        (TermError::UnexpectedOpcode, Async::Request),
        (TermError::UntaggedNoBuffer, Async::Request),
        (TermError::TaggedStag, Async::Access),
        (TermError::TaggedWrap, Async::Access),
        (TermError::RemoteAccess, Async::Access),
    ] {
        assert_eq!(async_class(error), class);
    }
}

/// A queue pair that is connected by number does not notice that its peer is gone, but for requests
/// that have waited for too long; and its consumer's end of the stream is a FIN, behind what has
/// completed.
#[test]
fn by_number() {
    let gone = |busy| next(Rts, QpEvent::PeerGone { busy });
    let quiet = Effects {
        renew: true,
        close: true,
        ..Effects::default()
    };
    assert_eq!(gone(false), Ok((Idle, quiet)));
    // Requests that wait are there until their time is over.
    let busy = Effects {
        renew: false,
        ..quiet
    };
    assert_eq!(gone(true), Ok((Idle, busy)));
    let given_up = error(Tcp::Keep, None, true);
    assert_eq!(next(Rts, QpEvent::Unreachable), given_up);
    assert_eq!(next(Rts, QpEvent::Leave), error(Tcp::Keep, None, true));
    assert_eq!(next(Idle, QpEvent::Leave), modify(Idle, Error));
    assert_eq!(next(Error, QpEvent::Leave), modify(Error, Error));
    assert_eq!(next(Terminate, QpEvent::Leave), modify(Terminate, Error));
    assert_eq!(next(Idle, QpEvent::Unreachable), modify(Idle, Error));
    for state in [Closing, Terminate, Error] {
        assert_eq!(next(state, QpEvent::Unreachable), Err(Illegal));
    }
    for state in [Idle, Closing, Terminate, Error] {
        for busy in [false, true] {
            assert_eq!(next(state, QpEvent::PeerGone { busy }), Err(Illegal));
        }
    }
}

/// L-CORE-4, L-CORE-6: whatever happens, each connection is closed exactly once, a Terminate
/// goes out at most once and stands before the close, and there is at most one event.
#[test]
fn l_core_4_one_close_per_connection() {
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let mut state = Idle;
        let (mut connections, mut closes, mut events, mut terminates) = (0, 0, 0, 0);
        for _ in 0..40 {
            let event = match rng.below(16) {
                0 | 1 => QpEvent::Connected,
                2 | 3 => QpEvent::Modify {
                    to: STATES[rng.below(5)],
                    idle: rng.one_in(2),
                    flushed: rng.one_in(2),
                },
                4 => QpEvent::PeerFin {
                    idle: rng.one_in(2),
                },
                5 => QpEvent::PeerReset,
                6 => QpEvent::LocalError {
                    error: TermError::TaggedStag,
                    in_completion: rng.one_in(2),
                    can_send: rng.one_in(2),
                },
                7 => QpEvent::TerminateReceived {
                    event: Some(Async::Fatal),
                },
                8 => QpEvent::Closed,
                9 => QpEvent::Timeout,
                10 => QpEvent::PostedTooLate,
                11 => QpEvent::Drained,
                12 => QpEvent::Leave,
                13 => QpEvent::PeerGone {
                    busy: rng.one_in(2),
                },
                14 => QpEvent::Unreachable,
                _ => QpEvent::DataInClosing,
            };
            let Ok((to, effects)) = next(state, event) else {
                continue;
            };
            if event == QpEvent::Connected {
                connections += 1;
                (events, terminates) = (0, 0);
            }
            assert!(effects.terminate.is_none() || to == Terminate);
            terminates += u32::from(effects.terminate.is_some());
            events += u32::from(effects.event.is_some());
            closes += u32::from(effects.close);
            // TCP belongs to the QP exactly between the two.
            let attached = matches!(to, Rts | Draining | Closing | Terminate);
            assert_eq!(attached, connections > closes, "{state:?} {event:?}");
            assert!(terminates <= 1 && events <= 1, "{state:?} {event:?}");
            assert_eq!(effects.flush_sq, to == Error && state != Error);
            let waits = event == QpEvent::PeerGone { busy: true };
            assert_eq!(effects.renew, to == Idle && state != Idle && !waits);
            state = to;
        }
    }
}
