// SPDX-License-Identifier: GPL-2.0
/*
 * rsiw_watch: how much one function does at a time, in softirq.
 *
 *	modprobe rsiw_watch each=ADDRESS since=ADDRESS
 *
 * The first is a function that is called for each of something, the second one
 * that is called once for many. `most` in debugfs is how often the first ran
 * after a run of the second on the same processor and before the next one, and
 * `total` how often in all; only what runs in softirq counts.
 */
#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/preempt.h>

static ulong each, since;
module_param(each, ulong, 0);
MODULE_PARM_DESC(each, "the function whose runs are counted");
module_param(since, ulong, 0);
MODULE_PARM_DESC(since, "the function that begins a new count");

static DEFINE_PER_CPU(int, count);
static atomic_t most = ATOMIC_INIT(0), total = ATOMIC_INIT(0);
static struct dentry *dir;

static int on_each(struct kprobe *probe, struct pt_regs *regs)
{
	int n, seen;

	if (!in_serving_softirq())
		return 0;
	atomic_inc(&total);
	n = this_cpu_inc_return(count);
	seen = atomic_read(&most);
	while (n > seen && !atomic_try_cmpxchg(&most, &seen, n))
		;
	return 0;
}
NOKPROBE_SYMBOL(on_each);

static int on_since(struct kprobe *probe, struct pt_regs *regs)
{
	if (in_serving_softirq())
		this_cpu_write(count, 0);
	return 0;
}
NOKPROBE_SYMBOL(on_since);

static struct kprobe each_probe = { .pre_handler = on_each };
static struct kprobe since_probe = { .pre_handler = on_since };

static int __init watch_init(void)
{
	int err;

	each_probe.addr = (kprobe_opcode_t *)each;
	since_probe.addr = (kprobe_opcode_t *)since;
	err = register_kprobe(&since_probe);
	if (err)
		return err;
	err = register_kprobe(&each_probe);
	if (err) {
		unregister_kprobe(&since_probe);
		return err;
	}
	dir = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_atomic_t("most", 0400, dir, &most);
	debugfs_create_atomic_t("total", 0400, dir, &total);
	return 0;
}

static void __exit watch_exit(void)
{
	debugfs_remove(dir);
	unregister_kprobe(&each_probe);
	unregister_kprobe(&since_probe);
}

module_init(watch_init);
module_exit(watch_exit);
MODULE_DESCRIPTION("Counts what a function does at a time, for tests");
MODULE_LICENSE("GPL");
