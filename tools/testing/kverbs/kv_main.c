// SPDX-License-Identifier: GPL-2.0
/*
 * rsiw_kverbs: the kernel's half of the conformance tests. Under
 * /sys/kernel/debug/rsiw_kverbs:
 *   cases   (read) one line for each case: its family, its name, its rows
 *   run     (write) the name of a case; the write returns when it is over
 *   result  (read) of the last case: "ok", or what failed
 *   held    (open) a queue pair that is not connected, until it is closed
 *           (read) its number, or what failed
 *           (write) connects it
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "kv.h"

static const struct family {
	const char *name;
	const struct kv_case *cases;
	bool (*begin)(struct kv *k, struct kv_lab *l, const struct kv_case *c);
} families[] = {
	{ "reg", kv_reg_cases },
	{ "map", kv_map_cases },
	{ "inv", kv_inv_cases, kv_inv_begin },
	{ "order", kv_order_cases, kv_order_begin },
	{ "status", kv_status_cases, kv_status_begin },
	{ "ctx", kv_ctx_cases },
	{ "state", kv_state_cases },
	{ "cq", kv_cq_cases, kv_cq_begin },
	{ "event", kv_event_cases },
	{ "dma", kv_dma_cases },
	{ "mw", kv_mw_cases, kv_mw_begin },
	{ "mw1", kv_mw1_cases, kv_mw1_begin },
	{ "object", kv_object_cases },
	{ "request", kv_request_cases, kv_request_begin },
	{ "busy", kv_busy_cases },
	{ "apart", kv_apart_cases },
	{ "first", kv_first_cases },
	{ "depth", kv_depth_cases },
	{ "imm", kv_imm_cases, kv_imm_begin },
	{ "atomic", kv_atomic_cases, kv_atomic_begin },
};

struct owned {
	struct list_head list;
	void *obj;
	void (*release)(void *obj);
};

static DEFINE_MUTEX(running);
static struct kv last;
static struct dentry *dir;

bool kv_own(struct kv *k, void *obj, void (*release)(void *obj))
{
	struct owned *o = kmalloc_obj(*o, GFP_KERNEL);

	if (!kv_ok(k, o, "out of memory")) {
		release(obj);
		return false;
	}
	o->obj = obj;
	o->release = release;
	list_add(&o->list, &k->owned);
	return true;
}

bool kv_ok(struct kv *k, bool good, const char *fmt, ...)
{
	va_list ap;

	if (good || k->failed)
		return good;
	k->failed = true;
	va_start(ap, fmt);
	vscnprintf(k->text, sizeof(k->text), fmt, ap);
	va_end(ap);
	return false;
}

static const struct kv_case *find(const char *name, const struct family **f)
{
	const struct kv_case *c;

	for (*f = families; *f < families + ARRAY_SIZE(families); ++*f)
		for (c = (*f)->cases; c->name; c++)
			if (!strcmp(c->name, name))
				return c;
	return NULL;
}

static void begin(struct kv *k)
{
	memset(k, 0, sizeof(*k));
	INIT_LIST_HEAD(&k->owned);
	INIT_LIST_HEAD(&k->pairs);
}

static void finish(struct kv *k)
{
	struct owned *o, *next;
	struct kv_pair *p;

	/* Messages may still arrive in memory that is about to be freed. */
	list_for_each_entry(p, &k->pairs, list)
		kv_stop(p);
	list_for_each_entry_safe(o, next, &k->owned, list) {
		o->release(o->obj);
		kfree(o);
	}
}

static void run_case(const struct family *f, const struct kv_case *c)
{
	struct kv_lab lab = { };

	begin(&last);
	if (c->run)
		c->run(&last);
	else if (f->begin(&last, &lab, c))
		c->with(&last, &lab);
	finish(&last);
}

static ssize_t run_write(struct file *file, const char __user *buf, size_t len,
			 loff_t *pos)
{
	const struct kv_case *c;
	const struct family *f;
	char name[64];

	if (*pos || len >= sizeof(name))
		return -EINVAL;
	if (copy_from_user(name, buf, len))
		return -EFAULT;
	name[len] = 0;
	c = find(strim(name), &f);
	if (!c)
		return -ENOENT;
	if (mutex_lock_interruptible(&running))
		return -EINTR;
	run_case(f, c);
	mutex_unlock(&running);
	*pos += len;
	return len;
}

static const struct file_operations run_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = run_write,
};

static int cases_show(struct seq_file *s, void *unused)
{
	const struct kv_case *c;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(families); i++)
		for (c = families[i].cases; c->name; c++)
			seq_printf(s, "%s %s %s\n", families[i].name, c->name,
				   c->rows);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(cases);

static int result_show(struct seq_file *s, void *unused)
{
	mutex_lock(&running);
	seq_printf(s, "%s\n", last.failed ? last.text : "ok");
	mutex_unlock(&running);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(result);

struct held {
	struct kv k;
	struct kv_pair *pair;
};

static int held_open(struct inode *inode, struct file *file)
{
	struct held *h = kzalloc_obj(*h, GFP_KERNEL);

	if (!h)
		return -ENOMEM;
	begin(&h->k);
	mutex_lock(&running);
	h->pair = kv_connect(&h->k, &(struct kv_opts) { .unconnected = true });
	mutex_unlock(&running);
	file->private_data = h;
	return 0;
}

static ssize_t held_read(struct file *file, char __user *to, size_t len,
			 loff_t *pos)
{
	struct held *h = file->private_data;
	char text[sizeof(h->k.text) + 1];
	int n;

	if (h->k.failed)
		n = scnprintf(text, sizeof(text), "%s\n", h->k.text);
	else
		n = scnprintf(text, sizeof(text), "%u\n", h->pair->a.qp->qp_num);
	return simple_read_from_buffer(to, len, pos, text, n);
}

static ssize_t held_write(struct file *file, const char __user *from, size_t len,
			  loff_t *pos)
{
	struct held *h = file->private_data;

	return !h->k.failed && kv_join(h->pair) ? len : -EIO;
}

static int held_release(struct inode *inode, struct file *file)
{
	struct held *h = file->private_data;

	finish(&h->k);
	kfree(h);
	return 0;
}

static const struct file_operations held_fops = {
	.owner = THIS_MODULE,
	.open = held_open,
	.read = held_read,
	.write = held_write,
	.release = held_release,
};

static int __init kv_init(void)
{
	dir = debugfs_create_dir("rsiw_kverbs", NULL);
	debugfs_create_file("cases", 0400, dir, NULL, &cases_fops);
	debugfs_create_file("run", 0200, dir, NULL, &run_fops);
	debugfs_create_file("result", 0400, dir, NULL, &result_fops);
	debugfs_create_file("held", 0600, dir, NULL, &held_fops);
	return 0;
}

static void __exit kv_exit(void)
{
	debugfs_remove(dir);
}

module_init(kv_init);
module_exit(kv_exit);
MODULE_DESCRIPTION("Kernel verbs, driven case by case");
MODULE_LICENSE("GPL");
