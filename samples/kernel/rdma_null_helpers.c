// SPDX-License-Identifier: GPL-2.0
/* The C functions that ffi/ calls, for rdma_null.rs. */
#include "../../drivers/infiniband/sw/rsiw/ffi/helpers.c"
