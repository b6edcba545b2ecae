// SPDX-License-Identifier: GPL-2.0
/* first_client: sends messages, ten in a second, and waits for each to come back. */
#include <err.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define SIZE 64

static void check(int rv, const char *what)
{
	if (rv)
		err(1, "%s", what);
}

static void success(int rv, const struct ibv_wc *wc, int n)
{
	if (rv <= 0 || wc->status != IBV_WC_SUCCESS)
		errx(1, "message %d: %s", n, ibv_wc_status_str(wc->status));
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
	struct rdma_addrinfo *ai, hints = { .ai_port_space = RDMA_PS_TCP };
	struct ibv_qp_init_attr queues = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,	/* each Send makes a completion */
	};
	struct ibv_mr *in_mr, *out_mr;
	char in[SIZE], out[SIZE];
	struct rdma_cm_id *id;
	struct ibv_wc wc;
	double start;
	int rv, n;

	if (argc != 3)
		errx(2, "usage: first_client HOST MESSAGES");
	rv = rdma_getaddrinfo(argv[1], "7474", &hints, &ai);
	if (rv)
		errx(1, "%s: %s", argv[1], gai_strerror(rv));
	check(rdma_create_ep(&id, ai, NULL, &queues), "rdma_create_ep");
	in_mr = rdma_reg_msgs(id, in, SIZE);
	out_mr = rdma_reg_msgs(id, out, SIZE);
	check(!in_mr || !out_mr, "rdma_reg_msgs");
	check(rdma_connect(id, NULL), "rdma_connect");
	for (n = 1; n <= atoi(argv[2]); n++, usleep(100000)) {
		start = now_ms();
		rv = snprintf(out, SIZE, "message %d", n);
		check(rdma_post_recv(id, NULL, in, SIZE, in_mr), "rdma_post_recv");
		check(rdma_post_send(id, NULL, out, rv + 1, out_mr, 0),
		      "rdma_post_send");
		success(rdma_get_send_comp(id, &wc), &wc, n);
		success(rdma_get_recv_comp(id, &wc), &wc, n);
		printf("client: %s, back after %.1f ms\n", in, now_ms() - start);
		fflush(stdout);
	}
	rdma_disconnect(id);
	rdma_dereg_mr(in_mr);
	rdma_dereg_mr(out_mr);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(ai);
	return 0;
}
