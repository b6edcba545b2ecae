/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Verbs that the library's provider for this driver leaves out, straight from
 * uverbs. All return 0 or an error number.
 */
#ifndef RSIW_RAW_H
#define RSIW_RAW_H

#include <infiniband/verbs.h>

int raw_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);

#endif
