/* SPDX-License-Identifier: GPL-2.0 */
/*
 * FPDUs with CRCs, written by hand: the one description of the wire that the programs in C and
 * the tests in Python share (libwire.so, see rsiwtest/mpa.py). The raw peer has one of its own.
 */
#ifndef RSIW_FPDU_H
#define RSIW_FPDU_H

#include <stddef.h>
#include <stdint.h>

/* Octets that an FPDU has beside its ULPDU, at most. */
#define WIRE_EXTRA 9

enum wire_opcode {
	WIRE_WRITE = 0,
	WIRE_READ_REQUEST = 1,
	WIRE_READ_RESPONSE = 2,
	WIRE_SEND = 3,
	WIRE_SEND_INV = 4,
	WIRE_TERMINATE = 7,
};

/*
 * These make the FPDU of a message's last segment and give its length; `out` has
 * room for it. The payload has `len` octets.
 */
size_t wire_tagged(uint8_t *out, enum wire_opcode opcode, uint32_t stag,
		   uint64_t to, const void *payload, size_t len);
size_t wire_untagged(uint8_t *out, enum wire_opcode opcode, uint32_t qn,
		     uint32_t msn, const void *payload, size_t len);
/* A Send of this number that invalidates `stag`. */
size_t wire_send_inv(uint8_t *out, uint32_t msn, uint32_t stag,
		     const void *payload, size_t len);
/* A Read Request of this number for `len` octets. */
size_t wire_read(uint8_t *out, uint32_t msn, uint32_t len, uint32_t stag,
		 uint64_t to);

#endif
