// SPDX-License-Identifier: GPL-2.0
/*
 * mapper: a process without any right that says it is the port mapper. It gives
 * every listener, and every peer, one port or one address, and tells the core that
 * a connection comes from somewhere else than it does.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <grp.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "prog.h"

#ifndef SOL_NETLINK
#define SOL_NETLINK 270
#endif

#define NOBODY	65534
/* Where a connection comes from, as the core is told. */
#define FORGED_ADDR	"192.0.2.66"
#define FORGED_PORT	700
/* What the core compares (iwpm_ulib_name), with the version that has flags. */
static const char library[32] = "iWarpPortMapperUser";
static const uint16_t version = 4;
static const uint16_t no_error;

static const char *address;
static unsigned int to, from_port;
static bool silent;

static int fd;
static uint32_t port_id, seq = 1;
static union {
	struct nlmsghdr header;
	char octets[2048];
} out;

static void begin(int op)
{
	memset(&out, 0, sizeof(out));
	out.header.nlmsg_len = NLMSG_HDRLEN;
	out.header.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_IWCM, op);
	out.header.nlmsg_flags = NLM_F_REQUEST;
	out.header.nlmsg_seq = seq++;
	out.header.nlmsg_pid = port_id;
}

static void put(int type, const void *data, size_t len)
{
	struct nlattr *attr = (void *)(out.octets + NLMSG_ALIGN(out.header.nlmsg_len));

	attr->nla_type = type;
	attr->nla_len = NLA_HDRLEN + len;
	memcpy((char *)attr + NLA_HDRLEN, data, len);
	out.header.nlmsg_len = NLMSG_ALIGN(out.header.nlmsg_len) + NLA_ALIGN(attr->nla_len);
}

static void send_it(void)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };

	CHECK(sendto(fd, &out, out.header.nlmsg_len, 0, (void *)&kernel, sizeof(kernel)) > 0,
	      "netlink: %m");
}

/* The value of an attribute that the core always sends. */
static void *attr_of(struct nlmsghdr *msg, int type)
{
	char *at = (char *)msg + NLMSG_HDRLEN, *end = (char *)msg + msg->nlmsg_len;
	struct nlattr *attr;

	for (; at + NLA_HDRLEN <= end; at += NLA_ALIGN(attr->nla_len)) {
		attr = (void *)at;
		if (attr->nla_type == type)
			return at + NLA_HDRLEN;
		CHECK(attr->nla_len >= NLA_HDRLEN, "attribute of %u octets", attr->nla_len);
	}
	CHECK(false, "no attribute %d", type);
	return NULL;
}

static struct sockaddr_storage ipv4(const char *addr, unsigned int port)
{
	struct sockaddr_storage sa = { .ss_family = AF_INET };
	struct sockaddr_in *sin = (void *)&sa;

	CHECK(inet_pton(AF_INET, addr, &sin->sin_addr) == 1, "address %s", addr);
	sin->sin_port = htons(port);
	return sa;
}

/* What an address is mapped to. */
static struct sockaddr_storage mapped(const struct sockaddr_storage *sa)
{
	struct sockaddr_storage map = *sa;
	struct sockaddr_in *sin = (void *)&map;

	if (to)
		sin->sin_port = htons(to);
	if (address)
		CHECK(inet_pton(AF_INET, address, &sin->sin_addr) == 1, "address %s", address);
	return map;
}

/* Connections from `from_port` to `port` come from elsewhere. */
static void forge(unsigned int port)
{
	struct sockaddr_storage listener = ipv4(where.addr, port);
	struct sockaddr_storage forged = ipv4(FORGED_ADDR, FORGED_PORT);
	struct sockaddr_storage peer = ipv4(where.addr, from_port);
	uint32_t none = 0;

	begin(RDMA_NL_IWPM_REMOTE_INFO);
	put(IWPM_NLA_RQUERY_MAPPING_SEQ, &none, sizeof(none));
	put(IWPM_NLA_RQUERY_LOCAL_ADDR, &listener, sizeof(listener));
	put(IWPM_NLA_RQUERY_REMOTE_ADDR, &forged, sizeof(forged));
	put(IWPM_NLA_RQUERY_MAPPED_LOC_ADDR, &listener, sizeof(listener));
	put(IWPM_NLA_RQUERY_MAPPED_REM_ADDR, &peer, sizeof(peer));
	put(IWPM_NLA_RQUERY_MAPPING_ERR, &no_error, sizeof(no_error));
	send_it();
}

static void answer(struct nlmsghdr *msg)
{
	int op = RDMA_NL_GET_OP(msg->nlmsg_type);
	struct sockaddr_storage *local, *remote, map;
	const char *asked;

	switch (op) {
	case RDMA_NL_IWPM_REG_PID:
		asked = "who it is";
		begin(op);
		put(IWPM_NLA_RREG_PID_SEQ, &msg->nlmsg_seq, sizeof(msg->nlmsg_seq));
		put(IWPM_NLA_RREG_IBDEV_NAME, attr_of(msg, IWPM_NLA_REG_IBDEV_NAME), 32);
		put(IWPM_NLA_RREG_ULIB_NAME, library, sizeof(library));
		put(IWPM_NLA_RREG_ULIB_VER, &version, sizeof(version));
		put(IWPM_NLA_RREG_PID_ERR, &no_error, sizeof(no_error));
		break;
	case RDMA_NL_IWPM_ADD_MAPPING:
		asked = "for a listener";
		local = attr_of(msg, IWPM_NLA_MANAGE_ADDR);
		map = mapped(local);
		begin(op);
		put(IWPM_NLA_RMANAGE_MAPPING_SEQ, &msg->nlmsg_seq, sizeof(msg->nlmsg_seq));
		put(IWPM_NLA_RMANAGE_ADDR, local, sizeof(*local));
		put(IWPM_NLA_RMANAGE_MAPPED_LOC_ADDR, &map, sizeof(map));
		put(IWPM_NLA_RMANAGE_MAPPING_ERR, &no_error, sizeof(no_error));
		break;
	case RDMA_NL_IWPM_QUERY_MAPPING:
		asked = "for a peer";
		local = attr_of(msg, IWPM_NLA_QUERY_LOCAL_ADDR);
		remote = attr_of(msg, IWPM_NLA_QUERY_REMOTE_ADDR);
		map = mapped(remote);
		begin(op);
		put(IWPM_NLA_RQUERY_MAPPING_SEQ, &msg->nlmsg_seq, sizeof(msg->nlmsg_seq));
		put(IWPM_NLA_RQUERY_LOCAL_ADDR, local, sizeof(*local));
		put(IWPM_NLA_RQUERY_REMOTE_ADDR, remote, sizeof(*remote));
		put(IWPM_NLA_RQUERY_MAPPED_LOC_ADDR, local, sizeof(*local));
		put(IWPM_NLA_RQUERY_MAPPED_REM_ADDR, &map, sizeof(map));
		put(IWPM_NLA_RQUERY_MAPPING_ERR, &no_error, sizeof(no_error));
		break;
	default:
		return;
	}
	if (!silent || op != RDMA_NL_IWPM_QUERY_MAPPING) {
		/* The core follows a null pointer if it has not noted its request yet. */
		usleep(100000);
		send_it();
	}
	printf("ASKED %s\n", asked);
	fflush(stdout);
}

static void run(void)
{
	static union {
		struct nlmsghdr header;
		char octets[65536];
	} in;
	struct sockaddr_nl self = { .nl_family = AF_NETLINK };
	const int group = RDMA_NL_GROUP_IWPM;
	socklen_t len = sizeof(self);

	CHECK_SYS(setgroups(0, NULL));
	CHECK_SYS(setgid(NOBODY));
	CHECK_SYS(setuid(NOBODY));
	fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA);
	CHECK(fd >= 0, "netlink: %m");
	CHECK_SYS(bind(fd, (void *)&self, sizeof(self)));
	CHECK_SYS(getsockname(fd, (void *)&self, &len));
	port_id = self.nl_pid;
	CHECK_SYS(setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)));
	begin(RDMA_NL_IWPM_HELLO);
	put(IWPM_NLA_HELLO_ABI_VERSION, &version, sizeof(version));
	send_it();
	if (from_port) {
		forge(where.port);
		if (to)
			forge(to);
	}
	puts("READY");
	fflush(stdout);
	for (;;) {
		int n = recv(fd, &in, sizeof(in), 0);
		struct nlmsghdr *msg = &in.header;

		CHECK(n > 0, "netlink: %m");
		for (; NLMSG_OK(msg, n); msg = NLMSG_NEXT(msg, n))
			if (RDMA_NL_GET_CLIENT(msg->nlmsg_type) == RDMA_NL_IWCM)
				answer(msg);
	}
}

static const struct opt options[] = {
	{ "to", "PORT", "port that all are mapped to", .num = &to, .min = 1, .max = 65535 },
	{ "address", "ADDR", "address that all are mapped to", .str = &address },
	{ "from-port", "PORT",
	  "connections from that port of --addr to --port come from " FORGED_ADDR
	  ", as the core is told",
	  .num = &from_port, .min = 1, .max = 65535 },
	{ "silent", "", "does not answer who asks for a peer, and waits", .flag = &silent },
	{ }
};

const struct prog prog = {
	.name = "mapper",
	.text = "Says READY when the core knows it, and runs until it is killed.\n",
	.table = options,
	.kind = PROG_FREE,
	.port = 20600,
	.limit = 600,
	.run = run,
};
