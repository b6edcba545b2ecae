/* SPDX-License-Identifier: GPL-2.0 */
/* The version of all that is here: the module, its packages, the image (tools/vm/version). */
#define RSIW_VERSION_MAJOR 0
#define RSIW_VERSION_MINOR 1
