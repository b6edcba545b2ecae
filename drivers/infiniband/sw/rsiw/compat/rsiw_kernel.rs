// SPDX-License-Identifier: GPL-2.0

//! The kernel crate of Linux 7.2 with what the driver expects of that of 7.3, which `rsiw_main.rs`
//! names `kernel`. The driver is written for 7.3 only; what it uses and 7.2 lacks is here, with the
//! names, contexts and promises that it has in 7.3. Also the macros of the kernel take this for the
//! kernel crate. `compat.mk` tells when this is compiled.

pub use kernel::*;

mod hrtimer;
pub mod interrupt;

mod errno {
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
        ECANCELED,
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
}

pub mod prelude {
    //! What 7.3 has there in addition.
    pub use crate::errno::*;
    pub use kernel::prelude::*;
}

pub mod module {
    //! Modules, which had no folder of their own.
    use kernel::{
        bindings,
        types::Opaque, //
    };
    pub use kernel::{
        InPlaceModule,
        Module,
        ModuleMetadata,
        ThisModule, //
    };

    #[allow(improper_ctypes, reason = "only its address is looked at")]
    extern "C" {
        static __this_module: Opaque<bindings::module>;
    }

    // SAFETY: the kernel makes it when it loads the module, and keeps it as long as the code.
    const THIS_MODULE: ThisModule = unsafe { ThisModule::from_ptr(__this_module.get()) };

    /// Returns the module that this crate is a part of, and that `M` is of.
    #[inline]
    pub const fn this_module<M: ModuleMetadata>() -> &'static ThisModule {
        &THIS_MODULE
    }
}

pub mod sync {
    //! Locks for which interrupts are disabled, and functions that had no wrappers, or others.
    pub use crate::interrupt::{
        new_spinlock_irq,
        SpinLockIrq,
        SpinLockIrqGuard, //
    };
    pub use kernel::sync::*;

    pub mod rcu {
        //! Waiting for readers and callbacks.
        use kernel::bindings;
        pub use kernel::sync::rcu::*;

        /// Waits until all callbacks that are queued have run. Process context.
        #[inline]
        pub fn rcu_barrier() {
            // SAFETY: no requirements.
            unsafe { bindings::rcu_barrier() };
        }

        /// Waits until all who read now have ended that. Process context.
        #[inline]
        pub fn synchronize_rcu() {
            // SAFETY: no requirements.
            unsafe { bindings::synchronize_rcu() };
        }
    }

    pub mod barrier {
        //! Barriers, which had one function for each kind.
        pub use kernel::sync::atomic::Full;
        use kernel::sync::barrier;

        /// Orders earlier loads before later ones.
        pub struct Read;

        /// A kind of barrier between processors.
        pub trait Smp {
            /// Is one.
            fn run();
        }

        impl Smp for Full {
            #[inline]
            fn run() {
                barrier::smp_mb();
            }
        }

        impl Smp for Read {
            #[inline]
            fn run() {
                barrier::smp_rmb();
            }
        }

        /// A barrier between processors, of the kind that the parameter says.
        #[inline]
        pub fn smp_mb<T: Smp>(_: T) {
            T::run();
        }
    }
}

pub mod num {
    //! Conversions that lose nothing.
    pub use kernel::num::*;

    pub mod casts {
        //! On machines of 64 bits.

        /// Returns the same number.
        #[inline]
        pub const fn u32_as_usize(value: u32) -> usize {
            value as usize // CAST: the machine has 64 bits.
        }

        /// A type that can hold any value of `T`.
        pub trait FromSafeCast<T> {
            /// Returns the same number.
            fn from_safe_cast(value: T) -> Self;
        }

        impl FromSafeCast<usize> for u64 {
            #[inline]
            fn from_safe_cast(value: usize) -> Self {
                value as u64 // CAST: the machine has 64 bits.
            }
        }

        impl FromSafeCast<u32> for usize {
            #[inline]
            fn from_safe_cast(value: u32) -> Self {
                u32_as_usize(value)
            }
        }

        /// A type of which `T` can hold any value.
        pub trait IntoSafeCast<T> {
            /// Returns the same number.
            fn into_safe_cast(self) -> T;
        }

        impl<S, T: FromSafeCast<S>> IntoSafeCast<T> for S {
            #[inline]
            fn into_safe_cast(self) -> T {
                T::from_safe_cast(self)
            }
        }
    }
}

#[allow(non_camel_case_types, reason = "C names")]
pub mod bindings {
    //! Types that were not named, of which only addresses matter.
    pub use crate::hrtimer::{
        hrtimer_restart,
        hrtimer_setup, //
    };
    pub use kernel::bindings::*;

    /// A table of C.
    #[repr(C)]
    pub struct inet_hashinfo {
        _unused: [u8; 0],
    }

    /// A table of C.
    #[repr(C)]
    pub struct inet_timewait_death_row {
        _unused: [u8; 0],
    }
}
