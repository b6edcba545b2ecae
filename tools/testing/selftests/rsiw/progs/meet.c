// SPDX-License-Identifier: GPL-2.0
/*
 * meet: one side of a connection with all that is agreed in its set-up, on two
 * hosts: private data both ways, read depths, and who ends it. The other side
 * is the same program with --server or without it and the same options.
 */
#include <stdio.h>
#include <string.h>

#include "prog.h"

#define READS 32
#define LEN 4096

struct buffer {				/* told in a Send */
	uint64_t addr;
	uint32_t rkey;
};

static unsigned int private_len, ord = 1, ird = 1;
static bool server, reject;
static const char *side = "client";
static const struct ep_attr attr = { .send_wr = READS + 2, .recv_wr = 2 };

/* What a side sends as private data: both know it. */
static const void *private_data(bool of_server)
{
	static uint8_t data[2][255];
	unsigned int i;

	for (i = 0; i < sizeof(data[0]); i++)
		data[of_server][i] = i * 7 + (of_server ? 100 : 3);
	return data[of_server];
}

/* Other drivers and the core may show more room than was used. */
static void compare(const struct rdma_conn_param *got, bool of_server)
{
	CHECK(got->private_data_len >= private_len, "%u octets of private data",
	      got->private_data_len);
	CHECK(!private_len || !memcmp(got->private_data,
				      private_data(of_server), private_len),
	      "private data differ");
}

static struct rdma_conn_param param(unsigned int in, unsigned int out)
{
	return (struct rdma_conn_param){
		.private_data = private_len ? private_data(server) : NULL,
		.private_data_len = private_len,
		.responder_resources = in, .initiator_depth = out,
	};
}

/* The next event, which has to be this one and is not acknowledged yet. */
static struct rdma_cm_event *event(struct rdma_event_channel *ec,
				   enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev = ep_event(ec, EP_EVENT_MS);

	CHECK(ev, "no %s", rdma_event_str(type));
	CHECK(ev->event == type, "%s (%d) instead of %s",
	      rdma_event_str(ev->event), ev->status, rdma_event_str(type));
	return ev;
}

static void serve(struct ep *e, struct ep_listener *l)
{
	struct rdma_conn_param p = param(ird, 0);
	struct rdma_cm_event *ev = event(l->ec, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = ev->id;

	compare(&ev->param.conn, false);
	CHECK(ev->param.conn.responder_resources >= 1 || !ord,
	      "the client's ORD is %u", ev->param.conn.responder_resources);
	rdma_ack_cm_event(ev);
	if (reject) {
		CHECK_SYS(rdma_reject(id, p.private_data, private_len));
		CHECK_SYS(rdma_destroy_id(id));
		return;
	}
	e->ec = rdma_create_event_channel();
	CHECK(e->ec, "event channel: %m");
	CHECK_SYS(rdma_migrate_id(id, e->ec));
	ep_setup(e, id, &attr);
	CHECK_SYS(rdma_accept(id, &p));
	ep_expect(e->ec, RDMA_CM_EVENT_ESTABLISHED);
}

static void call(struct ep *e)
{
	struct rdma_conn_param p = param(0, ord);
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	e->ec = rdma_create_event_channel();
	CHECK(e->ec, "event channel: %m");
	CHECK_SYS(rdma_create_id(e->ec, &id, NULL, RDMA_PS_TCP));
	ep_resolve(e->ec, id, where.addr, where.port);
	ep_setup(e, id, &attr);
	CHECK_SYS(rdma_connect(id, &p));
	ev = event(e->ec, reject ? RDMA_CM_EVENT_REJECTED :
				   RDMA_CM_EVENT_ESTABLISHED);
	compare(&ev->param.conn, true);
	rdma_ack_cm_event(ev);
}

/* As many Reads as fit into the queue: the driver keeps to what was agreed. */
static void read_all(struct ep *e, const uint8_t *mine, struct ibv_mr *mr,
		     const struct buffer *theirs)
{
	struct ibv_wc wc;
	unsigned int i;

	for (i = 0; i < READS; i++)
		CHECK_SYS(ep_post_send(e, i, IBV_WR_RDMA_READ,
				       (void *)(mine + i * LEN), LEN, mr->lkey,
				       theirs->addr + i * LEN, theirs->rkey));
	for (i = 0; i < READS; i++) {
		CHECK(ep_poll(e->scq, &wc, 20000), "Read %u does not end", i);
		CHECK(!wc.status, "Read %u: %s", i, ibv_wc_status_str(wc.status));
	}
	for (i = 0; i < READS * LEN; i++)
		CHECK(mine[i] == (uint8_t)(i / 3), "octet %u", i);
}

static void work(struct ep *e, struct ep_pair *pair)
{
	uint8_t *mem = ep_pages(READS * LEN);
	struct ibv_mr *mr = ep_reg(e, mem, READS * LEN, IBV_ACCESS_LOCAL_WRITE |
				   IBV_ACCESS_REMOTE_READ);
	struct buffer mine = { (uintptr_t)mem, mr->rkey }, theirs;
	unsigned int i;

	for (i = 0; server && i < READS * LEN; i++)
		mem[i] = i / 3;
	ep_exchange(pair, &mine, &theirs, sizeof(mine));
	if (!server && ord && ird)
		read_all(e, mem, mr, &theirs);
	ep_sync(pair);
	if (server == !strcmp(side, "server"))
		CHECK_SYS(rdma_disconnect(e->id));
	ep_expect(e->ec, RDMA_CM_EVENT_DISCONNECTED);
	CHECK_SYS(ibv_dereg_mr(mr));
	ep_destroy(e);
}

static void run(void)
{
	struct ep e = { 0 };

	CHECK(!strcmp(side, "client") || !strcmp(side, "server"),
	      "--disconnect takes client or server");
	if (server)
		start_listening();
	ep_ctl_tcp(&pair, &where, server);
	if (server)
		serve(&e, &listener);
	else
		call(&e);
	if (!reject)
		work(&e, &pair);
	else if (!server)
		ep_destroy(&e);
	if (server)
		ep_unlisten(&listener);
	ep_sync(&pair);
	puts("met");
}

static const struct opt options[] = {
	{ "server", "", "the side that listens", .flag = &server },
	{ "reject", "", "the server rejects, with private data", .flag = &reject },
	{ "disconnect", "SIDE", "client or server (client)", .str = &side },
	{ "private", "N", "octets of private data each way, up to 255 (0)",
	  .num = &private_len, .max = 255 },
	{ "ord", "N", "Reads that the client has on the way at once (1)",
	  .num = &ord, .max = 255 },
	{ "ird", "N", "Reads that the server answers at once (1)", .num = &ird, .max = 255 },
	{ }
};

const struct prog prog = {
	.name = "meet",
	.text =
		"Connects once, compares what was agreed, reads memory of the other side, ends.\n",
	.table = options,
	.kind = PROG_FREE,
	.port = 18800,
	.limit = 60,
	.run = run,
};
