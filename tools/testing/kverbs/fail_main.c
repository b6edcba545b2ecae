// SPDX-License-Identifier: GPL-2.0
/*
 * rsiw_fail: calls that a module makes fail, one after the other, where the
 * kernel's own fault injection has no hold: the network's and the RDMA core's.
 *
 *	modprobe rsiw_fail calls=kernel_bind:-12,... start=ADDRESS end=ADDRESS
 *
 * Calls from that range of addresses count, in any context. The controls in
 * debugfs are called like those of fault injection: `space` calls pass, then,
 * while `times` is not 0, one fails without being made. `last` names it, `fired`
 * says how often each did; what is written to `only` is the name of the one that
 * counts, or empty.
 *
 * With `hold` for a number the call is mutex_lock(), lock_sock_nested(), device_rename()
 * or tcp_sendmsg_locked(), in a work item, or in the task of the name that was written to `task`. It
 * waits, `held` being 1, until that becomes 0 or 20 seconds are over. Then it is made.
 *
 * What is written to `stop` is the name of a task whose calls do not come back,
 * with locks that they are made under, until an empty name is written; then they
 * fail. `stopped` says how many such calls there are.
 */
#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/device.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <net/tcp.h>

#define MOST 32

struct point {
	struct kprobe probe;
	long answer;
	unsigned long hold;		/* what runs instead, if that waits */
	atomic_t fired;
};

static char *calls[MOST];
static int count;
module_param_array(calls, charp, &count, 0);
MODULE_PARM_DESC(calls, "functions, each with what it answers instead: NAME:NUMBER, or NAME:hold");
static ulong start, end;
module_param(start, ulong, 0);
MODULE_PARM_DESC(start, "where the code of the caller begins");
module_param(end, ulong, 0);
MODULE_PARM_DESC(end, "where it ends");

static struct point points[MOST];
static struct dentry *dir;
static atomic_t space = ATOMIC_INIT(0), times = ATOMIC_INIT(0);
static atomic_t held = ATOMIC_INIT(0), waiting = ATOMIC_INIT(0);
static struct kprobe *last;
static struct point *only;
static char stop[TASK_COMM_LEN], task[TASK_COMM_LEN];
static long stop_answer;
static atomic_t stopped = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(released);
/* A test that ends early leaves nobody behind. */
#define STOP_JIFFIES	(120 * HZ)

/* Run instead of the function: leaves all registers as they are. */
static noinline notrace void return_only(void)
{
}

static void be_held(void)
{
	int left = 1000;

	atomic_set(&held, 1);
	while (atomic_read(&held) && left--)
		msleep(20);
}

/* Run instead of mutex_lock(). */
static noinline notrace void lock_later(struct mutex *mutex)
{
	be_held();
	mutex_lock(mutex);
	atomic_dec(&waiting);
}

/* Run instead of lock_sock_nested(). */
static noinline notrace void lock_sock_later(struct sock *sk, int subclass)
{
	be_held();
	lock_sock_nested(sk, subclass);
	atomic_dec(&waiting);
}

/* Run instead of device_rename(). */
static noinline notrace int rename_later(struct device *dev, const char *name)
{
	int rv;

	be_held();
	rv = device_rename(dev, name);
	atomic_dec(&waiting);
	return rv;
}

/* Run instead of tcp_sendmsg_locked(). */
static noinline notrace int send_later(struct sock *sk, struct msghdr *msg,
				       size_t size)
{
	int rv;

	be_held();
	rv = tcp_sendmsg_locked(sk, msg, size);
	atomic_dec(&waiting);
	return rv;
}

/* Run instead of a function that comes back later. */
static noinline long return_later(void)
{
	atomic_inc(&stopped);
	wait_event_timeout(released, !READ_ONCE(stop[0]), STOP_JIFFIES);
	atomic_dec(&stopped);
	return READ_ONCE(stop_answer);
}

/* Whether it is the calls of this thread that are held. */
static bool may_be_held(void)
{
	if (READ_ONCE(task[0]))
		return !strcmp(current->comm, task);
	return current->flags & PF_WQ_WORKER;
}
NOKPROBE_SYMBOL(may_be_held);

/* At the first instruction of a function: where it returns to. */
static unsigned long caller_of(struct pt_regs *regs)
{
#ifdef CONFIG_ARM64
	return procedure_link_pointer(regs);
#else
	return *(unsigned long *)regs->sp;
#endif
}
NOKPROBE_SYMBOL(caller_of);

static int before_call(struct kprobe *probe, struct pt_regs *regs)
{
	struct point *point = container_of(probe, struct point, probe);
	struct point *wanted = READ_ONCE(only);
	unsigned long caller = caller_of(regs);

	if (wanted && wanted != point)
		return 0;
	/* Not in_task(): a probe may be a breakpoint, which counts as an NMI. */
	if (READ_ONCE(stop[0]) && caller >= start && caller < end &&
	    !in_serving_softirq() && !strcmp(current->comm, stop)) {
		WRITE_ONCE(stop_answer, point->answer);
		instruction_pointer_set(regs, (unsigned long)return_later);
		return 1;
	}
	if (!atomic_read(&times) || caller < start || caller >= end)
		return 0;
	if (point->hold && !may_be_held())
		return 0;
	if (atomic_dec_return(&space) >= 0 || !atomic_add_unless(&times, -1, 0))
		return 0;
	WRITE_ONCE(last, probe);
	atomic_inc(&point->fired);
	if (point->hold) {
		atomic_inc(&waiting);
		instruction_pointer_set(regs, point->hold);
		return 1;
	}
	regs_set_return_value(regs, point->answer);
	instruction_pointer_set(regs, (unsigned long)return_only);
	return 1;
}
NOKPROBE_SYMBOL(before_call);

/* Keeps the probe from being optimised: such a one cannot skip the function. */
static void after_call(struct kprobe *probe, struct pt_regs *regs,
		  unsigned long flags)
{
}
NOKPROBE_SYMBOL(after_call);

static int last_show(struct seq_file *file, void *unused)
{
	struct kprobe *probe = READ_ONCE(last);

	seq_printf(file, "%s\n", probe ? probe->symbol_name : "none");
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(last);

static int fired_show(struct seq_file *file, void *unused)
{
	int i;

	for (i = 0; i < count; i++)
		seq_printf(file, "%s %d\n", points[i].probe.symbol_name,
			   atomic_read(&points[i].fired));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(fired);

static ssize_t only_write(struct file *file, const char __user *from, size_t len,
			  loff_t *pos)
{
	struct point *found = NULL;
	char name[64] = "";
	int i;

	if (len >= sizeof(name))
		return -EINVAL;
	if (copy_from_user(name, from, len))
		return -EFAULT;
	for (i = 0; i < count; i++)
		if (sysfs_streq(name, points[i].probe.symbol_name))
			found = &points[i];
	if (!found && !sysfs_streq(name, ""))
		return -ENOENT;
	WRITE_ONCE(only, found);
	return len;
}

static const struct file_operations only_fops = {
	.owner = THIS_MODULE,
	.write = only_write,
};

/* Takes the name of a task. */
static ssize_t name_write(char *to, const char __user *from, size_t len)
{
	char name[TASK_COMM_LEN] = "";

	if (len >= sizeof(name))
		return -EINVAL;
	if (copy_from_user(name, from, len))
		return -EFAULT;
	strscpy(to, strim(name), TASK_COMM_LEN);
	return len;
}

static ssize_t task_write(struct file *file, const char __user *from, size_t len,
			  loff_t *pos)
{
	return name_write(task, from, len);
}

static const struct file_operations task_fops = {
	.owner = THIS_MODULE,
	.write = task_write,
};

static ssize_t stop_write(struct file *file, const char __user *from, size_t len,
			  loff_t *pos)
{
	ssize_t rv = name_write(stop, from, len);

	wake_up_all(&released);
	return rv;
}

static const struct file_operations stop_fops = {
	.owner = THIS_MODULE,
	.write = stop_write,
};

/* NAME:NUMBER or NAME:hold, cut in two. */
static int parse(struct point *p, char *text)
{
	char *number = strchr(text, ':');

	if (!number)
		return -EINVAL;
	*number++ = 0;
	p->probe.symbol_name = text;
	p->probe.pre_handler = before_call;
	p->probe.post_handler = after_call;
	if (strcmp(number, "hold"))
		return kstrtol(number, 0, &p->answer);
	if (!strcmp(text, "tcp_sendmsg_locked"))
		p->hold = (unsigned long)send_later;
	else if (!strcmp(text, "device_rename"))
		p->hold = (unsigned long)rename_later;
	else if (!strcmp(text, "lock_sock_nested"))
		p->hold = (unsigned long)lock_sock_later;
	else
		p->hold = (unsigned long)lock_later;
	return 0;
}

static void unregister(int n)
{
	while (n--)
		unregister_kprobe(&points[n].probe);
}

static int __init fail_init(void)
{
	int i, err;

	if (!count || start >= end)
		return -EINVAL;
	for (i = 0; i < count; i++) {
		err = parse(&points[i], calls[i]);
		if (!err)
			err = register_kprobe(&points[i].probe);
		if (err) {
			pr_err("cannot make %s fail: %d\n", calls[i], err);
			unregister(i);
			return err;
		}
	}
	dir = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_atomic_t("space", 0600, dir, &space);
	debugfs_create_atomic_t("times", 0600, dir, &times);
	debugfs_create_atomic_t("held", 0600, dir, &held);
	debugfs_create_file("last", 0400, dir, NULL, &last_fops);
	debugfs_create_file("only", 0200, dir, NULL, &only_fops);
	debugfs_create_file("fired", 0400, dir, NULL, &fired_fops);
	debugfs_create_file("stop", 0200, dir, NULL, &stop_fops);
	debugfs_create_file("task", 0200, dir, NULL, &task_fops);
	debugfs_create_atomic_t("stopped", 0400, dir, &stopped);
	return 0;
}

static void __exit fail_exit(void)
{
	debugfs_remove(dir);
	unregister(count);
	atomic_set(&held, 0);
	while (atomic_read(&waiting))
		msleep(20);
	/* Who is held has its way back through this module. */
	WRITE_ONCE(stop[0], 0);
	wake_up_all(&released);
	while (atomic_read(&stopped))
		schedule_timeout_uninterruptible(1);
	/* Who waited has left this code. */
	synchronize_rcu_tasks();
}

module_init(fail_init);
module_exit(fail_exit);
MODULE_DESCRIPTION("Makes calls of a module fail, for tests");
MODULE_LICENSE("GPL");
