// SPDX-License-Identifier: GPL-2.0
/*
 * Disabling interrupts by several holders, who may end that in any order: the first one
 * disables them, the last one restores what was before. Linux 7.3 counts in the preempt
 * count what is counted here for this module.
 */
#include <linux/irqflags.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/spinlock.h>

#include "interrupt.h"

struct holders {
	unsigned int count;
	unsigned long flags;
};

/* Used with interrupts disabled, so by one at a time. */
static DEFINE_PER_CPU(struct holders, holders);

void rsiw_compat_interrupt_disable(void)
{
	unsigned long flags;

	local_irq_save(flags);
	if (__this_cpu_inc_return(holders.count) == 1)
		__this_cpu_write(holders.flags, flags);
}

void rsiw_compat_interrupt_enable(void)
{
	unsigned long flags = __this_cpu_read(holders.flags);

	if (__this_cpu_dec_return(holders.count))
		return;
	/* Who woke a task meanwhile gives way to it as soon as interrupts are on. */
	preempt_disable();
	local_irq_restore(flags);
	preempt_enable();
}

/* With PREEMPT_RT such locks sleep, and interrupts stay as they are. */
void rsiw_compat_spin_lock(spinlock_t *lock)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		rsiw_compat_interrupt_disable();
	spin_lock(lock);
}

bool rsiw_compat_spin_trylock(spinlock_t *lock)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		rsiw_compat_interrupt_disable();
	if (spin_trylock(lock))
		return true;
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		rsiw_compat_interrupt_enable();
	return false;
}

void rsiw_compat_spin_unlock(spinlock_t *lock)
{
	spin_unlock(lock);
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		rsiw_compat_interrupt_enable();
}
