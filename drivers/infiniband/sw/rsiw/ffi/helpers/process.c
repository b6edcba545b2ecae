// SPDX-License-Identifier: GPL-2.0

#include <linux/bottom_half.h>
#include <linux/cpumask.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched/prio.h>
#include <linux/sched/signal.h>

bool rsiw_helper_process_is_ending(struct task_struct *task)
{
	const struct signal_struct *sig = task->signal;

	return READ_ONCE(sig->flags) & SIGNAL_GROUP_EXIT ||
	       !atomic_read(&sig->live);
}

/*
 * Whether the caller of a function that promises not to sleep may do so all the
 * same. Without CONFIG_PREEMPT_COUNT preemptible() is 0. With CONFIG_PREEMPT_RCU
 * readers are preemptible; so are, with CONFIG_PREEMPT_RT, holders of spinlocks,
 * which are readers as well, and those who disable bottom halves.
 *
 * Who has set another state than TASK_RUNNING is about to wait, and would find
 * that state gone. Who reclaims memory must not wait for locks of others who
 * allocate some.
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

/* Whether others get the processor before the running thread does. */
bool rsiw_helper_is_low_priority(void)
{
	return current->static_prio > DEFAULT_PRIO ||
	       current->policy == SCHED_IDLE;
}

bool rsiw_helper_in_serving_softirq(void)
{
	return in_serving_softirq();
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
