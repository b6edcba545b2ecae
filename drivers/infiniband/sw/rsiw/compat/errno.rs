// SPDX-License-Identifier: GPL-2.0

//! Errors that had no names. C header:
//! [`include/uapi/asm-generic/errno.h`](srctree/include/uapi/asm-generic/errno.h)

use core::num::NonZeroI32;
use kernel::{
    bindings,
    error::Error, //
};

/// Names errors of C.
macro_rules! errors {
    ($($name:ident),* $(,)?) => { $(
        #[doc = concat!("The error `", stringify!($name), "` of C.")]
        pub const $name: Error = error(bindings::$name);
    )* };
}

/// Returns the error of that number, which a constant's initialiser cannot ask [`Error`] for.
const fn error(number: u32) -> Error {
    assert!(0 < number && number <= bindings::MAX_ERRNO);
    // CAST: so small a number fits.
    let Some(negative) = NonZeroI32::new(-(number as i32)) else {
        panic!();
    };
    // SAFETY: an `Error` is nothing but this number, in the range that its invariant asks for.
    unsafe { core::mem::transmute::<NonZeroI32, Error>(negative) }
}

errors! {
    EADDRINUSE,
    EADDRNOTAVAIL,
    EAFNOSUPPORT,
    ECONNABORTED,
    ECONNREFUSED,
    ECONNRESET,
    EHOSTUNREACH,
    EINPROGRESS,
    EISCONN,
    EKEYREJECTED,
    ENETUNREACH,
    ENOBUFS,
    ENOKEY,
    EOPNOTSUPP,
    EPROTO,
}
