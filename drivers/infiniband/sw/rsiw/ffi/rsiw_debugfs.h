/* SPDX-License-Identifier: GPL-2.0 */
/* Numbers that the administrator reads and writes in debugfs. */
#ifndef RSIW_DEBUGFS_H
#define RSIW_DEBUGFS_H

#include <linux/types.h>

struct dentry;

/* The same as `Number` in debugfs.rs. */
struct rsiw_number {
	u32 value;
	u32 min;
	u32 max;
};

struct dentry *rsiw_debugfs_dir(const char *name, struct dentry *parent);
void rsiw_debugfs_number(const char *name, struct dentry *dir,
			 struct rsiw_number *number);
void rsiw_debugfs_remove(struct dentry *dir);

#endif
