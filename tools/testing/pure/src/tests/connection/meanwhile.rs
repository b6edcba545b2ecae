// SPDX-License-Identifier: GPL-2.0

//! What happens while the surroundings do what they were asked to do; and what the surroundings
//! ask.

use super::*;
use crate::proto::connection::{Ask, Connection, Outputs};
use crate::proto::setup::{Initiator, Responder};
use crate::wire::mpa::MAX_FRAME;

type Both = Connection<Box<Initiator>, Box<Responder>>;

fn step(connection: &mut Both, input: Input<'_>) -> Outputs {
    connection.step(input, &mut [0; MAX_FRAME])
}

/// Everything that is no answer and none of the consumer's ends of a connection.
const OTHERS: [Input<'static>; 12] = [
    Input::Closed(None),
    Input::Octets(b"octets"),
    Input::Expired { is_ending: true },
    Input::Unacknowledged,
    Input::FirstSegment,
    Input::PeerClosing,
    Input::StreamEnded(StreamEnd::Reset),
    Input::Acknowledged,
    Input::Drained,
    Input::Abort,
    Input::DrivenOut,
    Input::Shut,
];

/// Feeds everything but the answer, which leads to nothing.
fn check_waits(connection: &mut Both) {
    let before = format!("{connection:?}");
    for input in OTHERS {
        assert_eq!(step(connection, input), Outputs::default(), "{input:?}");
        assert!(!connection.goes_on(false));
    }
    assert_eq!(format!("{connection:?}"), before);
}

/// While TCP is asked to connect, or the QP to start, or the last words are given to TCP, nothing
/// counts but whether that was done.
#[test]
fn only_the_answer_counts() {
    assert_eq!(Both::new().phase(), c"new");
    let (mut connection, outputs) = Both::initiator(Box::new(Initiator::new(p2p(), depths(4, 4))));
    assert_eq!(outputs.ask, Some(Ask::Dial));
    assert!(Both::new().is_new() && !connection.is_new());
    assert_eq!(connection.phase(), c"dialing");
    check_waits(&mut connection);
    let _ = step(&mut connection, Input::Done);
    assert_eq!(connection.awaits(), Awaits::Connected);
    let connected = Input::Connected { private_data: b"" };
    assert!(matches!(
        step(&mut connection, connected).ask,
        Some(Ask::Request(_))
    ));
    // TCP may fail meanwhile, or time run out: it is waited on, unless the process ends.
    assert!(connection.goes_on(false) && !connection.goes_on(true));
    let _ = step(&mut connection, Input::Done);
    let reply = reply(b"hi");
    let outputs = step(&mut connection, Input::Octets(&reply));
    assert!(
        matches!(outputs.ask, Some(Ask::Start { reply: 0, .. })),
        "{outputs:?}"
    );
    assert_eq!(connection.phase(), c"starting");
    check_waits(&mut connection);
    // X-ENH-17: the QP cannot be started.
    let outputs = step(&mut connection, Input::Failed(FAILURE));
    assert_eq!(
        outputs.ask,
        Some(Ask::Terminate {
            error: TermError::MpaLocalCatastrophic,
            markers: false,
        })
    );
    assert_eq!(connection.phase(), c"parting");
    check_waits(&mut connection);
    let _ = step(&mut connection, Input::Done);
    assert_eq!(connection.awaits(), Awaits::Acknowledgement);
}

/// What ends with an event, as `cm` asks.
#[test]
fn last_events() {
    let depths = EventDepths::default();
    let data = 0;
    let up = Event::Reply {
        error: None,
        depths,
        data,
    };
    let established = |error| Event::Established { error, depths };
    let more = [
        Event::Request { depths, data },
        up,
        established(None),
        established(Some(Error::Reset)),
        Event::Disconnect,
    ];
    assert!(more.iter().all(|event| !event.is_last()));
    assert!(failed(Error::Refused).is_last() && Event::Close.is_last());
}
