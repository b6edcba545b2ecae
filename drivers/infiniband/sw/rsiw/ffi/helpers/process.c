// SPDX-License-Identifier: GPL-2.0

#include <linux/bottom_half.h>
#include <linux/cpumask.h>
#include <linux/pid.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched/prio.h>
#include <linux/sched/signal.h>
#include <linux/sched/vhost_task.h>
#include <linux/topology.h>

bool rsiw_helper_process_is_ending(struct task_struct *task)
{
	const struct signal_struct *sig = task->signal;

	return READ_ONCE(sig->flags) & SIGNAL_GROUP_EXIT ||
	       !atomic_read(&sig->live);
}

/*
 * Returns the processor that @task runs on, or ran on last, or -1 if it has ended; whether it runs;
 * and how often it has got a processor.
 */
int rsiw_helper_thread_place(const struct task_struct *task, bool *runs, u64 *turns)
{
#ifdef CONFIG_SMP
	*runs = READ_ONCE(task->on_cpu);
#else
	*runs = true;
#endif
	*turns = READ_ONCE(task->nvcsw) + READ_ONCE(task->nivcsw);
	return READ_ONCE(task->exit_state) ? -1 : task_cpu(task);
}

/* Takes a reference to the calling process. */
struct pid *rsiw_helper_current_process(void)
{
	return get_task_pid(current, PIDTYPE_TGID);
}

bool rsiw_helper_process_is_current(const struct pid *pid)
{
	return task_tgid(current) == pid;
}

bool rsiw_helper_is_kernel_thread(void)
{
	return current->flags & PF_KTHREAD;
}

void rsiw_helper_put_pid(struct pid *pid)
{
	put_pid(pid);
}

/*
 * Returns whether the caller of a function that promises not to sleep may do so all the same.
 * Without CONFIG_PREEMPT_COUNT, preemptible() is 0. With CONFIG_PREEMPT_RCU, readers are
 * preemptible. With CONFIG_PREEMPT_RT, so are holders of spinlocks, who are readers as well, and
 * those who disable bottom halves.
 *
 * A thread in another state than TASK_RUNNING is about to wait, and would lose that state. One that
 * reclaims memory must not wait for locks of others that allocate.
 */
bool rsiw_helper_may_sleep(void)
{
#ifdef CONFIG_DEBUG_ATOMIC_SLEEP
	if (current->non_block_count)
		return false;
#endif
	return preemptible() && !rcu_preempt_depth() && !in_softirq() &&
	       task_is_running(current) && !(current->flags & PF_MEMALLOC);
}

/*
 * Returns whether the caller holds no spinlock, with interrupts and bottom halves on, and does not
 * reclaim memory. It may be an RCU reader, or about to wait. See above for CONFIG_PREEMPT_RT.
 */
bool rsiw_helper_is_preemptible(void)
{
	return preemptible() && !in_softirq() && !(current->flags & PF_MEMALLOC) &&
	       !(IS_ENABLED(CONFIG_PREEMPT_RT) && rcu_preempt_depth());
}

bool rsiw_helper_is_low_priority(void)
{
	return current->static_prio > DEFAULT_PRIO ||
	       current->policy == SCHED_IDLE;
}

void rsiw_helper_local_bh_disable(void)
{
	local_bh_disable();
}

void rsiw_helper_local_bh_enable(void)
{
	local_bh_enable();
}

bool rsiw_helper_cpu_online(unsigned int cpu)
{
	return cpu_online(cpu);
}

/* The caller stays on its processor. */
bool rsiw_helper_cpu_is_near(unsigned int cpu)
{
	return cpumask_test_cpu(cpu,
				topology_core_cpumask(smp_processor_id()));
}

unsigned int rsiw_helper_usable_cpus(void)
{
	return min_t(unsigned int, num_online_cpus(), current->nr_cpus_allowed);
}

bool rsiw_helper_need_resched(void)
{
	return need_resched();
}

void rsiw_helper_cond_resched(void)
{
	cond_resched();
}

void rsiw_helper_set_task_running(void)
{
	__set_current_state(TASK_RUNNING);
}

/* A module cannot select CONFIG_VHOST_TASK: it is there if others did. */
struct vhost_task *rsiw_helper_vhost_task_create(bool (*fn)(void *),
						 void (*killed)(void *), void *arg,
						 const char *name)
{
	if (!IS_ENABLED(CONFIG_VHOST_TASK))
		return ERR_PTR(-EOPNOTSUPP);
	return vhost_task_create(fn, killed, arg, name);
}

void rsiw_helper_vhost_task_start(struct vhost_task *task)
{
	if (IS_ENABLED(CONFIG_VHOST_TASK))
		vhost_task_start(task);
}

void rsiw_helper_vhost_task_wake(struct vhost_task *task)
{
	if (IS_ENABLED(CONFIG_VHOST_TASK))
		vhost_task_wake(task);
}

void rsiw_helper_vhost_task_stop(struct vhost_task *task)
{
	if (IS_ENABLED(CONFIG_VHOST_TASK))
		vhost_task_stop(task);
}
