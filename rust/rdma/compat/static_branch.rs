// SPDX-License-Identifier: GPL-2.0

//! Branches that are patched into the code. `jump_label::static_branch_unlikely` reads its instructions from a file of
//! the kernel's build, which some headers packages lack. Before 6.14, the key of a tracepoint has another type than it
//! expects.

#[cfg(has_static_branch)]
pub(crate) use kernel::jump_label::static_branch_unlikely;

/// Whether the static key `$key.$field` of type `$keytyp` is enabled: a branch that is patched.
///
/// # Safety
///
/// `$key` must be a static of type `$keytyp`, initialized, for as long as this module is loaded.
#[cfg(all(not(has_static_branch), has_arch_static_branch))]
macro_rules! static_branch_unlikely {
    ($key:path, $keytyp:ty, $field:ident) => {
        kernel::jump_label::arch_static_branch! { $key, $keytyp, $field, false }
    };
}

/// Whether the static key `$key.$field` of type `$keytyp` is enabled: a call and a load.
///
/// # Safety
///
/// `$key` must be a static of type `$keytyp`, initialized, for as long as this module is loaded.
#[cfg(not(any(has_static_branch, has_arch_static_branch)))]
macro_rules! static_branch_unlikely {
    ($key:path, $keytyp:ty, $field:ident) => {{
        let key: *const $keytyp = &raw const $key;
        let key: *const kernel::bindings::static_key = (&raw const (*key).$field).cast();
        kernel::bindings::static_key_count(key.cast_mut()) > 0
    }};
}
#[cfg(not(has_static_branch))]
pub(crate) use static_branch_unlikely;
