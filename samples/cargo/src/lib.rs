// SPDX-License-Identifier: GPL-2.0
//! Connections over RDMA that are read and written like those of `std::net`: RDMA-CM makes
//! them, and RDMA Writes carry the octets, by librdmacm's rsockets.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod rsocket;

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use rsocket::Rsocket;

/// Connections that were asked for and not accepted yet: as many as `std::net` has.
const BACKLOG: i32 = 128;

/// Where connections are accepted.
pub struct Listener(Rsocket);

impl Listener {
    /// Listens at `addr`, an address of an RDMA device's network interface. A port of 0 is
    /// replaced by a free one, see [`Listener::local_addr`].
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        let socket = Rsocket::new(&addr)?;
        socket.bind(&addr)?;
        socket.listen(BACKLOG)?;
        Ok(Self(socket))
    }

    /// Returns the address that it listens at.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Waits for the next connection.
    pub fn accept(&self) -> io::Result<Stream> {
        self.0.accept().map(Stream)
    }
}

/// One end of a connection, which is closed when it is dropped.
pub struct Stream(Rsocket);

impl Stream {
    /// Connects to who listens at `addr`.
    pub fn connect(addr: SocketAddr) -> io::Result<Self> {
        let socket = Rsocket::new(&addr)?;
        socket.connect(&addr)?;
        Ok(Self(socket))
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.recv(buf)
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.send(buf)
    }

    /// Does nothing: what is written is on its way.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
