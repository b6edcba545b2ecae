// SPDX-License-Identifier: GPL-2.0
/* The words of a line of peer_ep's, numbers, options and octets among them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slot.h"

static char *words[32];
static unsigned int word_count;

void split_line(char *line)
{
	char *w;

	for (word_count = 0, w = strtok(line, "\n "); w && word_count < 32;
	     w = strtok(NULL, "\n "))
		words[word_count++] = w;
}

const char *word(unsigned int i)
{
	return i < word_count ? words[i] : "";
}

uint64_t num(unsigned int i)
{
	return strtoull(word(i), NULL, 0);
}

/* The value of KEY=VALUE among the words. */
const char *value(const char *key)
{
	size_t n = strlen(key);
	unsigned int i;

	for (i = 2; i < word_count; i++)
		if (!strncmp(words[i], key, n) && words[i][n] == '=')
			return words[i] + n + 1;
	return NULL;
}

uint64_t option(const char *key, uint64_t other)
{
	const char *v = value(key);

	return v ? strtoull(v, NULL, 0) : other;
}

bool error(const char *what)
{
	printf("err %s: %s\n", what, strerror(errno));
	return false;
}

void put_hex(const uint8_t *p, size_t n)
{
	if (!n)
		putchar('-');
	while (n--)
		printf("%02x", *p++);
}

size_t get_hex(const char *s, uint8_t *out, size_t max)
{
	size_t n = 0;
	unsigned int b;

	while (s && n < max && sscanf(s, "%2x", &b) == 1) {
		out[n++] = b;
		s += 2;
	}
	return n;
}

uint64_t now_ms(void)
{
	return ep_now_ns() / 1000000;
}

/* Time until `end`; 0 if it is over, as poll() takes less for no limit. */
int ms_left(uint64_t end)
{
	uint64_t now = now_ms();

	return end > now ? end - now : 0;
}
