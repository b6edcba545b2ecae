/* SPDX-License-Identifier: GPL-2.0 */
/* Methods of the driver's own, see methods.c. */
#ifndef _RSIW_METHODS_H
#define _RSIW_METHODS_H

struct ib_qp;
struct ib_srq;
struct ib_udata;
struct uapi_definition;

/* What carries them out. Each returns 0 or a negative error number. */
struct rsiw_methods {
	int (*resize_qp)(struct ib_qp *qp, struct ib_udata *udata);
	int (*resize_srq)(struct ib_srq *srq, struct ib_udata *udata);
};

/*
 * What a device of the driver names as its definitions, with @methods to carry
 * them out: the same ones for all devices, which live as long as the code.
 */
const struct uapi_definition *rsiw_definitions(const struct rsiw_methods *methods);

#endif
