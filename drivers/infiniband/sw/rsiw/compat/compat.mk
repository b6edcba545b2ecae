# SPDX-License-Identifier: GPL-2.0
#
# What the driver, which is written for Linux 7.3, does not find in 7.2 or in a candidate of 7.3
# is in a crate that the driver takes for the kernel crate. What is youngest in the kernel's
# source shows which of them it is.

ifeq ($(wildcard $(srctree)/include/linux/interrupt_rc.h),)
compat-crate := rsiw_kernel
rsiw-y += compat/interrupt.o

ffi-bindgen-parameters += $(src)/compat/bindgen_parameters
# Counts of a device's attributes, which were signed.
$(obj)/ffi/bindings_generated.rs: private ffi_bindgen_extra = ; \
	sed -Ei '/pub max_qp:/,/pub max_srq_sge:/s/: ffi::c_int,/: u32_,/' $@
else ifeq ($(shell grep hrtimer_restart $(srctree)/rust/bindgen_parameters),)
compat-crate := rsiw_kernel_rc
endif

ifdef compat-crate
compat-metadata := $(abspath $(obj)/compat/lib$(compat-crate).rmeta)
rsiw-y += compat/$(compat-crate).o
RUSTFLAGS_compat/$(compat-crate).o := --emit=metadata=$(compat-metadata)
RUSTFLAGS_rsiw_main.o := --cfg rsiw_compat --extern rsiw_kernel=$(compat-metadata)
$(obj)/rsiw_main.o: $(obj)/compat/$(compat-crate).o
endif
