// SPDX-License-Identifier: GPL-2.0
/*
 * library: what our own library offers: in any case, with the rings that siw's
 * library has as well, and with its own.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>

#include "library/library.h"

struct both b;
char *mem;
struct ibv_mr *here, *there;

static bool own, ends, scarce;

void begin_ends(const struct ep_attr *active, const struct ep_attr *passive, int rights)
{
	both_connect(&b, &listener, &where, active, passive);
	memset(mem, 0, LEN);
	here = ep_reg(&b.a, mem, LEN, ALL_ACCESS);
	there = ep_reg(&b.p, mem, LEN, rights);
}

void begin_with(const struct ep_attr *attr, int rights)
{
	begin_ends(attr, attr, rights);
}

void begin(int rights)
{
	static const struct ep_attr attr = {
		.send_wr = 16, .recv_wr = 16, .send_sge = 4, .recv_sge = 4,
		.inline_data = 64,
	};

	begin_with(&attr, rights);
}

void end(void)
{
	both_destroy(&b);
}

void forget(void)
{
	CHECK_SYS(ibv_dereg_mr(here));
	CHECK_SYS(ibv_dereg_mr(there));
	end();
}

struct ibv_wc good(struct ibv_cq *cq, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = {};

	if (!expect(ep_poll(cq, &wc, EP_EVENT_MS), "no completion"))
		return wc;
	expect(wc.status == IBV_WC_SUCCESS, "%s instead of success",
	       ibv_wc_status_str(wc.status));
	expect(wc.opcode == opcode, "opcode %d instead of %d", wc.opcode, opcode);
	return wc;
}

int post(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *at;

	return ibv_post_send(b.a.id->qp, wr, &at);
}

static void extended_polling(void)
{
	static const struct ep_attr attr = {
		.send_wr = 8, .recv_wr = 8, .channel = true, .wc_flags = IBV_WC_STANDARD_FLAGS,
	};
	struct ibv_poll_cq_attr none = {}, wrong = { .comp_mask = 1 };
	struct pollfd event = { .events = POLLIN };
	struct ibv_cq_ex *cq;
	struct ibv_cq *old;
	unsigned int i;
	void *context;

	part("completions are polled by the extended verbs");
	begin_with(&attr, ALL_ACCESS);
	event.fd = b.p.cc->fd;
	cq = (struct ibv_cq_ex *)b.p.rcq;
	expect(ibv_start_poll(cq, &none) == ENOENT, "there is something");
	expect(ibv_start_poll(cq, &wrong) == EINVAL, "an unknown attribute");
	for (i = 0; i < 3; i++)
		CHECK_SYS(ep_post_recv(&b.p, 10 + i, mem, 4096, there->lkey));
	for (i = 0; i < 3; i++) {
		CHECK_SYS(ep_post_send(&b.a, i, IBV_WR_SEND, mem + 8192, i + 1, here->lkey, 0,
				       0));
		good(b.a.scq, IBV_WC_SEND);
	}
	while (ibv_start_poll(cq, &none))
		;
	for (i = 0; i < 3; i++) {
		expect(cq->wr_id == 10 + i, "%u: %lu", i, cq->wr_id);
		expect(cq->status == IBV_WC_SUCCESS, "status %d", cq->status);
		expect(ibv_wc_read_opcode(cq) == IBV_WC_RECV, "opcode");
		expect(ibv_wc_read_byte_len(cq) == i + 1, "length");
		expect(ibv_wc_read_qp_num(cq) == b.p.id->qp->qp_num, "QP");
		expect(ibv_wc_read_wc_flags(cq) == 0, "flags");
		expect(!ibv_wc_read_slid(cq) && !ibv_wc_read_sl(cq) &&
		       !ibv_wc_read_src_qp(cq) && !ibv_wc_read_dlid_path_bits(cq), "IB");
		if (i < 2) {
			while (ibv_next_poll(cq))
				;
		}
	}
	expect(ibv_next_poll(cq) == ENOENT, "one too many");
	ibv_end_poll(cq);
	expect(ibv_start_poll(cq, &none) == ENOENT, "they are still there");
	part("V-CQ-17 a queue is armed while it is polled");
	for (i = 0; i < 2; i++)
		CHECK_SYS(ep_post_recv(&b.p, i, NULL, 0, 0));
	CHECK_SYS(ep_post_send(&b.a, 0, IBV_WR_SEND, NULL, 0, 0, 0, 0));
	while (ibv_start_poll(cq, &none))
		;
	CHECK_SYS(ibv_req_notify_cq(b.p.rcq, 0));
	ibv_end_poll(cq);
	CHECK_SYS(ep_post_send(&b.a, 0, IBV_WR_SEND, NULL, 0, 0, 0, 0));
	CHECK(poll(&event, 1, EP_EVENT_MS) == 1, "no event");
	CHECK_SYS(ibv_get_cq_event(b.p.cc, &old, &context));
	ibv_ack_cq_events(old, 1);
	forget();
}

static void builders(void)
{
	static const struct ep_attr attr = {
		.send_wr = 4, .recv_wr = 8, .send_sge = 2, .recv_sge = 2,
		.inline_data = 64, .send_ops = STANDARD_OPS,
	};
	struct ibv_data_buf pieces[2] = { { "ab", 2 }, { "cde", 3 } };
	struct ibv_sge list[2];
	struct ibv_qp_ex *qp;
	struct ibv_wc wc;
	unsigned int i;

	part("V-WR-1 V-WR-11 requests are built by ibv_wr_ functions");
	begin_with(&attr, ALL_ACCESS);
	qp = ibv_qp_to_qp_ex(b.a.id->qp);
	if (!expect(qp, "no extended QP"))
		return;
	memcpy(mem, "hello", 6);
	for (i = 0; i < 3; i++)
		CHECK_SYS(ep_post_recv(&b.p, i, mem + 4096 * (i + 1), 64, there->lkey));
	list[0] = (struct ibv_sge){ (uintptr_t)mem, 2, here->lkey };
	list[1] = (struct ibv_sge){ (uintptr_t)mem + 2, 4, here->lkey };
	ibv_wr_start(qp);
	qp->wr_id = 1;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qp);
	ibv_wr_set_sge_list(qp, 2, list);
	qp->wr_id = 2;
	ibv_wr_rdma_write(qp, there->rkey, (uintptr_t)mem + 40000);
	ibv_wr_set_inline_data_list(qp, 2, pieces);
	qp->wr_id = 3;
	ibv_wr_rdma_read(qp, there->rkey, (uintptr_t)mem + 40000);
	ibv_wr_set_sge(qp, here->lkey, (uintptr_t)mem + 50000, 5);
	qp->wr_id = 4;
	/* The Read needs the key until its response is there. */
	qp->wr_flags |= IBV_SEND_FENCE;
	ibv_wr_send_inv(qp, there->rkey);
	ibv_wr_set_inline_data(qp, "xy", 2);
	CHECK_SYS(ibv_wr_complete(qp));
	expect(good(b.a.scq, IBV_WC_SEND).wr_id == 1, "order");
	expect(good(b.a.scq, IBV_WC_RDMA_WRITE).wr_id == 2, "order");
	expect(good(b.a.scq, IBV_WC_RDMA_READ).wr_id == 3, "order");
	expect(good(b.a.scq, IBV_WC_SEND).wr_id == 4, "order");
	expect(!strcmp(mem + 4096, "hello"), "sent: %.6s", mem + 4096);
	expect(!memcmp(mem + 40000, "abcde", 5), "written: %.6s", mem + 40000);
	expect(!memcmp(mem + 50000, "abcde", 5), "read: %.6s", mem + 50000);
	good(b.p.rcq, IBV_WC_RECV);
	part("what the peer has invalidated is told");
	wc = good(b.p.rcq, IBV_WC_RECV);
	expect(wc.wc_flags == IBV_WC_WITH_INV && wc.invalidated_rkey == there->rkey,
	       "flags %#x, %#x", wc.wc_flags, wc.invalidated_rkey);
	forget();

	part("V-WR-5 V-IMM-10 V-IMM-13 what is wrong, or given up, is not posted");
	begin_with(&attr, ALL_ACCESS);
	qp = ibv_qp_to_qp_ex(b.a.id->qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(qp);
	ibv_wr_rdma_write(qp, there->rkey, (uintptr_t)mem + 100);
	ibv_wr_set_inline_data(qp, "no", 2);
	ibv_wr_abort(qp);
	ibv_wr_start(qp);
	ibv_wr_rdma_write(qp, there->rkey, (uintptr_t)mem + 100);
	ibv_wr_set_inline_data(qp, "no", 2);
	ibv_wr_rdma_write(qp, there->rkey, (uintptr_t)mem + 100);
	ibv_wr_set_inline_data(qp, mem, b.a.cap.max_inline_data + 1);
	expect(ibv_wr_complete(qp) == EINVAL, "too much inline data");
	ibv_wr_start(qp);
	ibv_wr_rdma_read(qp, there->rkey, (uintptr_t)mem);
	ibv_wr_set_sge_list(qp, 2, list);
	expect(ibv_wr_complete(qp) == EINVAL, "a Read into two elements");
	ibv_wr_start(qp);
	for (i = 0; i <= b.a.cap.max_send_wr; i++) {
		ibv_wr_rdma_write(qp, there->rkey, (uintptr_t)mem + 100);
		ibv_wr_set_inline_data(qp, "no", 2);
	}
	expect(ibv_wr_complete(qp) == ENOMEM, "more than there is room for");
	expect(!ep_poll(b.a.scq, &wc, 100), "a completion");
	expect(mem[100] == 0, "written");
	for (i = 0; i < 3 * b.a.cap.max_send_wr; i++) {
		ibv_wr_start(qp);
		ibv_wr_rdma_write(qp, there->rkey, (uintptr_t)mem + 100);
		ibv_wr_set_inline_data(qp, "yes", 3);
		CHECK_SYS(ibv_wr_complete(qp));
		good(b.a.scq, IBV_WC_RDMA_WRITE);
	}
	expect(mem[100] == 'y', "not written");
	forget();
}

/* The ways to say what the data of a request is, each with octets of its own. */
enum way { ELEMENT, ELEMENTS, OCTETS, PIECES, WAYS };

static void set_data(struct ibv_qp_ex *qp, enum way way)
{
	struct ibv_data_buf pieces[2] = { { "pie", 3 }, { "ces", 3 } };
	struct ibv_sge list[2] = {
		{ (uintptr_t)mem + 4096, 3, here->lkey }, { (uintptr_t)mem + 8192, 3, here->lkey },
	};

	switch (way) {
	case ELEMENT:
		/* Longer than any inline data may be, for who takes the one for the other. */
		ibv_wr_set_sge(qp, here->lkey, (uintptr_t)mem, 4000);
		break;
	case ELEMENTS:
		ibv_wr_set_sge_list(qp, 2, list);
		break;
	case OCTETS:
		ibv_wr_set_inline_data(qp, "octets", 6);
		break;
	default:
		ibv_wr_set_inline_data_list(qp, 2, pieces);
	}
}

/* A program changes its mind, once or twice. */
static void any_order(void)
{
	static const struct ep_attr attr = {
		.send_wr = 4, .recv_wr = 4, .send_sge = 2, .inline_data = 64,
		.send_ops = STANDARD_OPS,
	};
	static const char *const octets[WAYS] = { "one", "elements", "octets", "pieces" };
	static const uint32_t lengths[WAYS] = { 4000, 6, 6, 6 };
	struct ibv_qp_ex *qp;
	unsigned int n;

	part("V-WR-1 of the functions that set data the last one counts, in any order");
	begin_with(&attr, ALL_ACCESS);
	qp = ibv_qp_to_qp_ex(b.a.id->qp);
	for (n = 0; n < WAYS * WAYS * WAYS * 2; n++) {
		enum way last = n / 2 % WAYS;
		char *to = mem + LEN / 2;
		struct ibv_wc wc;
		uint32_t len;

		memset(mem, 0, LEN);
		memcpy(mem, "one", sizeof("one"));
		memcpy(mem + 4096, "ele", 3);
		memcpy(mem + 8192, "men", 3);
		memset(to, 'x', 8192);
		ibv_wr_start(qp);
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(qp, there->rkey, (uintptr_t)to);
		if (n % 2)
			set_data(qp, n / 2 / WAYS / WAYS);
		set_data(qp, n / 2 / WAYS % WAYS);
		set_data(qp, last);
		expect(!ibv_wr_complete(qp), "%u: refused", n);
		CHECK(ep_poll(b.a.scq, &wc, EP_EVENT_MS), "%u: no completion", n);
		if (!expect(!wc.status, "%u: %s", n, ibv_wc_status_str(wc.status)))
			break;
		for (len = 0; to[len] != 'x'; len++)
			;
		expect(len == lengths[last], "%u: %u octets", n, len);
		expect(!strncmp(to, octets[last], 3), "%u: %.6s", n, to);
	}
	part("V-IMM-10 the octets are too many after elements, too");
	ibv_wr_start(qp);
	ibv_wr_rdma_write(qp, there->rkey, (uintptr_t)mem);
	set_data(qp, ELEMENT);
	ibv_wr_set_inline_data(qp, mem, b.a.cap.max_inline_data + 1);
	expect(ibv_wr_complete(qp) == EINVAL, "accepted");
	part("V-IMM-13 data belongs to a request");
	ibv_wr_start(qp);
	set_data(qp, OCTETS);
	expect(ibv_wr_complete(qp) == EINVAL, "accepted");
	forget();
}

static void resizing(void)
{
	struct ibv_wc wc;
	unsigned int i;

	part("V-CQ-11 V-CQ-12 ibv_resize_cq keeps what waits");
	begin(ALL_ACCESS);
	for (i = 0; i < 8; i++)
		CHECK_SYS(ep_post_recv(&b.p, i, NULL, 0, 0));
	for (i = 0; i < 6; i++) {
		CHECK_SYS(ep_post_send(&b.a, 0, IBV_WR_SEND, NULL, 0, 0, 0, 0));
		good(b.a.scq, IBV_WC_SEND);
	}
	/* Answered behind them. */
	CHECK_SYS(ep_post_send(&b.a, 0, IBV_WR_RDMA_READ, NULL, 0, 0, 0, 0));
	good(b.a.scq, IBV_WC_RDMA_READ);
	for (i = 0; i < 2; i++)
		expect(good(b.p.rcq, IBV_WC_RECV).wr_id == i, "order");
	expect(ibv_resize_cq(b.p.rcq, 2) == EINVAL, "smaller than what waits");
	CHECK_SYS(ibv_resize_cq(b.p.rcq, 200));
	expect(b.p.rcq->cqe >= 200, "%d entries", b.p.rcq->cqe);
	for (i = 2; i < 6; i++)
		expect(good(b.p.rcq, IBV_WC_RECV).wr_id == i, "order");
	CHECK_SYS(ibv_resize_cq(b.p.rcq, 4));
	expect(ibv_poll_cq(b.p.rcq, 1, &wc) == 0, "one too many");
	expect(ibv_resize_cq(b.p.rcq, 0) == EINVAL, "none");
	for (; i < 8; i++) {
		CHECK_SYS(ep_post_send(&b.a, 0, IBV_WR_SEND, NULL, 0, 0, 0, 0));
		good(b.a.scq, IBV_WC_SEND);
		expect(good(b.p.rcq, IBV_WC_RECV).wr_id == i, "order");
	}
	forget();
}

static void unknown_operations(void)
{
	static const unsigned int ops[] = {
		IBV_WR_SEND_WITH_IMM, IBV_WR_TSO, IBV_WR_DRIVER1, IBV_WR_DRIVER1 + 1,
		IBV_WR_FLUSH, IBV_WR_ATOMIC_WRITE, 100, 0x7fffffff, 0x80000000,
	};
	struct ibv_sge sge = { .length = 8 };
	struct ibv_send_wr good_one = {
		.wr_id = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1 }, *at;
	unsigned int i;
	struct ibv_wc wc;
	int error;

	part("V-IMM-11 V-WR-3 X-IMM-5 operations that there are not are refused");
	begin(ALL_ACCESS);
	sge.addr = (uintptr_t)mem;
	sge.lkey = here->lkey;
	wr.wr.rdma.remote_addr = (uintptr_t)mem + 100;
	wr.wr.rdma.rkey = there->rkey;
	good_one.next = &wr;
	for (i = 0; i < COUNT(ops); i++) {
		wr.opcode = ops[i];
		/* With own rings, queue pairs that are connected by number have this one. */
		error = own && ops[i] == IBV_WR_SEND_WITH_IMM ? EOPNOTSUPP : EINVAL;
		expect(ibv_post_send(b.a.id->qp, &good_one, &at) == error && at == &wr, "%#x",
		       ops[i]);
		good(b.a.scq, IBV_WC_RDMA_WRITE);
	}
	wr.opcode = IBV_WR_SEND;
	wr.num_sge = -1;
	expect(post(&wr) == EINVAL, "-1 elements");
	wr.num_sge = b.a.cap.max_send_sge + 1;
	expect(post(&wr) == EINVAL, "too many elements");
	expect(!ep_poll(b.a.scq, &wc, 100), "a completion");
	forget();
}

static void modifiers(void)
{
	struct ibv_sge sge = { .length = 8 };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
	};

	part("V-WR-10 inline data is ignored where data comes in");
	begin(own ? ALL_ACCESS | IBV_ACCESS_REMOTE_ATOMIC : ALL_ACCESS);
	sge.addr = (uintptr_t)mem;
	sge.lkey = here->lkey;
	mem[4096] = 5;
	wr.wr.rdma.remote_addr = (uintptr_t)mem + 4096;
	wr.wr.rdma.rkey = there->rkey;
	if (expect(!post(&wr), "a Read")) {
		good(b.a.scq, IBV_WC_RDMA_READ);
		expect(mem[0] == 5, "%d was read", mem[0]);
	}
	if (own) {
		mem[0] = 0;
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr.wr.atomic.remote_addr = (uintptr_t)mem + 4096;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = there->rkey;
		if (expect(!post(&wr), "an Atomic")) {
			good(b.a.scq, IBV_WC_FETCH_ADD);
			expect(mem[0] == 5 && mem[4096] == 6, "%d, %d", mem[0], mem[4096]);
		}
	}
	forget();
}

static void again(void)
{
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint32_t old;

	part("V-MR-11 a region is registered again");
	pd = ibv_alloc_pd(listener.id->verbs);
	CHECK(pd, "PD: %m");
	mr = ibv_reg_mr(pd, mem, 4096, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr, "register: %m");
	old = mr->lkey;
	CHECK_SYS(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, mem + 8192, 8192, 0));
	expect(mr->lkey != old && mr->lkey == mr->rkey, "%#x, %#x", mr->lkey, mr->rkey);
	expect(mr->addr == mem + 8192 && mr->length == 8192, "address and length");
	CHECK_SYS(ibv_dereg_mr(mr));
	CHECK_SYS(ibv_dealloc_pd(pd));
}

static void attributes(void)
{
	struct ibv_device_attr_ex attr;
	struct ibv_device_attr *base = &attr.orig_attr;
	int max_sge = own ? 16 : 6;

	part("V-RNIC-10 V-RNIC-20 the device tells what there is");
	CHECK_SYS(ibv_query_device_ex(listener.id->verbs, NULL, &attr));
	expect(base->max_sge == max_sge && base->max_srq_sge == max_sge, "%d, %d elements",
	       base->max_sge, base->max_srq_sge);
	expect(base->atomic_cap == (own ? IBV_ATOMIC_GLOB : IBV_ATOMIC_NONE), "atomics: %d",
	       base->atomic_cap);
	expect(!base->max_mw == !own, "%d windows", base->max_mw);
	expect(!(base->device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) == !own, "flags %#x",
	       base->device_cap_flags);
	expect((uint32_t)attr.device_cap_flags_ex == base->device_cap_flags, "flags %#lx and %#x",
	       attr.device_cap_flags_ex, base->device_cap_flags);
	expect(!attr.hca_core_clock == !own && !attr.completion_timestamp_mask == !own,
	       "clock: %lu kHz, %#lx", attr.hca_core_clock, attr.completion_timestamp_mask);
}

static void run(void)
{
	mem = ep_pages(LEN);
	if (ends)
		abandon();
	if (scarce) {
		scarce_depths();
		return;
	}
	attributes();
	extended_polling();
	builders();
	any_order();
	resizing();
	unknown_operations();
	modifiers();
	again();
	if (own)
		own_rings();
	else
		stock_rings();
}

static const struct opt options[] = {
	{ "own", "", "with rings of its own", .flag = &own },
	{ "abandon", "", "only end with windows that are bound", .flag = &ends },
	{ "scarce", "", "only resize queues while there is little to be had", .flag = &scarce },
	{ }
};

const struct prog prog = {
	.name = "library",
	.text = "What our library offers.\n",
	.table = options,
	.kind = PROG_LISTENS,
	.port = 18880,
	.limit = 120,
	.run = run,
};
