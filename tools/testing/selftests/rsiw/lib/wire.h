/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A peer without verbs: MPA, DDP and RDMAP by hand over a TCP socket, for tests
 * that say when which octet goes out. It is the initiator; CRCs are on.
 */
#ifndef RSIW_WIRE_H
#define RSIW_WIRE_H

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

/* Connects and sends a Request of revision 1; the Reply is yet to be read. */
int wire_connect(const char *addr, uint16_t port);
/* Reads the Reply. */
void wire_reply(int fd);

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

/* Sends all of it; dies if that fails. */
void wire_send(int fd, const void *data, size_t len);
/*
 * A packet socket that gets a copy of what is sent from here, and never looks at it: the
 * buffers of what has a copy stay as they are, and are not put together by TCP.
 */
int wire_keep_packets(void);
/* Ends that; all packets were kept. */
void wire_drop_packets(int fd);
/* Octets that go out one by one, */
#define WIRE_APART 80
/*
 * the first of these, which are more. TCP has a buffer for each while packets are kept:
 * more than the driver looks at together for an FPDU, which it collects then.
 */
void wire_send_apart(int fd, const void *data, size_t len);
/*
 * Reads one FPDU, whose CRC is not looked at; `ulpdu` has room for 65536 octets.
 * Gives the length of the ULPDU, 0 at the end of the stream or after `ms`
 * milliseconds.
 */
size_t wire_fpdu(int fd, uint8_t *ulpdu, int ms);

#endif
