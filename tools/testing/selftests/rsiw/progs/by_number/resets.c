// SPDX-License-Identifier: GPL-2.0
/* by_number: steps that are refused, and RESET, which drops what was posted. */
#include <errno.h>
#include <unistd.h>

#include "by_number.h"

/* Posts what there is room for, to a queue pair that has no peer yet. */
static void post_early(void)
{
	unsigned int i;

	for (i = 0; i < b.a.cap.max_recv_wr; i++)
		CHECK_SYS(ep_post_recv(&b.a, 1, abuf + 2048, 64, amr->lkey));
	post(&b.a, IBV_WR_SEND);
}

/* What was posted there is gone: there is room for as much, and nothing of it comes. */
static void is_dropped(void)
{
	struct ibv_wc wc;
	unsigned int i;

	for (i = 0; i < b.a.cap.max_recv_wr; i++)
		CHECK(!ep_post_recv(&b.a, 2, abuf + 2048, 64, amr->lkey), "no room for receive %u",
		      i);
	receive(&b.p);
	meet(&number_defaults);
	post(&b.p, IBV_WR_SEND);
	completes(b.p.scq, IBV_WC_SUCCESS);
	if (expect(ep_poll(b.a.rcq, &wc, EP_EVENT_MS), "no message"))
		expect(wc.status == IBV_WC_SUCCESS && wc.wr_id == 2, "receive %lu: %s", wc.wr_id,
		       ibv_wc_status_str(wc.status));
	nothing(b.p.rcq, A_WHILE_MS);
	nothing(b.a.scq, 0);
}

void flushed_early(void)
{
	struct ibv_wc wc;

	make();
	post_early();
	CHECK(!to_state(b.a.id->qp, IBV_QPS_ERR), "ERR: %m");
	reset(&b.a);
	/* The stock library leaves them there. */
	while (stock && (ep_poll(b.a.scq, &wc, 0) || ep_poll(b.a.rcq, &wc, 0)))
		;
	nothing(b.a.scq, 0);
	nothing(b.a.rcq, 0);
	is_dropped();
	unmake();
}

void refused(void)
{
	struct ibv_qp_attr qa = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
		.ah_attr = { .port_num = 1, .dlid = 1 },
	};
	int err;

	make();
	post_early();
	qa.dest_qp_num = p.qpn;
	err = ibv_modify_qp(b.a.id->qp, &qa, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			    IBV_QP_MIN_RNR_TIMER);
	expect(err == EINVAL, "without a GID: %d", err);
	CHECK(!to_state(b.a.id->qp, IBV_QPS_RESET), "RESET: %m");
	err = number_rtr(b.a.id->qp, &a, &p, &number_defaults);
	expect(err == EINVAL, "RTR from RESET: %d", err);
	CHECK(!number_init(b.a.id->qp), "INIT: %m");
	is_dropped();
	err = to_state(b.a.id->qp, IBV_QPS_SQD);
	expect(err == EINVAL, "SQD: %d", err);
	err = number_rtr(b.a.id->qp, &a, &p, &number_defaults);
	expect(err == EINVAL, "RTR once more: %d", err);
	talk();
	unmake();
}

void resets(void)
{
	unsigned int i;

	make();
	for (i = 0; i < rounds; i++) {
		meet(&number_defaults);
		talk();
		receive(&b.a);
		receive(&b.p);
		if (i & 1)
			post(&b.a, IBV_WR_RDMA_WRITE);
		reset(&b.a);
		if (i & 2)
			usleep(1000);
		reset(&b.p);
		while (i & 1) {
			struct ibv_wc wc;

			if (!ep_poll(b.a.scq, &wc, 0))
				break;
		}
		nothing(b.a.rcq, 0);
		nothing(b.p.rcq, 0);
	}
	unmake();
}
