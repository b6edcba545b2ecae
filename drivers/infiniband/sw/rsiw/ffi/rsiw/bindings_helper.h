/* SPDX-License-Identifier: GPL-2.0 */
/* The C headers of this driver alone, for bindgen; bindgen_parameters lists what is taken. */
#include "../bindings_helper.h"
#include <uapi/rdma/rsiw-abi.h>
#include "rsiw_methods.h"
#include "rsiw_params.h"
#include "rsiw_trace.h"
