// SPDX-License-Identifier: GPL-2.0
/*
 * Files of numbers in debugfs. The operations of the kernel crate's files name
 * no owner: the module could go while a file is open, and debugfs looks at the
 * operations once more when the file is closed. The operations here keep the
 * module.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include "rsiw_debugfs.h"

static int number_get(void *data, u64 *val)
{
	const struct rsiw_number *number = data;

	*val = READ_ONCE(number->value);
	return 0;
}

static int number_set(void *data, u64 val)
{
	struct rsiw_number *number = data;

	if (val < number->min || val > number->max)
		return -EINVAL;
	WRITE_ONCE(number->value, val);
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(number_fops, number_get, number_set, "%llu\n");

struct dentry *rsiw_debugfs_dir(const char *name, struct dentry *parent)
{
	return debugfs_create_dir(name, parent);
}

void rsiw_debugfs_number(const char *name, struct dentry *dir,
			 struct rsiw_number *number)
{
	debugfs_create_file(name, 0600, dir, number, &number_fops);
}

void rsiw_debugfs_remove(struct dentry *dir)
{
	debugfs_remove(dir);
}
