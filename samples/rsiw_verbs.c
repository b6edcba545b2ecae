// SPDX-License-Identifier: GPL-2.0
/*
 * rsiw_verbs: the least that an RDMA program consists of.
 *
 * The server offers a piece of its memory, and says with its accept where that
 * is. The client writes to it, tells the server so by a message, waits for the
 * answer, and reads back what it has written.
 *
 *	rsiw_verbs 192.0.2.1			# the server, by its own address
 *	rsiw_verbs 192.0.2.1 "some words"	# the client
 *
 * Nothing here is special to rsiw.
 */
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT "7472"
#define SIZE 4096

/* What the server's accept says: where its memory is. In network order. */
struct offer {
	uint64_t addr;
	uint32_t key;
	uint32_t len;
};

/* What a completion is of. */
enum what { RECEIVED, SENT, WRITTEN, READ, KINDS };

/* One end of a connection. */
struct side {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char *memory;			/* SIZE bytes */
	bool done[KINDS];
};

/* The end of the process gives back whatever it has. */
static void check(bool good, const char *what)
{
	if (!good)
		err(1, "%s", what);
}

/* The same for calls that return a number, which some libraries negate. */
static void check_rv(int rv, const char *what)
{
	errno = abs(rv);
	check(!rv, what);
}

/* Queues, memory, and a receive: all that the peer's first message needs. */
static void setup(struct side *s, struct rdma_cm_id *id, int access)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_sge sge = { .length = SIZE };
	struct ibv_recv_wr *bad, recv = { .wr_id = RECEIVED, .sg_list = &sge,
					  .num_sge = 1 };

	s->id = id;
	s->memory = calloc(1, SIZE);
	check(s->memory, "memory");
	s->pd = ibv_alloc_pd(id->verbs);
	check(s->pd, "protection domain");
	s->channel = ibv_create_comp_channel(id->verbs);
	check(s->channel, "completion channel");
	s->cq = ibv_create_cq(id->verbs, 5, NULL, s->channel, 0);
	check(s->cq, "completion queue");
	s->mr = ibv_reg_mr(s->pd, s->memory, SIZE, IBV_ACCESS_LOCAL_WRITE | access);
	check(s->mr, "memory region");
	attr.send_cq = s->cq;
	attr.recv_cq = s->cq;
	check(!rdma_create_qp(id, s->pd, &attr), "queue pair");
	check_rv(ibv_req_notify_cq(s->cq, 0), "arm the completion queue");
	/* Messages are empty here, but not every library posts "no memory". */
	sge.addr = (uintptr_t)s->memory;
	sge.lkey = s->mr->lkey;
	check_rv(ibv_post_recv(id->qp, &recv, &bad), "post a receive");
}

/* Gives all back, once the connection has ended. */
static void release(struct side *s)
{
	rdma_destroy_qp(s->id);
	check_rv(ibv_dereg_mr(s->mr), "deregister");
	check_rv(ibv_destroy_cq(s->cq), "destroy the completion queue");
	check_rv(ibv_destroy_comp_channel(s->channel), "destroy the channel");
	check_rv(ibv_dealloc_pd(s->pd), "deallocate the domain");
	check(!rdma_destroy_id(s->id), "destroy the id");
	free(s->memory);
}

/* Sends an empty message, or has `len` bytes from `at` on go to or come from there. */
static void post(struct side *s, enum ibv_wr_opcode opcode, enum what what,
		 uint32_t at, uint32_t len, const struct offer *there)
{
	struct ibv_sge sge = { (uintptr_t)s->memory + at, len, s->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = what, .opcode = opcode, .sg_list = &sge,
		.num_sge = len ? 1 : 0, .send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	if (there) {
		wr.wr.rdma.remote_addr = be64toh(there->addr);
		wr.wr.rdma.rkey = be32toh(there->key);
	}
	check_rv(ibv_post_send(s->id->qp, &wr, &bad), "post");
}

/* Sleeps until this is done; other things may be done before. */
static void wait_for(struct side *s, enum what what)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;
	int n;

	while (!s->done[what]) {
		n = ibv_poll_cq(s->cq, 1, &wc);
		if (n < 0 || (n && wc.status != IBV_WC_SUCCESS))
			errx(1, "request %d: %s", what,
			     n < 0 ? "poll" : ibv_wc_status_str(wc.status));
		if (n) {
			s->done[wc.wr_id] = true;
			continue;
		}
		check(!ibv_get_cq_event(s->channel, &cq, &context), "event");
		ibv_ack_cq_events(cq, 1);
		/* Before the next look: what comes after that is announced. */
		check_rv(ibv_req_notify_cq(s->cq, 0), "arm");
	}
}

/* An id without a channel for events: its calls wait for them. */
static struct rdma_cm_id *new_id(const char *addr, int flags,
				 struct rdma_addrinfo **ai)
{
	struct rdma_addrinfo hints = {
		.ai_flags = RAI_NUMERICHOST | flags,
		.ai_port_space = RDMA_PS_TCP,
	};
	struct rdma_cm_id *id;

	check(!rdma_getaddrinfo(addr, PORT, &hints, ai), addr);
	check(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), "id");
	return id;
}

static void serve(const char *addr)
{
	struct rdma_conn_param param = { .responder_resources = 1 };
	struct rdma_cm_id *listener, *id;
	struct rdma_cm_event *ev;
	struct rdma_addrinfo *ai;
	struct side s = { 0 };
	struct offer offer;

	listener = new_id(addr, RAI_PASSIVE, &ai);
	check(!rdma_bind_addr(listener, ai->ai_src_addr), "bind");
	check(!rdma_listen(listener, 1), "listen");
	rdma_freeaddrinfo(ai);
	check(!rdma_get_request(listener, &id), "wait for a request");
	setup(&s, id, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	offer = (struct offer) { htobe64((uintptr_t)s.memory),
				 htobe32(s.mr->rkey), htobe32(SIZE) };
	param.private_data = &offer;
	param.private_data_len = sizeof(offer);
	check(!rdma_accept(id, &param), "accept");
	/* With the message comes, by the order of things, what was written. */
	wait_for(&s, RECEIVED);
	printf("the client has written: %.*s\n", SIZE, s.memory);
	post(&s, IBV_WR_SEND, SENT, 0, 0, NULL);
	/* The client may still read: it says when it does not any more. */
	check(!rdma_get_cm_event(id->channel, &ev), "wait for the end");
	if (ev->event != RDMA_CM_EVENT_DISCONNECTED)
		errx(1, "%s", rdma_event_str(ev->event));
	check(!rdma_ack_cm_event(ev), "acknowledge");
	release(&s);
	check(!rdma_destroy_id(listener), "destroy the id");
}

static void ask(const char *addr, const char *words)
{
	struct rdma_conn_param param = { .initiator_depth = 1 };
	const uint32_t len = strlen(words) + 1;
	struct rdma_addrinfo *ai;
	struct side s = { 0 };
	struct rdma_cm_id *id;
	struct offer offer;

	if (len > SIZE / 2)
		errx(2, "too many words");
	id = new_id(addr, 0, &ai);
	check(!rdma_resolve_addr(id, NULL, ai->ai_dst_addr, 5000), addr);
	check(!rdma_resolve_route(id, 5000), "route");
	rdma_freeaddrinfo(ai);
	/* By iWARP the memory that a Read fills may have to allow Writes. */
	setup(&s, id, IBV_ACCESS_REMOTE_WRITE);
	check(!rdma_connect(id, &param), "connect");
	if (id->event->param.conn.private_data_len < sizeof(offer))
		errx(1, "this server is another one");
	memcpy(&offer, id->event->param.conn.private_data, sizeof(offer));
	if (be32toh(offer.len) < len)
		errx(1, "the server has too little memory");
	memcpy(s.memory, words, len);
	/* By iWARP it is the side that connects that sends first. */
	post(&s, IBV_WR_RDMA_WRITE, WRITTEN, 0, len, &offer);
	post(&s, IBV_WR_SEND, SENT, 0, 0, NULL);
	wait_for(&s, RECEIVED);
	post(&s, IBV_WR_RDMA_READ, READ, SIZE / 2, len, &offer);
	wait_for(&s, READ);
	printf("the server has: %s\n", s.memory + SIZE / 2);
	check(!rdma_disconnect(id), "disconnect");
	release(&s);
}

int main(int argc, char **argv)
{
	if (argc == 2)
		serve(argv[1]);
	else if (argc == 3)
		ask(argv[1], argv[2]);
	else
		errx(2, "usage: rsiw_verbs ADDRESS [WORDS]");
	return 0;
}
