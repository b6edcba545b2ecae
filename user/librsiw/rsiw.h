/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Objects of the library. */
#ifndef LIBRSIW_RSIW_H
#define LIBRSIW_RSIW_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/driver.h>

#include "abi.h"

struct rsiw_device {
	struct verbs_device vdev;
};

struct rsiw_context {
	struct verbs_context vctx;
	const struct rsiw_layout *layout;
	uint64_t features;		/* enum rsiw_feature */
	uint32_t max_sge;
	uint32_t max_inline;
	uint32_t max_windows;
	uint32_t clock_khz;
};

/*
 * Queues are locked by mutexes that spin for a moment and then sleep, as whoever resizes
 * a queue calls the kernel with the lock held.
 */
static inline void rsiw_init_lock(pthread_mutex_t *lock)
{
	*lock = (pthread_mutex_t)PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
}

static inline uint32_t rsiw_smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* A queue in memory shared with the kernel, of a power of two entries. */
struct rsiw_ring {
	uint8_t *at;
	size_t len;			/* octets that are mapped */
	uint32_t mask;
	uint32_t entry_size;
	uint32_t next;			/* number of the next entry, which wraps */
};

struct rsiw_cq {
	struct verbs_cq vcq;
	pthread_mutex_t lock;		/* also from start_poll to end_poll */
	struct rsiw_ring ring;
	/* Who holds the lock above may take this one: a program arms the queue while it polls. */
	pthread_mutex_t ctrl_lock;
	struct siw_cq_ctrl *ctrl;	/* behind the entries */
	struct rsiw_cqe *current;	/* between start_poll and end_poll */
	uint64_t wc_flags;
};

struct rsiw_srq {
	struct ibv_srq srq;
	pthread_mutex_t lock;
	struct rsiw_ring ring;
	uint32_t max_sge;
};

/* The command that tells the kernel of new requests: the same each time. */
struct rsiw_doorbell {
	struct ib_uverbs_cmd_hdr hdr;
	struct ib_uverbs_post_send post;
};

struct rsiw_qp {
	struct verbs_qp vqp;
	const struct rsiw_layout *layout;
	uint64_t features;
	bool sig_all;
	bool by_number;			/* the program has told it of its peer */
	bool is_ud;

	pthread_mutex_t sq_lock;
	struct rsiw_ring sq;
	uint32_t *polled;		/* not 0 while the kernel polls the queue; or NULL */
	uint32_t staged;		/* requests behind the last one that the kernel may see */
	/*
	 * owed: the calls that posts have had to make. called: the last of these that has
	 * returned. owed_at: the first request of the post that has to make the last one.
	 */
	uint32_t owed;
	uint32_t called;
	uint32_t owed_at;
	uint32_t max_send_sge;
	uint32_t max_inline;
	struct rsiw_doorbell doorbell;
	struct ib_uverbs_post_send_resp doorbell_resp;
	/* Between wr_start and wr_complete. */
	struct rsiw_sqe *current;
	int error;
	uint32_t inline_len;		/* octets in the request that was staged last */
	bool lacks_address;		/* the current datagram */

	pthread_mutex_t rq_lock;
	struct rsiw_ring rq;		/* none with a shared one */
	size_t behind_rq;		/* octets behind the entries: rsiw_rq_ctrl or nothing */
	uint32_t max_recv_sge;
};

/* An address handle is memory of the process alone: requests carry what it says. */
struct rsiw_ah {
	struct ibv_ah ah;
	uint8_t dgid[16];
	struct rsiw_path path;
};

static inline struct rsiw_context *to_rsiw_context(struct ibv_context *context)
{
	return container_of(context, struct rsiw_context, vctx.context);
}

static inline struct rsiw_cq *to_rsiw_cq(struct ibv_cq *cq)
{
	return container_of(cq, struct rsiw_cq, vcq.cq);
}

static inline struct rsiw_cq *to_rsiw_cq_ex(struct ibv_cq_ex *cq)
{
	return container_of(cq, struct rsiw_cq, vcq.cq_ex);
}

static inline struct rsiw_srq *to_rsiw_srq(struct ibv_srq *srq)
{
	return container_of(srq, struct rsiw_srq, srq);
}

static inline struct rsiw_qp *to_rsiw_qp(struct ibv_qp *qp)
{
	return container_of(qp, struct rsiw_qp, vqp.qp);
}

static inline struct rsiw_qp *to_rsiw_qp_ex(struct ibv_qp_ex *qp)
{
	return container_of(qp, struct rsiw_qp, vqp.qp_ex);
}

static inline struct rsiw_ah *to_rsiw_ah(struct ibv_ah *ah)
{
	return container_of(ah, struct rsiw_ah, ah);
}

static inline void *rsiw_entry(const struct rsiw_ring *ring, uint32_t number)
{
	return ring->at + (size_t)(number & ring->mask) * ring->entry_size;
}

/* What is behind the entries. */
static inline void *rsiw_behind(const struct rsiw_ring *ring)
{
	return ring->at + (size_t)(ring->mask + 1) * ring->entry_size;
}

/* Whoever sees the flags that the other side has set sees all that it wrote before them. */
#define rsiw_flags(entry)		__atomic_load_n(&(entry)->flags, __ATOMIC_ACQUIRE)
#define rsiw_set_flags(entry, to)	__atomic_store_n(&(entry)->flags, (to), __ATOMIC_RELEASE)

int rsiw_map_ring(struct ibv_context *context, struct rsiw_ring *ring, uint64_t key,
		  uint32_t entries, uint32_t entry_size, size_t behind);
void rsiw_unmap_ring(struct rsiw_ring *ring);
int rsiw_put_recv(struct rsiw_ring *ring, uint32_t max_sge, const struct ibv_recv_wr *wr);

int rsiw_query_device_ex(struct ibv_context *context,
			 const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t attr_size);

struct ibv_cq *rsiw_create_cq(struct ibv_context *context, int cqe,
			      struct ibv_comp_channel *channel, int comp_vector);
struct ibv_cq_ex *rsiw_create_cq_ex(struct ibv_context *context,
				    struct ibv_cq_init_attr_ex *attr);
int rsiw_resize_cq(struct ibv_cq *cq, int cqe);
int rsiw_destroy_cq(struct ibv_cq *cq);
int rsiw_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int rsiw_req_notify_cq(struct ibv_cq *cq, int solicited_only);
void rsiw_forget_qp(struct ibv_cq *cq, uint32_t qp_num);

struct ibv_srq *rsiw_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int rsiw_resize_srq(struct rsiw_srq *srq, const struct ibv_srq_attr *attr, bool has_limit);
int rsiw_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int attr_mask);
int rsiw_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int rsiw_destroy_srq(struct ibv_srq *srq);
int rsiw_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

struct ibv_qp *rsiw_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *rsiw_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
int rsiw_resize_qp(struct rsiw_qp *qp, struct ibv_qp_cap *cap);
int rsiw_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
int rsiw_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		  struct ibv_qp_init_attr *init_attr);
int rsiw_destroy_qp(struct ibv_qp *qp);
bool rsiw_is_reset(struct rsiw_qp *qp);
int rsiw_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

int rsiw_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int rsiw_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int rsiw_set_wr_functions(struct rsiw_qp *qp, uint64_t ops);

/* Requests are staged one by one, under the lock of the queue, and published together. */
struct rsiw_sqe *rsiw_stage(struct rsiw_qp *qp, uint64_t wr_id, uint8_t opcode,
			    unsigned int send_flags);
int rsiw_set_elements(struct rsiw_qp *qp, struct rsiw_sqe *sqe, const struct ibv_sge *sge,
		      size_t count);
void rsiw_begin_inline(struct rsiw_qp *qp, struct rsiw_sqe *sqe);
int rsiw_add_inline(struct rsiw_qp *qp, struct rsiw_sqe *sqe, const void *data, size_t len);
int rsiw_set_bind(struct rsiw_sqe *sqe, const struct ibv_mw *mw, uint32_t rkey,
		  const struct ibv_mw_bind_info *info);
bool rsiw_publish(struct rsiw_qp *qp);
int rsiw_ring_doorbell(struct rsiw_qp *qp);

/* Gives the request the octets of its elements. In this header, to be inlined in both callers. */
static inline int rsiw_add_inline_list(struct rsiw_qp *qp, struct rsiw_sqe *sqe,
				       const struct ibv_send_wr *wr)
{
	const struct ibv_sge *sge = wr->sg_list;
	int i, ret = 0;

	rsiw_begin_inline(qp, sqe);
	for (i = 0; i < wr->num_sge && !ret; i++)
		ret = rsiw_add_inline(qp, sqe, (void *)(uintptr_t)sge[i].addr, sge[i].length);
	return ret;
}

struct ibv_ah *rsiw_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int rsiw_destroy_ah(struct ibv_ah *ibah);
void rsiw_set_address(struct rsiw_sqe *sqe, struct ibv_ah *ibah, uint32_t qpn, uint32_t qkey);
int rsiw_stage_datagram(struct rsiw_qp *qp, const struct ibv_send_wr *wr);

struct ibv_pd *rsiw_alloc_pd(struct ibv_context *context);
int rsiw_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *rsiw_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va,
			   int access);
struct ibv_mr *rsiw_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				  uint64_t iova, int fd, int access);
int rsiw_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access);
int rsiw_dereg_mr(struct verbs_mr *vmr);
struct ibv_mw *rsiw_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int rsiw_dealloc_mw(struct ibv_mw *mw);

#endif
