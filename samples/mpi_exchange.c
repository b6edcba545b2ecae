// SPDX-License-Identifier: GPL-2.0
/*
 * mpi_exchange: what programs of MPI do, with all data checked, and how long it takes:
 * messages there and back, many at once, sums of all processes, and windows.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX	(1 << 20)
#define AT_ONCE	16

static int rank, ranks;
static unsigned char *out, *in;

static void fail(const char *what, long at)
{
	fprintf(stderr, "rank %d: %s: wrong data at %ld\n", rank, what, at);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char octet(int from, long at, int round)
{
	return from * 7 + at * 13 + (at >> 8) + round;
}

static void fill(unsigned char *to, long len, int round)
{
	for (long at = 0; at < len; at++)
		to[at] = octet(rank, at, round);
}

static void check(const char *what, const unsigned char *of, long len, int from, int round)
{
	for (long at = 0; at < len; at++)
		if (of[at] != octet(from, at, round))
			fail(what, at);
}

/* Each process sends to the next one, and the last one to the first. */
static void ring(long len)
{
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;

	for (int round = 0; round < 5; round++) {
		fill(out, len, round);
		MPI_Sendrecv(out, len, MPI_BYTE, next, 1, in, len, MPI_BYTE, before, 1,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		check("ring", in, len, before, round);
	}
}

/* The first and the last process, in turns; the others wait. */
static void latency(long len, int rounds)
{
	int peer = rank ? 0 : ranks - 1;
	double start;

	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	for (int round = 0; round < rounds && (!rank || rank == ranks - 1); round++) {
		if (!rank)
			MPI_Send(out, len, MPI_BYTE, peer, 2, MPI_COMM_WORLD);
		MPI_Recv(in, len, MPI_BYTE, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank)
			MPI_Send(out, len, MPI_BYTE, peer, 2, MPI_COMM_WORLD);
	}
	if (!rank)
		printf("%8ld octets there and back: %10.1f us\n", len,
		       (MPI_Wtime() - start) / rounds * 1e6);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* From the first process to the last one, many messages at once. */
static void bandwidth(long len, int rounds)
{
	MPI_Request req[AT_ONCE];
	double start;

	fill(out, len, 0);
	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	for (int round = 0; round < rounds && (!rank || rank == ranks - 1); round++) {
		for (int i = 0; i < AT_ONCE; i++)
			if (rank)
				MPI_Irecv(in + i * len, len, MPI_BYTE, 0, i, MPI_COMM_WORLD,
					  &req[i]);
			else
				MPI_Isend(out, len, MPI_BYTE, ranks - 1, i, MPI_COMM_WORLD,
					  &req[i]);
		MPI_Waitall(AT_ONCE, req, MPI_STATUSES_IGNORE);
		for (int i = 0; rank && i < AT_ONCE; i++)
			check("bandwidth", in + i * len, len, 0, 0);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		printf("%8ld octets one way:        %10.1f MB/s\n", len,
		       (double)len * AT_ONCE * rounds / (MPI_Wtime() - start) / 1e6);
}

static void sums(int count)
{
	long *all = (long *)in, *mine = (long *)out;

	for (int i = 0; i < count; i++)
		mine[i] = (long)rank * i + 1;
	MPI_Allreduce(mine, all, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < count; i++)
		if (all[i] != (long)ranks * (ranks - 1) / 2 * i + ranks)
			fail("sums", i);
}

/* Each process puts into the window of the next one, adds to it, and gets it back. */
static void windows(long len)
{
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	long one = 1, *count;
	unsigned char *mem;
	MPI_Win win;

	MPI_Win_allocate(len + sizeof(long), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mem, &win);
	count = (long *)(mem + len);
	MPI_Win_fence(0, win);
	*count = 0;
	for (int round = 0; round < 5; round++) {
		fill(out, len, round);
		MPI_Win_fence(0, win);
		MPI_Put(out, len, MPI_BYTE, next, 0, len, MPI_BYTE, win);
		for (int to = 0; to < ranks; to++)
			MPI_Accumulate(&one, 1, MPI_LONG, to, len, 1, MPI_LONG, MPI_SUM, win);
		MPI_Win_fence(0, win);
		check("put", mem, len, before, round);
		memset(in, 0, len);
		MPI_Get(in, len, MPI_BYTE, next, 0, len, MPI_BYTE, win);
		MPI_Win_fence(0, win);
		check("get", in, len, rank, round);
		if (*count != (long)ranks * (round + 1))
			fail("accumulate", *count);
	}
	MPI_Win_free(&win);
}

int main(int argc, char *argv[])
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	out = calloc(1, MAX);
	in = calloc(AT_ONCE, MAX);
	if (!out || !in)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (long len = 1; len <= MAX; len *= 32)
		ring(len);
	latency(8, 200);
	latency(65536, 20);
	bandwidth(4096, 10);
	bandwidth(MAX, 2);
	sums(1);
	sums(MAX / sizeof(long));
	windows(64);
	windows(MAX / 2);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		printf("all data are right\n");
	MPI_Finalize();
	free(out);
	free(in);
	return 0;
}
