// SPDX-License-Identifier: GPL-2.0
/* Connections that are made, used and ended while things fail inside. */
#include "faults.h"

#include <errno.h>
#include <string.h>

/*
 * A lost segment comes again after a second or more, a peer that says nothing
 * is given up after 15 s: an attempt has ended after this long.
 */
#define ATTEMPT_MS 40000
#define BYTES 50000
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		IBV_ACCESS_REMOTE_READ)

/*
 * The request of an attempt that this end gave up may come at any time
 * afterwards. So addresses are resolved on a channel without a listener.
 */
static struct rdma_event_channel *ec, *resolving;
static struct rdma_cm_id *server_id;
static struct ep a, p;
static bool up, have_p;
static uint32_t attempt;
/* One of each for all attempts: how these are made is shown elsewhere. */
static struct ibv_pd *pd;
static char *from, *to;
static struct ibv_mr *source, *sink;

/* ---- listening --------------------------------------------------------- */

static void bound(void)
{
	CHECK_SYS(rdma_create_id(ec, &server_id, NULL, RDMA_PS_TCP));
	bind_id(server_id, where.port);
}

/* At all addresses of all devices. */
static void bound_anywhere(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons(where.port) };

	CHECK_SYS(rdma_create_id(ec, &server_id, NULL, RDMA_PS_TCP));
	CHECK_SYS(rdma_bind_addr(server_id, (struct sockaddr *)&sin));
}

static int listen_run(void)
{
	int err = rdma_listen(server_id, 16) ? errno : 0;

	if (err)
		CHECK_SYS(rdma_destroy_id(server_id));
	return err;
}

static int listen_end(void)
{
	return rdma_destroy_id(server_id) ? errno : 0;
}

static void listening(void)
{
	bound();
	CHECK_SYS(rdma_listen(server_id, 16));
}

static void unlisten(void)
{
	CHECK_SYS(listen_end());
}

/* ---- connecting -------------------------------------------------------- */

static void close_end(struct ep *e)
{
	if (e->id->qp)
		rdma_destroy_qp(e->id);
	CHECK_SYS(rdma_destroy_id(e->id));
}

static void take_apart(void)
{
	if (have_p)
		close_end(&p);
	close_end(&a);
	have_p = up = false;
}

static int make_qp(struct ep *e, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr ia = {
		.send_cq = e->scq, .recv_cq = e->rcq, .qp_type = IBV_QPT_RC,
		.cap = { 16, 16, 1, 1, 0 },
	};

	e->id = id;
	e->param = (struct rdma_conn_param){
		.private_data = &attempt, .private_data_len = sizeof(attempt),
		.responder_resources = 4, .initiator_depth = 4,
	};
	return rdma_create_qp(id, pd, &ia) ? errno : 0;
}

/* A request of an attempt that was given up, or of this one. */
static int requested(struct rdma_cm_event *ev, struct rdma_cm_id *id)
{
	const void *data = ev->param.conn.private_data;
	int err;

	if (have_p || ev->param.conn.private_data_len < sizeof(attempt) ||
	    memcmp(data, &attempt, sizeof(attempt))) {
		rdma_ack_cm_event(ev);
		rdma_reject(id, NULL, 0);
		CHECK_SYS(rdma_destroy_id(id));
		return 0;
	}
	rdma_ack_cm_event(ev);
	err = make_qp(&p, id);
	if (err) {
		rdma_reject(id, NULL, 0);
		CHECK_SYS(rdma_destroy_id(id));
		return err;
	}
	have_p = true;
	return rdma_accept(id, &p.param) ? errno : 0;
}

/* What an event says of the attempt: 0 or an error number. */
static int verdict(struct rdma_cm_event *ev, unsigned int *ends)
{
	int err = 0;

	switch (ev->event) {
	case RDMA_CM_EVENT_ESTABLISHED:
		*ends += 1;
		break;
	case RDMA_CM_EVENT_REJECTED:
		err = ECONNREFUSED;
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		err = ECONNRESET;
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		err = ev->status < 0 ? -ev->status : EPROTO;
		break;
	default:
		DIE("event %s status %d", rdma_event_str(ev->event),
		    ev->status);
	}
	return err;
}

static int establish(void)
{
	uint64_t end = ep_now_ns() + ATTEMPT_MS * 1000000ull;
	unsigned int ends = 0;
	int err = 0;

	if (rdma_connect(a.id, &a.param))
		err = errno;
	while (!err && ends < 2) {
		struct rdma_cm_event *ev = ep_event(ec, 100);

		CHECK(ev || ep_now_ns() < end, "neither connected nor refused");
		if (!ev)
			continue;
		if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			err = requested(ev, ev->id);
			continue;
		}
		err = verdict(ev, &ends);
		rdma_ack_cm_event(ev);
	}
	if (err)
		take_apart();
	up = !err;
	return err;
}

static void unconnected(void)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	/* Requests of attempts that are over. */
	attempt++;
	while ((ev = ep_event(ec, 0))) {
		CHECK(ev->event == RDMA_CM_EVENT_CONNECT_REQUEST,
		      "event %s status %d", rdma_event_str(ev->event),
		      ev->status);
		requested(ev, ev->id);
	}
	CHECK_SYS(rdma_create_id(resolving, &id, NULL, RDMA_PS_TCP));
	ep_resolve(resolving, id, where.addr, where.port);
	CHECK_SYS(rdma_migrate_id(id, ec));
	CHECK_SYS(make_qp(&a, id));
}

static void connected(void)
{
	int err;

	unconnected();
	err = establish();
	CHECK(!err, "connect without failures: %s", strerror(err));
}

/* ---- ends -------------------------------------------------------------- */

/* Both ends are told, whatever fails. */
static int disconnect(void)
{
	unsigned int ends = 0;

	rdma_disconnect(a.id);
	while (ends < 2) {
		struct rdma_cm_event *ev = ep_event(ec, ATTEMPT_MS);

		CHECK(ev, "not told of the end, %u of 2", ends);
		if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			requested(ev, ev->id);
			continue;
		}
		CHECK(ev->event == RDMA_CM_EVENT_DISCONNECTED,
		      "event %s status %d", rdma_event_str(ev->event),
		      ev->status);
		if (ev->id == a.id)
			rdma_disconnect(p.id);
		ends++;
		rdma_ack_cm_event(ev);
	}
	take_apart();
	return 0;
}

static void disconnected(void)
{
	CHECK_SYS(disconnect());
}

/* The queue pairs go while the connection is up. */
static int destroy(void)
{
	take_apart();
	return 0;
}

/* ---- data -------------------------------------------------------------- */

/* As long as it lives, one connection does for many failures. */
static void ready(void)
{
	if (!up)
		connected();
	memset(to, 0, BYTES * 4);
}

/* All completions of both sides; an error number if one is not good. */
static int completions(unsigned int sends, unsigned int recvs)
{
	uint64_t end = ep_now_ns() + ATTEMPT_MS * 1000000ull;
	int err = 0, n;
	struct ibv_wc wc;

	while (sends || recvs) {
		n = ibv_poll_cq(a.scq, 1, &wc);
		CHECK(n >= 0, "poll: %d", n);
		if (n) {
			sends--;
			err = wc.status ? ECONNRESET : err;
		}
		n = ibv_poll_cq(p.rcq, 1, &wc);
		CHECK(n >= 0, "poll: %d", n);
		if (n) {
			recvs--;
			err = wc.status ? ECONNRESET : err;
		}
		CHECK(ep_now_ns() < end, "%u sends and %u receives are missing",
		      sends, recvs);
	}
	return err;
}

/* The quarter of what was received is what was sent. */
static void same(unsigned int quarter, size_t len)
{
	const char *got = to + quarter * BYTES;
	size_t i;

	for (i = 0; i < len; i++)
		CHECK(got[i] == from[i], "%s fails: octet %zu of quarter %u",
		      last_failure(), i, quarter);
}

/* Each goes to a quarter of its own. */
static int transfer(void)
{
	unsigned int sends = 0, recvs = 0, i;
	int err = 0;

	for (i = 0; !err && i < 2; i++) {
		err = ep_post_recv(&p, i, to + i * BYTES, BYTES, sink->lkey);
		recvs += !err;
	}
	if (!err && !(err = ep_post_send(&a, 0, IBV_WR_SEND, from, 100,
					 source->lkey, 0, 0)))
		sends++;
	if (!err && !(err = ep_post_send(&a, 1, IBV_WR_RDMA_WRITE, from, BYTES,
					 source->lkey,
					 (uintptr_t)to + 2 * BYTES, sink->rkey)))
		sends++;
	if (!err && !(err = ep_post_send(&a, 2, IBV_WR_RDMA_READ,
					 to + 3 * BYTES, BYTES, sink->lkey,
					 (uintptr_t)from, source->rkey)))
		sends++;
	if (!err && !(err = ep_post_send(&a, 3, IBV_WR_SEND, from, BYTES,
					 source->lkey, 0, 0)))
		sends++;
	/* What was not taken leaves receives that only the end gives back. */
	if (err) {
		take_apart();
		return err;
	}
	err = completions(sends, recvs);
	if (err) {
		take_apart();
		return err;
	}
	same(0, 100);
	for (i = 1; i < 4; i++)
		same(i, BYTES);
	return 0;
}

static const struct step steps[] = {
	{ "listen", bound, listen_run, unlisten, false },
	{ "listen anywhere", bound_anywhere, listen_run, unlisten, false },
	{ "stop listening", listening, listen_end, NULL, true },
};

static const struct step more[] = {
	{ "connect", unconnected, establish, disconnected, false },
	{ "disconnect", connected, disconnect, NULL, true },
	{ "destroy what is connected", connected, destroy, NULL, true },
	{ "transfer", ready, transfer, NULL, false },
};

static void each(const struct step *s, unsigned int n)
{
	while (n--)
		sweep(s++);
}

static struct ibv_cq *queue(void)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);

	CHECK(cq, "create CQ: %m");
	return cq;
}

static void give_back(void)
{
	CHECK_SYS(ibv_dereg_mr(source));
	CHECK_SYS(ibv_dereg_mr(sink));
	CHECK_SYS(ibv_destroy_cq(a.scq));
	CHECK_SYS(ibv_destroy_cq(a.rcq));
	CHECK_SYS(ibv_destroy_cq(p.scq));
	CHECK_SYS(ibv_destroy_cq(p.rcq));
	CHECK_SYS(ibv_dealloc_pd(pd));
	rdma_destroy_event_channel(resolving);
	rdma_destroy_event_channel(ec);
}

void sweep_connections(void)
{
	unsigned int i;

	ec = rdma_create_event_channel();
	resolving = rdma_create_event_channel();
	CHECK(ec && resolving, "event channel: %m");
	from = ep_pages(BYTES);
	to = ep_pages(BYTES * 4);
	for (i = 0; i < BYTES; i++)
		from[i] = i * 31 ^ i >> 8;
	pd = ibv_alloc_pd(ctx);
	CHECK(pd, "alloc PD: %m");
	a.scq = queue();
	a.rcq = queue();
	p.scq = queue();
	p.rcq = queue();
	source = ibv_reg_mr(pd, from, BYTES, ACCESS);
	sink = ibv_reg_mr(pd, to, BYTES * 4, ACCESS);
	CHECK(source && sink, "register: %m");
	each(steps, COUNT(steps));
	listening();
	each(more, COUNT(more));
	part("the device works afterwards");
	ready();
	expect(!transfer(), "no transfer");
	disconnected();
	unlisten();
	give_back();
}
