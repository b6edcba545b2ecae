/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A peer without verbs: MPA, DDP and RDMAP by hand over a TCP socket, for tests
 * that say when which octet goes out. It is the initiator; CRCs are on.
 */
#ifndef RSIW_WIRE_H
#define RSIW_WIRE_H

#include "fpdu.h"

/* Connects and sends a Request of revision 1; the Reply is yet to be read. */
int wire_connect(const char *addr, uint16_t port);
/* The same of revision 2, peer-to-peer, with a Write to begin with. */
int wire_connect_enhanced(const char *addr, uint16_t port);
/* Reads the Reply. */
void wire_reply(int fd);

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
