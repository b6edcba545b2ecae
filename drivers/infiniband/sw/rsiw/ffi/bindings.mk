# SPDX-License-Identifier: GPL-2.0
#
# Makes the bindings and declarations of helpers that ffi/raw.rs includes, in $(obj)/ffi/. To be
# included by the Makefile of a driver that uses ffi/, which sets before that:
#   ffi-user               the object that is compiled with them
#   ffi-dir                where ffi/ is
#   ffi-header             the C headers, $(ffi-dir)/bindings_helper.h at least
#   ffi-bindgen-parameters what is taken from them, $(ffi-dir)/bindgen_parameters at least
# The helpers are C functions in $(ffi-dir)/helpers.c, which the driver compiles, too.

# bindgen reads C with libclang: drop what only gcc knows (see rust/Makefile).
ffi-bindgen-skip := -mno-fp-ret-in-387 -mpreferred-stack-boundary=% \
	-mskip-rax-setup -mindirect-branch=thunk-extern -mindirect-branch-register \
	-mfunction-return=thunk-extern -mrecord-mcount -mindirect-branch-cs-prefix \
	-fconserve-stack -falign-jumps=% -falign-loops=% -fno-allow-store-data-races \
	-fzero-call-used-regs=% -fno-stack-clash-protection -fsanitize=bounds-strict \
	-fstrict-flex-arrays=% -fmin-function-alignment=% -fzero-init-padding-bits=% \
	-fdiagnostics-show-context -fdiagnostics-show-context=% --param=% --param asan-% \
	-fno-ipa-cp-clone -fno-partial-inlining -femit-struct-debug-baseonly \
	-mgeneral-regs-only -msign-return-address=% -mabi=lp64 -mstack-protector-guard%
ifdef CONFIG_CC_IS_CLANG
ffi-bindgen-cflags = $(c_flags)
else
ffi-bindgen-target = $(if $(CONFIG_ARM64),aarch64,x86_64)-linux-gnu
ffi-bindgen-cflags = $(filter-out $(ffi-bindgen-skip),$(c_flags)) -w --target=$(ffi-bindgen-target)
endif

quiet_cmd_ffi_bindgen = BINDGEN $@
      cmd_ffi_bindgen = \
	$(BINDGEN) $< $(ffi_bindgen_flags) --rust-target 1.85 \
		--use-core --with-derive-default --ctypes-prefix ffi \
		--no-debug '.*' --enable-function-attribute-detection \
		-o $@ -- $(filter-out $(CC_FLAGS_LTO),$(ffi-bindgen-cflags)) -w \
		-fno-builtin -D__BINDGEN__ -DMODULE $(ffi_bindgen_extra)

$(obj)/ffi/bindings_generated.rs: private ffi_bindgen_flags = \
	$(shell grep -Ev 'cfi_encoding|^\#|^$$' $(srctree)/rust/bindgen_parameters $(ffi-bindgen-parameters) -h)
$(obj)/ffi/bindings_generated.rs: $(ffi-header) $(ffi-bindgen-parameters) FORCE
	$(call if_changed_dep,ffi_bindgen)

$(obj)/ffi/helpers_generated.rs: private ffi_bindgen_flags = \
	--blocklist-type '.*' --allowlist-var '' --allowlist-function 'rsiw_helper_.*'
$(obj)/ffi/helpers_generated.rs: private ffi_bindgen_extra = ; \
	sed -Ei 's/pub fn rsiw_helper_([a-zA-Z0-9_]*)/\#[link_name="rsiw_helper_\1"]\n    pub fn \1/g' $@
$(obj)/ffi/helpers_generated.rs: $(ffi-dir)/helpers.c FORCE
	$(call if_changed_dep,ffi_bindgen)

targets += ffi/bindings_generated.rs ffi/helpers_generated.rs
$(ffi-user): export RSIW_FFI_GEN := $(abspath $(obj)/ffi)
$(ffi-user): $(obj)/ffi/bindings_generated.rs $(obj)/ffi/helpers_generated.rs
