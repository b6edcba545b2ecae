// SPDX-License-Identifier: GPL-2.0
/*
 * What monitoring programs look for in sysfs at every adapter: the version, and the counters of a
 * port that InfiniBand has (Documentation/ABI/stable/sysfs-class-infiniband) as far as they mean
 * something here. Also what the device was made with, as rdma(8) has no attributes for that.
 */
#include <linux/module.h>
#include <linux/stringify.h>
#include <rdma/ib_sysfs.h>
#include <rdma/ib_verbs.h>
#include "rsiw_methods.h"

MODULE_VERSION(__stringify(RSIW_VERSION_MAJOR) "." __stringify(RSIW_VERSION_MINOR));

void rsiw_get_dev_fw_str(struct ib_device *dev, char *str)
{
	snprintf(str, IB_FW_VERSION_NAME_MAX, "%u.%u", RSIW_VERSION_MAJOR, RSIW_VERSION_MINOR);
}

static ssize_t show(struct ib_device *dev, u32 port, struct ib_port_attribute *attr, char *buf);

/* In the order of enum rsiw_port_counter. */
static struct ib_port_attribute attributes[] = {
	__ATTR(port_xmit_data, 0444, show, NULL),
	__ATTR(port_rcv_data, 0444, show, NULL),
	__ATTR(port_xmit_packets, 0444, show, NULL),
	__ATTR(port_rcv_packets, 0444, show, NULL),
};

static ssize_t show(struct ib_device *dev, u32 port, struct ib_port_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", rsiw_methods()->port_counter(dev, attr - attributes));
}

static struct attribute *list[] = {
	&attributes[RSIW_PORT_XMIT_DATA].attr,
	&attributes[RSIW_PORT_RCV_DATA].attr,
	&attributes[RSIW_PORT_XMIT_PACKETS].attr,
	&attributes[RSIW_PORT_RCV_PACKETS].attr,
	NULL
};

static const struct attribute_group counters = {
	.name = "counters",
	.attrs = list,
};

static ssize_t show_setting(struct ib_device *dev, u32 port, struct ib_port_attribute *attr,
			    char *buf);

/* In the order of enum rsiw_setting, by the names of the parameters. */
static struct ib_port_attribute setting_attributes[] = {
	__ATTR(tls, 0444, show_setting, NULL),
	__ATTR(bind_netdev, 0444, show_setting, NULL),
};

static ssize_t show_setting(struct ib_device *dev, u32 port, struct ib_port_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%s\n", rsiw_methods()->setting(dev, attr - setting_attributes));
}

static struct attribute *setting_list[] = {
	&setting_attributes[RSIW_SETTING_TLS].attr,
	&setting_attributes[RSIW_SETTING_BIND_NETDEV].attr,
	NULL
};

static const struct attribute_group settings = {
	.name = "settings",
	.attrs = setting_list,
};

const struct attribute_group *rsiw_port_groups[] = { &counters, &settings, NULL };
