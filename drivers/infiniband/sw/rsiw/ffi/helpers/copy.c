// SPDX-License-Identifier: GPL-2.0

#include <linux/align.h>
#include <linux/compiler.h>
#include <linux/string.h>
#include <linux/unaligned.h>
#include <asm/barrier.h>
#include <asm/byteorder.h>

/* Stores octets of @word, the lowest first, where they are aligned. */
#define rsiw_store(bits, to, word) \
	/* A release: who sees these octets sees all that was placed before. */ \
	smp_store_release((__le##bits *)(to), cpu_to_le##bits((u##bits)(word)))
#define __le8 u8
#define cpu_to_le8(octet) (octet)

/* Stores the @len lowest octets of @word, fewer than it has, in order of address. */
static noinline void rsiw_store_few(u8 *to, u64 word, size_t len)
{
	size_t n;

	for (; len; len -= n, to += n, word >>= 8 * n) {
		if (len >= 4 && IS_ALIGNED((unsigned long)to, 4)) {
			n = 4;
			rsiw_store(32, to, word);
		} else if (len >= 2 && IS_ALIGNED((unsigned long)to, 2)) {
			n = 2;
			rsiw_store(16, to, word);
		} else {
			n = 1;
			rsiw_store(8, to, word);
		}
	}
}

/*
 * Copies octets, which may overlap, to memory whose owner may wait for the last one by looking at
 * it. The word that has the last octet (eight octets at a multiple of eight) changes only after all
 * octets in front of the word. Its octets change in order of address, by stores that the processor
 * does not cut. What one call copies comes before what the next call copies.
 *
 * memcpy() and memmove() do not promise that. They copy in the order that suits the processor, also
 * from the end, and store the last octets by what may be two halves at the end of a cache line; the
 * string instructions of x86 store in any order. So all but that word is left to memmove(), and the
 * word is stored by releases, which are seen after the rest. On x86, which keeps the order of all
 * other stores, a release takes no instruction; elsewhere it is the barrier.
 */
void rsiw_helper_place(u8 *to, const u8 *from, size_t len)
{
	u8 *end = to + len;
	u64 word = 0;
	size_t n;

	/* The octets come behind what was placed before. */
	smp_wmb();
	if (unlikely(len < sizeof(word))) {
		for (n = len; n--;)
			word = word << 8 | from[n];
		rsiw_store_few(to, word, len);
		return;
	}
	/* The word is read first: if @from and @to overlap, the rest may overwrite it. */
	word = get_unaligned_le64(from + len - sizeof(word));
	/* Most messages, and most segments, end at a multiple of four. */
	switch ((unsigned long)end % sizeof(word)) {
	case 0:
		memmove(to, from, len - 8);
		rsiw_store(64, end - 8, word);
		break;
	case 4:
		memmove(to, from, len - 4);
		rsiw_store(32, end - 4, word >> 32);
		break;
	default:
		memmove(to, from, len - (unsigned long)end % sizeof(word));
		rsiw_store_few(PTR_ALIGN_DOWN(end, sizeof(word)),
			       word >> (-8 * (unsigned long)end % 64),
			       (unsigned long)end % sizeof(word));
	}
}
