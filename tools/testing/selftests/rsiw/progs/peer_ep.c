// SPDX-License-Identifier: GPL-2.0
/*
 * peer_ep: the verbs side of the raw peer's scenarios (tools/testing/peer).
 *
 * Does what the lines on standard input say, one after the other, and answers
 * each with one line, "ok ..." or "err ...". Connections have numbers ("slots")
 * that the lines name; each has an arena of memory, regions and queues.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "prog.h"
#include "peer_ep/slot.h"

/* Whatever the raw peer can put into a line. */
#define LINE 8192

static void poll_wc(struct ibv_cq *cq, uint64_t ms)
{
	uint64_t end = now_ms() + ms;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)) && now_ms() < end)
		usleep(200);
	if (n <= 0) {
		puts(n ? "err poll" : "ok none");
		return;
	}
	printf("ok %" PRIu64 " %d %d %u %u %u\n", wc.wr_id, wc.status, wc.opcode,
	       wc.status ? 0 : wc.byte_len, wc.wc_flags,
	       wc.status ? 0 : wc.invalidated_rkey);
}

/* send SLOT ID OPCODE OFFSET LENGTH [raddr= rkey= flags= lkey=] */
static void post_send(struct slot *s)
{
	struct ibv_sge sge = { (uintptr_t)(s->arena + num(4)), num(5),
			       option("lkey", s->arena_mr->lkey) };
	struct ibv_send_wr *bad, wr = {
		.wr_id = num(2), .sg_list = &sge, .num_sge = 1,
		.opcode = num(3),
		.send_flags = option("flags", IBV_SEND_SIGNALED),
		.wr.rdma = { option("raddr", 0), option("rkey", 0) },
	};

	if (wr.opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = option("rkey", 0);
	errno = ibv_post_send(s->id->qp, &wr, &bad);
	if (errno)
		error("send");
	else
		puts("ok");
}

static void modify(struct slot *s)
{
	struct ibv_qp_attr a = { 0 };
	int mask = 0;

	if (value("state")) {
		a.qp_state = option("state", 0);
		mask |= IBV_QP_STATE;
	}
	if (value("access")) {
		a.qp_access_flags = option("access", 0);
		mask |= IBV_QP_ACCESS_FLAGS;
	}
	errno = ibv_modify_qp(s->id->qp, &a, mask);
	if (errno)
		error("modify");
	else
		puts("ok");
}

static void query(struct slot *s)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr a;

	errno = ibv_query_qp(s->id->qp, &a, IBV_QP_STATE, &ia);
	if (errno)
		error("query");
	else
		printf("ok %d %u %u\n", a.qp_state, a.max_rd_atomic,
		       a.max_dest_rd_atomic);
}

/* A range of the arena, or false. */
static bool range(uint64_t at, uint64_t len)
{
	if (at <= ARENA && len <= ARENA - at)
		return true;
	puts("err beyond the arena");
	return false;
}

/* Commands that need no connection; false if it is none of them. */
static bool free_command(const char *cmd, struct slot *s)
{
	uint8_t data[256];
	struct rdma_conn_param p;

	if (!strcmp(cmd, "reset")) {
		destroy_all();
		puts("ok");
	} else if (!strcmp(cmd, "destroy")) {
		destroy(s);
		puts("ok");
	} else if (!strcmp(cmd, "resolve")) {
		destroy(s);
		resolve(s, word(2), num(3));
	} else if (!strcmp(cmd, "request")) {
		destroy(s);
		if (!take_request(s, num(2), num(3)))
			puts("ok none");
		else
			print_event(&s->ev[0]);
	} else if (!strcmp(cmd, "serve")) {
		/* request, create and accept in one. */
		destroy(s);
		if (!take_request(s, num(2), num(3))) {
			puts("err no request");
			return true;
		}
		if (!create(s))
			return true;
		conn_param(&p, data);
		if (rdma_accept(s->id, &p))
			error("accept");
		else
			print_created(s);
	} else {
		return false;
	}
	return true;
}

static void command(const char *cmd, struct slot *s)
{
	struct rdma_conn_param p;
	uint8_t data[256];
	uint64_t end, r;

	if (!strcmp(cmd, "create")) {
		if (create(s))
			print_created(s);
	} else if (!strcmp(cmd, "accept") || !strcmp(cmd, "connect")) {
		conn_param(&p, data);
		if (*cmd == 'a' ? rdma_accept(s->id, &p) :
				  rdma_connect(s->id, &p))
			error(cmd);
		else
			puts("ok");
	} else if (!strcmp(cmd, "accept_again")) {
		/* The library would take the queue pair to RTR once more, which fails. */
		struct ibv_qp *qp = s->id->qp;

		conn_param(&p, data);
		p.qp_num = qp->qp_num;
		s->id->qp = NULL;
		if (rdma_accept(s->id, &p))
			error(cmd);
		else
			puts("ok");
		s->id->qp = qp;
	} else if (!strcmp(cmd, "reject")) {
		conn_param(&p, data);
		s->rejected = true;
		if (rdma_reject(s->id, data, p.private_data_len))
			error(cmd);
		else
			puts("ok");
	} else if (!strcmp(cmd, "event")) {
		if (!wait_event(s, num(2))) {
			puts("ok none");
			return;
		}
		print_event(&s->ev[0]);
		drop_event(s);
	} else if (!strcmp(cmd, "disconnect")) {
		if (rdma_disconnect(s->id))
			error(cmd);
		else
			puts("ok");
	} else if (!s->id->qp) {
		puts("err no queue pair");
	} else if (!strcmp(cmd, "wc")) {
		poll_wc(*word(2) == 's' ? s->scq : s->rcq, num(3));
	} else if (!strcmp(cmd, "async")) {
		verbs = s->id->verbs;
		end = now_ms() + num(2);
		do
			take_async(ms_left(end));
		while (!s->asyncs && ms_left(end));
		printf("ok %d\n", s->asyncs ? s->async[0] : -1);
		if (s->asyncs)
			memmove(s->async, s->async + 1,
				--s->asyncs * sizeof(s->async[0]));
	} else if (!strcmp(cmd, "state")) {
		query(s);
	} else if (!strcmp(cmd, "modify")) {
		modify(s);
	} else if (!strcmp(cmd, "send")) {
		post_send(s);
	} else if (!strcmp(cmd, "recv")) {
		r = value("lkey") ? option("lkey", 0) : s->arena_mr->lkey;
		if (post_recv(s, num(2), num(3), num(4), r))
			puts("ok");
		else
			error(cmd);
	} else if (!strcmp(cmd, "reg")) {
		r = num(2) % REGIONS;
		if (!range(num(3), num(4)))
			return;
		s->mr[r] = reg(s, num(3), num(4), num(5),
			       option("iova", (uintptr_t)(s->arena + num(3))));
		if (s->mr[r])
			printf("ok %u %" PRIu64 "\n", s->mr[r]->rkey,
			       option("iova", (uintptr_t)(s->arena + num(3))));
		else
			error(cmd);
	} else if (!strcmp(cmd, "dereg")) {
		r = num(2) % REGIONS;
		errno = s->mr[r] ? ibv_dereg_mr(s->mr[r]) : EINVAL;
		s->mr[r] = NULL;
		if (errno)
			error(cmd);
		else
			puts("ok");
	} else if (!strcmp(cmd, "peek")) {
		if (!range(num(2), num(3)))
			return;
		fputs("ok ", stdout);
		put_hex(s->arena + num(2), num(3));
		putchar('\n');
	} else if (!strcmp(cmd, "fill")) {
		if (range(num(2), num(3))) {
			memset(s->arena + num(2), num(4), num(3));
			puts("ok");
		}
	} else {
		puts("err what is that");
	}
}

static void run(void)
{
	static char line[LINE];
	struct slot *s;

	ec = listener.ec;
	verbs = listener.id->verbs;
	printf("ok %u\n", listener.port);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		split_line(line);
		s = &slots[num(1) % SLOTS];
		if (!free_command(word(0), s)) {
			if (s->id)
				command(word(0), s);
			else
				puts("err no connection");
		}
		fflush(stdout);
	}
	destroy_all();
}

const struct prog prog = {
	.name = "peer_ep",
	.text =
		"Reads commands from standard input, see the source; the raw peer starts it.\n",
	.kind = PROG_LISTENS,
	.port = 18700,
	.limit = 600,
	.backlog = 64,
	.run = run,
};
