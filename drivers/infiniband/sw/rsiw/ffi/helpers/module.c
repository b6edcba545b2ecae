// SPDX-License-Identifier: GPL-2.0
/* The module itself, and others. */
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/rcupdate.h>

/*
 * Loaded modules are the kobjects of the set that this module is in. If this module is built in, it
 * starts before all of them.
 */
bool rsiw_helper_module_is_loaded(const char *name)
{
#ifdef MODULE
	struct kobject *kobj = kset_find_obj(THIS_MODULE->mkobj.kobj.kset, name);

	if (!kobj)
		return false;
	kobject_put(kobj);
	return true;
#else
	return false;
#endif
}

bool rsiw_helper_hold_this_module(void)
{
	return try_module_get(THIS_MODULE);
}

void rsiw_helper_release_this_module(void)
{
	module_put(THIS_MODULE);
}

/* Waits until every task that is preempted now has left the function, if that does not sleep. */
void rsiw_helper_tasks_wait(void)
{
	synchronize_rcu_tasks();
}
