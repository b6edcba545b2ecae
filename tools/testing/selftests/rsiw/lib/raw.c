// SPDX-License-Identifier: GPL-2.0
/* Verbs straight from uverbs, see raw.h. */
#include "raw.h"

#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#define HEADER(cmd, resp, number) {			\
	.command = IB_USER_VERBS_CMD_ ## number,	\
	.in_words = sizeof(cmd) / 4,			\
	.out_words = sizeof(resp) / 4,			\
}

/* The command channel is that of the library: locks are the kernel's. */
static int command(struct ibv_context *ctx, const void *cmd, size_t len)
{
	return write(ctx->cmd_fd, cmd, len) == (ssize_t)len ? 0 : errno;
}

int raw_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	struct ib_uverbs_query_srq_resp resp;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_query_srq body;
	} cmd = {
		.hdr = HEADER(cmd, resp, QUERY_SRQ),
		.body = { .response = (uintptr_t)&resp,
			  .srq_handle = srq->handle },
	};
	int err = command(srq->context, &cmd, sizeof(cmd));

	attr->max_wr = resp.max_wr;
	attr->max_sge = resp.max_sge;
	attr->srq_limit = resp.srq_limit;
	return err;
}
