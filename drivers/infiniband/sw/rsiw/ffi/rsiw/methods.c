// SPDX-License-Identifier: GPL-2.0
/*
 * The driver's own methods, which processes call by RDMA_VERBS_IOCTL, declared with the core's
 * macros. The core looks the objects up and finds the driver's parts of request and response; the
 * callbacks do the rest.
 *
 * An object is looked up for reading, as the core's own calls that modify one do: doorbells may
 * come at the same time, and also look it up. The callbacks keep calls that change the same object
 * apart.
 */
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/uverbs_types.h>
#include <uapi/rdma/rsiw-abi.h>
#include "rsiw_methods.h"

#define UVERBS_MODULE_NAME rsiw
#include <rdma/uverbs_named_ioctl.h>

/* Set before a device is made, to the same value each time. */
static const struct rsiw_methods *callbacks;

const struct rsiw_methods *rsiw_methods(void)
{
	return READ_ONCE(callbacks);
}

static int UVERBS_HANDLER(RSIW_METHOD_QP_RESIZE)(struct uverbs_attr_bundle *attrs)
{
	struct ib_qp *qp = uverbs_attr_get_obj(attrs, RSIW_ATTR_RESIZE_HANDLE);

	if (IS_ERR(qp))
		return PTR_ERR(qp);
	return rsiw_methods()->resize_qp(qp, &attrs->driver_udata);
}

static int UVERBS_HANDLER(RSIW_METHOD_SRQ_RESIZE)(struct uverbs_attr_bundle *attrs)
{
	struct ib_srq *srq = uverbs_attr_get_obj(attrs, RSIW_ATTR_RESIZE_HANDLE);

	if (IS_ERR(srq))
		return PTR_ERR(srq);
	return rsiw_methods()->resize_srq(srq, &attrs->driver_udata);
}

DECLARE_UVERBS_NAMED_METHOD(RSIW_METHOD_QP_RESIZE,
			    UVERBS_ATTR_IDR(RSIW_ATTR_RESIZE_HANDLE,
					    UVERBS_OBJECT_QP,
					    UVERBS_ACCESS_READ, UA_MANDATORY),
			    UVERBS_ATTR_UHW());

DECLARE_UVERBS_NAMED_METHOD(RSIW_METHOD_SRQ_RESIZE,
			    UVERBS_ATTR_IDR(RSIW_ATTR_RESIZE_HANDLE,
					    UVERBS_OBJECT_SRQ,
					    UVERBS_ACCESS_READ, UA_MANDATORY),
			    UVERBS_ATTR_UHW());

ADD_UVERBS_METHODS(rsiw_qp, UVERBS_OBJECT_QP,
		   &UVERBS_METHOD(RSIW_METHOD_QP_RESIZE));

ADD_UVERBS_METHODS(rsiw_srq, UVERBS_OBJECT_SRQ,
		   &UVERBS_METHOD(RSIW_METHOD_SRQ_RESIZE));

static const struct uapi_definition definitions[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_QP, &rsiw_qp),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_SRQ, &rsiw_srq),
	{},
};

const struct uapi_definition *rsiw_definitions(const struct rsiw_methods *methods)
{
	WRITE_ONCE(callbacks, methods);
	return definitions;
}
