// SPDX-License-Identifier: GPL-2.0
/* datagrams: messages to addresses where nobody answers, and what others send meanwhile. */
#include <arpa/inet.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "datagrams.h"

#define ADDRESSES 3
/* More than a socket holds, at each of the addresses. */
#define EACH 150
#define POSTED (ADDRESSES * EACH)
/* The host gives an address up after three seconds; some more, as the requests go in turns. */
#define GIVEN_UP_MS 60000

/* The GID of an IPv4 address plus `n`. */
static union ibv_gid gid_of(const char *addr, unsigned int n)
{
	union ibv_gid gid = { .raw = { [10] = 0xff, [11] = 0xff } };

	CHECK(inet_pton(AF_INET, addr, gid.raw + 12) == 1, "no address: %s", addr);
	gid.raw[15] += n;
	return gid;
}

static struct ibv_ah *ah[ADDRESSES];

/* `arg` is the side that sends. */
static void *send_to_nobody(void *arg)
{
	struct side *from = arg;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	unsigned int i;

	for (i = 0; i < POSTED; i++) {
		wr = message(from, &p, 0, mtu, &sge);
		wr.wr_id = i;
		wr.wr.ud.ah = ah[i % ADDRESSES];
		CHECK(!post(from, &wr), "post: %m");
	}
	return NULL;
}

/* The completions from that of a request on, in order. Returns how many there were then. */
static unsigned int complete(struct ibv_cq *cq, unsigned int from, int ms)
{
	uint64_t now = ep_now_ns(), end = now + ms * 1000000ull;
	struct ibv_wc wc;

	while (from < POSTED && ep_poll(cq, &wc, now < end ? (int)((end - now) / 1000000) : 0)) {
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == from, "request %lu, not %u: %s",
		      wc.wr_id, from, ibv_wc_status_str(wc.status));
		from++;
		now = ep_now_ns();
	}
	return from;
}

/*
 * What waits for the address of a neighbour counts for the queue pair that has sent it. Others send
 * as if it were not there; it goes on when the host has given the address up.
 */
void silent_neighbours(const char *addr)
{
	struct how how = usual;
	union ibv_gid gid;
	unsigned int i, done;
	pthread_t thread;
	struct side q;

	part("neighbours that do not answer");
	begin(&usual);
	how.wr = POSTED;
	q = a;
	q.scq = q.rcq = ibv_create_cq(q.ep->id->verbs, POSTED, NULL, NULL, 0);
	CHECK(q.scq, "completion queue: %m");
	q.qp = ud_qp(&q, &how, NULL);
	CHECK(q.qp, "queue pair: %m");
	ready(&q);
	for (i = 0; i < ADDRESSES; i++) {
		gid = gid_of(addr, i);
		ah[i] = address(&q, &gid);
	}
	/* Whatever this call waits for, others do not. */
	CHECK(!pthread_create(&thread, NULL, send_to_nobody, &q), "thread");
	usleep(A_WHILE_MS * 1000);
	for (i = 0; i < 50; i++)
		talk(&a, &p, 64);
	done = complete(q.scq, 0, 0);
	expect(done < POSTED, "all are sent at once");
	CHECK(!pthread_join(thread, NULL), "thread");
	done = complete(q.scq, done, GIVEN_UP_MS);
	expect(done == POSTED, "%u of %u are sent", done, POSTED);

	part("a queue pair that waits for neighbours is destroyed");
	send_to_nobody(&q);
	CHECK_SYS(ibv_destroy_qp(q.qp));
	for (i = 0; i < ADDRESSES; i++)
		CHECK_SYS(ibv_destroy_ah(ah[i]));
	CHECK_SYS(ibv_destroy_cq(q.scq));
	talk(&a, &p, 64);
	unmake();

	part("the last queue pair goes, and the next one comes at once");
	for (i = 0; i < rounds; i++) {
		begin(&usual);
		talk(&a, &p, 64);
		unmake();
	}
}
