/* SPDX-License-Identifier: GPL-2.0 */
/* What interrupt.rs calls, see interrupt.c. */
#ifndef RSIW_COMPAT_INTERRUPT_H
#define RSIW_COMPAT_INTERRUPT_H

#include <linux/spinlock.h>

void rsiw_compat_interrupt_disable(void);
void rsiw_compat_interrupt_enable(void);
void rsiw_compat_spin_lock(spinlock_t *lock);
bool rsiw_compat_spin_trylock(spinlock_t *lock);
void rsiw_compat_spin_unlock(spinlock_t *lock);

#endif
