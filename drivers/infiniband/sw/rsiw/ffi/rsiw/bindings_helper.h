/* SPDX-License-Identifier: GPL-2.0 */
/* The C headers of the driver, for the same purpose; bindgen_parameters is beside it. */
#include "../bindings_helper.h"
#include <uapi/rdma/rsiw-abi.h>
#include "rsiw_methods.h"
#include "rsiw_params.h"
#include "rsiw_trace.h"
