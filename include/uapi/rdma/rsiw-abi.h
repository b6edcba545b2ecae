/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR Linux-OpenIB) */
/*
 * What rsiw adds to the ABI of include/uapi/rdma/siw-abi.h, which it speaks
 * otherwise (ABI version 1; driver id RDMA_DRIVER_SIW, as long as the kernel has
 * none for rsiw). What it means is in Documentation/infiniband/rsiw-abi.rst.
 */
#ifndef _RSIW_ABI_H
#define _RSIW_ABI_H

#include <linux/types.h>
#include <rdma/ib_user_ioctl_cmds.h>

/*
 * The handshake: driver's part of the request and the response of opening a
 * context. A library that sends no request, and a driver that answers with
 * the first eight octets only, get stock rings and stock behaviour.
 */
#define RSIW_ABI_MAGIC		0x77697372	/* "rsiw" */
#define RSIW_ABI_VERSION	1

enum rsiw_feature {
	/* The rings of this header instead of those of siw-abi.h. All below need it. */
	RSIW_FEATURE_RINGS	= 1 << 0,
	/* RDMA Write with immediate data */
	RSIW_FEATURE_IMM	= 1 << 1,
	/* Atomic Operations of RFC 7306 */
	RSIW_FEATURE_ATOMIC	= 1 << 2,
	/* Memory windows and local invalidation */
	RSIW_FEATURE_WINDOWS	= 1 << 3,
	/* Time stamps in completions */
	RSIW_FEATURE_TIMESTAMP	= 1 << 4,
	/* Other depths for queues of QPs and shared receive queues: the methods below */
	RSIW_FEATURE_RESIZE	= 1 << 5,
	/* Posting without a call, for the QPs that ask for it */
	RSIW_FEATURE_POLL	= 1 << 6,
	/* A struct rsiw_rq_ctrl behind the entries of each QP's own receive queue */
	RSIW_FEATURE_FLUSH	= 1 << 7,
	/* enum rsiw_resize_flags, for completion queues and for what RSIW_FEATURE_RESIZE has */
	RSIW_FEATURE_RESIZE_STEPS = 1 << 8,
	/* Send with immediate data, between QPs that programs connect by number */
	RSIW_FEATURE_SEND_IMM	= 1 << 9,
	/* QPs of unreliable datagrams (IBV_QPT_UD). It needs RSIW_FEATURE_FLUSH, too. */
	RSIW_FEATURE_UD		= 1 << 10,
};

struct rsiw_ureq_alloc_ctx {
	__u32 magic;
	__u32 version;		/* the newest that the library knows */
	__aligned_u64 features;	/* those that it wants */
};

struct rsiw_uresp_alloc_ctx {
	__u32 dev_id;		/* up to here as struct siw_uresp_alloc_ctx */
	__u32 pad;
	__u32 magic;
	__u32 version;		/* the one that is spoken from here on */
	__aligned_u64 features;	/* those of the wanted ones that there are */
	__u32 max_sge;		/* elements of a request or a receive */
	__u32 max_inline;	/* octets */
	__u32 max_windows;
	__u32 clock_khz;	/* what time stamps count */
	__aligned_u64 reserved[2];
};

/*
 * Driver's part of creating a QP, with RSIW_FEATURE_POLL. A request that is left
 * out asks for no time.
 *
 * After a call that tells of requests, and after each request, a thread of the
 * process polls the send queue for poll_us microseconds. As long as the first
 * word of what is mapped by poll_key (a page) is not 0, it does, and the process
 * need not call: it sets the flags of its entries, has a full barrier, and reads
 * that word. The kernel sets it to 0, has a full barrier, and looks once more.
 */
#define RSIW_MAX_POLL_US	1000

struct rsiw_ureq_create_qp {
	__u32 poll_us;		/* RSIW_MAX_POLL_US at most */
	__u32 pad;		/* 0 */
};

struct rsiw_uresp_create_qp {
	__u32 qp_id;		/* up to rq_key as struct siw_uresp_create_qp */
	__u32 num_sqe;
	__u32 num_rqe;
	__u32 pad;
	__aligned_u64 sq_key;
	__aligned_u64 rq_key;
	__u32 poll_us;		/* 0: nobody polls, and nothing is to be mapped; as for IBV_QPT_UD */
	__u32 pad2;
	__aligned_u64 poll_key;
};

/*
 * With RSIW_FEATURE_FLUSH this is behind the entries of a QP's own receive queue,
 * as struct siw_cq_ctrl is behind those of a CQ, and is mapped with them. Resizing
 * the queue makes another one.
 *
 * As long as the word is not 0, the QP is in a state in which receives are
 * flushed. The process sets the flags of its entries, has a full barrier, and
 * reads the word; if it is not 0, it calls the kernel as for requests (POST_SEND
 * without a request). The kernel sets the word, has a full barrier, and looks at
 * the queue. It never reads the word.
 */
struct rsiw_rq_ctrl {
	__u32 flushes;
	__u32 pad;
};

/*
 * Flags of each request to resize queues, with RSIW_FEATURE_RESIZE_STEPS. Without one of
 * them the call makes other rings and moves the queues there at once. If the process then
 * cannot map them, the queues are lost to it. In two steps nothing is lost:
 *
 * MAKE makes the rings and answers with their keys; the queues stay as they are, and may
 * be used. There is one such set of rings for each object: another MAKE replaces it, and
 * the object's destruction frees it. A call without flags leaves it as it is.
 *
 * MOVE moves the queues to the rings that MAKE has made (EINVAL if there are none), whose
 * numbers of entries hold: those in the request are not looked at. It has no response of
 * the driver's. If it fails the queues stay as they were, and the rings are gone: they
 * remain memory as long as they are mapped. What is said below of posting, polling and
 * arming during the call is of MOVE.
 */
enum rsiw_resize_flags {
	RSIW_RESIZE_MAKE	= 1 << 1,
	RSIW_RESIZE_MOVE	= 1 << 2,
};

/*
 * Driver's parts of IB_USER_VERBS_CMD_RESIZE_CQ. A request that is left out has no flags.
 * Without room for the response the call fails.
 *
 * The CQ gets another ring, of num_cqe entries with a struct siw_cq_ctrl behind
 * them, to be mapped by cq_key like the first one. It starts
 * with the completions that were not polled, from entry 0 on, and is armed as
 * the old ring was. The old mapping stays memory, but nothing comes there any
 * more; it is unmapped at leisure.
 *
 * As for any CQ, nobody may poll or arm it during the call. Completions may be
 * added.
 */
struct rsiw_ureq_resize_cq {
	__u32 flags;		/* enum rsiw_resize_flags */
	__u32 pad;		/* 0 */
};

struct rsiw_uresp_resize_cq {
	__u32 num_cqe;
	__u32 pad;
	__aligned_u64 cq_key;
};

/*
 * Methods of the driver (RDMA_VERBS_IOCTL) that give the queues of a QP, or a
 * shared receive queue, other depths, for processes with RSIW_FEATURE_RESIZE;
 * for others they fail with EOPNOTSUPP. The core's own calls carry no sizes
 * (modify_qp) or have no response of the driver's (modify_srq).
 *
 * RSIW_ATTR_RESIZE_HANDLE names the object. The request is in
 * UVERBS_ATTR_UHW_IN, the response goes to UVERBS_ATTR_UHW_OUT; without room
 * for it the call fails.
 *
 * Each queue gets another ring, of at least as many entries as the request
 * says, to be mapped by its key like the first one. What the process had posted
 * and the kernel had not taken is in the new ring, under the same numbers: entry
 * number n, counted from the first that was ever posted, is entry n modulo the
 * number of entries, before and after. The old mapping stays memory, but nobody
 * looks there any more; it is unmapped at leisure.
 *
 * Nobody may post to the queue during the call. The kernel may take what is
 * posted. Fewer entries than are posted, or than the limit of a shared receive
 * queue, are refused (EINVAL), as are more than at creation. If the call fails,
 * nothing has changed.
 */
enum rsiw_qp_methods {
	RSIW_METHOD_QP_RESIZE	= (1U << UVERBS_ID_NS_SHIFT),
};

enum rsiw_srq_methods {
	RSIW_METHOD_SRQ_RESIZE	= (1U << UVERBS_ID_NS_SHIFT),
};

enum rsiw_resize_attrs {
	RSIW_ATTR_RESIZE_HANDLE	= UVERBS_ID_DRIVER_NS_WITH_UHW,
};

/* May end before the flags: it has none then. */
struct rsiw_ureq_resize_qp {
	__u32 num_sqe;
	__u32 num_rqe;		/* 0 with a shared receive queue */
	__u32 flags;		/* enum rsiw_resize_flags */
	__u32 pad;		/* 0 */
};

struct rsiw_uresp_resize_qp {
	__u32 num_sqe;
	__u32 num_rqe;		/* 0, and no key, with a shared receive queue */
	__aligned_u64 sq_key;
	__aligned_u64 rq_key;
};

/* Beside those of enum rsiw_resize_flags. */
enum rsiw_resize_srq_flags {
	/* Another limit as well. Without it the limit stays, as it does with MAKE. */
	RSIW_RESIZE_SRQ_LIMIT	= 1 << 0,
};

struct rsiw_ureq_resize_srq {
	__u32 num_rqe;
	__u32 limit;
	__u32 flags;		/* enum rsiw_resize_flags, enum rsiw_resize_srq_flags */
	__u32 pad;		/* 0 */
};

struct rsiw_uresp_resize_srq {
	__u32 num_rqe;
	__u32 pad;
	__aligned_u64 srq_key;
};

/*
 * Entries of the rings of RSIW_FEATURE_RINGS. Where it says 0, anything else is an
 * error of the request. What an operation does not use of the operands is not looked
 * at: entries are used again, for other operations.
 */
#define RSIW_MAX_SGE		16
#define RSIW_MAX_INLINE		256

/* Values of opcode beyond those of enum siw_opcode that are used here. */
enum rsiw_opcode {
	RSIW_OP_BIND_MW		= 12,
	RSIW_OP_WRITE_WITH_IMM	= 13,
	RSIW_OP_SEND_WITH_IMM	= 14,
};

/* Flag of a completion beyond those of enum siw_wqe_flags: data is immediate data. */
#define RSIW_CQE_WITH_IMM	(1 << 7)
/* The immediate data came with a Send. */
#define RSIW_CQE_OF_SEND	(1 << 3)
/* Of a receive of a UD QP: src_qp is there, and the message follows a GRH of 40 octets. */
#define RSIW_CQE_OF_DATAGRAM	(1 << 4)

/* Status of a completion beyond those of enum siw_wc_status. */
#define RSIW_WC_MW_BIND_ERR	10
#define RSIW_WC_RETRY_EXC_ERR	11
#define RSIW_WC_RNR_RETRY_EXC_ERR	12
#define RSIW_WC_REM_OP_ERR		13

/* The same as struct siw_sge. */
struct rsiw_sge {
	__aligned_u64 laddr;
	__u32 length;
	__u32 lkey;
};

struct rsiw_bind {
	__u32 window;
	__u32 region;
	__aligned_u64 length;
	__u32 access;
	__u32 pad;		/* 0 */
};

/* Where a datagram goes. */
struct rsiw_dest {
	__u8 dgid[16];
	__u32 qpn;
	__u32 qkey;
};

/* How a datagram gets there. */
struct rsiw_path {
	__u8 sgid_index;
	__u8 traffic_class;
	__u8 hop_limit;
	__u8 pad;		/* 0 */
	__u32 flow_label;
};

struct rsiw_sqe {
	__aligned_u64 id;
	__u16 flags;
	__u8 num_sge;
	__u8 opcode;
	/*
	 * The peer's, one to invalidate, or a window's new one; of a UD QP the immediate
	 * data, in network order.
	 */
	__u32 rkey;
	union {
		__aligned_u64 raddr;	/* the peer's address, or that of a window */
		struct rsiw_path path;	/* of a UD QP */
	};
	union {
		struct {
			__aligned_u64 data;	/* the lower half, in network order */
			__aligned_u64 unused[2];
		} imm;
		struct {
			__aligned_u64 compare_add;
			__aligned_u64 swap;
			__aligned_u64 unused;
		} atomic;
		struct rsiw_bind bind;
		struct rsiw_dest dest;	/* of a UD QP */
	};
	__u32 inline_length;	/* octets in data, with SIW_WQE_INLINE */
	__u32 pad[3];		/* 0 */
	union {
		struct rsiw_sge sge[RSIW_MAX_SGE];
		__u8 data[RSIW_MAX_INLINE];
	};
};

struct rsiw_rqe {
	__aligned_u64 id;
	__u16 flags;
	__u8 num_sge;
	__u8 opcode;		/* 0 */
	__u32 unused;		/* 0 */
	struct rsiw_sge sge[RSIW_MAX_SGE];
};

struct rsiw_cqe {
	__aligned_u64 id;
	__u8 flags;
	__u8 opcode;
	__u16 status;
	__u32 bytes;
	/* In the lower half: the STag that the peer invalidated, or immediate
	 * data in network order.
	 */
	__aligned_u64 data;
	__u32 qp_id;
	__u32 vendor_err;
	/* With IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION, else 0. */
	__aligned_u64 timestamp;	/* ticks of clock_khz */
	__aligned_u64 wallclock;	/* ns since 1970 */
	__aligned_u64 src_qp;		/* with RSIW_CQE_OF_DATAGRAM, else 0 */
	__aligned_u64 reserved;
};

#endif
