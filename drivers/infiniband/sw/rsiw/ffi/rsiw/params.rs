// SPDX-License-Identifier: GPL-2.0

//! Module parameters: reads what `params.c` declares. Any context.

use crate::ffi::raw::b;

/// Declares functions that read parameters; each is named as its parameter.
macro_rules! parameters {
    ($( $(#[$doc:meta])* fn $name:ident() -> $kind:ty = $var:ident; )*) => { $(
        $(#[$doc])*
        pub(crate) fn $name() -> $kind {
            // SAFETY: the variable is static; the core, which may write it meanwhile, does so as a
            // whole and with a value of its type.
            unsafe { (&raw const b::$var).read_volatile() }
        }
    )* };
}

parameters! {
    /// Whether this side asks for CRCs (RFC 5044 section 4.4): by default yes. They are used unless
    /// both sides say no. For new connections.
    fn mpa_crc() -> bool = rsiw_mpa_crc;

    /// Whether FPDUs may exceed a TCP segment if the peer does the same. For new connections.
    fn large_fpdus() -> bool = rsiw_large_fpdus;

    /// Where the other end of a connection may be for segments to go there without TCP: nowhere
    /// (0), in the same network namespace (1), anywhere on this host (2). For new connections.
    fn direct() -> u32 = rsiw_direct;

    /// Whether the port mapper chooses the ports that TCP uses, so that a service may have the same
    /// port for TCP and for RDMA. For new devices in the first network namespace.
    fn port_map() -> bool = rsiw_port_map;

    /// Milliseconds that a Send waits for a receive before it ends the stream. For new connections.
    fn rnr_wait_ms() -> u32 = rsiw_rnr_wait_ms;

    /// Whether connections have TLS below MPA: no (0), with a key that both ends have (1), with
    /// certificates (2). For new devices, as are the next two.
    fn tls() -> u32 = rsiw_tls;

    /// The number of the keyring in which the daemon that does handshakes looks; zero is none.
    fn tls_keyring() -> i32 = rsiw_tls_keyring;

    /// The number of the key by which the side that connects says who it is; zero is none.
    fn tls_key() -> i32 = rsiw_tls_key;

    /// Whether connections use the interface of their device only: with TLS and over tunnels (0), in
    /// any case (1), never (2). For new devices.
    fn bind_netdev() -> u32 = rsiw_bind_netdev;

    /// Whether the link type `siw` is registered too, for tools that name it. Set when the module
    /// is loaded.
    fn siw_link_type() -> bool = rsiw_siw_link_type;
}
