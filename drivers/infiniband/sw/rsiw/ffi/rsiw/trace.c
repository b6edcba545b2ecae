// SPDX-License-Identifier: GPL-2.0
/* The trace events themselves, and what Rust calls when one is switched on. */

#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include "rsiw_trace.h"
