// SPDX-License-Identifier: GPL-2.0

#include <linux/bottom_half.h>
#include <linux/cpumask.h>
#include <linux/preempt.h>
#include <linux/sched/signal.h>

bool rsiw_helper_process_is_ending(struct task_struct *task)
{
	const struct signal_struct *sig = task->signal;

	return READ_ONCE(sig->flags) & SIGNAL_GROUP_EXIT ||
	       !atomic_read(&sig->live);
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
