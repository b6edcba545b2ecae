/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The C headers from which bindgen makes the bindings that the kernel crate does not have. What is
 * taken from them is listed in bindgen_parameters.
 */
#include <linux/hrtimer_types.h>
#include <linux/bvec.h>
#include <linux/crc32c.h>
#include <linux/ethtool.h>
#include <linux/inetdevice.h>
#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/ratelimit.h>
#include <linux/sched/vhost_task.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <linux/vmalloc.h>
#include <net/addrconf.h>
#include <net/sock.h>
#include <net/tcp.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>
#include <rdma/rsiw_verbs.h>
#include <rdma/uverbs_ioctl.h>
#include "rsiw_debugfs.h"
