// SPDX-License-Identifier: GPL-2.0
/* first_server: sends each message of one client back to it. */
#include <err.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <string.h>

#define SIZE 64

static void check(int rv, const char *what)
{
	if (rv)
		err(1, "%s", what);
}

int main(void)
{
	struct rdma_addrinfo *ai, hints = {
		.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP,
	};
	struct ibv_qp_init_attr queues = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,	/* each Send makes a completion */
	};
	struct rdma_cm_id *listener, *id;
	struct ibv_mr *in_mr, *out_mr;
	char in[SIZE], out[SIZE];
	struct ibv_wc wc;
	int rv, n = 0;

	rv = rdma_getaddrinfo(NULL, "7474", &hints, &ai);
	if (rv)
		errx(1, "rdma_getaddrinfo: %s", gai_strerror(rv));
	check(rdma_create_ep(&listener, ai, NULL, &queues), "rdma_create_ep");
	check(rdma_listen(listener, 1), "rdma_listen");
	check(rdma_get_request(listener, &id), "rdma_get_request");
	in_mr = rdma_reg_msgs(id, in, SIZE);
	out_mr = rdma_reg_msgs(id, out, SIZE);
	check(!in_mr || !out_mr, "rdma_reg_msgs");
	/* A message that comes in finds a receive posted, or ends the connection. */
	check(rdma_post_recv(id, NULL, in, SIZE, in_mr), "rdma_post_recv");
	check(rdma_accept(id, NULL), "rdma_accept");
	while (rdma_get_recv_comp(id, &wc) > 0 && wc.status == IBV_WC_SUCCESS) {
		memcpy(out, in, wc.byte_len);
		check(rdma_post_recv(id, NULL, in, SIZE, in_mr), "rdma_post_recv");
		check(rdma_post_send(id, NULL, out, wc.byte_len, out_mr, 0),
		      "rdma_post_send");
		if (rdma_get_send_comp(id, &wc) <= 0 || wc.status != IBV_WC_SUCCESS)
			break;
		n++;
	}
	printf("server: %d messages, then \"%s\"\n", n, ibv_wc_status_str(wc.status));
	rdma_disconnect(id);
	rdma_dereg_mr(in_mr);
	rdma_dereg_mr(out_mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	rdma_freeaddrinfo(ai);
	return 0;
}
