/* SPDX-License-Identifier: GPL-2.0 */
/* Methods of the driver's own, see methods.c and sysfs.c. */
#ifndef _RSIW_METHODS_H
#define _RSIW_METHODS_H

#include <linux/types.h>

#include "rsiw_version.h"

struct attribute_group;
struct ib_device;
struct ib_qp;
struct ib_srq;
struct ib_udata;
struct uapi_definition;

enum rsiw_port_counter {
	RSIW_PORT_XMIT_DATA,
	RSIW_PORT_RCV_DATA,
	RSIW_PORT_XMIT_PACKETS,
	RSIW_PORT_RCV_PACKETS,
};

enum rsiw_setting {
	RSIW_SETTING_TLS,
	RSIW_SETTING_BIND_NETDEV,
};

/* What carries the methods out. Those of processes return 0 or a negative error number. */
struct rsiw_methods {
	int (*resize_qp)(struct ib_qp *qp, struct ib_udata *udata);
	int (*resize_srq)(struct ib_srq *srq, struct ib_udata *udata);
	/* Returns a counter of the only port of a device. */
	u64 (*port_counter)(struct ib_device *dev, enum rsiw_port_counter which);
	/* Returns a static string. */
	const char *(*setting)(struct ib_device *dev, enum rsiw_setting which);
};

/* Returns what the last call of rsiw_definitions() was given. */
const struct rsiw_methods *rsiw_methods(void);

/*
 * Returns the definitions for a device of the driver. @methods carry them out: the same ones for
 * all devices, which live as long as the code.
 */
const struct uapi_definition *rsiw_definitions(const struct rsiw_methods *methods);

/* Callbacks and attributes for the operations of a device. */
void rsiw_get_dev_fw_str(struct ib_device *dev, char *str);
extern const struct attribute_group *rsiw_port_groups[];

#endif
