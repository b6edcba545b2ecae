// SPDX-License-Identifier: GPL-2.0
/*
 * rsiw_tardy: a consumer that still has a protection domain of a device when all
 * that the core waits for is over.
 *
 *	modprobe rsiw_tardy device=NAME
 *
 * It gives the domain up half a second later. The server of rtrs does so a moment
 * later: behind the end of its last identifier of the RDMA CM.
 */
#include <linux/module.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

static char *device = "";
module_param(device, charp, 0);
MODULE_PARM_DESC(device, "the device");

static struct ib_pd *pd;

static void give_up(struct work_struct *work)
{
	ib_dealloc_pd(pd);
	pd = NULL;
}
static DECLARE_DELAYED_WORK(later, give_up);

static int tardy_add(struct ib_device *dev)
{
	struct ib_pd *new;

	if (pd || strcmp(dev_name(&dev->dev), device))
		return -ENODEV;
	new = ib_alloc_pd(dev, 0);
	if (IS_ERR(new))
		return PTR_ERR(new);
	pd = new;
	return 0;
}

static void tardy_remove(struct ib_device *dev, void *data)
{
	schedule_delayed_work(&later, HZ / 2);
}

static struct ib_client tardy = {
	.name = KBUILD_MODNAME,
	.add = tardy_add,
	.remove = tardy_remove,
};

static int __init tardy_init(void)
{
	return ib_register_client(&tardy);
}

static void __exit tardy_exit(void)
{
	ib_unregister_client(&tardy);
	flush_delayed_work(&later);
}

module_init(tardy_init);
module_exit(tardy_exit);
MODULE_DESCRIPTION("Gives a protection domain up late, for tests");
MODULE_LICENSE("GPL");
