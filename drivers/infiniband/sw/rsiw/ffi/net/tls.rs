// SPDX-License-Identifier: GPL-2.0

//! TLS on TCP sockets: the kernel's record layer (kTLS), and the handshake in front of it, which a
//! daemon in user space (`tlshd`) does for the kernel.
//!
//! A socket that is to have TLS gets a file first ([`TcpSocket::with_file`]), by which the daemon
//! gets the socket. After the handshake, all that is sent and received through the socket is
//! encrypted on its way. The record layer takes the socket's lock by itself, and may wait for
//! memory: so nothing is sent, and nothing is read, in softirq.
//!
//! The daemon looks for keys in a [`Keyring`], which also says whose keys are accepted.
//!
//! Context: process.
//!
//! C headers: [`include/net/handshake.h`](srctree/include/net/handshake.h),
//! [`include/net/tls.h`](srctree/include/net/tls.h),
//! [`include/linux/key.h`](srctree/include/linux/key.h)

use super::socket::{
    Claim,
    TcpSocket, //
};
use crate::ffi::module::note_calls;
use crate::ffi::raw::{
    b,
    h, //
};
use core::net::SocketAddr;
use core::ptr::NonNull;
use kernel::error::{
    from_err_ptr,
    to_result, //
};
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    ArcBorrow,
    Completion,
    SetOnce, //
};

/// Says that a peer has not shown who it is (`TLS_NO_PEERID`).
const NO_PEER: c_int = 0;
/// A record type of TLS (RFC 8446 section 5.1).
const ALERT: c_int = 21;
/// An alert (RFC 8446 section 6).
const CLOSE_NOTIFY: u8 = 0;

/// Octets that a key of AES may encrypt. RFC 8446 section 5.5 allows AES-GCM 2^24.5 records of 2^14
/// octets; what is on its way when the limit is seen needs some of that. Headers and tags of
/// records count here, too: that covers the higher cost of short records.
const KEY_OCTETS: u64 = 1 << 38;

/// How the ends of a connection show who they are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Proof {
    /// By a key that both have. This is the number of the key that the side which connects shows.
    SharedKey(i32),
    /// By certificates, which the daemon knows.
    Certificates,
}

/// What the daemon is told of a handshake, and who may connect.
pub(crate) struct Credentials {
    pub(crate) proof: Proof,
    /// The keyring in which the daemon looks for keys, beside its own. With [`Proof::SharedKey`]
    /// nobody may connect whose key is not linked into it.
    pub(crate) keyring: Option<Arc<Keyring>>,
}

impl Credentials {
    pub(crate) fn is_by_certificate(&self) -> bool {
        matches!(self.proof, Proof::Certificates)
    }
}

/// Which end of a connection this side is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// An object that is told of the end of a handshake.
pub(crate) trait HandshakeHandler: Send + Sync + 'static {
    /// Called once, when [`Handshake::outcome`] has something to say. Must not wait.
    fn ended(this: ArcBorrow<'_, Self>);
}

/// What the daemon was asked, and its answer.
#[pin_data]
struct Question {
    admits: Admits,
    status: SetOnce<c_int>,
    #[pin]
    is_told: Completion,
}

/// Which peers this side talks to, of those who have ended a handshake.
enum Admits {
    /// All: this side connects, so the daemon has compared the key or the certificate with those of
    /// the other side.
    All,
    /// Peers that have shown a certificate. The daemon asks each peer for one, and leaves it to the
    /// kernel whether a peer may come without.
    Known,
    /// Peers whose key is in a keyring. The daemon takes any key that it finds, in keyrings of
    /// others, too.
    KeysOf(Option<Arc<Keyring>>),
}

impl Admits {
    fn new(side: Side, credentials: &Credentials) -> Self {
        match (side, credentials.proof) {
            (Side::Client, _) => Self::All,
            (Side::Server, Proof::Certificates) => Self::Known,
            (Side::Server, Proof::SharedKey(_)) => Self::KeysOf(credentials.keyring.clone()),
        }
    }

    /// Looks whether `peer`, the number of a key or a certificate, may connect. Process context.
    fn check(&self, peer: c_int) -> Result {
        match self {
            Self::All => Ok(()),
            Self::Known if peer != NO_PEER => Ok(()),
            Self::KeysOf(Some(keyring)) if peer != NO_PEER => {
                keyring.check(peer).map_err(|_| EKEYREJECTED)
            }
            _ => Err(EACCES),
        }
    }
}

/// What C has until the daemon answers.
struct Asked<H> {
    pending: Arc<Question>,
    handler: Arc<H>,
}

/// A handshake on a connected socket. Until the handshake has ended and is dropped, the socket has
/// no callbacks, and nobody else may use it. Dropping the handshake cancels it, or waits for a call
/// of its handler that has begun.
///
/// # Invariants
///
/// `asked` was handed to C, which calls [`done`] with it once, or never if the handshake has been
/// cancelled.
pub(crate) struct Handshake<H: HandshakeHandler> {
    claim: Claim,
    pending: Arc<Question>,
    asked: *mut Asked<H>,
}

// SAFETY: `asked` stands for a box, whose contents may go to any thread.
unsafe impl<H: HandshakeHandler> Send for Handshake<H> {}
// SAFETY: a shared handshake gives no access to what `asked` points to.
unsafe impl<H: HandshakeHandler> Sync for Handshake<H> {}

impl<H: HandshakeHandler> Handshake<H> {
    /// Asks the daemon for a handshake of `ms` milliseconds at most, on a socket that has a file.
    ///
    /// # Errors
    ///
    /// `ESRCH` without a daemon, `EAGAIN` if too many wait for it, `EOPNOTSUPP` if the kernel
    /// cannot ask; `EINVAL` without a file.
    pub(crate) fn start(
        claim: Claim,
        side: Side,
        credentials: &Credentials,
        ms: u32,
        handler: Arc<H>,
    ) -> Result<Self> {
        let pending = Arc::pin_init(
            pin_init!(Question {
                admits: Admits::new(side, credentials),
                status: SetOnce::new(),
                is_told <- Completion::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let (has_psk, key) = match credentials.proof {
            Proof::SharedKey(key) => (true, key),
            Proof::Certificates => (false, 0),
        };
        let keyring = credentials.keyring.as_ref().map_or(0, |ring| ring.serial());
        note_calls();
        let asked = Asked {
            pending: pending.clone(),
            handler,
        };
        let asked = KBox::into_raw(KBox::new(asked, GFP_KERNEL_ACCOUNT)?);
        // SAFETY: the socket is live; `done::<H>` gets what it expects.
        let ret = to_result(unsafe {
            h::tls_hello(
                claim.sock().sock().as_ptr(),
                side == Side::Server,
                has_psk,
                keyring,
                key,
                ms,
                Some(done::<H>),
                asked.cast(),
            )
        });
        if ret.is_err() {
            // SAFETY: from a box above; nobody will be called with it.
            drop(unsafe { KBox::from_raw(asked) });
        }
        ret?;
        // INVARIANT: C has it now.
        Ok(Self {
            claim,
            pending,
            asked,
        })
    }

    /// Returns how the handshake ended, if it has. It fails with `EACCES` or another error of the
    /// daemon's, also if the daemon does not know who connects; with `EKEYREJECTED` if the key of
    /// the peer is not in the keyring; or with `EPROTO` if the daemon has not given the socket keys
    /// for both directions.
    pub(crate) fn outcome(&self) -> Option<Result> {
        let status = *self.pending.status.as_ref()?;
        // SAFETY: the socket is live; the daemon is done with it.
        let has_tls = || unsafe { h::sock_has_tls(self.claim.sock().sk().as_ptr()) };
        Some(to_result(status).and_then(|()| if has_tls() { Ok(()) } else { Err(EPROTO) }))
    }
}

impl<H: HandshakeHandler> Drop for Handshake<H> {
    fn drop(&mut self) {
        // SAFETY: the socket is live.
        if unsafe { h::tls_cancel(self.claim.sock().sock().as_ptr()) } {
            // SAFETY: C had it, by the invariant, and will not use it.
            drop(unsafe { KBox::from_raw(self.asked) });
        } else {
            self.pending.is_told.wait_for_completion();
        }
    }
}

/// The call that ends a handshake.
///
/// # Safety
///
/// `data` is a `KBox<Asked<H>>`, and this call's own.
unsafe extern "C" fn done<H: HandshakeHandler>(data: *mut c_void, status: c_int, peer: c_int) {
    // SAFETY: by the caller's promise.
    let asked = unsafe { KBox::from_raw(data.cast::<Asked<H>>()) };
    let Asked { pending, handler } = KBox::into_inner(asked);
    let status = match status {
        0 => pending
            .admits
            .check(peer)
            .map_or_else(Error::to_errno, |()| 0),
        status => status.min(0),
    };
    // Nobody else sets the status.
    let _ = pending.status.populate(status);
    H::ended(handler.as_arc_borrow());
    drop(handler);
    // Nothing after this may sleep: see `note_calls`.
    pending.is_told.complete_all();
}

/// What a record says that has no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Nothing follows but the FIN.
    Closing,
    /// The peer gives up, for a reason of RFC 8446 section 6.2.
    Alert(u8),
    /// The record is a message of the handshake, such as new keys, or of no use here.
    Other,
}

impl TcpSocket {
    /// Returns the socket with a file, for a handshake with `peer`, whose certificate has to name
    /// that address. Fails with `EBUSY` if somebody else has a reference to the socket, or if the
    /// kernel cannot make a file; the socket is closed then.
    pub(crate) fn with_file(self: Arc<Self>, peer: &SocketAddr) -> Result<Arc<Self>> {
        let mut this = Arc::into_unique_or_drop(self).ok_or(EBUSY)?;
        this.as_mut().get_mut().add_file(peer)?;
        Ok(Arc::from(this))
    }

    /// Returns whether a key of the connection, of either direction, may encrypt no more. No key
    /// can be replaced. Any context.
    pub(crate) fn is_key_used_up(&self) -> bool {
        // SAFETY: the socket is live; TLS stays on it as long as it is.
        self.is_secure() && unsafe { h::tls_aes_octets(self.sk().as_ptr()) } >= KEY_OCTETS
    }

    /// Takes the record at which [`LockedSock::read`] has stopped with `EINVAL`. Other errors are
    /// those of the record layer, or of TCP.
    ///
    /// [`LockedSock::read`]: super::LockedSock::read
    pub(crate) fn take_notice(&self) -> Result<Notice> {
        let mut octets = [0; 2];
        // SAFETY: the socket is live; there is room for two octets.
        let kind = unsafe { h::tls_recv_control(self.sock().as_ptr(), octets.as_mut_ptr()) };
        to_result(kind)?;
        Ok(match (kind, octets) {
            (ALERT, [_, CLOSE_NOTIFY]) => Notice::Closing,
            (ALERT, [_, reason]) => Notice::Alert(reason),
            _ => Notice::Other,
        })
    }
}

/// A keyring. It stays as long as this value, and so does its number. It may be revoked meanwhile.
///
/// # Invariants
///
/// Owns a reference to a key of the type `keyring`.
pub(crate) struct Keyring(NonNull<b::key>);

// SAFETY: keys are counted, and used and given up by any thread.
unsafe impl Send for Keyring {}
// SAFETY: what is read of it is constant, or read under its lock.
unsafe impl Sync for Keyring {}

impl Keyring {
    /// Returns the keyring with this number. Who may use the keyring is not asked: the number has
    /// to come from somebody with all rights. Fails with `ENOKEY` if there is no such key, or
    /// `ENOTDIR` if it is no keyring.
    pub(crate) fn lookup(serial: i32) -> Result<Self> {
        // SAFETY: no requirements.
        let ring = from_err_ptr(unsafe { h::keyring_lookup(serial) })?;
        // INVARIANT: the function returns keyrings only, with a reference.
        NonNull::new(ring).map(Self).ok_or(ENOKEY)
    }

    /// Returns the number of the keyring.
    pub(crate) fn serial(&self) -> i32 {
        // SAFETY: the keyring is live.
        unsafe { h::keyring_serial(self.0.as_ptr()) }
    }

    /// Checks that a key is linked into this keyring itself, not into another keyring in it, and
    /// that key and keyring are valid. Fails with `ENOKEY`, `EKEYREVOKED` or `EKEYEXPIRED`, or
    /// `ENOMEM`.
    pub(crate) fn check(&self, key: i32) -> Result {
        // SAFETY: the keyring is live; this is process context.
        to_result(unsafe { h::keyring_check(self.0.as_ptr(), key) })
    }
}

impl Drop for Keyring {
    fn drop(&mut self) {
        // SAFETY: the reference is this value's.
        unsafe { h::keyring_put(self.0.as_ptr()) };
    }
}
