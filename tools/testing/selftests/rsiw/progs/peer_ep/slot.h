/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of peer_ep share. */
#ifndef PEER_EP_H
#define PEER_EP_H

#include "ep.h"

#define SLOTS 8
#define REGIONS 8
#define QUEUED 16
#define ARENA (1u << 20)
/* Region 0, and where the buffers of receives begin. */
#define BUFFER 4096u
#define BUFFER_LEN 65536u
#define RECEIVES (ARENA / 2)

struct cm_ev {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_conn_param conn;
	uint8_t data[256];
};

struct slot {
	struct rdma_cm_id *id;
	/* By a reject, perhaps behind an accept. */
	bool rejected;
	struct ibv_pd *pd;
	bool own_pd;
	struct ibv_cq *scq, *rcq;
	struct ibv_mr *mr[REGIONS], *arena_mr;
	uint8_t *arena;
	struct cm_ev ev[QUEUED];
	unsigned int evs;
	int async[QUEUED];
	unsigned int asyncs;
};

extern struct slot slots[SLOTS];
extern struct rdma_event_channel *ec;
/* Of the device whose asynchronous events are taken. */
extern struct ibv_context *verbs;

void split_line(char *line);
const char *word(unsigned int i);
uint64_t num(unsigned int i);
const char *value(const char *key);
uint64_t option(const char *key, uint64_t other);
bool error(const char *what);
void put_hex(const uint8_t *p, size_t n);
size_t get_hex(const char *s, uint8_t *out, size_t max);
uint64_t now_ms(void);
int ms_left(uint64_t end);

void print_event(const struct cm_ev *v);
void take_async(int ms);
bool take_request(struct slot *s, int ms, uint16_t port);
struct ibv_mr *reg(struct slot *s, uint64_t at, uint64_t len, int access,
		   uint64_t iova);
bool post_recv(struct slot *s, uint64_t id, uint64_t at, uint32_t len,
	       uint32_t lkey);
bool create(struct slot *s);
void conn_param(struct rdma_conn_param *p, uint8_t *data);
void print_created(const struct slot *s);
void destroy(struct slot *s);
void destroy_all(void);
bool wait_event(struct slot *s, int ms);
void drop_event(struct slot *s);
void resolve(struct slot *s, const char *addr, uint16_t port);

#endif
