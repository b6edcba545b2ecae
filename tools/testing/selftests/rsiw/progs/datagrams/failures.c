// SPDX-License-Identifier: GPL-2.0
/* datagrams: messages that are lost, and what ends a queue pair. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "datagrams.h"

/* ---- what is wrong with a request ------------------------------------------- */

/* Posts three Sends, of which the second is `bad`; the queue pair fails because of that one. */
static void fails(struct ibv_sge *bad, int elements, enum ibv_wc_status want)
{
	struct ibv_send_wr wr[3];
	struct ibv_sge sge[3];
	unsigned int i;

	begin(&usual);
	for (i = 0; i < 3; i++) {
		receive(&a, i, ROOM);
		fill(&a, i, 64);
		wr[i] = message(&a, &p, i, 64, &sge[i]);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	receive(&p, 0, ROOM);
	receive(&p, 1, ROOM);
	wr[1].sg_list = bad;
	wr[1].num_sge = elements;
	/* It completes in any case, and so does what is flushed. */
	wr[1].send_flags = wr[2].send_flags = 0;
	CHECK(!post(&a, wr), "post: %m");
	sent(&a, 0);
	ends(a.scq, want, 1);
	ends(a.scq, IBV_WC_WR_FLUSH_ERR, 2);
	for (i = 0; i < 3; i++)
		ends(a.rcq, IBV_WC_WR_FLUSH_ERR, i);
	state_is(&a, IBV_QPS_ERR);
	arrives(&a, &p, 0, 64);
	lost(&a, &p);
	nothing(a.scq, 0);
	no_event(&a);
	state_is(&p, IBV_QPS_RTS);
	unmake();
}

static void too_long(void)
{
	struct ibv_sge whole = { (uintptr_t)out(&a, 0), mtu + 1, a.mr->lkey };
	struct ibv_sge parts[3] = {
		{ (uintptr_t)out(&a, 0), mtu, a.mr->lkey },
		{ (uintptr_t)out(&a, 1), 0, a.mr->lkey },
		{ (uintptr_t)out(&a, 2), 1, a.mr->lkey },
	};
	struct ibv_sge many[2] = {
		{ (uintptr_t)out(&a, 0), UINT32_MAX, a.mr->lkey },
		{ (uintptr_t)out(&a, 0), 65, a.mr->lkey },
	};

	fails(&whole, 1, IBV_WC_LOC_LEN_ERR);
	part("longer than the MTU by several elements");
	fails(parts, 3, IBV_WC_LOC_LEN_ERR);
	/* The sum is a short one in 32 bits. */
	fails(many, 2, IBV_WC_LOC_LEN_ERR);
}

static void bad_sends(void)
{
	struct ibv_sge key = { (uintptr_t)out(&a, 0), 64, a.mr->lkey ^ 0x100 };
	struct ibv_sge outside = { (uintptr_t)a.buf + MEMORY - 10, 64, a.mr->lkey };
	struct ibv_sge second[2] = { { (uintptr_t)out(&a, 0), 64, a.mr->lkey }, key };
	struct ibv_pd *pd = ibv_alloc_pd(a.ep->id->verbs);
	struct ibv_sge other = { (uintptr_t)out(&a, 0), 64, 0 };
	struct ibv_mr *mr;

	fails(&key, 1, IBV_WC_LOC_PROT_ERR);
	part("a region of another protection domain in a Send");
	CHECK(pd, "protection domain: %m");
	mr = ibv_reg_mr(pd, out(&a, 0), PLACE, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr, "register: %m");
	other.lkey = mr->lkey;
	fails(&other, 1, IBV_WC_LOC_PROT_ERR);
	CHECK_SYS(ibv_dereg_mr(mr));
	CHECK_SYS(ibv_dealloc_pd(pd));
	part("a Send from beyond its region");
	fails(&outside, 1, IBV_WC_LOC_PROT_ERR);
	part("a wrong key in the second element of a Send");
	fails(second, 2, IBV_WC_LOC_PROT_ERR);
}

/* The other side's address is one of another family. */
static void families(void)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_send_wr wr;
	union ibv_gid gid = { };
	struct ibv_sge sge;
	struct ibv_ah *ah;

	begin(&usual);
	if (memcmp(&a.is.gid, mapped, sizeof(mapped)))
		memcpy(&gid, mapped, sizeof(mapped));
	else
		gid.raw[0] = 0xfd;
	gid.raw[15] = 1;
	ah = address(&a, &gid);
	wr = message(&a, &p, 0, 64, &sge);
	wr.wr.ud.ah = ah;
	CHECK(!post(&a, &wr), "post: %m");
	ends(a.scq, IBV_WC_LOC_QP_OP_ERR, 0);
	state_is(&a, IBV_QPS_ERR);
	CHECK_SYS(ibv_destroy_ah(ah));
	unmake();
}

/* A message comes for a receive that cannot have it: the receiver fails, the sender does not. */
static void fails_to_receive(const struct ibv_sge *bad, int elements)
{
	struct ibv_recv_wr *at, recv = {
		.wr_id = 7, .sg_list = (struct ibv_sge *)bad, .num_sge = elements,
	};

	begin(&usual);
	CHECK(!ibv_post_recv(p.qp, &recv, &at), "post: %m");
	receive(&p, 1, ROOM);
	nothing(p.rcq, 0);
	send_to(&a, &p, 0, 64);
	sent(&a, 0);
	ends(p.rcq, IBV_WC_LOC_PROT_ERR, 7);
	ends(p.rcq, IBV_WC_WR_FLUSH_ERR, 1);
	state_is(&p, IBV_QPS_ERR);
	no_event(&p);
	state_is(&a, IBV_QPS_RTS);
	send_to(&a, &p, 0, 64);
	sent(&a, 0);
	lost(&a, &p);
	unmake();
}

static void bad_receives(void)
{
	struct ibv_sge key = { (uintptr_t)in(&p, 0), ROOM, p.mr->lkey ^ 0x100 };
	struct ibv_sge second[2] = { { (uintptr_t)in(&p, 0), GRH + 1, p.mr->lkey }, key };
	struct ibv_mr *constant = ibv_reg_mr(p.ep->pd, in(&p, 0), PLACE, 0);
	struct ibv_sge read_only;

	CHECK(constant, "register: %m");
	fails_to_receive(&key, 1);
	part("a wrong key in the second element of a receive");
	fails_to_receive(second, 2);
	part("a receive in memory that may not be written");
	read_only = (struct ibv_sge){ (uintptr_t)in(&p, 0), ROOM, constant->lkey };
	fails_to_receive(&read_only, 1);
	CHECK_SYS(ibv_dereg_mr(constant));
}

/* ---- what is lost ------------------------------------------------------------ */

static void no_receive(void)
{
	begin(&usual);
	send_to(&a, &p, 0, 64);
	sent(&a, 0);
	lost(&a, &p);
	receive(&p, 0, ROOM);
	/* It does not wait for one. */
	lost(&a, &p);
	send_to(&a, &p, 0, 64);
	sent(&a, 0);
	arrives(&a, &p, 0, 64);
	unmake();

	part("a receive that is too short stays");
	begin(&usual);
	receive(&p, 0, GRH + 63);
	receive(&p, 1, ROOM);
	send_to(&a, &p, 0, 64);
	sent(&a, 0);
	lost(&a, &p);
	send_to(&a, &p, 0, 63);
	sent(&a, 0);
	arrives(&a, &p, 0, 63);
	send_to(&a, &p, 1, 64);
	sent(&a, 1);
	arrives(&a, &p, 1, 64);
	state_is(&p, IBV_QPS_RTS);

	part("a receive that is shorter than the header");
	receive(&p, 0, GRH - 1);
	receive(&p, 1, ROOM);
	send_to(&a, &p, 0, 0);
	sent(&a, 0);
	lost(&a, &p);
	CHECK(!to_state(p.qp, IBV_QPS_ERR), "ERR: %m");
	ends(p.rcq, IBV_WC_WR_FLUSH_ERR, 0);
	ends(p.rcq, IBV_WC_WR_FLUSH_ERR, 1);
	unmake();
}

/* Sends with this Q_Key. */
static void send_by(uint32_t qkey)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	fill(&a, 0, 64);
	wr = message(&a, &p, 0, 64, &sge);
	wr.wr.ud.remote_qkey = qkey;
	CHECK(!post(&a, &wr), "post: %m");
	sent(&a, 0);
}

static void qkeys(void)
{
	begin(&usual);
	receive(&p, 0, ROOM);
	send_by(p.qkey ^ 1);
	send_by(p.qkey ^ 0x40000000);
	send_by(a.qkey);
	lost(&a, &p);
	send_by(p.qkey);
	arrives(&a, &p, 0, 64);

	part("the highest bit of a Q_Key stands for the sender's own one");
	receive(&p, 0, ROOM);
	send_by(p.qkey | 1u << 31);
	lost(&a, &p);
	CHECK(!set_qkey(&p, a.qkey), "Q_Key: %m");
	send_by(1u << 31);
	arrives(&a, &p, 0, 64);
	receive(&p, 0, ROOM);
	/* Not the one that the receiver had. */
	send_by(p.qkey);
	lost(&a, &p);
	send_by(UINT32_MAX);
	arrives(&a, &p, 0, 64);
	unmake();
}

static void send_to_number(uint32_t qpn)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	fill(&a, 0, 64);
	wr = message(&a, &p, 0, 64, &sge);
	wr.wr.ud.remote_qpn = qpn;
	CHECK(!post(&a, &wr), "post: %m");
	sent(&a, 0);
}

static void numbers(void)
{
	struct side gone;
	uint32_t number;

	begin(&usual);
	receive(&p, 0, ROOM);
	send_to_number(p.qp->qp_num ^ 0x400000);
	/* Of a queue pair with a stream. */
	send_to_number(p.ep->id->qp->qp_num);
	/* Special ones of InfiniBand. */
	send_to_number(0);
	send_to_number(1);
	send_to_number(0xffffff);
	lost(&a, &p);
	/* Numbers have 24 bits. */
	send_to_number(p.qp->qp_num | 0xff000000);
	arrives(&a, &p, 0, 64);

	part("a queue pair that is gone");
	gone = p;
	gone.qp = ud_qp(&gone, &usual, NULL);
	CHECK(gone.qp, "queue pair: %m");
	ready(&gone);
	receive(&gone, 1, ROOM);
	number = gone.qp->qp_num;
	CHECK_SYS(ibv_destroy_qp(gone.qp));
	send_to_number(number);
	lost(&a, &p);
	talk(&a, &p, 64);
	unmake();
}

/* Nobody has the address. */
static void nobody(void)
{
	union ibv_gid gid;
	struct side other;
	unsigned int i;

	begin(&usual);
	gid = p.is.gid;
	gid.raw[15] ^= 0x55;
	other = a;
	other.ah = address(&a, &gid);
	receive(&p, 0, ROOM);
	for (i = 0; i < 10; i++) {
		send_to(&other, &p, 0, 64);
		sent(&a, 0);
	}
	lost(&a, &p);
	state_is(&a, IBV_QPS_RTS);
	send_to(&a, &p, 0, 64);
	sent(&a, 0);
	arrives(&a, &p, 0, 64);
	CHECK_SYS(ibv_destroy_ah(other.ah));
	unmake();
}

/* ---- shared receive queues ---------------------------------------------------- */

static void receive_shared(struct ibv_srq *srq, unsigned int n, uint32_t octets)
{
	struct ibv_sge sge = { (uintptr_t)in(&p, n), octets, p.mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = n, .sg_list = &sge, .num_sge = 1 };

	memset(in(&p, n), 0xee, PLACE);
	CHECK(!ibv_post_srq_recv(srq, &wr, &bad), "post: %m");
}

static bool last_receive_event(struct side *s)
{
	struct ibv_async_event ev;

	while (async_event(s->ep->id->verbs, &ev, 5000)) {
		if (ev.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && ev.element.qp == s->qp)
			return true;
	}
	return false;
}

static void shared(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_recv_wr *bad, recv = { };
	struct how how = usual;
	struct side q;

	how.srq = ibv_create_srq(p.ep->pd, &attr);
	CHECK(how.srq, "shared receive queue: %m");
	begin(&how);
	q = p;
	q.qp = ud_qp(&q, &how, how.srq);
	CHECK(q.qp, "queue pair: %m");
	CHECK(!q.cap.max_recv_wr && !q.cap.max_recv_sge, "it has %u receives of %u elements",
	      q.cap.max_recv_wr, q.cap.max_recv_sge);
	ready(&q);
	receive_shared(how.srq, 0, ROOM);
	receive_shared(how.srq, 1, ROOM);
	send_to(&a, &q, 0, 64);
	sent(&a, 0);
	arrives(&a, &q, 0, 64);
	send_to(&a, &p, 1, 1000);
	sent(&a, 1);
	arrives(&a, &p, 1, 1000);
	expect(ibv_post_recv(p.qp, &recv, &bad) != 0, "a receive of its own");

	part("a receive that is too short stays with the queue pair that has taken it");
	receive_shared(how.srq, 2, GRH + 10);
	receive_shared(how.srq, 3, ROOM);
	send_to(&a, &p, 2, 64);
	sent(&a, 2);
	lost(&a, &p);
	send_to(&a, &q, 3, 64);
	sent(&a, 3);
	arrives(&a, &q, 3, 64);
	send_to(&a, &p, 2, 10);
	sent(&a, 2);
	arrives(&a, &p, 2, 10);

	part("a queue pair fails, and others have what is in the shared queue");
	receive_shared(how.srq, 4, GRH + 10);
	receive_shared(how.srq, 5, ROOM);
	send_to(&a, &p, 4, 64);
	sent(&a, 4);
	lost(&a, &p);
	no_event(&p);
	CHECK(!to_state(p.qp, IBV_QPS_ERR), "ERR: %m");
	ends(p.rcq, IBV_WC_WR_FLUSH_ERR, 4);
	nothing(p.rcq, 0);
	expect(last_receive_event(&p), "no event");
	send_to(&a, &q, 5, 64);
	sent(&a, 5);
	arrives(&a, &q, 5, 64);
	no_event(&q);
	CHECK_SYS(ibv_destroy_qp(q.qp));
	unmake();
	CHECK_SYS(ibv_destroy_srq(how.srq));
}

/* ---- processes ----------------------------------------------------------------- */

/* Has requests in all queues, and says so. */
static void hold(int ready_fd)
{
	unsigned int i;

	open_devices();
	begin(&usual);
	talk(&a, &p, 64);
	for (i = 0; i < 16; i++)
		receive(&p, i, ROOM);
	/* Some arrive, and nobody looks. */
	for (i = 0; i < 8; i++)
		send_to(&a, &p, i, 64);
	CHECK(!to_state(a.qp, IBV_QPS_RESET), "RESET: %m");
	CHECK(!to_init(&a, a.qkey), "INIT: %m");
	for (i = 0; i < 16; i++) {
		receive(&a, i, ROOM);
		send_to(&a, &p, i, 64);
	}
	CHECK(write(ready_fd, "", 1) == 1, "write: %m");
	for (;;)
		pause();
}

void killed(void)
{
	int ready_fd[2], status;
	pid_t child;
	char c;

	CHECK_SYS(pipe(ready_fd));
	child = new_process();
	if (!child)
		hold(ready_fd[1]);
	close(ready_fd[1]);
	expect(read(ready_fd[0], &c, 1) == 1, "it does not get ready");
	kill(child, SIGKILL);
	CHECK(waitpid(child, &status, 0) == child, "wait: %m");
	expect(WIFSIGNALED(status), "it ends with status %#x", status);
	close(ready_fd[0]);
}

void failures(void)
{
	part("longer than the MTU");
	too_long();
	part("a wrong key in a Send");
	bad_sends();
	part("addresses of two families");
	families();
	part("a wrong key in a receive");
	bad_receives();
	part("no receive");
	no_receive();
	part("a wrong Q_Key");
	qkeys();
	part("a wrong number");
	numbers();
	part("an address that nobody has");
	nobody();
	part("a shared receive queue");
	shared();
}
