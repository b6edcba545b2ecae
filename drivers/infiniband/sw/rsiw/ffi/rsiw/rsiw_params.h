/* SPDX-License-Identifier: GPL-2.0 */
/* Module parameters, which the administrator writes at any time. */
#ifndef RSIW_PARAMS_H
#define RSIW_PARAMS_H

#include <linux/types.h>

extern unsigned int rsiw_direct;
extern bool rsiw_mpa_crc;
extern bool rsiw_large_fpdus;
extern bool rsiw_port_map;
extern unsigned int rsiw_rnr_wait_ms;
extern bool rsiw_wait_placed;
extern unsigned short rsiw_qp_port;
extern unsigned short rsiw_ud_port;
extern bool rsiw_siw_link_type;
extern unsigned int rsiw_tls;
extern int rsiw_tls_keyring;
extern int rsiw_tls_key;
extern unsigned int rsiw_bind_netdev;

#endif
