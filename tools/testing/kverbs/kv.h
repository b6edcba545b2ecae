/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rsiw_kverbs: kernel verbs, driven case by case from user space.
 *
 * A case connects pairs of endpoints of one device, posts work and looks at
 * what completes. Whatever it makes belongs to its struct kv. When the case
 * returns, which it may at any point, all queue pairs are brought to Error,
 * because the DMA key keeps nobody from memory that is freed; then everything
 * is released, last made first.
 */
#ifndef RSIW_KVERBS_H
#define RSIW_KVERBS_H

#include <linux/bits.h>
#include <linux/completion.h>
#include <linux/list.h>
#include <linux/scatterlist.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>
#include <rdma/rsiw_verbs.h>

/* How long anything may take: guests are emulated, and share their hosts. */
#define KV_WAIT_MS	30000
/* How long one waits to see that nothing happens. */
#define KV_QUIET_MS	150

struct kv;
struct kv_lab;

/*
 * A case makes all that it takes in run(), or its family makes it for with(),
 * as the options and the rights of the case say; without them the usual.
 */
struct kv_case {
	const char *name;
	const char *rows;	/* of the requirement matrix */
	void (*run)(struct kv *k);
	void (*with)(struct kv *k, struct kv_lab *l);
	const struct kv_opts *o;
	int access;		/* to the region of end b */
};

/* One family per file; the last entry of each has no name. */
extern const struct kv_case kv_reg_cases[];
extern const struct kv_case kv_map_cases[];
extern const struct kv_case kv_inv_cases[];
extern const struct kv_case kv_order_cases[];
extern const struct kv_case kv_status_cases[];
extern const struct kv_case kv_ctx_cases[];
extern const struct kv_case kv_state_cases[];
extern const struct kv_case kv_cq_cases[];
extern const struct kv_case kv_event_cases[];
extern const struct kv_case kv_dma_cases[];
extern const struct kv_case kv_mw_cases[];
extern const struct kv_case kv_mw1_cases[];
extern const struct kv_case kv_object_cases[];
extern const struct kv_case kv_request_cases[];
extern const struct kv_case kv_busy_cases[];
extern const struct kv_case kv_apart_cases[];
extern const struct kv_case kv_first_cases[];
extern const struct kv_case kv_depth_cases[];
extern const struct kv_case kv_imm_cases[];
extern const struct kv_case kv_atomic_cases[];

/* Those of families whose cases begin alike; false if the case is over. */
bool kv_inv_begin(struct kv *k, struct kv_lab *l, const struct kv_case *c);
bool kv_order_begin(struct kv *k, struct kv_lab *l, const struct kv_case *c);
bool kv_status_begin(struct kv *k, struct kv_lab *l, const struct kv_case *c);
bool kv_cq_begin(struct kv *k, struct kv_lab *l, const struct kv_case *c);
bool kv_mw_begin(struct kv *k, struct kv_lab *l, const struct kv_case *c);
bool kv_mw1_begin(struct kv *k, struct kv_lab *l, const struct kv_case *c);
bool kv_request_begin(struct kv *k, struct kv_lab *l, const struct kv_case *c);
bool kv_imm_begin(struct kv *k, struct kv_lab *l, const struct kv_case *c);
bool kv_atomic_begin(struct kv *k, struct kv_lab *l, const struct kv_case *c);

/* One running case. */
struct kv {
	struct list_head owned;
	struct list_head pairs;
	bool failed;
	char text[256];		/* of the first failure */
};

/* Notes a failure unless @good; returns @good. */
__printf(3, 4) bool kv_ok(struct kv *k, bool good, const char *fmt, ...);
/* @release(@obj) when the case is over; at once, with false, if out of memory. */
bool kv_own(struct kv *k, void *obj, void (*release)(void *obj));

/* One end of a connection. */
struct kv_ep {
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *scq, *rcq;
	struct ib_srq *srq;
	struct ib_qp *qp;
	struct kv_pair *pair;
	struct completion step;		/* the next event of the CM */
	struct completion down;		/* disconnected */
	enum rdma_cm_event_type last;
	int refused;			/* why there was no accept */
	bool bad_data;			/* no private data, but a pointer */
	bool own_pd;
	atomic_t calls;			/* of the handler of completions */
	struct ib_cq *called;		/* the CQ of the last one */
	void (*on_call)(struct kv_ep *ep, struct ib_cq *cq);
	int cpu;			/* for on_call */
	atomic_t events[IB_EVENT_WQ_FATAL + 1];
};

/* What a pair is made with; zero is the usual. */
struct kv_opts {
	u32 depth;			/* of all queues (16) */
	u32 cqe;			/* of CQs (4 * depth) */
	u32 vector;			/* of CQs */
	struct ib_pd *pd;		/* of both ends (one of each's own) */
	struct ib_cq *cq;		/* of both ends (two of each's own) */
	u32 inline_data;
	u32 recv_sge;			/* elements of a receive (2) */
	u8 depth_reads;			/* IRD and ORD (4) */
	bool srq;			/* end b receives by an SRQ */
	bool core_cq;			/* CQs that the core polls */
	bool silent_cq;			/* CQs without a handler */
	bool all_signaled;		/* whatever the requests say */
	bool unconnected;		/* queue pair at end a only */
	bool mute;			/* end a is TCP that asks by MPA, no more */
	/* Called for each end once it has its queue pair, before connecting. */
	void (*prepare)(struct kv *k, struct kv_ep *ep);
};

struct kv_pair {
	struct list_head list;		/* in pairs */
	struct kv *k;
	struct kv_opts o;
	struct rdma_cm_id *listen;
	struct kv_ep a, b;		/* a connects to b */
	struct socket *mute;
};

/* What a family makes for its cases: some of these. */
struct kv_lab {
	struct kv_pair *p, *q, *r;	/* q: over the PD of p's end b */
	struct kv_mr *mr;		/* of p's end b */
	struct kv_mr *a, *b;		/* of each end of p */
	struct kv_mem *m, *n;		/* of p's end a, of its end b */
	struct ib_mw *mw;		/* of mr */
	u32 key;			/* of the window once bound */
	u64 *word, *result;		/* of mr, of m */
};

/* Makes p, and q. */
bool kv_two(struct kv *k, struct kv_lab *l);

/* Two connected ends, or NULL and a noted failure. */
struct kv_pair *kv_connect(struct kv *k, const struct kv_opts *o);
/* Connects what was made with `unconnected`. */
bool kv_join(struct kv_pair *p);
/* Nothing arrives and nothing leaves any more. */
void kv_stop(struct kv_pair *p);
/* Waits until an end knows that the connection is over. */
bool kv_is_down(struct kv *k, struct kv_ep *ep);
/* The device that cases run on, for as long as the pair lives. */
static inline struct ib_device *kv_dev(const struct kv_pair *p)
{
	return p->a.id->device;
}

/* Whether the device is this driver's: some things only that promises. */
static inline bool kv_is_rsiw(struct ib_device *dev)
{
	return !strncmp(dev_name(&dev->dev), "rsiw", 4);
}
/* What the device has counted by now, KV_NO_COUNTER if it has no such counter. */
#define KV_NO_COUNTER U64_MAX
bool kv_counter(struct kv *k, struct ib_device *dev, const char *name,
		u64 *value);

/* Memory by the kilobyte, for local keys that cover everything. */
struct kv_mem {
	struct ib_device *dev;
	void *va;
	u64 addr;
	u32 len;
};

struct kv_mem *kv_mem(struct kv *k, struct kv_ep *ep, u32 len, u8 fill);

/* A region of single pages that lie anywhere. */
struct kv_mr {
	struct ib_mr *mr;
	struct ib_device *dev;
	unsigned int pages;
	struct page **page;
	struct scatterlist *sg;
	u8 *va;			/* all pages in a row */
};

/* Allocates and maps, does not register. */
struct kv_mr *kv_alloc_mr(struct kv *k, struct kv_ep *ep, unsigned int pages,
			  enum ib_mr_type type);
/* Also registers, which takes a connected queue pair. */
struct kv_mr *kv_region(struct kv *k, struct kv_ep *ep, unsigned int pages,
			int access);
struct ib_pd *kv_pd(struct kv *k, struct ib_device *dev);
/* A window, which the RDMA core leaves to the consumer to make. */
struct ib_mw *kv_mw(struct kv *k, struct ib_pd *pd, enum ib_mw_type type);

/* Completion statuses as sets. */
#define KV_OK		BIT(IB_WC_SUCCESS)
#define KV_FLUSH	BIT(IB_WC_WR_FLUSH_ERR)
#define KV_PROT		BIT(IB_WC_LOC_PROT_ERR)
#define KV_LEN		BIT(IB_WC_LOC_LEN_ERR)
#define KV_ACCESS	BIT(IB_WC_LOC_ACCESS_ERR)
#define KV_QP_OP	BIT(IB_WC_LOC_QP_OP_ERR)
#define KV_BIND		BIT(IB_WC_MW_BIND_ERR)
#define KV_REM_ACCESS	BIT(IB_WC_REM_ACCESS_ERR)
#define KV_REM_INV	BIT(IB_WC_REM_INV_REQ_ERR)
/* What became of a Read that the other end refused. */
#define KV_FAILS	((u32)~KV_OK)

/* A work request in few words; @key is what to access or to invalidate. */
struct kv_wr {
	enum ib_wr_opcode op;
	u64 id;
	struct ib_sge sge[3];
	int sges;
	u64 remote;
	u32 key;
	__be32 imm;		/* RDMA_WRITE_WITH_IMM */
	int flags;		/* IB_SEND_SIGNALED is added unless quiet */
	bool quiet;
	struct ib_mr *mr;	/* REG_MR, BIND_MW: with key and access */
	int access;
	struct ib_mw *mw;	/* BIND_MW: remote and length of mr */
	u64 length;
	u64 compare_add, swap;	/* Atomic Operations */
	u64 compare_add_mask, swap_mask;
};

/* Posts @n requests as one list. */
int kv_post_list(struct kv_ep *ep, const struct kv_wr *wr, int n);
int kv_post(struct kv_ep *ep, const struct kv_wr *wr);
int kv_recv(struct kv_ep *ep, u64 id, u64 addr, u32 len, u32 key);
/* Waits for one completion. */
bool kv_wc(struct kv *k, struct ib_cq *cq, struct ib_wc *wc);
/* Waits for one; it must be of @id and have one of the statuses of @want. */
bool kv_want(struct kv *k, struct ib_cq *cq, u64 id, u32 want);
/* Posts and waits. */
bool kv_do(struct kv *k, struct kv_ep *ep, const struct kv_wr *wr, u32 want);
bool kv_reg(struct kv *k, struct kv_ep *ep, struct kv_mr *mr, u32 key,
	    int access, u32 want);
bool kv_inv(struct kv *k, struct kv_ep *ep, u32 key, u32 want);
/* Reads all of @m from @remote of the other end. */
bool kv_read(struct kv *k, struct kv_ep *ep, struct kv_mem *m, u64 remote, u32 key,
	     u32 want);
/* From a to b, invalidating @key; the receive of b completes with @want. */
bool kv_send_inv(struct kv *k, struct kv_pair *p, u32 key, u32 want);
/* After a while: the handler of @ep was called so often in all. */
bool kv_calls(struct kv *k, struct kv_ep *ep, int want);
/* Nothing completes for a while. */
bool kv_quiet(struct kv *k, struct ib_cq *cq);
/* After a while: @n of the event. */
bool kv_events(struct kv *k, struct kv_ep *ep, enum ib_event_type event, int n);
bool kv_state(struct kv *k, struct kv_ep *ep, enum ib_qp_state want);
int kv_modify(struct kv_ep *ep, enum ib_qp_state to);

/* All of @m under the DMA key. */
#define KV_LOCAL(ep, m) \
	.sges = 1, .sge = { { (m)->addr, (m)->len, (ep)->pd->local_dma_lkey } }

#define KV_REMOTE (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | \
		   IB_ACCESS_REMOTE_WRITE)

#endif
