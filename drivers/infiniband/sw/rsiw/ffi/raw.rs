// SPDX-License-Identifier: GPL-2.0

//! The generated bindings: the only file that names them or `kernel::bindings`.
//!
//! Other files of `ffi/` write `use super::raw::{b, h};`. Nothing outside `ffi/` may use this.

/// The C API: what the kernel crate binds and what bindgen adds for this driver.
#[allow(
    clippy::all,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    improper_ctypes,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    clippy::undocumented_unsafe_blocks,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::as_underscore,
    clippy::cast_lossless,
    unknown_lints,
    unnecessary_transmutes,
    reason = "generated code"
)]
pub(crate) mod b {
    pub(crate) use super::opaque::rdma_cm_id;
    use super::opaque::*;
    pub(crate) use kernel::bindings::*;
    use kernel::ffi;
    use pin_init::{
        MaybeZeroable,
        Zeroable, //
    };

    // If the kernel's enum has the constant, it hides this one.
    pub(crate) use super::absent::*;

    type __kernel_size_t = usize;
    type __kernel_ssize_t = isize;
    type __kernel_ptrdiff_t = isize;

    // SAFETY: a bit-field unit is a transparent array of integers.
    unsafe impl<Storage> Zeroable for __BindgenBitfieldUnit<Storage> where Storage: Zeroable {}

    include!(concat!(env!("RSIW_FFI_GEN"), "/bindings_generated.rs"));
}

/// Helpers of `helpers.c` for macros and inline functions of C.
#[allow(
    dead_code,
    missing_docs,
    improper_ctypes,
    unreachable_pub,
    non_camel_case_types,
    reason = "generated code"
)]
pub(crate) mod h {
    use super::b::*;
    use kernel::ffi;

    include!(concat!(env!("RSIW_FFI_GEN"), "/helpers_generated.rs"));
}

/// What the kernel may lack, and what is used instead.
#[allow(non_upper_case_globals, reason = "names of C")]
mod absent {
    /// As long as no number is assigned to rsiw.
    pub(crate) const rdma_driver_id_RDMA_DRIVER_RSIW: super::b::rdma_driver_id =
        super::b::rdma_driver_id_RDMA_DRIVER_SIW;
}

/// Types that the generated bindings name only behind pointers. Types embedded by value must not be
/// listed here; bindgen's layout tests would catch it.
mod opaque {
    /// Declares types of which only the address matters.
    macro_rules! opaque {
        ($($name:ident),* $(,)?) => { $(
            #[repr(C)]
            #[allow(
                non_camel_case_types, dead_code, unreachable_pub, missing_docs,
                reason = "C names"
            )]
            pub struct $name {
                _unused: [u8; 0],
            }
        )* };
    }

    opaque! {
        dcbnl_rtnl_ops,
        dim,
        dim_irq_moder,
        ib_mad,
        ib_sig_attrs,
        ifbond,
        ifla_vf_guid,
        ifla_vf_info,
        ifla_vf_stats,
        ifslave,
        in_device,
        inet6_dev,
        l3mdev_ops,
        ndisc_ops,
        ndmsg,
        neigh_parms,
        netprio_map,
        numa_drop_counters,
        Qdisc,
        rdma_cgroup,
        rdma_cm_id,
        request_sock_ops,
        rtnl_hw_stats64,
        rtnl_link_ops,
        rtnl_link_stats64,
        sk_filter,
        sock_reuseport,
        timewait_sock_ops,
    }
}
