// SPDX-License-Identifier: GPL-2.0

//! Types that the generated bindings name only behind pointers. Types embedded by value must not be
//! listed here; bindgen's layout tests would catch it.

/// Declares types of which only the address matters.
macro_rules! opaque {
    ($($name:ident),* $(,)?) => { $(
        #[repr(C)]
        #[allow(non_camel_case_types, dead_code, unreachable_pub, missing_docs, reason = "C names")]
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
