// SPDX-License-Identifier: GPL-2.0
//! Both ends of a connection on this host. They need an RDMA device for 127.0.0.1 and ::1.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::thread;

use rsiw_sample::{Listener, Stream};

/// More than the buffers of an rsocket hold.
const LEN: usize = 1 << 20;

/// Octets that differ from end to end, and within a page.
fn octets(seed: u32) -> Vec<u8> {
    (0..LEN as u32)
        .map(|i| (i.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

fn listen(ip: impl Into<IpAddr>) -> (Listener, SocketAddr) {
    let listener = Listener::bind(SocketAddr::new(ip.into(), 0)).expect("no RDMA device");
    let addr = listener.local_addr().unwrap();
    assert_ne!(addr.port(), 0);
    (listener, addr)
}

/// Each end sends what the other one then compares, and sees the end of the connection.
fn exchange(ip: impl Into<IpAddr>) {
    let (listener, addr) = listen(ip);
    let server = thread::spawn(move || {
        let mut stream = listener.accept().unwrap();
        let mut got = vec![0; LEN];
        stream.read_exact(&mut got).unwrap();
        assert!(got == octets(1), "other octets have come");
        stream.write_all(&octets(2)).unwrap();
        assert_eq!(stream.read(&mut got).unwrap(), 0);
    });
    let mut stream = Stream::connect(addr).unwrap();
    stream.write_all(&octets(1)).unwrap();
    let mut got = vec![0; LEN];
    stream.read_exact(&mut got).unwrap();
    assert!(got == octets(2), "other octets have come back");
    drop(stream);
    server.join().unwrap();
}

#[test]
fn exchange_over_ipv4() {
    exchange(Ipv4Addr::LOCALHOST);
}

#[test]
fn exchange_over_ipv6() {
    exchange(Ipv6Addr::LOCALHOST);
}

#[test]
fn nobody_listens() {
    let (listener, addr) = listen(Ipv4Addr::LOCALHOST);
    drop(listener);
    let error = Stream::connect(addr).err().expect("connected to nobody");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}
