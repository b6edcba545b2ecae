// SPDX-License-Identifier: GPL-2.0

//! Handing segments to the receiver at the other end of the connection, on this host, without TCP:
//! see `proto::transport`.
//!
//! The sender holds the other end's socket, as softirq does when data arrives, and feeds the
//! receiver there from its own memory: each octet is copied once, from source to sink. If a process
//! has that socket, or if the receiver lacks something, the sender does not wait: it leaves a mark
//! (`Stream::mark_awaited`), and the other end wakes it.
//!
//! The two ends find each other by their addresses ([`LocalPeers`]). An end is entered when its
//! queue pair takes the stream over. It leaves the table before its connection is taken apart, and
//! both links go with it, as linked ends would keep each other for ever. A sender that uses the
//! other end at that moment has a reference of its own, for one call.
//!
//! Context: process, under the QP's mutex. Bottom halves are off while the other end is held, which
//! is for one batch at most.
#![forbid(unsafe_code)]

use super::identity::QpIdentity;
use super::intake::Intake;
use super::memory::CopyToPage;
use super::source::Source;
use super::stream::Stream;
use crate::ffi::hash::crc32c;
use crate::ffi::mm::page::PageSlice;
use crate::ffi::net::{
    HeldSock,
    TcpNumbers,
    TcpSocket,
    TcpState, //
};
use crate::ffi::rsiw::params;
use crate::ffi::sync::ExclusiveCell;
use crate::mr::access::Slices;
use crate::num::{
    Broken,
    Length, //
};
use crate::proto::deframer::{
    Chunk,
    Reach,
    FPDU_FRONT, //
};
use crate::proto::drain::Stop;
use crate::proto::message::Frame;
use crate::proto::notes::QpNote;
use crate::proto::receiver::Lack;
use crate::proto::sender::PayloadError;
use crate::proto::transport::{
    are_two_ends,
    is_empty,
    Numbers,
    Scope, //
};
use crate::wire::ddp::TAGGED_LEN;
use crate::wire::fpdu::{
    Crc,
    LEN_FIELD, //
};
use core::net::{
    IpAddr,
    SocketAddr, //
};
use core::num::{
    Saturating,
    Wrapping, //
};
use core::ops::Range;
use kernel::prelude::*;
use kernel::rbtree::{
    RBTree,
    RBTreeNode, //
};
use kernel::sync::atomic::Relaxed;
use kernel::sync::{
    new_spinlock_irq,
    Arc,
    SpinLockIrq, //
};

/// Octets up to the end of the headers of a tagged segment.
const TAGGED_FRONT: usize = LEN_FIELD + TAGGED_LEN;

/// What a segment costs besides its payload, as the number of octets that take as long.
const SEGMENT: usize = 512;

/// The other end of a connection, as the sender uses it.
pub(super) struct Direct<'a> {
    end: &'a Stream,
    own: &'a TcpSocket,
    held: Option<Held<'a>>,
    /// What was handed over since [`Direct::let_go`]: octets, and [`SEGMENT`] for each segment.
    len: Saturating<usize>,
    /// The other end takes nothing in any more.
    has_stopped: bool,
}

/// The other end while it is held. Dropping this puts its receiving part back.
struct Held<'a> {
    end: &'a Stream,
    intake: Option<Intake<'a>>,
    sock: Option<HeldSock<'a>>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let stream = self.end;
        let mut lack = Lack::Nothing;
        if let (Some(intake), Some(sock)) = (self.intake.take(), &mut self.sock) {
            lack = sock.with(|sk| stream.put_back(sk, intake));
        }
        self.sock = None;
        let shared = stream.shared();
        shared.flags.answered.store(true, Relaxed);
        // With [`Lack::Turn`] the sender comes back by itself.
        if lack != Lack::Turn {
            stream.note_lack(lack);
        }
        if shared.is_noted() {
            stream.qp.urge();
        }
    }
}

impl<'a> Direct<'a> {
    /// Prepares one run of the sender whose socket is `own`.
    pub(super) fn new(end: &'a Stream, own: &'a TcpSocket) -> Option<Self> {
        Some(Self {
            end,
            own,
            held: None,
            len: Saturating(0),
            has_stopped: false,
        })
    }

    pub(super) fn peer(&self) -> &'a QpIdentity {
        &self.end.shared().id
    }

    pub(super) fn len(&self) -> usize {
        self.len.0
    }

    /// Lets go of the other end, so that others can use it and act upon what it was given.
    pub(super) fn let_go(&mut self) {
        self.held = None;
        self.len.0 = 0;
    }

    /// Asks the other end to take the next segment, whose headers are `front`: see
    /// [`Transport::prepare`](crate::proto::transport::Transport::prepare). Must not be called
    /// again once the other end has gone.
    #[inline]
    pub(super) fn prepare(&mut self, front: &[u8]) -> Result<bool, Stop> {
        if self.held.is_none() && !self.hold()? {
            return Ok(false);
        }
        let Some(intake) = self.intake() else {
            return Ok(false);
        };
        let stop = match intake.admit(front) {
            Lack::Nothing => return Ok(true),
            Lack::Turn => Stop::Again,
            // The other end's work item wakes this side when the receiver goes on.
            Lack::Buffer | Lack::Quiet | Lack::Receive => self.end.mark_awaited().into(),
        };
        // If something was handed over, the sender lets go when it flushes.
        if self.len.0 == 0 {
            self.let_go();
        }
        Err(stop)
    }

    #[inline]
    fn intake(&mut self) -> Option<&mut Intake<'a>> {
        self.held.as_mut()?.intake.as_mut()
    }

    /// Returns whether the other end takes nothing in any more.
    pub(super) fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    /// Hands over a segment that the other end takes, as [`Direct::prepare`] has just returned.
    /// Fails if the other end is not held, or the memory of the message is not there.
    #[inline]
    pub(super) fn hand_over(
        &mut self,
        source: &Source,
        front: &[u8],
        frame: &Frame,
    ) -> Result<(), PayloadError> {
        // This is counted even if what follows fails: the sender lets go of the other end if
        // something was counted.
        self.len += frame.fpdu_len;
        self.len += SEGMENT;
        if !source.is_whole(frame.offset, frame.payload.into()) {
            return Err(PayloadError::NoMemory);
        }
        let segment = HandedSegment::new(source, front, frame);
        let intake = self.intake().ok_or(PayloadError::Broken)?;
        intake.take_handed(&segment);
        self.has_stopped = intake.part.receiver.is_stopped();
        self.end.count_handed();
        Ok(())
    }

    /// Holds the other end, if all that TCP had for it has been read. Returns whether it is held;
    /// if not, TCP has to carry what follows.
    fn hold(&mut self) -> Result<bool, Stop> {
        let end = self.end;
        let mut marked = None;
        let sock = end.sock.hold(|| marked = Some(end.mark_awaited()));
        if let Some(marked) = marked {
            // The other end's work item gets the socket when the process has given it back.
            end.qp.note(QpNote::Socket);
            return Err(marked.into());
        }
        let Some(mut sock) = sock else {
            return Ok(false);
        };
        let sends = matches!(
            self.own.state(),
            TcpState::Established | TcpState::CloseWait
        );
        let (state, read_up_to) = sock.with(|sk| (sk.state(), sk.read_up_to()));
        let receives = matches!(state, TcpState::Established | TcpState::Closing);
        if !sends || !receives {
            return Ok(false);
        }
        if !is_empty(self.own.written(), read_up_to) {
            // The other end wakes this side when it has read more.
            return Err(end.mark_awaited().into());
        }
        let budget = end.shared().id.dev.tuning.softirq_budget();
        let Some(intake) = sock.with(|sk| end.take_part(sk, budget)) else {
            // The stream has ended.
            return Ok(false);
        };
        self.held = Some(Held {
            end,
            intake: Some(intake),
            sock: Some(sock),
        });
        Ok(true)
    }
}

/// An FPDU that nobody has to check: headers, and octets of a message in the sender's memory.
struct HandedSegment<'a> {
    source: &'a Source,
    /// MPA's length field and the headers.
    front: &'a [u8],
    /// The length that the FPDU would have with its pad and CRC, although these cannot be read.
    len: usize,
    /// Where the payload begins and ends in the message.
    offset: u32,
    end: u32,
    cursor: ExclusiveCell<Cursor<'a>>,
}

/// A place in the message. As messages are mostly read from front to back, the next octets are
/// first looked for behind the last ones.
struct Cursor<'a> {
    at: u32,
    /// The memory from `at` to the end of its piece, if it is known.
    piece: Option<PageSlice<'a>>,
    /// The pieces behind it.
    rest: Option<Slices<'a>>,
}

impl<'a> HandedSegment<'a> {
    fn new(source: &'a Source, front: &'a [u8], frame: &Frame) -> Self {
        Self {
            source,
            front,
            len: frame.fpdu_len,
            offset: frame.offset,
            end: frame.offset.saturating_add(frame.payload.into()),
            cursor: ExclusiveCell::new(Cursor {
                at: frame.offset,
                piece: None,
                rest: None,
            }),
        }
    }

    /// Moves to octet `at` of the message. Returns the memory from there to the end of the piece.
    #[inline(never)]
    fn seek(&self, cursor: &mut Cursor<'a>, at: u32) -> Result<PageSlice<'a>> {
        let len = self.end.try_sub(at)?;
        let rest = cursor.rest.insert(self.source.slices(at, len)?);
        cursor.at = at;
        // Slices of kernel memory end early at an address that is not memory.
        rest.next().filter(|piece| piece.len() > 0).ok_or(EFAULT)
    }

    /// Copies octets `range` of the message to `to`, which has room for them.
    #[inline(always)]
    fn copy(&self, cursor: &mut Cursor<'a>, range: Range<u32>, to: &PageSlice<'_>) -> Result {
        let Range { start: mut at, end } = range;
        let mut done = 0u32;
        while let Some(missing) = end.checked_sub(at).filter(|missing| *missing > 0) {
            let mut piece = match cursor.piece.take() {
                Some(piece) if cursor.at == at => piece,
                _ => self.seek(cursor, at)?,
            };
            let front = piece.take_front(missing);
            to.copy_from(done, &front)?;
            at = at.try_add(front.len())?;
            done = done.try_add(front.len())?;
            cursor.at = at;
            cursor.piece = match piece.len() {
                0 => cursor.rest.as_mut().and_then(Iterator::next),
                _ => Some(piece),
            };
        }
        Ok(())
    }
}

impl Chunk for HandedSegment<'_> {
    const IS_HANDED_OVER: bool = true;

    fn len(&self) -> usize {
        self.len
    }

    /// Copies headers. What is behind them is 0: the receiver looks at nothing else.
    #[inline]
    fn copy_to(&self, at: usize, to: &mut [u8]) -> Result<(), Broken> {
        let headers = self.front.get(at..).ok_or(Broken)?;
        to.fill(0);
        for (to, from) in to.iter_mut().zip(headers) {
            *to = *from;
        }
        Ok(())
    }

    #[inline]
    fn front(&self, at: usize) -> Option<[u8; FPDU_FRONT]> {
        let headers = self.front.get(at..)?;
        if let Some(front) = headers.first_chunk() {
            return Some(*front);
        }
        // The header of a tagged segment is shorter.
        let mut front = [0; FPDU_FRONT];
        let tagged: &mut [u8; TAGGED_FRONT] = front.first_chunk_mut()?;
        *tagged = *headers.first_chunk()?;
        Some(front)
    }

    fn reach(&self, _: usize, _: usize) -> Reach {
        Reach::Apart
    }

    fn crc(&self, _: usize, _: usize, _: Crc) -> Result<Crc, Broken> {
        Err(Broken)
    }

    fn crc32c(crc: u32, octets: &[u8]) -> u32 {
        crc32c(crc, octets)
    }
}

impl CopyToPage for HandedSegment<'_> {
    #[inline]
    fn copy_to_page(&self, at: usize, to: &PageSlice<'_>) -> Result {
        let at = self.offset.try_add(at.try_sub(self.front.len())?)?;
        let end = at.end_within(to.len(), self.end).ok_or(Broken)?;
        if let Some(octets) = self.source.octets(at, to.len()) {
            return to.copy_in(0, octets);
        }
        if let (0, true) = (self.offset, to.len() == self.end) {
            if let Some(message) = self.source.in_one_page(to.len()) {
                return to.copy_from(0, &message);
            }
        }
        let copied = self.cursor.with(|cursor| self.copy(cursor, at..end, to));
        copied.ok_or(Broken)?
    }
}

/// How many ends with the right addresses are looked at. There can be several: in different
/// namespaces, and while an old one is on its way out.
const MOST_CANDIDATES: usize = 16;

type EndAddr = (IpAddr, u16);

/// The key of an end in the table, which orders those with the same addresses by namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EndKey {
    local: EndAddr,
    remote: EndAddr,
    namespace: u64,
    /// Unique among all ends, also those that have left.
    number: u64,
}

/// The ends, and the number that was given out last.
struct KnownEnds {
    ends: RBTree<EndKey, Arc<Stream>>,
    last: Wrapping<u64>,
}

/// The ends of all connections of the module.
#[pin_data]
pub(crate) struct LocalPeers {
    /// Also held around any change of the two links between a pair of ends.
    #[pin]
    table: SpinLockIrq<KnownEnds>,
}

impl LocalPeers {
    /// Makes an empty table.
    pub(crate) fn none() -> Result<Arc<Self>> {
        let table = KnownEnds {
            ends: RBTree::new(),
            last: Wrapping(0),
        };
        Arc::pin_init(
            pin_init!(Self {
                table <- new_spinlock_irq!(table, "rsiw::LocalPeers::table"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns a number that no end has had.
    fn number(&self) -> u64 {
        let mut table = self.table.lock();
        table.last += 1;
        table.last.0
    }
}

/// An end that is to be entered in the table.
pub(super) struct Prepared {
    entry: KnownEnd,
    node: RBTreeNode<EndKey, Arc<Stream>>,
    scope: Scope,
}

/// An end that is, or will be, in the table, which it leaves when this is dropped. Process context.
pub(super) struct KnownEnd {
    all: Arc<LocalPeers>,
    key: EndKey,
    end: Arc<Stream>,
}

impl Prepared {
    /// Prepares the end of a new connection for `all`. Returns `None` if all has to go through TCP,
    /// because of a parameter, of markers, of TLS, or of a lack of memory. No lock is held.
    pub(super) fn new(all: &Arc<LocalPeers>, stream: &Arc<Stream>) -> Option<Self> {
        let scope = Scope::of(params::direct());
        let sock = &stream.sock;
        if scope == Scope::Nowhere || stream.has_markers || sock.is_secure() {
            return None;
        }
        let place = |addr: SocketAddr| (addr.ip(), addr.port());
        let (local, remote) = (sock.local_addr().ok()?, sock.peer_addr().ok()?);
        let key = EndKey {
            local: place(local.get()?),
            remote: place(remote.get()?),
            namespace: sock.namespace(),
            number: all.number(),
        };
        let (all, end) = (all.clone(), stream.clone());
        let node = RBTreeNode::new(key, end.clone(), GFP_KERNEL_ACCOUNT).ok()?;
        let entry = KnownEnd { all, key, end };
        Some(Self { entry, node, scope })
    }

    /// Enters the end. If the other end is in the table already, both get a link to each other.
    pub(super) fn enter(self) -> KnownEnd {
        let Self { entry, node, scope } = self;
        let mut table = entry.all.table.lock();
        if let Some(other) = table.other_end(&entry.key, scope, &entry.end.sock) {
            // The other end may be sending, and may wait for this end as soon as it has its link.
            // So this end gets its link first: it has to know whom to wake.
            entry.end.link_to(other.clone());
            other.link_to(entry.end.clone());
        }
        table.ends.insert(node);
        drop(table);
        entry
    }
}

impl KnownEnds {
    /// Returns the other end of the connection of `sock`, whose key is `key`, if it is in the table
    /// and has no link yet.
    fn other_end(&self, key: &EndKey, scope: Scope, sock: &TcpSocket) -> Option<Arc<Stream>> {
        let mut from = EndKey {
            local: key.remote,
            remote: key.local,
            namespace: match scope {
                Scope::Host => 0,
                _ => key.namespace,
            },
            number: 0,
        };
        // Bound: a constant.
        for _ in 0..MOST_CANDIDATES {
            let cursor = self.ends.cursor_lower_bound(&from)?;
            let (at, end) = cursor.current();
            let is_near = scope == Scope::Host || at.namespace == key.namespace;
            if at.local != from.local || at.remote != from.remote || !is_near {
                return None;
            }
            let (own, other) = TcpNumbers::of_both(sock, &end.sock);
            if are_two_ends(&own.into(), &other.into()) && end.peer.lock().is_none() {
                return Some(end.clone());
            }
            from = EndKey {
                number: at.number.checked_add(1)?,
                ..*at
            };
        }
        None
    }
}

impl From<TcpNumbers> for Numbers {
    fn from(of: TcpNumbers) -> Self {
        Self {
            acknowledged: of.snd_una,
            written: of.write_seq,
            received: of.rcv_nxt,
        }
    }
}

impl Drop for KnownEnd {
    fn drop(&mut self) {
        let mut table = self.all.table.lock();
        let node = table.ends.remove_node(&self.key);
        let links = self.end.unlink();
        // Either both ends have a link to each other, or neither has: see `table`.
        let back = links[0].as_ref().map(|other| other.unlink());
        drop(table);
        // If the sender of the other end waits for this end, it has to go on through TCP.
        if let [Some(other), _] = &links {
            other.qp.urge();
        }
        drop((node, back, links));
    }
}
