/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory windows of rsiw, for consumers in the kernel.
 *
 * The RDMA core has windows (ib_mw) but no request that binds one, as no
 * service of the kernel does so, and the stock library of processes has none
 * either: that is why devices say that they have no windows (max_mw). A consumer makes
 * a window by the device's alloc_mw, and posts this to bind it.
 *
 * IB_MW_TYPE_2: only the queue pair that bound a window can be used to reach it,
 * until it becomes invalid again by IB_WR_LOCAL_INV, by a Send with Invalidate
 * of the peer, or by dealloc_mw.
 *
 * IB_MW_TYPE_1: all queue pairs of the window's protection domain can be used,
 * to bind it and to reach it. A bind replaces the one before and takes another
 * key; one of zero octets leaves the window bound to nothing.
 */
#ifndef RDMA_RSIW_VERBS_H
#define RDMA_RSIW_VERBS_H

#include <rdma/ib_verbs.h>

/**
 * struct rsiw_bind_mw_wr - binds a memory window to a region
 * @wr:      opcode IB_WR_BIND_MW; IB_SEND_SIGNALED if wanted
 * @mw:      the window, which must be invalid if it is of type 2
 * @mr:      the region: valid, registered with IB_ACCESS_MW_BIND
 * @rkey:    the window's key from now on, see ib_inc_rkey()
 * @access:  IB_ACCESS_REMOTE_READ, IB_ACCESS_REMOTE_WRITE (takes a region with
 *           IB_ACCESS_LOCAL_WRITE) or both; IB_ZERO_BASED if the first octet is
 *           to have offset 0
 * @addr:    of the first octet, as requests name it in the region
 * @length:  octets; zero for windows of type 1 only
 */
struct rsiw_bind_mw_wr {
	struct ib_send_wr	wr;
	struct ib_mw		*mw;
	struct ib_mr		*mr;
	u32			rkey;
	int			access;
	u64			addr;
	u64			length;
};

#endif
