// SPDX-License-Identifier: GPL-2.0
/*
 * datapath: what happens between a request and its completion where TCP or
 * memory fail, where much ends at once, and where one connection of a QP
 * follows the other. The caller sets up what fails, waits or is traced (see
 * tests/t62_datapath.py); the controls are those of tools/testing/kverbs/fail_main.c.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "both.h"
#include "control.h"
#include "prog.h"
#include "wire.h"

static const char *dir, *lock;

#define LEN 65536
/* Requests behind a Read. */
#define ENDS 4096
/* FPDUs without payload, in one write. */
#define TINY 20000
/* More often than this no work item may look for memory. */
#define TRIES 200
/* Nor may TCP be asked for it again before this has passed. */
#define PAUSE_MS 5
/* Octets of a message that comes in many pieces. */
#define CUT 16384
/* FPDUs in front of it, at most, and by how many there are more each time. */
#define BEFORE 2000
#define STEP 30
/* Octets of a Read that is answered in several batches. */
#define LONG (300 * 1024)

static char *mem;
static uint8_t wire[LEN + WIRE_EXTRA + 64];

/* The watchdog ends what does not come. */
static void wait_for(const char *name, unsigned int value)
{
	ep_phase("%s to become %u", name, value);
	while (control_get(name) != value)
		usleep(1000);
}

/* ---- connections -------------------------------------------------------- */

static const struct ep_attr plain = { .send_wr = 16, .recv_wr = 16,
				      .ird = 4, .ord = 4 };

/* A connection of ours with a peer by hand, which has sent nothing yet. */
static int accepted(struct ep *e, const struct ep_attr *attr)
{
	int fd = wire_connect(where.addr, listener.port);

	ep_accept(e, &listener, attr);
	wire_reply(fd);
	return fd;
}

/* The same for a QP that has had another connection; gives its id. */
static int accepted_again(struct ep *e, struct rdma_cm_id **id)
{
	struct rdma_conn_param param = e->param;
	int fd = wire_connect(where.addr, listener.port);

	*id = ep_expect(listener.ec, RDMA_CM_EVENT_CONNECT_REQUEST);
	param.qp_num = e->id->qp->qp_num;
	CHECK_SYS(rdma_accept(*id, &param));
	CHECK(ep_expect(listener.ec, RDMA_CM_EVENT_ESTABLISHED) == *id, "another id");
	wire_reply(fd);
	return fd;
}

/* Waits until the other side's TCP has everything. */
static void wait_taken(int fd)
{
	int left;

	ep_phase("the other side's TCP");
	for (;;) {
		CHECK_SYS(ioctl(fd, SIOCOUTQ, &left));
		if (!left)
			return;
		usleep(1000);
	}
}

static bool expect_wc(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	if (!expect(ep_poll(cq, &wc, EP_EVENT_MS), "no completion of %lu", id))
		return false;
	return expect(wc.wr_id == id && wc.status == status,
	       "completion of %lu, %s, instead of %lu, %s", wc.wr_id,
	       ibv_wc_status_str(wc.status), id, ibv_wc_status_str(status));
}

/* ---- steps -------------------------------------------------------------- */

/* TCP refuses a batch, and the reset of the connection takes its time. */
static void refused(void)
{
	struct ibv_mr *mr;
	struct both b;
	uint64_t id;

	part("requests of a batch that TCP refused are flushed");
	both_connect(&b, &listener, &where, &plain, &plain);
	mr = ep_reg(&b.a, mem, LEN, IBV_ACCESS_LOCAL_WRITE);
	control_arm(0, 2);
	for (id = 1; id <= 4; id++)
		CHECK(!ep_post_send(&b.a, id, IBV_WR_SEND, mem, 64, mr->lkey, 0, 0),
		      "post");
	/* A work item that finishes the set-up may still have the QP: then it sends. */
	wait_for("times", 0);
	CHECK_SYS(to_state(b.a.id->qp, IBV_QPS_ERR));
	for (id = 1; id <= 4; id++)
		expect_wc(b.a.scq, id, IBV_WC_WR_FLUSH_ERR);
	CHECK_SYS(ibv_dereg_mr(mr));
	both_destroy(&b);
}

/*
 * TCP has no memory for a request, and nothing on its way whose acknowledgement would
 * have it say when there is some.
 */
static void unsent(void)
{
	const unsigned int many = 1000000000;
	struct ibv_mr *mr, *to;
	unsigned int asked, most;
	struct both b;
	uint64_t since;

	part("TCP that has no memory is asked again, after a pause");
	both_connect(&b, &listener, &where, &plain, &plain);
	mr = ep_reg(&b.a, mem, LEN, IBV_ACCESS_LOCAL_WRITE);
	to = ep_reg(&b.p, mem, LEN, IBV_ACCESS_LOCAL_WRITE);
	CHECK_SYS(ep_post_recv(&b.p, 1, mem + 64, 64, to->lkey));
	control_arm(0, many);
	since = ep_now_ns();
	CHECK(!ep_post_send(&b.a, 2, IBV_WR_SEND, mem, 64, mr->lkey, 0, 0), "post");
	sleep(1);
	asked = many - control_get("times");
	most = (ep_now_ns() - since) / (PAUSE_MS * 1000000ull);
	control_set("times", 0);
	expect(asked > 1, "it was asked %u times", asked);
	expect(asked <= most, "it was asked %u times, not at most %u", asked, most);
	expect_wc(b.a.scq, 2, IBV_WC_SUCCESS);
	expect_wc(b.p.rcq, 1, IBV_WC_SUCCESS);
	CHECK_SYS(ibv_dereg_mr(mr));
	CHECK_SYS(ibv_dereg_mr(to));
	both_destroy(&b);
}

/* A Terminate for which there is no memory, and nobody who posts or sends anything. */
static void untold(void)
{
	const unsigned int many = 1000000000;
	unsigned int asked, most;
	uint64_t since;
	struct ep e;
	size_t len;
	int fd;

	part("a Terminate goes out when there is memory for it");
	fd = accepted(&e, &plain);
	/* A whole one first: before it there may be no Terminate. */
	wire_send(fd, wire, wire_tagged(wire, WIRE_WRITE, 1, 0, "", 0));
	wait_taken(fd);
	control_arm(0, many);
	since = ep_now_ns();
	/* There is no such region. */
	wire_send(fd, wire, wire_tagged(wire, WIRE_WRITE, 1, 0, "octet", 5));
	expect(!wire_fpdu(fd, wire, 500), "it went out without memory");
	asked = many - control_get("times");
	most = (ep_now_ns() - since) / (PAUSE_MS * 1000000ull);
	control_set("times", 0);
	expect(asked > 1, "memory was asked for %u times", asked);
	expect(asked <= most, "memory was asked for %u times, not at most %u", asked, most);
	/* Before the time for the end of the stream is over. */
	len = wire_fpdu(fd, wire, 2000);
	expect(len > 14 && (wire[1] & 0xf) == WIRE_TERMINATE, "no Terminate came");
	close(fd);
	ep_destroy(&e);
}

/* An FPDU in many pieces, and no memory to put it together. */
static void starved(bool for_ever)
{
	char text[2 * WIRE_APART] = "twice as long as it looks";
	struct ibv_mr *mr;
	unsigned int left;
	struct ep e;
	size_t len;
	int fd, kept;

	part("no memory to receive with, %s", for_ever ? "for ever" : "for a while");
	fd = accepted(&e, &plain);
	mr = ep_reg(&e, mem, LEN, IBV_ACCESS_LOCAL_WRITE);
	CHECK_SYS(ep_post_recv(&e, 1, mem, LEN, mr->lkey));
	/* A whole one first: before it there may be no Terminate. */
	wire_send(fd, wire, wire_tagged(wire, WIRE_WRITE, 1, 0, "", 0));
	control_arm(0, for_ever ? 1000000000 : 5);
	len = wire_untagged(wire, WIRE_SEND, 0, 1, text, sizeof(text));
	/* TCP tells of them when all are there. */
	kept = wire_keep_packets();
	wire_send_apart(fd, wire, len);
	wait_taken(fd);
	wire_drop_packets(kept);
	if (for_ever) {
		expect(wait_state(e.id->qp, IBV_QPS_SQE, 2 * EP_EVENT_MS) ==
		       IBV_QPS_SQE, "the stream goes on");
		left = control_get("times");
		expect(left >= 1000000000 - TRIES, "memory was asked for %u times",
		       1000000000 - left);
		CHECK_SYS(shutdown(fd, SHUT_WR));
		expect_wc(e.rcq, 1, IBV_WC_WR_FLUSH_ERR);
	} else {
		wait_for("times", 0);
		expect_wc(e.rcq, 1, IBV_WC_SUCCESS);
		expect(!memcmp(mem, text, sizeof(text)), "other octets");
	}
	control_set("times", 0);
	close(fd);
	CHECK_SYS(ibv_dereg_mr(mr));
	ep_destroy(&e);
}

/*
 * What the work item has found out about a connection waits for the QP's mutex
 * while that gets another connection.
 */
static void stale(bool terminate)
{
	uint8_t code[4] = { 0 };
	struct ibv_mr *mr;
	struct rdma_cm_id *id;
	struct ep e;
	size_t len;
	int fd, first;

	part("%s of an earlier connection", terminate ? "the Terminate" : "the FIN");
	first = accepted(&e, &plain);
	mr = ep_reg(&e, mem, LEN, IBV_ACCESS_REMOTE_READ);
	/* The mutex is taken to find the socket, too, if it is looked at. */
	control_arm(terminate ? 0 : 1, 1);
	if (terminate) {
		len = wire_untagged(wire, WIRE_TERMINATE, 2, 1, code,
				    sizeof(code));
		wire_send(first, wire, len);
	} else {
		CHECK_SYS(shutdown(first, SHUT_WR));
	}
	wait_for("held", 1);
	CHECK_SYS(to_state(e.id->qp, IBV_QPS_ERR));
	CHECK_SYS(to_state(e.id->qp, IBV_QPS_RESET));
	CHECK_SYS(to_state(e.id->qp, IBV_QPS_INIT));
	fd = accepted_again(&e, &id);
	control_set("held", 0);
	/* One so large is answered by the work item that waited. */
	len = wire_read(wire, 1, 32768, mr->rkey, (uintptr_t)mem);
	wire_send(fd, wire, len);
	expect(wire_fpdu(fd, wire, EP_EVENT_MS) > 14, "no Read Response");
	expect(wait_state(e.id->qp, IBV_QPS_RTS, 0) == IBV_QPS_RTS,
	       "the new connection ends");
	close(fd);
	close(first);
	CHECK_SYS(ibv_dereg_mr(mr));
	CHECK_SYS(to_state(e.id->qp, IBV_QPS_ERR));
	CHECK_SYS(rdma_destroy_id(id));
	ep_destroy(&e);
}

/*
 * A thread sends after the peer's reset has come, and before the work item has looked at
 * the socket.
 */
static void reset(void)
{
	const struct linger abrupt = { .l_onoff = 1 };
	struct ibv_mr *mr;
	struct ep e;
	int fd;

	part("a thread sends before anybody has looked at a reset");
	fd = accepted(&e, &plain);
	mr = ep_reg(&e, mem, LEN, IBV_ACCESS_LOCAL_WRITE);
	/* Who accepts may not begin. */
	wire_send(fd, wire, wire_tagged(wire, WIRE_WRITE, 1, 0, "", 0));
	wait_taken(fd);
	control_arm(0, 1);
	CHECK_SYS(setsockopt(fd, SOL_SOCKET, SO_LINGER, &abrupt, sizeof(abrupt)));
	close(fd);
	wait_for("held", 1);
	CHECK(!ep_post_send(&e, 1, IBV_WR_SEND, mem, 64, mr->lkey, 0, 0), "post");
	control_set("held", 0);
	expect_wc(e.scq, 1, IBV_WC_WR_FLUSH_ERR);
	CHECK_SYS(ibv_dereg_mr(mr));
	ep_destroy(&e);
}

/* Many Writes end with the Read in front of them. */
static void ends(void)
{
	const struct ep_attr deep = { .send_wr = ENDS + 1, .recv_wr = 1,
				      .ird = 4, .ord = 4 };
	unsigned int id, writes = 0;
	struct ibv_mr *mr;
	struct ep e;
	size_t len;
	int fd;

	part("%u Writes behind a Read end in order", ENDS);
	fd = accepted(&e, &deep);
	mr = ep_reg(&e, mem, LEN, IBV_ACCESS_LOCAL_WRITE);
	/* Who accepts may not begin. */
	wire_send(fd, wire, wire_tagged(wire, WIRE_WRITE, 1, 0, "", 0));
	CHECK(!ep_post_send(&e, 0, IBV_WR_RDMA_READ, mem, 8, mr->lkey, 0, 1),
	      "post");
	for (id = 1; id <= ENDS; id++)
		CHECK(!ep_post_send(&e, id, IBV_WR_RDMA_WRITE, mem, 8, mr->lkey,
				    0, 1), "post %u", id);
	/* All are on the way, so that only the Read keeps them. */
	while (writes <= ENDS) {
		len = wire_fpdu(fd, wire, EP_EVENT_MS);
		CHECK(len, "no more after %u FPDUs", writes);
		writes++;
	}
	len = wire_tagged(wire, WIRE_READ_RESPONSE, mr->lkey, (uintptr_t)mem,
			  "response", 8);
	wire_send(fd, wire, len);
	for (id = 0; id <= ENDS; id++)
		expect_wc(e.scq, id, IBV_WC_SUCCESS);
	expect(!memcmp(mem, "response", 8), "other octets");
	close(fd);
	CHECK_SYS(ibv_dereg_mr(mr));
	ep_destroy(&e);
}

/* As many FPDUs as there can be in so many octets. */
static void tiny(void)
{
	uint8_t *burst = malloc(TINY * 32), *at = burst;
	struct ibv_mr *mr;
	struct ep e;
	size_t len;
	int fd;

	CHECK(burst, "memory");
	part("%u FPDUs of nothing at once", TINY);
	fd = accepted(&e, &plain);
	mr = ep_reg(&e, mem, LEN, IBV_ACCESS_REMOTE_READ);
	for (int i = 0; i < TINY; i++)
		at += wire_tagged(at, WIRE_WRITE, 1, 0, "", 0);
	wire_send(fd, burst, at - burst);
	/* What is behind them is taken in, too. */
	len = wire_read(wire, 1, 16, mr->rkey, (uintptr_t)mem);
	wire_send(fd, wire, len);
	expect(wire_fpdu(fd, wire, 3 * EP_EVENT_MS) == 14 + 16,
	       "no Read Response");
	close(fd);
	free(burst);
	CHECK_SYS(ibv_dereg_mr(mr));
	ep_destroy(&e);
}

/*
 * What may be received at a time is used up by the last octets that there are,
 * which complete an FPDU in the buffer for those that come in pieces. That FPDU is
 * taken in nevertheless: nothing more comes that would have the driver look again.
 *
 * All octets are there before the QP gets the socket, so that its work item takes
 * them in at once, and with a new budget: for the first FPDU, which is in many
 * pieces, it had to get the buffer before. Then come `before` small ones, and at last
 * a message in many pieces. The last piece costs more than STEP small FPDUs do, so
 * that for some of the numbers the budget, whatever it is, ends with that piece.
 */
static bool staged_once(unsigned int before)
{
	static uint8_t burst[2 * WIRE_APART + 64 + 32 * BEFORE + WIRE_APART], *at;
	char text[2 * WIRE_APART] = "";
	struct ibv_mr *mr;
	struct rdma_cm_id *id;
	int fd, kept;
	struct ep e;
	size_t len;
	bool good;

	fd = wire_connect(where.addr, listener.port);
	id = ep_expect(listener.ec, RDMA_CM_EVENT_CONNECT_REQUEST);
	e.ec = rdma_create_event_channel();
	CHECK(e.ec, "event channel: %m");
	CHECK_SYS(rdma_migrate_id(id, e.ec));
	ep_setup(&e, id, &plain);
	mr = ep_reg(&e, mem, LEN, IBV_ACCESS_LOCAL_WRITE);
	CHECK_SYS(ep_post_recv(&e, 1, mem, LEN, mr->lkey));
	CHECK_SYS(ep_post_recv(&e, 2, mem, LEN, mr->lkey));

	/* TCP would put these together: what has a copy stays as it is. */
	kept = wire_keep_packets();
	at = burst + wire_untagged(burst, WIRE_SEND, 0, 1, text, sizeof(text));
	while (before--)
		at += wire_tagged(at, WIRE_WRITE, 1, 0, "", 0);
	memset(mem + LEN - CUT, 0x5c, CUT);
	len = wire_untagged(wire, WIRE_SEND, 0, 2, mem + LEN - CUT, CUT);
	wire_send_apart(fd, burst, at - burst);
	wire_send_apart(fd, wire, len);
	wait_taken(fd);
	wire_drop_packets(kept);

	CHECK_SYS(rdma_accept(id, &e.param));
	ep_expect(e.ec, RDMA_CM_EVENT_ESTABLISHED);
	wire_reply(fd);
	good = expect_wc(e.rcq, 1, IBV_WC_SUCCESS) &&
	       expect_wc(e.rcq, 2, IBV_WC_SUCCESS) &&
	       expect(mem[0] == 0x5c && mem[CUT - 1] == 0x5c, "other octets");
	close(fd);
	CHECK_SYS(ibv_dereg_mr(mr));
	ep_destroy(&e);
	return good;
}

static void staged(void)
{
	part("an FPDU in many pieces with which the budget ends");
	for (unsigned int n = 0; n <= BEFORE && staged_once(n); n += STEP)
		;
}

/* All of a Read Response, and the FIN behind it. */
static void response(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t len, got = 0;

	while (got < LONG) {
		len = wire_fpdu(fd, wire, EP_EVENT_MS);
		if (!expect(len > 14, "%zu octets of the Read Response", got))
			return;
		got += len - 14;
	}
	expect(got == LONG && poll(&p, 1, EP_EVENT_MS) > 0 &&
	       !recv(fd, wire, 1, 0), "no FIN behind the Read Response");
}

/*
 * A message that invalidates a region waits while the region is in use, here by
 * the response to a Read of the peer. It comes in while TCP gets the first part of
 * that, so that the sender, who has the socket's lock and the region, takes it in
 * itself. A QP that disconnects is Draining as long as such a message waits, not
 * Closing, which would flush its receive: the message is complete and the region
 * is invalid. The work item completes the receive when the region is quiet, then
 * come the flush of the other receives and the FIN.
 *
 * The disconnect comes when the whole response is with TCP and the work item has
 * not looked at the message again (while the response is being sent, it waits for
 * the QP's mutex). Or, `late`, it came before the message and waits for a Read of
 * this side, of which the response comes in together with the message: the sender
 * of the other response then finds that nothing else is left to do.
 */
static void invalidated(bool late)
{
	char *from = ep_pages(LONG);
	struct ibv_mr *in, *mr;
	struct ep e;
	size_t len;
	int fd;

	part("a message that waits for a region %s a disconnect",
	     late ? "behind" : "in front of");
	fd = accepted(&e, &plain);
	in = ep_reg(&e, mem, LEN, IBV_ACCESS_LOCAL_WRITE);
	mr = ep_reg(&e, from, LONG, IBV_ACCESS_REMOTE_READ);
	for (int id = 1; id <= 3; id++)
		CHECK_SYS(ep_post_recv(&e, id, mem, 64, in->lkey));
	/* Who accepts may not begin. */
	wire_send(fd, wire, wire_tagged(wire, WIRE_WRITE, 1, 0, "", 0));
	if (late) {
		CHECK(!ep_post_send(&e, 4, IBV_WR_RDMA_READ, mem + 64, 8, in->lkey,
				    0, 1), "post");
		expect(wire_fpdu(fd, wire, EP_EVENT_MS), "no Read Request");
		CHECK_SYS(rdma_disconnect(e.id));
	}

	control_set_text("only", "tcp_sendmsg_locked");
	control_arm(0, 1);
	wire_send(fd, wire, wire_read(wire, 1, LONG, mr->rkey, (uintptr_t)from));
	wait_for("held", 1);
	if (late) {
		len = wire_tagged(wire, WIRE_READ_RESPONSE, in->lkey,
				  (uintptr_t)mem + 64, "response", 8);
		wire_send(fd, wire, len);
	}
	wire_send(fd, wire, wire_untagged(wire, WIRE_SEND, 0, 1, "first", 5));
	wire_send(fd, wire, wire_send_inv(wire, 2, mr->rkey, "last", 4));
	if (!late) {
		control_set_text("only", lock);
		control_arm(0, 1);
	}
	control_set("held", 0);
	if (!late) {
		wait_for("held", 1);
		CHECK_SYS(rdma_disconnect(e.id));
		control_set("held", 0);
	}

	expect_wc(e.rcq, 1, IBV_WC_SUCCESS);
	expect_wc(e.rcq, 2, IBV_WC_SUCCESS);
	expect_wc(e.rcq, 3, IBV_WC_WR_FLUSH_ERR);
	if (late)
		expect_wc(e.scq, 4, IBV_WC_SUCCESS);
	expect(!memcmp(mem, "lastt", 5), "other octets");
	response(fd);
	CHECK_SYS(shutdown(fd, SHUT_WR));
	ep_expect(e.ec, RDMA_CM_EVENT_DISCONNECTED);
	expect(wait_state(e.id->qp, IBV_QPS_INIT, EP_EVENT_MS) == IBV_QPS_INIT,
	       "it does not end in good order");
	close(fd);
	CHECK_SYS(ibv_dereg_mr(mr));
	CHECK_SYS(ibv_dereg_mr(in));
	ep_destroy(&e);
	munmap(from, LONG);
}

static void run(void)
{
	static const struct {
		const char *name;
		void (*run)(void);
		void (*either)(bool second);
		bool second;
	} steps[] = {
		{ "refused", .run = refused },
		{ "unsent", .run = unsent },
		{ "untold", .run = untold },
		{ "starved", .either = starved, .second = false },
		{ "starved-for-ever", .either = starved, .second = true },
		{ "stale-fin", .either = stale, .second = false },
		{ "stale-terminate", .either = stale, .second = true },
		{ "reset", .run = reset },
		{ "ends", .run = ends },
		{ "tiny", .run = tiny },
		{ "staged", .run = staged },
		{ "invalidated", .either = invalidated, .second = false },
		{ "invalidated-late", .either = invalidated, .second = true },
	};
	unsigned int i;

	if (dir)
		control_open(dir);
	mem = ep_pages(LEN);
	for (i = 0; i < COUNT(steps); i++) {
		if (!prog_chosen(steps[i].name))
			continue;
		if (steps[i].run)
			steps[i].run();
		else
			steps[i].either(steps[i].second);
	}
}

static const struct opt options[] = {
	{ "dir", "DIR", "controls of what fails", .str = &dir },
	{ "lock", "NAME", "the call that takes a mutex", .str = &lock },
	{ }
};

const struct prog prog = {
	.name = "datapath",
	.text =
		"What becomes of requests when calls fail or wait, or much comes at once. Each case\n"
		"needs what its caller sets up for it.\n",
	.table = options,
	.kind = PROG_LISTENS,
	.cases = true,
	.port = 18860,
	.limit = 120,
	.run = run,
};
