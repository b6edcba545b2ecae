/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * What rsiw adds to the ABI of include/uapi/rdma/siw-abi.h, which it speaks
 * otherwise (driver id RDMA_DRIVER_SIW, ABI version 1).
 */
#ifndef _RSIW_ABI_H
#define _RSIW_ABI_H

#include <linux/types.h>

/*
 * Driver's part of the response to IB_USER_VERBS_CMD_RESIZE_CQ; without room
 * for it the call fails. The driver has no part in the request.
 *
 * The CQ gets another ring, of num_cqe entries of struct siw_cqe with a struct
 * siw_cq_ctrl behind them, to be mapped by cq_key like the first one. It starts
 * with the completions that were not polled, from entry 0 on, and is armed as
 * the old ring was. The old mapping stays memory, but nothing comes there any
 * more; it is unmapped at leisure.
 *
 * As for any CQ, nobody may poll or arm it during the call. Completions may be
 * added.
 *
 * Queues of QPs and shared receive queues are not resized: the core's calls
 * carry no sizes (modify_qp) or have no response of the driver's (modify_srq).
 */
struct rsiw_uresp_resize_cq {
	__u32 num_cqe;
	__u32 pad;
	__aligned_u64 cq_key;
};

#endif
