/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of the program have in common: two sides, and messages between them. */
#ifndef RSIW_DATAGRAMS_H
#define RSIW_DATAGRAMS_H

#include "numbers.h"
#include "prog.h"

/* What stands in front of a message. */
#define GRH ((uint32_t)sizeof(struct ibv_grh))
#define LONGEST 4096
/* Enough for any message. */
#define ROOM (GRH + LONGEST)
/* Places of messages that are sent, and of those that are received; there is one more of each. */
#define PLACES 64
#define PLACE (2 * LONGEST)
#define MEMORY (2 * (PLACES + 1) * PLACE)
/* For what must not happen, and of which nobody tells. */
#define A_WHILE_MS 200

/* A device, memory there, and a queue pair for datagrams. */
struct side {
	struct ep *ep;
	uint32_t qkey;
	char *buf;
	struct ibv_mr *mr;
	struct ibv_comp_channel *cc;
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *qp;
	struct ibv_qp_cap cap;		/* what creation returned */
	struct number is;
	struct ibv_ah *ah;		/* of the other side */
	/* Another queue pair, by which passed() sends. */
	struct ibv_qp *probe;
	struct ibv_cq *probe_cq;
};

/* What queue pairs are made with. */
struct how {
	uint32_t wr, sge, inline_data;
	bool sig_all;
	uint64_t send_ops;
	struct ibv_srq *srq;		/* of `p` */
};

extern struct side a, p;
extern const struct how usual;
extern uint32_t mtu;			/* the longest message */
extern unsigned int rounds, messages;

void open_devices(void);
void close_devices(void);

/* NULL and errno if there is none. */
struct ibv_qp *ud_qp(struct side *s, const struct how *how, struct ibv_srq *srq);
/* A queue pair on each side, in RESET; with begin() in RTS. */
void make(const struct how *how);
void begin(const struct how *how);
void unmake(void);

/* Steps: 0 or an error number. */
int to_init(struct side *s, uint32_t qkey);
int to_rts(struct side *s, uint32_t psn);
int set_qkey(struct side *s, uint32_t qkey);
/* All steps from RESET on, which do not fail. */
void ready(struct side *s);
void state_is(struct side *s, enum ibv_qp_state want);

/* An address handle of a side. */
struct ibv_ah *address(const struct side *from, const union ibv_gid *to);

char *out(const struct side *s, unsigned int n);
char *in(const struct side *s, unsigned int n);
/* New octets at place `n` of those to be sent. */
void fill(const struct side *s, unsigned int n, uint32_t len);
/* A signalled Send of what is at place `n`, by `sge`. */
struct ibv_send_wr message(const struct side *from, const struct side *to, unsigned int n,
			   uint32_t len, struct ibv_sge *sge);
int post(struct side *s, struct ibv_send_wr *wr);
/* Fills, and posts. */
void send_to(struct side *from, const struct side *to, unsigned int n, uint32_t len);
/* Posts a receive of so many octets to place `n`. */
void receive(struct side *s, unsigned int n, uint32_t octets);

/* The next completion is that of this request. */
struct ibv_wc ends(struct ibv_cq *cq, enum ibv_wc_status want, uint64_t id);
/* The Send of place `n` has completed. */
void sent(struct side *s, unsigned int n);
/* The message of place `n` is at place `n` of the other side. */
struct ibv_wc arrives(const struct side *from, struct side *to, unsigned int n, uint32_t len);
/* All that there is to a message that arrives. */
void talk(struct side *from, struct side *to, uint32_t len);
/* Waits until what `from` has sent is taken in, or lost: messages do not overtake each other. */
void passed(struct side *from, struct side *to);
/* No completion comes. */
bool nothing(struct ibv_cq *cq, int ms);
/* Nothing of what `from` has sent arrives. */
void lost(struct side *from, struct side *to);
/* No event is about the queue pair. */
void no_event(struct side *s);

/* requests.c: what a program can ask for. */
void requests(void);
/* failures.c: what goes wrong. */
void failures(void);
/* Ends a process that has queue pairs, before this one has any. */
void killed(void);
/* resets.c: ERR and RESET. */
void resets(void);
/* traffic.c: many messages, and until the devices are gone. */
void many(void);
void flood(void);
/* neighbours.c: who is not there. */
void silent_neighbours(const char *addr);
/* others.c: for strangers, and while an address comes and goes. */
void wait_for_strangers(unsigned int ms);
void follow_address(const char *addr);

#endif
