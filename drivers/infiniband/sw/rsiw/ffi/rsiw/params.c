// SPDX-License-Identifier: GPL-2.0
/*
 * Module parameters. They may change at run time, or be given more than once, and then the last one
 * counts: the module macro of the kernel crate allows neither.
 */
#include <linux/moduleparam.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include "rsiw_params.h"

/* A parameter that is one of a few words, and is kept as the number of that word. */
struct choice {
	unsigned int *number;
	const char *const *words;
	size_t count;
};

static int set_choice(const char *val, const struct kernel_param *kp)
{
	const struct choice *choice = kp->arg;
	int chosen = __sysfs_match_string(choice->words, choice->count, val);

	if (chosen < 0)
		return chosen;
	WRITE_ONCE(*choice->number, chosen);
	return 0;
}

static int get_choice(char *buffer, const struct kernel_param *kp)
{
	const struct choice *choice = kp->arg;

	return sysfs_emit(buffer, "%s\n", choice->words[READ_ONCE(*choice->number)]);
}

static const struct kernel_param_ops choice_ops = {
	.set = set_choice,
	.get = get_choice,
};

unsigned int rsiw_direct = 1;
static int set_direct(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 0, 2);
}

static const struct kernel_param_ops direct_ops = {
	.set = set_direct,
	.get = param_get_uint,
};

module_param_cb(direct, &direct_ops, &rsiw_direct, 0644);
__MODULE_PARM_TYPE(direct, "uint");
MODULE_PARM_DESC(direct,
		 "Connections within this host: 0 all through TCP, 1 past it within a network namespace (default), 2 also between namespaces");

bool rsiw_mpa_crc = true;
module_param_named(mpa_crc, rsiw_mpa_crc, bool, 0644);
MODULE_PARM_DESC(mpa_crc, "Ask for CRCs on new connections (default: Y)");

bool rsiw_large_fpdus = true;
module_param_named(large_fpdus, rsiw_large_fpdus, bool, 0644);
MODULE_PARM_DESC(large_fpdus,
		 "Send FPDUs longer than a TCP segment on new connections, to peers that do so too (default: Y)");

bool rsiw_port_map;
module_param_named(port_map, rsiw_port_map, bool, 0644);
MODULE_PARM_DESC(port_map, "Let the port mapper choose the ports of new devices (default: N)");

static int set_rnr_wait_ms(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 0, 60000);
}

static const struct kernel_param_ops rnr_wait_ms_ops = {
	.set = set_rnr_wait_ms,
	.get = param_get_uint,
};

unsigned int rsiw_rnr_wait_ms;
module_param_cb(rnr_wait_ms, &rnr_wait_ms_ops, &rsiw_rnr_wait_ms, 0644);
__MODULE_PARM_TYPE(rnr_wait_ms, "uint");
MODULE_PARM_DESC(rnr_wait_ms,
		 "Milliseconds that a message waits for a receive before it ends its connection, up to 60000 (default: 0)");

bool rsiw_wait_placed;
module_param_named(wait_placed, rsiw_wait_placed, bool, 0644);
MODULE_PARM_DESC(wait_placed,
		 "Complete Sends and Writes of new connections when the peer has placed them (default: N)");

unsigned short rsiw_qp_port = 4791;
module_param_named(qp_port, rsiw_qp_port, ushort, 0644);
MODULE_PARM_DESC(qp_port,
		 "TCP port for queue pairs that programs connect by number, 0 for none (default: 4791)");

unsigned short rsiw_ud_port = 4791;
module_param_named(ud_port, rsiw_ud_port, ushort, 0644);
MODULE_PARM_DESC(ud_port, "UDP port for unreliable datagrams, 0 for none (default: 4791)");

unsigned int rsiw_tls;
int rsiw_tls_keyring;
int rsiw_tls_key;
static const char *const tls_words[] = { "off", "psk", "x509" };
static struct choice tls_choice = { &rsiw_tls, tls_words, ARRAY_SIZE(tls_words) };

module_param_cb(tls, &choice_ops, &tls_choice, 0644);
__MODULE_PARM_TYPE(tls, "off|psk|x509");
MODULE_PARM_DESC(tls, "TLS below MPA for all connections of new devices (default: off)");

module_param_named(tls_keyring, rsiw_tls_keyring, int, 0644);
MODULE_PARM_DESC(tls_keyring,
		 "Keyring in which tlshd looks for keys of new devices, by its number (default: 0, none)");

module_param_named(tls_key, rsiw_tls_key, int, 0644);
MODULE_PARM_DESC(tls_key,
		 "Key by which new devices with tls=psk say who connects, by its number (default: 0, none)");

unsigned int rsiw_bind_netdev;
static const char *const bind_netdev_words[] = { "auto", "on", "off" };
static struct choice bind_netdev_choice = {
	&rsiw_bind_netdev, bind_netdev_words, ARRAY_SIZE(bind_netdev_words)
};

module_param_cb(bind_netdev, &choice_ops, &bind_netdev_choice, 0644);
__MODULE_PARM_TYPE(bind_netdev, "auto|on|off");
MODULE_PARM_DESC(bind_netdev,
		 "Let connections of new devices use the interface of the device only (auto, the default: with TLS and over tunnels)");

bool rsiw_siw_link_type;
module_param_named(siw_link_type, rsiw_siw_link_type, bool, 0444);
MODULE_PARM_DESC(siw_link_type, "Register the link type siw as well (default: N)");
