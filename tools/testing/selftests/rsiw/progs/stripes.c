// SPDX-License-Identifier: GPL-2.0
/*
 * stripes: the calls of libraries for collective operations, in their order. The receiver takes the
 * steps to RTS before the sender knows of it. It writes to the sender where a message may go; the
 * sender, which looks into its memory for that, writes the message in stripes over many queue pairs,
 * the last of each with immediate data. Both ends are here.
 */
#include <arpa/inet.h>
#include <string.h>
#include <unistd.h>

#include "numbers.h"
#include "prog.h"

#define QPS 16
#define SLOTS 8
#define STRIPE (64 * 1024)
#define LEN (QPS * STRIPE)
/* As these libraries set them. */
static const struct number_attr how = {
	.timeout = 20, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 12, .reads = 1,
};

/* What the receiver writes to the sender: a message may go there. */
struct slot {
	uint64_t addr;
	uint32_t rkey, len;
	uint64_t number;		/* from 1 on; written last */
};

static unsigned int rounds = 50;
static struct both b;
static struct ibv_qp *tx[QPS], *rx[QPS];
static struct number tx_is[QPS], rx_is[QPS];
static struct slot *fifo, *news;	/* of the sender; what the receiver writes from */
static struct ibv_mr *fifo_mr, *news_mr, *out_mr, *in_mr;
static char *out, *in;			/* SLOTS messages each */

static const struct opt options[] = {
	{ "rounds", "N", "messages (50)", .num = &rounds, .min = 1, .max = 1000000 },
	{ }
};

static void make(void)
{
	static const struct ep_attr attr = { .send_wr = 1, .recv_wr = 1, .cqe = 4096 };
	unsigned int i;

	numbers_make(&b, &where, &attr, &attr);
	fifo = ep_pages(SLOTS * sizeof(*fifo));
	news = ep_pages(SLOTS * sizeof(*news));
	out = ep_pages(SLOTS * LEN);
	in = ep_pages(SLOTS * LEN);
	fifo_mr = ep_reg(&b.a, fifo, SLOTS * sizeof(*fifo), ALL_ACCESS);
	out_mr = ep_reg(&b.a, out, SLOTS * LEN, ALL_ACCESS);
	news_mr = ep_reg(&b.p, news, SLOTS * sizeof(*news), ALL_ACCESS);
	in_mr = ep_reg(&b.p, in, SLOTS * LEN, ALL_ACCESS);
	for (i = 0; i < QPS; i++) {
		tx[i] = ep_qp(b.a.pd, b.a.scq, b.a.rcq, 128);
		rx[i] = ep_qp(b.p.pd, b.p.scq, b.p.rcq, 128);
		tx_is[i] = number_for(&b.a, tx[i]);
		rx_is[i] = number_for(&b.p, rx[i]);
		/* PSNs are constant in these libraries. */
		tx_is[i].psn = rx_is[i].psn = 0;
	}
}

static void connect_all(void)
{
	unsigned int i;

	for (i = 0; i < QPS; i++) {
		CHECK(!number_init(rx[i]), "INIT: %m");
		CHECK(!number_rtr(rx[i], &rx_is[i], &tx_is[i], &how), "RTR: %m");
		CHECK(!number_rts(rx[i], &rx_is[i], &how), "RTS: %m");
	}
	usleep(200000);
	for (i = 0; i < QPS; i++) {
		CHECK(!number_init(tx[i]), "INIT: %m");
		CHECK(!number_rtr(tx[i], &tx_is[i], &rx_is[i], &how), "RTR: %m");
		CHECK(!number_rts(tx[i], &tx_is[i], &how), "RTS: %m");
	}
}

/* The receiver offers memory for message `number`, and a receive on each queue pair. */
static void offer(uint64_t number)
{
	unsigned int i, at = number % SLOTS;
	struct ibv_recv_wr *bad_recv, recv = { .wr_id = number };
	struct ibv_sge sge = {
		.addr = (uintptr_t)&news[at], .length = sizeof(*news), .lkey = news_mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = number, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		/* The others complete with it. */
		.send_flags = number % SLOTS ? 0 : IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)&fifo[at], .rkey = fifo_mr->rkey },
	};

	for (i = 0; i < QPS; i++)
		CHECK_SYS(ibv_post_recv(rx[i], &recv, &bad_recv));
	news[at] = (struct slot){ .addr = (uintptr_t)in + at * LEN, .rkey = in_mr->rkey,
				  .len = LEN, .number = number };
	CHECK_SYS(ibv_post_send(rx[number % QPS], &wr, &bad));
}

/* The sender finds the offer, and sends the message. */
static void answer(uint64_t number)
{
	const struct slot *slot = &fifo[number % SLOTS];
	uint64_t end = ep_now_ns() + 20000000000ull;
	char *from = out + number % SLOTS * LEN;
	unsigned int i;

	while (__atomic_load_n(&slot->number, __ATOMIC_ACQUIRE) != number)
		CHECK(ep_now_ns() < end, "no offer of message %lu", number);
	for (i = 0; i < LEN; i++)
		from[i] = i * 7 + i / 251 + number * 13;
	for (i = 0; i < QPS; i++) {
		struct ibv_sge sge[2] = {
			{ (uintptr_t)from + i * STRIPE, STRIPE / 2, out_mr->lkey },
			{ (uintptr_t)from + i * STRIPE + STRIPE / 2, STRIPE / 2, out_mr->lkey },
		};
		struct ibv_send_wr *bad, wr[2] = {
			{ .wr_id = number, .next = &wr[1], .sg_list = &sge[0], .num_sge = 1,
			  .opcode = IBV_WR_RDMA_WRITE,
			  .wr.rdma = { slot->addr + i * STRIPE, slot->rkey } },
			{ .wr_id = number, .sg_list = &sge[1], .num_sge = 1,
			  .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(number),
			  .send_flags = IBV_SEND_SIGNALED,
			  .wr.rdma = { slot->addr + i * STRIPE + STRIPE / 2, slot->rkey } },
		};

		CHECK_SYS(ibv_post_send(tx[i], wr, &bad));
	}
}

/* The receiver has the message: each queue pair has said so. */
static void take(uint64_t number)
{
	char *at = in + number % SLOTS * LEN;
	struct ibv_wc wc;
	unsigned int i;

	for (i = 0; i < QPS; i++) {
		wc = ep_done(b.p.rcq, IBV_WC_SUCCESS);
		expect(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && ntohl(wc.imm_data) == number,
		       "opcode %u, data %u instead of %lu", wc.opcode, ntohl(wc.imm_data), number);
	}
	for (i = 0; i < LEN; i++) {
		if (!expect(at[i] == (char)(i * 7 + i / 251 + number * 13),
			    "message %lu, octet %u", number, i))
			break;
	}
	for (i = 0; i < QPS; i++)
		completes(b.a.scq, IBV_WC_SUCCESS);
	if (number % SLOTS == 0)
		completes(b.p.scq, IBV_WC_SUCCESS);
}

static void unmake(void)
{
	unsigned int i;

	for (i = 0; i < QPS; i++) {
		CHECK_SYS(ibv_destroy_qp(tx[i]));
		CHECK_SYS(ibv_destroy_qp(rx[i]));
	}
	CHECK_SYS(ibv_dereg_mr(fifo_mr));
	CHECK_SYS(ibv_dereg_mr(news_mr));
	CHECK_SYS(ibv_dereg_mr(out_mr));
	CHECK_SYS(ibv_dereg_mr(in_mr));
	both_destroy(&b);
}

static void run(void)
{
	uint64_t n;

	make();
	part("the receiver is ready first");
	connect_all();
	offer(1);
	for (n = 1; n <= rounds; n++) {
		/* One ahead. */
		if (n < rounds)
			offer(n + 1);
		answer(n);
		take(n);
	}
	part("the ends");
	unmake();
}

const struct prog prog = {
	.name = "stripes",
	.text = "The calls of libraries for collective operations.\n",
	.kind = PROG_HERE,
	.port = 20040,
	.limit = 300,
	.run = run,
	.table = options,
};
