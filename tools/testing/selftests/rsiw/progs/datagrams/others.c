// SPDX-License-Identifier: GPL-2.0
/* datagrams: what others send, and addresses that others give and take. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "datagrams.h"

/* How many octets of a message are told. */
#define TOLD 32

static void say(const char *what)
{
	printf("# %s\n", what);
	fflush(stdout);
}

/* Prints the sender's GID and number, the length, the immediate data, and how it begins. */
static void tell(const struct ibv_wc *wc)
{
	const struct ibv_grh *grh = (void *)in(&p, wc->wr_id);
	const uint8_t *octets = (void *)(in(&p, wc->wr_id) + GRH);
	uint32_t i, len = wc->byte_len - GRH;
	char gid[INET6_ADDRSTRLEN];

	printf("# message: %s %u %u ", inet_ntop(AF_INET6, &grh->sgid, gid, sizeof(gid)),
	       wc->src_qp, len);
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		printf("%#x ", ntohl(wc->imm_data));
	else
		printf("- ");
	/* So that there is always something. */
	printf("=");
	for (i = 0; i < len && i < TOLD; i++)
		printf("%02x", octets[i]);
	printf("\n");
}

/* Tells of the messages that come for `p`, until one is "over". */
void wait_for_strangers(unsigned int ms)
{
	uint64_t end = ep_now_ns() + ms * 1000000ull;
	struct ibv_wc wc;
	unsigned int n;
	bool over = false;

	begin(&usual);
	for (n = 0; n < 16; n++)
		receive(&p, n, ROOM);
	printf("# waits: %u %u %u\n", p.qp->qp_num, p.qkey, mtu);
	fflush(stdout);
	for (n = 0; !over && ep_now_ns() < end; ) {
		if (!ep_poll(p.rcq, &wc, 0)) {
			usleep(1000);
			continue;
		}
		CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
		n++;
		tell(&wc);
		over = wc.byte_len == GRH + 4 && !memcmp(in(&p, wc.wr_id) + GRH, "over", 4);
		receive(&p, wc.wr_id, ROOM);
	}
	printf("# came: %u\n", n);
	expect(over, "the last message did not come");
	state_is(&p, IBV_QPS_RTS);
	no_event(&p);
	unmake();
	close_devices();
}

/* The index of a GID of `p`, or -1. */
static int index_of(const union ibv_gid *gid)
{
	union ibv_gid found;
	int i;

	for (i = 0; i < 32; i++) {
		CHECK_SYS(ibv_query_gid(p.ep->id->verbs, 1, i, &found));
		if (!memcmp(&found, gid, sizeof(found)))
			return i;
	}
	return -1;
}

static void wait_gid(const union ibv_gid *gid, bool is_there)
{
	uint64_t end = ep_now_ns() + EP_EVENT_MS * 1000000ull;

	while ((index_of(gid) >= 0) != is_there) {
		CHECK(ep_now_ns() < end, "the GID does not %s", is_there ? "come" : "go");
		usleep(1000);
	}
}

static union ibv_gid gid_of(const char *addr)
{
	union ibv_gid gid = { .raw = { [10] = 0xff, [11] = 0xff } };
	bool is_ipv6 = strchr(addr, ':');

	CHECK(inet_pton(is_ipv6 ? AF_INET6 : AF_INET, addr, gid.raw + (is_ipv6 ? 0 : 12)) == 1,
	      "bad address %s", addr);
	return gid;
}

/* The address comes to the interface of `p`, and goes, while the queue pairs are there. */
void follow_address(const char *addr)
{
	const union ibv_gid gid = gid_of(addr);
	struct side to_new, new;

	begin(&usual);
	talk(&a, &p, 64);
	CHECK(index_of(&gid) < 0, "%s is there already", addr);
	say("ready");
	wait_gid(&gid, true);

	part("an address that has come");
	new = p;
	new.is.gid = gid;
	new.is.index = index_of(&gid);
	new.ah = address(&new, &a.is.gid);
	to_new = a;
	to_new.ah = address(&a, &gid);
	talk(&to_new, &new, 64);
	talk(&new, &to_new, mtu);
	talk(&a, &p, 64);
	say("used");
	wait_gid(&gid, false);

	part("an address that has gone");
	receive(&a, 0, ROOM);
	receive(&p, 1, ROOM);
	send_to(&new, &a, 0, 64);
	sent(&p, 0);
	lost(&p, &a);
	send_to(&to_new, &p, 1, 64);
	sent(&a, 1);
	lost(&a, &p);
	state_is(&a, IBV_QPS_RTS);
	state_is(&p, IBV_QPS_RTS);
	/* With the others all is as it was. */
	send_to(&p, &a, 0, 64);
	sent(&p, 0);
	arrives(&p, &a, 0, 64);
	send_to(&a, &p, 1, 64);
	sent(&a, 1);
	arrives(&a, &p, 1, 64);
	CHECK_SYS(ibv_destroy_ah(new.ah));
	CHECK_SYS(ibv_destroy_ah(to_new.ah));
	unmake();
	close_devices();
}
