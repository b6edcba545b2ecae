// SPDX-License-Identifier: GPL-2.0

#include <linux/bitops.h>
#include <linux/percpu.h>

u64 __percpu *rsiw_helper_counts_alloc(size_t len)
{
	return __alloc_percpu(array_size(len, sizeof(u64)), __alignof__(u64));
}

void rsiw_helper_counts_free(u64 __percpu *sums)
{
	free_percpu(sums);
}

void rsiw_helper_counts_add(u64 __percpu *sums, size_t index, u64 n)
{
	this_cpu_add(sums[index], n);
}

/* Moves the counts that are marked to the sums. */
void rsiw_helper_counts_take(u64 __percpu *sums, u64 *counts, u64 marks)
{
	for (; marks; marks &= marks - 1) {
		unsigned int index = __ffs64(marks);

		this_cpu_add(sums[index], counts[index]);
		counts[index] = 0;
	}
}

u64 rsiw_helper_counts_sum(u64 __percpu *sums, size_t index)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(sums + index, cpu));
	return sum;
}
