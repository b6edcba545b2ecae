// SPDX-License-Identifier: GPL-2.0

//! The socket options that `std` does not have.

use std::ffi::c_int;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

const SOL_SOCKET: c_int = 1;
const SO_RCVBUF: c_int = 8;
const SO_LINGER: c_int = 13;

extern "C" {
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_int, len: u32) -> c_int;
}

fn set(tcp: &TcpStream, name: c_int, value: &[c_int]) {
    let len = std::mem::size_of_val(value) as u32;
    // SAFETY: `value` points to `len` octets that live through the call, which only reads them.
    let rv = unsafe { setsockopt(tcp.as_raw_fd(), SOL_SOCKET, name, value.as_ptr(), len) };
    assert_eq!(rv, 0, "setsockopt({name}) failed");
}

/// Closing sends a RST from now on.
pub fn reset_on_close(tcp: &TcpStream) {
    set(tcp, SO_LINGER, &[1, 0]);
}

/// Keeps the receive window at about `bytes`.
pub fn small_window(tcp: &TcpStream, bytes: c_int) {
    set(tcp, SO_RCVBUF, &[bytes]);
}
