// SPDX-License-Identifier: GPL-2.0
/*
 * rsiw_consumer: RDMA from within the kernel, in the manner of storage.
 *
 * The client registers a page of its memory and sends a request that says where
 * it is. The server writes to it by RDMA, then sends an empty reply, which also
 * invalidates the registration: from then on nobody can reach that page.
 *
 *	modprobe rsiw_consumer				# serves
 *	modprobe rsiw_consumer connect=192.0.2.1	# asks that server as well
 *
 * Nothing here is special to rsiw: any RDMA device with fast registration works.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/inet.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/utsname.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#define PORT		7471
#define STEP_TIME	(30 * HZ)

static char *connect;
module_param(connect, charp, 0);
MODULE_PARM_DESC(connect, "address of a server to ask");

/* What the client sends: where its page is. */
struct request {
	__be64 addr;
	__be32 key;
	__be32 len;
};

/* One end of a connection, with a page that begins with the request. */
struct side {
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_mr *mr;		/* of the client: its page */
	struct ib_cqe received, sent;	/* called at a completion */
	void *page;
	struct scatterlist sg;		/* of the page */
	int mapped;			/* entries of sg that are mapped */
	struct completion step;		/* of the client: a step is done */
	int err;			/* of the client: its first error */
};

static struct side server, client;
static unsigned long busy;		/* bit 0: the server has its client */
static struct rdma_cm_id *listener;

/* Takes down what setup() made, or made before it failed. */
static void release(struct side *s)
{
	if (s->id->qp) {
		rdma_disconnect(s->id);
		/* Afterwards nothing completes, and nobody reaches the page. */
		ib_drain_qp(s->id->qp);
		rdma_destroy_qp(s->id);
	}
	if (!IS_ERR_OR_NULL(s->mr))
		ib_dereg_mr(s->mr);
	if (!IS_ERR_OR_NULL(s->cq))
		ib_free_cq(s->cq);
	if (!IS_ERR_OR_NULL(s->pd))
		ib_dealloc_pd(s->pd);
	if (s->mapped)
		ib_dma_unmap_sg(s->id->device, &s->sg, 1, DMA_BIDIRECTIONAL);
	free_page((unsigned long)s->page);
}

/* Queues, memory, and a receive: all that the peer's first message needs. */
static int setup(struct side *s, struct rdma_cm_id *id)
{
	struct ib_qp_init_attr attr = {
		/* One more each for ib_drain_qp(). */
		.cap = { .max_send_wr = 3, .max_recv_wr = 2,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IB_QPT_RC, .sq_sig_type = IB_SIGNAL_REQ_WR,
	};
	struct ib_recv_wr recv = { .wr_cqe = &s->received };
	struct ib_sge sge = { .length = sizeof(struct request) };
	struct ib_device *dev = id->device;
	int err;

	s->id = id;
	if (!(dev->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS))
		return -EOPNOTSUPP;
	s->pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(s->pd))
		return PTR_ERR(s->pd);
	s->cq = ib_alloc_cq(dev, s, 5, 0, IB_POLL_WORKQUEUE);
	if (IS_ERR(s->cq))
		return PTR_ERR(s->cq);
	attr.send_cq = s->cq;
	attr.recv_cq = s->cq;
	err = rdma_create_qp(id, s->pd, &attr);
	if (err)
		return err;
	s->page = (void *)get_zeroed_page(GFP_KERNEL);
	if (!s->page)
		return -ENOMEM;
	sg_init_one(&s->sg, s->page, PAGE_SIZE);
	s->mapped = ib_dma_map_sg(dev, &s->sg, 1, DMA_BIDIRECTIONAL);
	if (!s->mapped)
		return -ENOMEM;
	/* The client receives the reply, which is empty. */
	sge.addr = sg_dma_address(&s->sg);
	sge.lkey = s->pd->local_dma_lkey;
	recv.sg_list = &sge;
	recv.num_sge = s == &server;
	return ib_post_recv(id->qp, &recv, NULL);
}

/* Hand the page over to the processor, or to the device. */
static void page_to_cpu(struct side *s)
{
	ib_dma_sync_single_for_cpu(s->id->device, sg_dma_address(&s->sg),
				   PAGE_SIZE, DMA_BIDIRECTIONAL);
}

static void page_to_device(struct side *s)
{
	ib_dma_sync_single_for_device(s->id->device, sg_dma_address(&s->sg),
				      PAGE_SIZE, DMA_BIDIRECTIONAL);
}

/* Ends the step that the client waits for; the first error is kept. */
static void step_done(struct side *s, int err)
{
	cmpxchg(&s->err, 0, err);
	complete(&s->step);
}

/* Success needs no action: the next message that is received tells of it. */
static void on_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	if (wc->status != IB_WC_SUCCESS)
		step_done(cq->cq_context, -EIO);
}

/* ---- the server ---------------------------------------------------------- */

static void server_received(struct ib_cq *cq, struct ib_wc *wc)
{
	struct side *s = cq->cq_context;
	const struct request *request = s->page;
	const u32 at = sizeof(*request);
	struct ib_sge sge = { sg_dma_address(&s->sg) + at, 0,
			      s->pd->local_dma_lkey };
	struct ib_send_wr reply = {
		.wr_cqe = &s->sent, .opcode = IB_WR_SEND_WITH_INV,
		.send_flags = IB_SEND_SIGNALED,
	};
	/* In order: the client has the data once it has received the reply. */
	struct ib_rdma_wr write = {
		.wr = { .next = &reply, .wr_cqe = &s->sent, .sg_list = &sge,
			.num_sge = 1, .opcode = IB_WR_RDMA_WRITE },
	};

	/* A flushed receive means that the connection has ended. */
	if (wc->status != IB_WC_SUCCESS || wc->byte_len != at)
		goto end;
	page_to_cpu(s);
	sge.length = scnprintf(s->page + at, PAGE_SIZE - at, "greetings from %s",
			       init_utsname()->nodename) + 1;
	page_to_device(s);
	/* The device checks keys and addresses, but not this length. */
	if (be32_to_cpu(request->len) < sge.length)
		goto end;
	write.remote_addr = be64_to_cpu(request->addr);
	write.rkey = be32_to_cpu(request->key);
	reply.ex.invalidate_rkey = write.rkey;
	if (!ib_post_send(s->id->qp, &write.wr, NULL))
		return;
end:
	rdma_disconnect(s->id);
}

static void server_end(struct work_struct *work)
{
	if (!test_bit(0, &busy))
		return;
	release(&server);
	rdma_destroy_id(server.id);
	clear_bit(0, &busy);
}
static DECLARE_WORK(end_work, server_end);

static int server_event(struct rdma_cm_id *id, struct rdma_cm_event *ev)
{
	struct rdma_conn_param param = { };
	int err;

	if (ev->event == RDMA_CM_EVENT_DISCONNECTED ||
	    ev->event == RDMA_CM_EVENT_CONNECT_ERROR ||
	    ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		/* Not here: an id cannot be destroyed in its own event handler. */
		schedule_work(&end_work);
	if (ev->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return 0;
	/* An error destroys the new id, which refuses the request. */
	if (test_and_set_bit(0, &busy))
		return -EBUSY;
	server = (struct side) { .received.done = server_received,
				 .sent.done = on_sent };
	init_completion(&server.step);
	err = setup(&server, id) ?: rdma_accept(id, &param);
	if (err) {
		release(&server);
		clear_bit(0, &busy);
	}
	return err;
}

static int start_serving(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(PORT) };

	listener = rdma_create_id(&init_net, server_event, NULL, RDMA_PS_TCP,
				  IB_QPT_RC);
	if (IS_ERR(listener))
		return PTR_ERR(listener);
	return rdma_bind_addr(listener, (struct sockaddr *)&any) ?:
	       rdma_listen(listener, 1);
}

static void stop_serving(void)
{
	if (!IS_ERR_OR_NULL(listener))
		rdma_destroy_id(listener);
	disable_work_sync(&end_work);
	server_end(NULL);
}

/* ---- the client ---------------------------------------------------------- */

static void client_received(struct ib_cq *cq, struct ib_wc *wc)
{
	struct side *s = cq->cq_context;

	step_done(s, wc->status == IB_WC_SUCCESS &&
		     wc->wc_flags & IB_WC_WITH_INVALIDATE &&
		     wc->ex.invalidate_rkey == s->mr->rkey ? 0 : -EIO);
}

static int client_event(struct rdma_cm_id *id, struct rdma_cm_event *ev)
{
	bool good = ev->event == RDMA_CM_EVENT_ADDR_RESOLVED ||
		    ev->event == RDMA_CM_EVENT_ROUTE_RESOLVED ||
		    ev->event == RDMA_CM_EVENT_ESTABLISHED;

	step_done(&client, good ? 0 : ev->status < 0 ? ev->status : -ECONNRESET);
	return 0;
}

/* Waits for the end of a step; err is the result of starting it. */
static int step(struct side *s, int err)
{
	long left;

	if (err)
		return err;
	left = wait_for_completion_interruptible_timeout(&s->step, STEP_TIME);
	return left < 0 ? left : left ? s->err : -ETIMEDOUT;
}

/* Registers the page and sends the request, as one list. */
static int ask(struct side *s)
{
	struct ib_sge sge = { sg_dma_address(&s->sg), sizeof(struct request),
			      s->pd->local_dma_lkey };
	struct ib_send_wr send = {
		.wr_cqe = &s->sent, .sg_list = &sge, .num_sge = 1,
		.opcode = IB_WR_SEND, .send_flags = IB_SEND_SIGNALED,
	};
	struct ib_reg_wr reg = {
		.wr = { .next = &send, .wr_cqe = &s->sent, .opcode = IB_WR_REG_MR },
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE,
	};

	s->mr = ib_alloc_mr(s->pd, IB_MR_TYPE_MEM_REG, 1);
	if (IS_ERR(s->mr))
		return PTR_ERR(s->mr);
	if (ib_map_mr_sg(s->mr, &s->sg, 1, NULL, PAGE_SIZE) != 1)
		return -EIO;
	/* Another key each time, so that an old one gives no access. */
	ib_update_fast_reg_key(s->mr, ib_inc_rkey(s->mr->rkey));
	reg.mr = s->mr;
	reg.key = s->mr->rkey;
	*(struct request *)s->page = (struct request) {
		cpu_to_be64(s->mr->iova), cpu_to_be32(s->mr->rkey),
		cpu_to_be32(s->mr->length) };
	page_to_device(s);
	return ib_post_send(s->id->qp, &reg.wr, NULL);
}

static int be_client(struct side *s)
{
	struct rdma_conn_param param = { };
	struct sockaddr_storage ss;
	struct rdma_cm_id *id;
	int err;

	*s = (struct side) { .received.done = client_received,
			     .sent.done = on_sent };
	init_completion(&s->step);
	err = inet_pton_with_scope(&init_net, AF_UNSPEC, connect,
				   __stringify(PORT), &ss);
	if (err)
		return err;
	id = rdma_create_id(&init_net, client_event, NULL, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	err = step(s, rdma_resolve_addr(id, NULL, (struct sockaddr *)&ss, 5000)) ?:
	      step(s, rdma_resolve_route(id, 5000));
	if (!err) {
		/* In iWARP the side that connects sends first. */
		err = setup(s, id) ?: step(s, rdma_connect(id, &param)) ?:
		      step(s, ask(s));
		if (!err) {
			page_to_cpu(s);
			pr_info("%s: %.*s\n", connect, (int)PAGE_SIZE,
				(char *)s->page);
		}
		release(s);
	}
	rdma_destroy_id(id);
	return err;
}

static int __init start(void)
{
	int err = start_serving();

	if (!err && connect)
		err = be_client(&client);
	if (err)
		stop_serving();
	return err;
}

module_init(start);
module_exit(stop_serving);
MODULE_DESCRIPTION("A small consumer of kernel verbs, to learn from");
MODULE_LICENSE("GPL");
