// SPDX-License-Identifier: GPL-2.0
/*
 * Connections by rdma_cm: both ends are here, on the device that the address
 * belongs to. Each step waits for the event that ends it.
 */
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "kv.h"

static char *addr = "127.0.0.1";
module_param(addr, charp, 0600);
MODULE_PARM_DESC(addr, "IPv4 address of the device under test");

static unsigned int port = 31000;

static void ep_init(struct kv_ep *ep, struct kv_pair *p)
{
	ep->pair = p;
	init_completion(&ep->step);
	init_completion(&ep->down);
}

static void on_completion(struct ib_cq *cq, void *ctx)
{
	struct kv_ep *ep = ctx;
	void (*on_call)(struct kv_ep *ep, struct ib_cq *cq) =
		READ_ONCE(ep->on_call);

	WRITE_ONCE(ep->called, cq);
	atomic_inc(&ep->calls);
	if (on_call)
		on_call(ep, cq);
}

static void on_event(struct ib_event *ev, void *ctx)
{
	struct kv_ep *ep = ctx;

	if (ev->event < ARRAY_SIZE(ep->events))
		atomic_inc(&ep->events[ev->event]);
}

static struct ib_cq *make_cq(struct kv_ep *ep, const struct kv_opts *o)
{
	struct ib_cq_init_attr attr = {
		.cqe = o->cqe, .comp_vector = o->vector };
	struct ib_device *dev = ep->id->device;

	if (o->cq)
		return o->cq;
	if (o->core_cq)
		return ib_alloc_cq(dev, ep, o->cqe, o->vector,
				   IB_POLL_WORKQUEUE);
	return ib_create_cq(dev, o->silent_cq ? NULL : on_completion, on_event,
			    ep, &attr);
}

static void free_cq(struct ib_cq *cq, const struct kv_opts *o)
{
	if (IS_ERR_OR_NULL(cq) || o->cq)
		return;
	if (o->core_cq)
		ib_free_cq(cq);
	else
		ib_destroy_cq(cq);
}

void kv_stop(struct kv_pair *p)
{
	if (p->listen)
		rdma_destroy_id(p->listen);
	p->listen = NULL;
	/* What cannot get there is there, or gone. */
	if (p->a.qp)
		kv_modify(&p->a, IB_QPS_ERR);
	if (p->b.qp)
		kv_modify(&p->b, IB_QPS_ERR);
}

static void ep_release(struct kv_ep *ep)
{
	struct kv_opts *o = &ep->pair->o;

	if (ep->qp) {
		rdma_disconnect(ep->id);
		rdma_destroy_qp(ep->id);
	}
	if (ep->id)
		rdma_destroy_id(ep->id);
	if (!IS_ERR_OR_NULL(ep->srq))
		ib_destroy_srq(ep->srq);
	free_cq(ep->scq, o);
	free_cq(ep->rcq, o);
	if (ep->own_pd)
		ib_dealloc_pd(ep->pd);
}

static int ep_setup(struct kv_ep *ep)
{
	struct kv_opts *o = &ep->pair->o;
	struct ib_srq_init_attr srq = {
		.event_handler = on_event, .srq_context = ep,
		.attr = { .max_wr = o->depth, .max_sge = 2 },
	};
	struct ib_qp_init_attr attr = {
		.event_handler = on_event, .qp_context = ep,
		.qp_type = IB_QPT_RC,
		.sq_sig_type = o->all_signaled ? IB_SIGNAL_ALL_WR :
						 IB_SIGNAL_REQ_WR,
		.cap = { .max_send_wr = o->depth, .max_recv_wr = o->depth,
			 .max_send_sge = 3, .max_recv_sge = o->recv_sge ?: 2,
			 .max_inline_data = o->inline_data },
	};
	int rv;

	ep->pd = o->pd;
	if (!ep->pd) {
		ep->pd = ib_alloc_pd(ep->id->device, 0);
		if (IS_ERR(ep->pd))
			return PTR_ERR(ep->pd);
		ep->own_pd = true;
	}
	ep->scq = make_cq(ep, o);
	ep->rcq = make_cq(ep, o);
	if (IS_ERR(ep->scq) || IS_ERR(ep->rcq))
		return -ENOMEM;
	if (o->srq && ep == &ep->pair->b) {
		ep->srq = ib_create_srq(ep->pd, &srq);
		if (IS_ERR(ep->srq))
			return PTR_ERR(ep->srq);
		attr.srq = ep->srq;
	}
	attr.send_cq = ep->scq;
	attr.recv_cq = ep->rcq;
	rv = rdma_create_qp(ep->id, ep->pd, &attr);
	if (rv)
		return rv;
	ep->qp = ep->id->qp;
	if (o->prepare)
		o->prepare(ep->pair->k, ep);
	return 0;
}

static void conn_param(const struct kv_opts *o, struct rdma_conn_param *param)
{
	*param = (struct rdma_conn_param) {
		.responder_resources = o->depth_reads,
		.initiator_depth = o->depth_reads,
	};
}

/* Consumers such as NFS take any pointer for private data. */
static void look_at_data(struct kv_ep *ep, const struct rdma_conn_param *conn)
{
	if (conn->private_data && !conn->private_data_len)
		ep->bad_data = true;
}

static int noted(struct kv_ep *ep, const struct rdma_cm_event *ev)
{
	const enum rdma_cm_event_type event = ev->event;

	look_at_data(ep, &ev->param.conn);
	if (event == RDMA_CM_EVENT_TIMEWAIT_EXIT)
		return 0;
	if (event == RDMA_CM_EVENT_DISCONNECTED) {
		complete_all(&ep->down);
		return 0;
	}
	ep->last = event;
	complete(&ep->step);
	return 0;
}

static int on_active(struct rdma_cm_id *id, struct rdma_cm_event *ev)
{
	return noted(id->context, ev);
}

static int on_passive(struct rdma_cm_id *id, struct rdma_cm_event *ev)
{
	struct kv_pair *p = id->context;
	struct rdma_conn_param param;
	int rv;

	if (ev->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return noted(&p->b, ev);
	/* A second one would be somebody else's. */
	if (p->b.id)
		return -EBUSY;
	p->b.id = id;
	look_at_data(&p->b, &ev->param.conn);
	conn_param(&p->o, &param);
	rv = ep_setup(&p->b);
	if (!rv)
		rv = rdma_accept(id, &param);
	if (!rv)
		return 0;
	/* The initiator is told so, and its case ends. */
	rdma_reject(id, NULL, 0, 0);
	p->b.refused = rv;
	complete(&p->b.step);
	return 0;
}

static bool step(struct kv_pair *p, struct kv_ep *ep, int rv,
		 enum rdma_cm_event_type want, const char *what)
{
	if (!kv_ok(p->k, !rv, "%s: %d", what, rv))
		return false;
	if (!wait_for_completion_timeout(&ep->step, msecs_to_jiffies(KV_WAIT_MS)))
		return kv_ok(p->k, false, "%s: no event", what);
	if (!kv_ok(p->k, !ep->refused, "%s: %d", what, ep->refused))
		return false;
	return kv_ok(p->k, ep->last == want, "%s: event %s", what,
		     rdma_event_msg(ep->last)) &&
	       kv_ok(p->k, !ep->bad_data, "%s: a pointer to no private data",
		     what);
}

static void pair_release(void *obj)
{
	struct kv_pair *p = obj;

	list_del(&p->list);
	if (p->listen)
		rdma_destroy_id(p->listen);
	ep_release(&p->a);
	ep_release(&p->b);
	if (p->mute)
		sock_release(p->mute);
	kfree(p);
}

static struct rdma_cm_id *new_id(rdma_cm_event_handler handler, void *ctx)
{
	struct rdma_cm_id *id = rdma_create_id(&init_net, handler, ctx,
					       RDMA_PS_TCP, IB_QPT_RC);

	return IS_ERR(id) ? NULL : id;
}

static bool listen(struct kv_pair *p, struct sockaddr *sa)
{
	int rv;

	p->listen = new_id(on_passive, p);
	if (!kv_ok(p->k, p->listen, "out of memory"))
		return false;
	rv = rdma_bind_addr(p->listen, sa);
	if (!rv)
		rv = rdma_listen(p->listen, 1);
	return kv_ok(p->k, !rv, "port of %s: %d", addr, rv);
}

bool kv_join(struct kv_pair *p)
{
	struct rdma_conn_param param;

	conn_param(&p->o, &param);
	return step(p, &p->a, rdma_connect(p->a.id, &param),
		    RDMA_CM_EVENT_ESTABLISHED, "connect") &&
	       step(p, &p->b, 0, RDMA_CM_EVENT_ESTABLISHED, "accept");
}

static bool connect(struct kv_pair *p, struct sockaddr *sa)
{
	struct kv_ep *a = &p->a;
	int rv;

	a->id = new_id(on_active, a);
	if (!kv_ok(p->k, a->id, "out of memory"))
		return false;
	if (!step(p, a, rdma_resolve_addr(a->id, NULL, sa, KV_WAIT_MS),
		  RDMA_CM_EVENT_ADDR_RESOLVED, "resolve address") ||
	    !step(p, a, rdma_resolve_route(a->id, KV_WAIT_MS),
		  RDMA_CM_EVENT_ROUTE_RESOLVED, "resolve route"))
		return false;
	rv = ep_setup(a);
	if (!kv_ok(p->k, !rv, "create queue pair: %d", rv) || p->o.unconnected)
		return !rv;
	return kv_join(p);
}

/* An initiator of revision 1 (RFC 5044 section 7.1), which says no more. */
static bool ask(struct kv_pair *p, struct sockaddr *sa)
{
	static const u8 request[20] = "MPA ID Req Frame\0\1";
	struct kvec vec = { .iov_base = (void *)request,
			    .iov_len = sizeof(request) };
	struct msghdr msg = { };
	int rv;

	rv = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP,
			      &p->mute);
	if (rv)
		p->mute = NULL;
	else
		rv = kernel_connect(p->mute, (struct sockaddr_unsized *)sa,
				    sizeof(struct sockaddr_in), 0);
	if (!rv)
		rv = kernel_sendmsg(p->mute, &msg, &vec, 1, sizeof(request));
	return kv_ok(p->k, rv == sizeof(request), "TCP: %d", rv) &&
	       step(p, &p->b, 0, RDMA_CM_EVENT_ESTABLISHED, "accept");
}

struct kv_pair *kv_connect(struct kv *k, const struct kv_opts *o)
{
	struct sockaddr_storage ss;
	struct kv_pair *p;
	char text[8];

	p = kzalloc_obj(*p, GFP_KERNEL);
	if (!kv_ok(k, p, "out of memory"))
		return NULL;
	p->k = k;
	if (o)
		p->o = *o;
	p->o.depth = p->o.depth ?: 16;
	p->o.cqe = p->o.cqe ?: 4 * p->o.depth;
	p->o.depth_reads = p->o.depth_reads ?: 4;
	ep_init(&p->a, p);
	ep_init(&p->b, p);
	list_add(&p->list, &k->pairs);
	if (!kv_own(k, p, pair_release))
		return NULL;
	snprintf(text, sizeof(text), "%u", port);
	port = port < 60000 ? port + 1 : 31000;
	if (!kv_ok(k, !inet_pton_with_scope(&init_net, AF_INET, addr, text, &ss),
		   "address %s", addr) ||
	    !listen(p, (struct sockaddr *)&ss))
		return NULL;
	if (!(p->o.mute ? ask : connect)(p, (struct sockaddr *)&ss))
		return NULL;
	return p;
}

bool kv_two(struct kv *k, struct kv_lab *l)
{
	l->p = kv_connect(k, NULL);
	l->q = l->p ? kv_connect(k, &(struct kv_opts) { .pd = l->p->b.pd }) : NULL;
	return l->q;
}

bool kv_is_down(struct kv *k, struct kv_ep *ep)
{
	return kv_ok(k, wait_for_completion_timeout(&ep->down,
						    msecs_to_jiffies(KV_WAIT_MS)),
		     "no disconnect at end %c",
		     ep == &ep->pair->a ? 'a' : 'b');
}
