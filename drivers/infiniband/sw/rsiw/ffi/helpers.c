// SPDX-License-Identifier: GPL-2.0
/*
 * Non-trivial C macros and static inlines that Rust cannot call. There is one
 * file for each area. Each helper is named rsiw_helper_<name of what it wraps>.
 */

#include "helpers/copy.c"
#include "helpers/counts.c"
#include "helpers/dmabuf.c"
#include "helpers/keys.c"
#include "helpers/mem.c"
#include "helpers/module.c"
#include "helpers/net.c"
#include "helpers/netdev.c"
#include "helpers/process.c"
#include "helpers/rdma.c"
#include "helpers/tls.c"
#include "helpers/udp.c"
