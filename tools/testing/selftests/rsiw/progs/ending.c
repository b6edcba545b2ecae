// SPDX-License-Identifier: GPL-2.0
/*
 * ending: the end of a stream of rsockets. The server says that it is connected
 * by the file "connected" of a directory, waits for the file "go", sends, closes
 * and ends. The client takes in what comes until the end of the stream, and
 * looks whether that is all.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <unistd.h>

#include "prog.h"

#define LEN 20000

static const char *dir;	/* of the server */

static uint8_t byte_at(size_t at)
{
	return at * 7 + at / 251;
}

static void path_of(char *path, size_t room, const char *name)
{
	CHECK((size_t)snprintf(path, room, "%s/%s", dir, name) < room,
	      "the name of the directory is too long");
}

static void serve(const struct sockaddr_in *addr)
{
	char connected[256], go[256];
	uint8_t data[LEN];
	size_t sent = 0;
	int listener, fd;

	path_of(connected, sizeof(connected), "connected");
	path_of(go, sizeof(go), "go");
	listener = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(listener >= 0, "rsocket: %m");
	CHECK_SYS(rbind(listener, (const void *)addr, sizeof(*addr)));
	CHECK_SYS(rlisten(listener, 1));
	fd = raccept(listener, NULL, NULL);
	CHECK(fd >= 0, "raccept: %m");
	CHECK_SYS(close(open(connected, O_CREAT | O_WRONLY, 0600)));
	while (access(go, F_OK))
		usleep(10000);
	for (size_t i = 0; i < LEN; i++)
		data[i] = byte_at(i);
	while (sent < LEN) {
		ssize_t n = rsend(fd, data + sent, LEN - sent, 0);

		CHECK(n > 0, "rsend: %m");
		sent += n;
	}
	CHECK_SYS(rclose(fd));
	CHECK_SYS(rclose(listener));
}

static void receive(const struct sockaddr_in *addr)
{
	uint8_t data[LEN];
	size_t got = 0;
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0, "rsocket: %m");
	CHECK_SYS(rconnect(fd, (const void *)addr, sizeof(*addr)));
	for (;;) {
		ssize_t n = rrecv(fd, data, sizeof(data), 0);

		CHECK(n >= 0, "rrecv after %zu bytes: %m", got);
		if (!n)
			break;
		for (ssize_t i = 0; i < n; i++)
			CHECK(data[i] == byte_at(got + i), "byte %zu differs",
			      got + i);
		got += n;
	}
	CHECK(got == LEN, "%zu of %d bytes", got, LEN);
	CHECK_SYS(rclose(fd));
}

static void run(void)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET, .sin_port = htons(where.port),
	};

	CHECK(inet_pton(AF_INET, where.addr, &addr.sin_addr) == 1,
	      "--addr takes an IPv4 address");
	if (dir)
		serve(&addr);
	else
		receive(&addr);
}

static const struct opt options[] = {
	{ "server", "DIRECTORY", "the side that listens and sends", .str = &dir },
	{ }
};

const struct prog prog = {
	.name = "ending",
	.text =
		"Sends what a stream of rsockets ends with, or takes it in.\n",
	.table = options,
	.kind = PROG_FREE,
	.port = 18800,
	.limit = 60,
	.run = run,
};
