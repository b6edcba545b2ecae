// SPDX-License-Identifier: GPL-2.0
/*
 * FPDUs by hand, see fpdu.h: MPA (RFC 5044 section 4), DDP (RFC 5041 section 4) and RDMAP
 * (RFC 5040 section 4).
 */
#include "fpdu.h"

#include <string.h>

static uint32_t crc32c(const uint8_t *data, size_t len)
{
	uint32_t crc = ~0u;

	while (len--) {
		crc ^= *data++;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

static uint8_t *put(uint8_t *to, uint64_t value, int octets)
{
	while (octets--)
		*to++ = value >> 8 * octets;
	return to;
}

/* Adds what MPA wants around an ULPDU, which is in its place already. */
static size_t frame(uint8_t *out, size_t ulpdu)
{
	size_t len = 2 + ulpdu, pad = -len & 3;
	uint32_t crc;

	put(out, ulpdu, 2);
	memset(out + len, 0, pad);
	len += pad;
	crc = crc32c(out, len);
	/* Low octet first, unlike everything else. */
	for (int i = 0; i < 4; i++)
		out[len++] = crc >> 8 * i;
	return len;
}

size_t wire_tagged(uint8_t *out, enum wire_opcode opcode, uint32_t stag,
		   uint64_t to, const void *payload, size_t len)
{
	uint8_t *at = out + 2;

	at = put(at, 0xc1, 1);
	at = put(at, 0x40 | opcode, 1);
	at = put(at, stag, 4);
	at = put(at, to, 8);
	memcpy(at, payload, len);
	return frame(out, at - out - 2 + len);
}

static size_t untagged(uint8_t *out, enum wire_opcode opcode, uint32_t stag,
		       uint32_t qn, uint32_t msn, const void *payload,
		       size_t len)
{
	uint8_t *at = out + 2;

	at = put(at, 0x41, 1);
	at = put(at, 0x40 | opcode, 1);
	at = put(at, stag, 4);
	at = put(at, qn, 4);
	at = put(at, msn, 4);
	at = put(at, 0, 4);
	memcpy(at, payload, len);
	return frame(out, at - out - 2 + len);
}

size_t wire_untagged(uint8_t *out, enum wire_opcode opcode, uint32_t qn,
		     uint32_t msn, const void *payload, size_t len)
{
	return untagged(out, opcode, 0, qn, msn, payload, len);
}

size_t wire_send_inv(uint8_t *out, uint32_t msn, uint32_t stag,
		     const void *payload, size_t len)
{
	return untagged(out, WIRE_SEND_INV, stag, 0, msn, payload, len);
}

size_t wire_read(uint8_t *out, uint32_t msn, uint32_t len, uint32_t stag,
		 uint64_t to)
{
	uint8_t request[28], *at = request;

	at = put(at, 0x1234, 4);
	at = put(at, 0, 8);
	at = put(at, len, 4);
	at = put(at, stag, 4);
	put(at, to, 8);
	return wire_untagged(out, WIRE_READ_REQUEST, 1, msn, request,
			     sizeof(request));
}

