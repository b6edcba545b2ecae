// SPDX-License-Identifier: GPL-2.0
/* datagrams: what a program can ask for, and what is refused when it is posted. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "datagrams.h"

static void inline_octets(void)
{
	static char copy[LONGEST];
	struct ibv_send_wr wr;
	struct ibv_sge sge, pieces[2];
	uint32_t len;
	int err;

	begin(&usual);
	for (len = 0; len <= a.cap.max_inline_data; len += len < 8 ? 1 : 8) {
		fill(&a, 0, len);
		memcpy(copy, out(&a, 0), len);
		receive(&p, 0, ROOM);
		wr = message(&a, &p, 0, len, &sge);
		wr.send_flags |= IBV_SEND_INLINE;
		/* Nobody looks at the key, or at the memory once the call has returned. */
		sge.lkey = 0xdead;
		CHECK(!post(&a, &wr), "post: %m");
		memset(out(&a, 0), 0, len);
		sent(&a, 0);
		memcpy(out(&a, 0), copy, len);
		arrives(&a, &p, 0, len);
	}

	part("inline octets of two pieces, and too many");
	fill(&a, 0, 40);
	wr = message(&a, &p, 0, 40, &sge);
	pieces[0] = (struct ibv_sge){ sge.addr, 7, 0 };
	pieces[1] = (struct ibv_sge){ sge.addr + 7, 33, 0 };
	wr.sg_list = pieces;
	wr.num_sge = 2;
	wr.send_flags |= IBV_SEND_INLINE;
	receive(&p, 0, ROOM);
	CHECK(!post(&a, &wr), "post: %m");
	sent(&a, 0);
	arrives(&a, &p, 0, 40);
	wr = message(&a, &p, 0, a.cap.max_inline_data + 1, &sge);
	wr.send_flags |= IBV_SEND_INLINE;
	err = post(&a, &wr);
	expect(err == EINVAL, "%s", strerror(err));
	nothing(a.scq, 0);
	talk(&a, &p, 64);
	unmake();
}

/* The elements are far from each other, and some are empty. */
static void elements(void)
{
	static const uint32_t from_len[] = { 1, 0, 700, 299 }, to_len[] = { 10, 31, 0, 1200 };
	static char given[1000], got[1000 + sizeof(struct ibv_grh)];
	struct ibv_recv_wr *bad_recv, recv = { .wr_id = 5, .num_sge = 4 };
	struct ibv_sge sge, from[5], to[5];
	struct ibv_send_wr wr;
	uint32_t i, at, len;
	struct ibv_wc wc;

	begin(&usual);
	for (i = 0, at = 0; i < 4; i++) {
		fill(&a, i, from_len[i]);
		memcpy(given + at, out(&a, i), from_len[i]);
		from[i] = (struct ibv_sge){ (uintptr_t)out(&a, i), from_len[i], a.mr->lkey };
		to[i] = (struct ibv_sge){ (uintptr_t)in(&p, i), to_len[i], p.mr->lkey };
		at += from_len[i];
	}
	memset(in(&p, 0), 0xee, 4 * PLACE);
	recv.sg_list = to;
	CHECK(!ibv_post_recv(p.qp, &recv, &bad_recv), "post: %m");
	wr = message(&a, &p, 5, 0, &sge);
	wr.sg_list = from;
	wr.num_sge = 4;
	CHECK(!post(&a, &wr), "post: %m");
	sent(&a, 5);
	wc = ends(p.rcq, IBV_WC_SUCCESS, 5);
	expect(wc.byte_len == sizeof(got), "%u octets", wc.byte_len);
	for (i = 0, at = 0; i < 4; i++, at += len) {
		len = to_len[i] < sizeof(got) - at ? to_len[i] : sizeof(got) - at;
		memcpy(got + at, in(&p, i), len);
		expect(in(&p, i)[len] == (char)0xee, "more octets in element %u", i);
	}
	expect(!memcmp(got + GRH, given, sizeof(given)), "other octets");

	part("more elements than there may be");
	from[4] = from[1];
	to[4] = to[2];
	wr.num_sge = recv.num_sge = 5;
	expect(post(&a, &wr) == EINVAL, "of a Send");
	expect(ibv_post_recv(p.qp, &recv, &bad_recv) == EINVAL, "of a receive");
	wr.num_sge = recv.num_sge = -1;
	expect(post(&a, &wr) == EINVAL, "a negative number");
	expect(ibv_post_recv(p.qp, &recv, &bad_recv) == EINVAL, "a negative number");
	nothing(a.scq, 0);
	talk(&a, &p, 64);
	unmake();
}

static void signalling(void)
{
	struct how all = usual;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	unsigned int i;

	begin(&usual);
	/* More than there are entries. */
	for (i = 0; i < 40; i++) {
		receive(&p, 0, ROOM);
		fill(&a, 0, 64);
		wr = message(&a, &p, 0, 64, &sge);
		wr.send_flags = 0;
		CHECK(!post(&a, &wr), "post: %m");
		arrives(&a, &p, 0, 64);
	}
	nothing(a.scq, 0);
	talk(&a, &p, 64);
	nothing(a.scq, 0);
	unmake();

	part("all requests are signalled");
	all.sig_all = true;
	begin(&all);
	receive(&p, 0, ROOM);
	fill(&a, 0, 64);
	wr = message(&a, &p, 0, 64, &sge);
	wr.send_flags = 0;
	CHECK(!post(&a, &wr), "post: %m");
	sent(&a, 0);
	arrives(&a, &p, 0, 64);
	unmake();
}

/* Whether there is an event of a completion queue, which is taken. */
static bool woken(struct side *s, struct ibv_cq *cq, int ms)
{
	struct pollfd f = { .fd = s->cc->fd, .events = POLLIN };
	struct ibv_cq *of;
	void *context;

	if (poll(&f, 1, ms) != 1)
		return false;
	CHECK_SYS(ibv_get_cq_event(s->cc, &of, &context));
	ibv_ack_cq_events(of, 1);
	expect(of == cq, "an event of another queue");
	return true;
}

static void events(void)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	begin(&usual);
	CHECK_SYS(ibv_req_notify_cq(p.rcq, 0));
	CHECK_SYS(ibv_req_notify_cq(a.scq, 0));
	expect(!woken(&p, p.rcq, A_WHILE_MS), "an event, and nothing was sent");
	talk(&a, &p, 64);
	expect(woken(&p, p.rcq, EP_EVENT_MS), "no event of a receive");
	expect(woken(&a, a.scq, EP_EVENT_MS), "no event of a Send");
	talk(&a, &p, 64);
	expect(!woken(&p, p.rcq, A_WHILE_MS), "an event that was not asked for");

	part("events of messages that ask for one");
	CHECK_SYS(ibv_req_notify_cq(p.rcq, 1));
	talk(&a, &p, 64);
	expect(!woken(&p, p.rcq, A_WHILE_MS), "an event of another message");
	receive(&p, 1, ROOM);
	fill(&a, 1, 64);
	wr = message(&a, &p, 1, 64, &sge);
	wr.send_flags |= IBV_SEND_SOLICITED;
	CHECK(!post(&a, &wr), "post: %m");
	sent(&a, 1);
	expect(woken(&p, p.rcq, EP_EVENT_MS), "no event");
	arrives(&a, &p, 1, 64);
	unmake();
}

static void immediates(void)
{
	const uint32_t length[] = { 0, 1, 64, mtu };
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_wc wc;
	unsigned int i;

	begin(&usual);
	for (i = 0; i < 2 * COUNT(length); i++) {
		uint32_t len = length[i / 2];

		if (i % 2 && len > a.cap.max_inline_data)
			continue;
		receive(&p, i, GRH + len);
		fill(&a, i, len);
		wr = message(&a, &p, i, len, &sge);
		wr.opcode = IBV_WR_SEND_WITH_IMM;
		wr.imm_data = htonl(0x01020304 + i);
		wr.send_flags |= i % 2 ? IBV_SEND_INLINE : 0;
		CHECK(!post(&a, &wr), "post: %m");
		sent(&a, i);
		wc = arrives(&a, &p, i, len);
		expect(wc.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM) &&
		       wc.imm_data == wr.imm_data, "flags %#x, data %#x", wc.wc_flags,
		       ntohl(wc.imm_data));
	}
	receive(&p, 0, ROOM);
	send_to(&a, &p, 0, 64);
	sent(&a, 0);
	wc = arrives(&a, &p, 0, 64);
	expect(wc.wc_flags == IBV_WC_GRH, "flags %#x without immediate data", wc.wc_flags);
	unmake();
}

static void builders(void)
{
	struct how how = usual;
	struct ibv_data_buf pieces[2];
	struct ibv_qp_ex *qp;
	struct ibv_wc wc;
	unsigned int i;

	how.send_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	begin(&how);
	qp = ibv_qp_to_qp_ex(a.qp);
	if (!expect(qp, "no extended queue pair"))
		return;
	for (i = 0; i < 3; i++) {
		receive(&p, i, ROOM);
		fill(&a, i, 64);
	}
	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	qp->wr_id = 0;
	ibv_wr_send(qp);
	ibv_wr_set_ud_addr(qp, a.ah, p.qp->qp_num, p.qkey);
	ibv_wr_set_sge(qp, a.mr->lkey, (uintptr_t)out(&a, 0), 64);
	qp->wr_id = 1;
	ibv_wr_send_imm(qp, htonl(0x778899aa));
	/* In the other order. */
	ibv_wr_set_inline_data(qp, out(&a, 1), 64);
	ibv_wr_set_ud_addr(qp, a.ah, p.qp->qp_num, p.qkey);
	qp->wr_id = 2;
	ibv_wr_send(qp);
	/* What is set last counts. */
	ibv_wr_set_ud_addr(qp, a.ah, p.qp->qp_num ^ 1, 0);
	ibv_wr_set_ud_addr(qp, a.ah, p.qp->qp_num, p.qkey);
	pieces[0] = (struct ibv_data_buf){ out(&a, 2), 10 };
	pieces[1] = (struct ibv_data_buf){ out(&a, 2) + 10, 54 };
	ibv_wr_set_inline_data_list(qp, 2, pieces);
	CHECK(!ibv_wr_complete(qp), "post: %m");
	for (i = 0; i < 3; i++)
		sent(&a, i);
	arrives(&a, &p, 0, 64);
	wc = arrives(&a, &p, 1, 64);
	expect(wc.wc_flags & IBV_WC_WITH_IMM && ntohl(wc.imm_data) == 0x778899aa,
	       "flags %#x, data %#x", wc.wc_flags, ntohl(wc.imm_data));
	arrives(&a, &p, 2, 64);

	part("what ibv_wr_ functions refuse");
	receive(&p, 0, ROOM);
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_set_ud_addr(qp, a.ah, p.qp->qp_num, p.qkey);
	ibv_wr_abort(qp);
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_set_ud_addr(qp, a.ah, p.qp->qp_num, p.qkey);
	ibv_wr_send(qp);
	expect(ibv_wr_complete(qp) == EINVAL, "the last one has no address");
	ibv_wr_start(qp);
	ibv_wr_send_imm(qp, 0);
	ibv_wr_send(qp);
	ibv_wr_set_ud_addr(qp, a.ah, p.qp->qp_num, p.qkey);
	expect(ibv_wr_complete(qp) == EINVAL, "the first one has no address");
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_set_ud_addr(qp, NULL, p.qp->qp_num, p.qkey);
	expect(ibv_wr_complete(qp) == EINVAL, "no handle");
	ibv_wr_start(qp);
	ibv_wr_set_ud_addr(qp, a.ah, p.qp->qp_num, p.qkey);
	expect(ibv_wr_complete(qp) == EINVAL, "no request");
	nothing(a.scq, 0);
	lost(&a, &p);
	send_to(&a, &p, 0, 64);
	sent(&a, 0);
	arrives(&a, &p, 0, 64);
	CHECK(!to_state(a.qp, IBV_QPS_RESET), "RESET: %m");
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_set_ud_addr(qp, a.ah, p.qp->qp_num, p.qkey);
	expect(ibv_wr_complete(qp) == EINVAL, "in RESET");
	how.send_ops |= IBV_QP_EX_WITH_RDMA_WRITE;
	expect(!ud_qp(&a, &how, NULL) && errno == EOPNOTSUPP, "Writes: %m");
	unmake();
}

/* What only other queue pairs can do, and what lacks something. */
static void refused(void)
{
	static const enum ibv_wr_opcode others[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_LOCAL_INV,
		IBV_WR_BIND_MW, IBV_WR_SEND_WITH_INV,
	};
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad, wr[3];
	struct ibv_sge sge[3];
	struct ibv_mw *mw;
	unsigned int i;
	int err;

	begin(&usual);
	for (i = 0; i < COUNT(others); i++) {
		wr[0] = message(&a, &p, 0, 8, &sge[0]);
		wr[0].opcode = others[i];
		bad = NULL;
		err = ibv_post_send(a.qp, &wr[0], &bad);
		expect(err == EINVAL && bad == &wr[0], "operation %u: %s", others[i],
		       strerror(err));
	}
	wr[0] = message(&a, &p, 0, 8, &sge[0]);
	wr[0].wr.ud.ah = NULL;
	expect(post(&a, &wr[0]) == EINVAL, "no address");
	mw = ibv_alloc_mw(a.ep->pd, IBV_MW_TYPE_1);
	CHECK(mw, "window: %m");
	expect(ibv_bind_mw(a.qp, mw, &bind) == EINVAL, "a window is bound");
	CHECK_SYS(ibv_dealloc_mw(mw));
	nothing(a.scq, 0);

	part("of a list what is in front of a bad request is sent");
	for (i = 0; i < 3; i++) {
		receive(&p, i, ROOM);
		fill(&a, i, 64);
		wr[i] = message(&a, &p, i, 64, &sge[i]);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].opcode = IBV_WR_RDMA_READ;
	err = ibv_post_send(a.qp, wr, &bad);
	expect(err == EINVAL && bad == &wr[1], "%s", strerror(err));
	sent(&a, 0);
	arrives(&a, &p, 0, 64);
	nothing(a.scq, 0);
	lost(&a, &p);
	unmake();
}

static void addresses(void)
{
	const struct ibv_ah_attr good = {
		.is_global = 1, .port_num = 1,
		.grh = { .sgid_index = number_for(a.ep, a.ep->id->qp).index, .hop_limit = 1 },
	};
	struct ibv_ah_attr bad[5] = { good, good, good, good, good };
	union ibv_gid gid, none = { };
	struct ibv_ah *ah;
	unsigned int i;

	bad[0].is_global = 0;
	bad[1].port_num = 0;
	bad[2].port_num = 2;
	bad[3].grh.sgid_index = 200;
	/* One that has no GID. */
	for (i = 0; i < 32; i++) {
		CHECK_SYS(ibv_query_gid(a.ep->id->verbs, 1, i, &gid));
		if (!memcmp(&gid, &none, sizeof(gid)))
			break;
	}
	bad[4].grh.sgid_index = i;
	for (i = 0; i < COUNT(bad); i++) {
		errno = 0;
		ah = ibv_create_ah(a.ep->pd, &bad[i]);
		expect(!ah && errno == EINVAL, "%u: %m", i);
	}
	ah = ibv_create_ah(a.ep->pd, (struct ibv_ah_attr *)&good);
	if (expect(ah, "%m"))
		CHECK_SYS(ibv_destroy_ah(ah));
}

/* Who has got a message answers, and need not be told where to. */
static void answers(void)
{
	struct ibv_ah_attr attr;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_grh *grh;
	struct ibv_wc wc;
	struct ibv_ah *ah;

	begin(&usual);
	receive(&p, 0, ROOM);
	send_to(&a, &p, 0, 64);
	sent(&a, 0);
	wc = arrives(&a, &p, 0, 64);
	grh = (void *)in(&p, 0);
	CHECK(!ibv_init_ah_from_wc(p.ep->id->verbs, 1, &wc, grh, &attr), "address: %m");
	expect(attr.is_global && attr.port_num == 1 && attr.grh.sgid_index == p.is.index,
	       "index %u", attr.grh.sgid_index);
	expect(!memcmp(&attr.grh.dgid, &a.is.gid, sizeof(a.is.gid)), "another GID");
	ah = ibv_create_ah_from_wc(p.ep->pd, &wc, grh, 1);
	CHECK(ah, "address handle: %m");
	receive(&a, 1, ROOM);
	fill(&p, 1, 64);
	wr = message(&p, &a, 1, 64, &sge);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = wc.src_qp;
	CHECK(!post(&p, &wr), "post: %m");
	/* Requests have all that it says. */
	CHECK_SYS(ibv_destroy_ah(ah));
	sent(&p, 1);
	arrives(&p, &a, 1, 64);
	unmake();
}

/* Requests that are posted before RTS are sent then, in order. */
static void early(void)
{
	unsigned int i;

	make(&usual);
	ready(&p);
	for (i = 0; i < 4; i++)
		receive(&p, i, ROOM);
	CHECK(!to_init(&a, a.qkey), "INIT: %m");
	send_to(&a, &p, 0, 64);
	send_to(&a, &p, 1, 64);
	CHECK(!to_state(a.qp, IBV_QPS_RTR), "RTR: %m");
	send_to(&a, &p, 2, 64);
	send_to(&a, &p, 3, 64);
	nothing(a.scq, A_WHILE_MS);
	nothing(p.rcq, 0);
	CHECK(!to_rts(&a, 0), "RTS: %m");
	for (i = 0; i < 4; i++)
		sent(&a, i);
	for (i = 0; i < 4; i++)
		arrives(&a, &p, i, 64);
	talk(&a, &p, 64);
	unmake();

	part("messages are received from RTR on");
	make(&usual);
	ready(&a);
	send_to(&a, &p, 0, 64);
	sent(&a, 0);
	CHECK(!to_init(&p, p.qkey), "INIT: %m");
	receive(&p, 0, ROOM);
	send_to(&a, &p, 0, 64);
	sent(&a, 0);
	lost(&a, &p);
	CHECK(!to_state(p.qp, IBV_QPS_RTR), "RTR: %m");
	/* What came before is lost. */
	lost(&a, &p);
	send_to(&a, &p, 0, 64);
	sent(&a, 0);
	arrives(&a, &p, 0, 64);
	unmake();
}

void requests(void)
{
	part("inline octets");
	inline_octets();
	part("several elements");
	elements();
	part("requests that are not signalled");
	signalling();
	part("events");
	events();
	part("immediate data");
	immediates();
	part("requests are built by ibv_wr_ functions");
	builders();
	part("operations that there are not");
	refused();
	part("address handles that cannot be");
	addresses();
	part("an answer to who has sent a message");
	answers();
	part("requests before RTS");
	early();
}
