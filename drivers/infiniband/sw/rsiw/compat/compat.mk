# SPDX-License-Identifier: GPL-2.0
#
# With Linux 7.2, what the driver, which is written for 7.3, does not find there is in
# rsiw_kernel.rs. The youngest of that shows which kernel it is.

ifeq ($(wildcard $(srctree)/include/linux/interrupt_rc.h),)
rsiw-y += compat/rsiw_kernel.o compat/interrupt.o

compat-crate := $(abspath $(obj)/compat/librsiw_kernel.rmeta)
RUSTFLAGS_compat/rsiw_kernel.o := --emit=metadata=$(compat-crate)
RUSTFLAGS_rsiw_main.o := --cfg rsiw_compat --extern rsiw_kernel=$(compat-crate)
$(obj)/rsiw_main.o: $(obj)/compat/rsiw_kernel.o

ffi-bindgen-parameters += $(src)/compat/bindgen_parameters
# Counts of a device's attributes, which were signed.
$(obj)/ffi/bindings_generated.rs: private ffi_bindgen_extra = ; \
	sed -Ei '/pub max_qp:/,/pub max_srq_sge:/s/: ffi::c_int,/: u32_,/' $@
endif
