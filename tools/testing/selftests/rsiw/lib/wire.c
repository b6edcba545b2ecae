// SPDX-License-Identifier: GPL-2.0
/* A peer without verbs, see wire.h. */
#include "wire.h"

#include "ep.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST "MPA ID Req Frame"
#define KEY_LEN 16
#define FRAME_LEN 20

static int connected(const char *addr, uint16_t port, const char *frame, size_t len)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons(port) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0, "socket: %m");
	CHECK(inet_pton(AF_INET, addr, &sin.sin_addr) == 1, "address");
	CHECK(!connect(fd, (struct sockaddr *)&sin, sizeof(sin)),
	      "connect to %s port %u: %m", addr, port);
	CHECK_SYS(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	wire_send(fd, frame, len);
	return fd;
}

int wire_connect(const char *addr, uint16_t port)
{
	/* CRCs; no private data. */
	return connected(addr, port, REQUEST "\x40\x01\0\0", FRAME_LEN);
}

int wire_connect_enhanced(const char *addr, uint16_t port)
{
	/* CRCs; the flags A and C, and depths of 8. */
	return connected(addr, port, REQUEST "\x50\x02\0\x04\x80\x08\x80\x08",
			 FRAME_LEN + 4);
}

/* Whether so many octets came. */
static bool take(int fd, void *to, size_t len, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint8_t *at = to;
	ssize_t n;

	while (len) {
		if (poll(&p, 1, ms) <= 0)
			return false;
		n = recv(fd, at, len, 0);
		if (n <= 0)
			return false;
		at += n;
		len -= n;
	}
	return true;
}

void wire_reply(int fd)
{
	uint8_t frame[FRAME_LEN], rest[512];
	size_t len;

	CHECK(take(fd, frame, sizeof(frame), EP_EVENT_MS), "no Reply");
	len = frame[KEY_LEN + 2] << 8 | frame[KEY_LEN + 3];
	CHECK(len <= sizeof(rest) && take(fd, rest, len, EP_EVENT_MS),
	      "private data of %zu octets", len);
}

void wire_send(int fd, const void *data, size_t len)
{
	const uint8_t *at = data;
	ssize_t n;

	while (len) {
		n = send(fd, at, len, MSG_NOSIGNAL);
		CHECK(n > 0, "send: %m");
		at += n;
		len -= n;
	}
}

int wire_keep_packets(void)
{
	struct sockaddr_ll all = { .sll_family = AF_PACKET,
				   .sll_protocol = htons(ETH_P_ALL) };
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int space = 64 << 20;

	CHECK(fd >= 0, "packet socket: %m");
	CHECK_SYS(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &space, sizeof(space)));
	CHECK_SYS(bind(fd, (struct sockaddr *)&all, sizeof(all)));
	return fd;
}

void wire_drop_packets(int fd)
{
	struct tpacket_stats stats;
	socklen_t len = sizeof(stats);

	CHECK_SYS(getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len));
	CHECK(stats.tp_packets && !stats.tp_drops, "%u of %u packets were lost",
	      stats.tp_drops, stats.tp_packets);
	close(fd);
}

void wire_send_apart(int fd, const void *data, size_t len)
{
	const uint8_t *octets = data;
	int now = 1;

	CHECK(len > WIRE_APART, "a short FPDU");
	CHECK_SYS(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now)));
	/* Without the flag, octets that wait for acknowledgments go out together. */
	for (size_t n = 0; n < WIRE_APART; n++)
		CHECK(send(fd, octets + n, 1, MSG_EOR | MSG_NOSIGNAL) == 1, "send: %m");
	wire_send(fd, octets + WIRE_APART, len - WIRE_APART);
}

size_t wire_fpdu(int fd, uint8_t *ulpdu, int ms)
{
	uint8_t head[2], rest[8];
	size_t len;

	if (!take(fd, head, sizeof(head), ms))
		return 0;
	len = head[0] << 8 | head[1];
	if (!take(fd, ulpdu, len, ms) || !take(fd, rest, (-(2 + len) & 3) + 4, ms))
		return 0;
	return len;
}
