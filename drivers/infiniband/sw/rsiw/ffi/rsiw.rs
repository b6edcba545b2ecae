// SPDX-License-Identifier: GPL-2.0

//! Only for this driver: trace events, queues, the methods and files that are declared in C; and in
//! this file its module parameters and the C header of its ABI.

pub(crate) mod methods;
pub(crate) mod queues;
pub(crate) mod trace;

pub(crate) mod params {
    //! Module parameters: reads what `params.c` declares. Any context.

    use crate::ffi::raw::b;

    /// Declares functions that read parameters; each is named as its parameter.
    macro_rules! parameters {
        ($( $(#[$doc:meta])* fn $name:ident() -> $kind:ty = $var:ident; )*) => { $(
            $(#[$doc])*
            pub(crate) fn $name() -> $kind {
                // SAFETY: the variable is static; the core, which may write it meanwhile, does so
                // as a whole and with a value of its type.
                unsafe { (&raw const b::$var).read_volatile() }
            }
        )* };
    }

    parameters! {
        /// Whether this side asks for CRCs (RFC 5044 section 4.4): by default yes. They are used
        /// unless both sides say no. For new connections.
        fn mpa_crc() -> bool = rsiw_mpa_crc;

        /// Whether FPDUs may exceed a TCP segment if the peer does the same. For new connections.
        fn large_fpdus() -> bool = rsiw_large_fpdus;

        /// Where the other end of a connection may be for segments to go there without TCP: nowhere
        /// (0), in the same network namespace (1), anywhere on this host (2). For new connections.
        fn direct() -> u32 = rsiw_direct;

        /// Whether the port mapper chooses the ports that TCP uses, so that a service may have the
        /// same port for TCP and for RDMA. For new devices in the first network namespace.
        fn port_map() -> bool = rsiw_port_map;

        /// Milliseconds that a Send waits for a receive before it ends the stream. For new
        /// connections.
        fn rnr_wait_ms() -> u32 = rsiw_rnr_wait_ms;

        /// Whether Sends and Writes complete when the peer has placed them, instead of when TCP has
        /// them. For new connections.
        fn wait_placed() -> bool = rsiw_wait_placed;

        /// The TCP port at which queue pairs are reached that programs connect by number; zero is
        /// none. For queue pairs that take the step to RTR.
        fn qp_port() -> u16 = rsiw_qp_port;

        /// The UDP port of datagrams, at both ends; zero is none. For devices that have no queue
        /// pair for datagrams yet.
        fn ud_port() -> u16 = rsiw_ud_port;

        /// Whether connections have TLS below MPA: no (0), with a key that both ends have (1), with
        /// certificates (2). For new devices, as are the next two.
        fn tls() -> u32 = rsiw_tls;

        /// The number of the keyring in which the daemon that does handshakes looks; zero is none.
        fn tls_keyring() -> i32 = rsiw_tls_keyring;

        /// The number of the key by which the side that connects says who it is; zero is none.
        fn tls_key() -> i32 = rsiw_tls_key;

        /// Whether connections use the interface of their device only: with TLS and over tunnels
        /// (0), in any case (1), never (2). For new devices.
        fn bind_netdev() -> u32 = rsiw_bind_netdev;

        /// Whether the link type `siw` is registered too, for tools that name it. Set when the
        /// module is loaded.
        fn siw_link_type() -> bool = rsiw_siw_link_type;
    }
}

#[allow(
    dead_code,
    reason = "all of it is looked at when this is compiled, only; not all compilers call that a use"
)]
pub(crate) mod uapi {
    //! What the driver's own ABI is in C, with which `abi::own` compares what the driver uses.
    //!
    //! C header: [`include/uapi/rdma/rsiw-abi.h`](srctree/include/uapi/rdma/rsiw-abi.h)

    use crate::ffi::raw::b;

    pub(crate) use b::{
        rsiw_bind as Bind,
        rsiw_cqe as Cqe,
        rsiw_dest as Dest,
        rsiw_path as Path,
        rsiw_rq_ctrl as RqCtrl,
        rsiw_rqe as Rqe,
        rsiw_sge as Sge,
        rsiw_sqe as Sqe,
        rsiw_ureq_alloc_ctx as AllocContextReq,
        rsiw_ureq_create_qp as CreateQpReq,
        rsiw_ureq_resize_cq as ResizeCqReq,
        rsiw_ureq_resize_qp as ResizeQpReq,
        rsiw_ureq_resize_srq as ResizeSrqReq,
        rsiw_uresp_alloc_ctx as AllocContextResp,
        rsiw_uresp_create_qp as CreateQpResp,
        rsiw_uresp_resize_cq as ResizeCqResp,
        rsiw_uresp_resize_qp as ResizeQpResp,
        rsiw_uresp_resize_srq as ResizeSrqResp, //
    };

    pub(crate) const MAGIC: u32 = b::RSIW_ABI_MAGIC;
    pub(crate) const VERSION: u32 = b::RSIW_ABI_VERSION;

    // CAST: C has one type for all of these numbers, which fit.
    pub(crate) const MAX_SGE: usize = b::RSIW_MAX_SGE as usize;
    pub(crate) const MAX_INLINE: usize = b::RSIW_MAX_INLINE as usize;
    pub(crate) const FEATURE_RINGS: u64 = b::rsiw_feature_RSIW_FEATURE_RINGS as u64;
    pub(crate) const FEATURE_IMM: u64 = b::rsiw_feature_RSIW_FEATURE_IMM as u64;
    pub(crate) const FEATURE_ATOMIC: u64 = b::rsiw_feature_RSIW_FEATURE_ATOMIC as u64;
    pub(crate) const FEATURE_WINDOWS: u64 = b::rsiw_feature_RSIW_FEATURE_WINDOWS as u64;
    pub(crate) const FEATURE_TIMESTAMP: u64 = b::rsiw_feature_RSIW_FEATURE_TIMESTAMP as u64;
    pub(crate) const FEATURE_RESIZE: u64 = b::rsiw_feature_RSIW_FEATURE_RESIZE as u64;
    pub(crate) const FEATURE_RESIZE_STEPS: u64 = b::rsiw_feature_RSIW_FEATURE_RESIZE_STEPS as u64;
    pub(crate) const FEATURE_SEND_IMM: u64 = b::rsiw_feature_RSIW_FEATURE_SEND_IMM as u64;
    pub(crate) const FEATURE_UD: u64 = b::rsiw_feature_RSIW_FEATURE_UD as u64;
    pub(crate) const RESIZE_MAKE: u32 = b::rsiw_resize_flags_RSIW_RESIZE_MAKE;
    pub(crate) const RESIZE_MOVE: u32 = b::rsiw_resize_flags_RSIW_RESIZE_MOVE;
    pub(crate) const RESIZE_SRQ_LIMIT: u32 = b::rsiw_resize_srq_flags_RSIW_RESIZE_SRQ_LIMIT;
    pub(crate) const FEATURE_POLL: u64 = b::rsiw_feature_RSIW_FEATURE_POLL as u64;
    pub(crate) const FEATURE_FLUSH: u64 = b::rsiw_feature_RSIW_FEATURE_FLUSH as u64;
    pub(crate) const MAX_POLL_US: u32 = b::RSIW_MAX_POLL_US;
    pub(crate) const OP_BIND_MW: u8 = b::rsiw_opcode_RSIW_OP_BIND_MW as u8;
    pub(crate) const OP_WRITE_WITH_IMM: u8 = b::rsiw_opcode_RSIW_OP_WRITE_WITH_IMM as u8;
    pub(crate) const OP_SEND_WITH_IMM: u8 = b::rsiw_opcode_RSIW_OP_SEND_WITH_IMM as u8;
    pub(crate) const CQE_WITH_IMM: u16 = b::RSIW_CQE_WITH_IMM as u16;
    pub(crate) const CQE_OF_SEND: u16 = b::RSIW_CQE_OF_SEND as u16;
    pub(crate) const CQE_OF_DATAGRAM: u16 = b::RSIW_CQE_OF_DATAGRAM as u16;
}
