// SPDX-License-Identifier: GPL-2.0

//! The private functions of libibverbs, found when the library is loaded.

use super::{
    c,
    libc,
    wr::Sge, //
};
use crate::abi::version::Version;
use core::{
    cell::UnsafeCell,
    ffi::{
        c_int,
        c_void,
        CStr, //
    },
    mem::MaybeUninit,
    sync::atomic::{
        AtomicBool,
        Ordering, //
    },
};

/// Declares the functions, by the names of their symbols.
macro_rules! symbols {
    (
        in all releases { $($name:ident($($argument:ty),*) $(-> $result:ty)?;)+ }
        in some { $($newer:ident($($newer_argument:ty),*) -> $newer_result:ty;)+ }
    ) => {
        /// Functions of libibverbs, as its `driver.h` declares them.
        pub(super) struct Symbols {
            /// The interface that they belong to.
            pub(super) version: Version,
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)+
            $(pub(super) $newer: Option<unsafe extern "C" fn($($newer_argument),*) -> $newer_result>,)+
        }

        impl Symbols {
            /// Finds all functions.
            ///
            /// # Errors
            ///
            /// The name of one that is missing.
            ///
            /// # Safety
            ///
            /// `library` is a handle of a libibverbs whose interface is `version`.
            pub(super) unsafe fn find(
                library: *mut c_void,
                version: Version,
            ) -> Result<Self, &'static CStr> {
                Ok(Self {
                    version,
                    $($name: {
                        const NAME: &CStr = name(concat!(stringify!($name), "\0"));
                        // SAFETY: The caller guarantees that the handle is valid. The name ends with a NUL.
                        let found = unsafe { libc::dlsym(library, NAME.as_ptr()) };
                        if found.is_null() {
                            return Err(NAME);
                        }
                        // SAFETY: The caller guarantees that the library's interface is known, so the function of
                        // this name has this type. It is not null.
                        unsafe {
                            core::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?,
                            >(found)
                        }
                    },)+
                    $($newer: {
                        const NAME: &CStr = name(concat!(stringify!($newer), "\0"));
                        // SAFETY: As above.
                        let found = unsafe { libc::dlsym(library, NAME.as_ptr()) };
                        // SAFETY: As above, where it is not null.
                        (!found.is_null()).then(|| unsafe {
                            core::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($newer_argument),*) -> $newer_result,
                            >(found)
                        })
                    },)+
                })
            }
        }
    };
}

/// Converts a literal that ends with a NUL.
const fn name(literal: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(literal.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

/// A command or response, of which libibverbs knows the beginning.
type Any = *mut c_void;

symbols! {
    in all releases {
        _verbs_init_and_alloc_context(*mut c::VerbsDevice, c_int, usize, usize, u32) -> Any;
        verbs_set_ops(*mut c::VerbsContext, *const c::Function);
        verbs_uninit_context(*mut c::VerbsContext);
        // Since 57 with an array of files as fourth argument: see `cmd`.
        ibv_cmd_get_context(*mut c::VerbsContext, Any, usize, usize, usize, usize) -> c_int;
        ibv_cmd_query_context(*mut c::Context, Any) -> c_int;
        ibv_cmd_query_device_any(
            *mut c::Context, *const c::QueryDeviceInput, Any, usize, Any, *mut usize) -> c_int;
        ibv_cmd_query_port(*mut c::Context, u8, *mut c::PortAttr, Any, usize) -> c_int;
        ibv_cmd_alloc_pd(*mut c::Context, *mut c::Pd, Any, usize, Any, usize) -> c_int;
        ibv_cmd_dealloc_pd(*mut c::Pd) -> c_int;
        ibv_cmd_open_xrcd(
            *mut c::Context, *mut c::Xrcd, c_int, *mut c::XrcdInitAttr, Any, usize, Any, usize) -> c_int;
        ibv_cmd_close_xrcd(*mut c::Xrcd) -> c_int;
        ibv_cmd_reg_mr(
            *mut c::Pd, Any, usize, u64, c_int, *mut c::Mr, Any, usize, Any, usize) -> c_int;
        ibv_cmd_rereg_mr(
            *mut c::Mr, u32, Any, usize, u64, c_int, *mut c::Pd, Any, usize, Any, usize) -> c_int;
        // Since 54 with a buffer of the driver as last argument, which an older one does not look at.
        ibv_cmd_reg_dmabuf_mr(
            *mut c::Pd, u64, usize, u64, c_int, c_int, *mut c::Mr, Any) -> c_int;
        ibv_cmd_advise_mr(*mut c::Pd, u32, u32, *mut Sge, u32) -> c_int;
        ibv_cmd_query_mr(*mut c::Pd, *mut c::Mr, u32) -> c_int;
        ibv_cmd_dereg_mr(*mut c::Mr) -> c_int;
        ibv_cmd_alloc_mw(*mut c::Pd, c_int, *mut c::Mw, Any, usize, Any, usize) -> c_int;
        ibv_cmd_dealloc_mw(*mut c::Mw) -> c_int;
        ibv_cmd_create_cq(
            *mut c::Context, c_int, *mut c::CompChannel, c_int, *mut c::CqEx, Any, usize, Any, usize)
            -> c_int;
        // Since 59 with attributes of the provider as third argument: see `cmd`.
        ibv_cmd_create_cq_ex(
            *mut c::Context, *mut c::CqInitAttrEx, usize, usize, usize, usize, usize, usize, usize)
            -> c_int;
        ibv_cmd_req_notify_cq(*mut c::CqEx, c_int) -> c_int;
        ibv_cmd_resize_cq(*mut c::CqEx, c_int, Any, usize, Any, usize) -> c_int;
        ibv_cmd_modify_cq(*mut c::CqEx, *mut c::ModifyCqAttr, Any, usize) -> c_int;
        ibv_cmd_destroy_cq(*mut c::CqEx) -> c_int;
        ibv_cmd_create_srq(*mut c::Pd, *mut c::Srq, *mut c::SrqInitAttr, Any, usize, Any, usize) -> c_int;
        ibv_cmd_create_srq_ex(
            *mut c::Context, *mut c::Srq, *mut c::SrqInitAttrEx, Any, usize, Any, usize) -> c_int;
        ibv_cmd_modify_srq(*mut c::Srq, *mut c::SrqAttr, c_int, Any, usize) -> c_int;
        ibv_cmd_query_srq(*mut c::Srq, *mut c::SrqAttr, Any, usize) -> c_int;
        ibv_cmd_destroy_srq(*mut c::Srq) -> c_int;
        ibv_cmd_create_qp(*mut c::Pd, *mut c::Qp, *mut c::QpInitAttr, Any, usize, Any, usize) -> c_int;
        // Since 64 with a buffer of the driver as last argument, which an older one does not look at.
        ibv_cmd_create_qp_ex2(
            *mut c::Context, *mut c::VerbsQp, *mut c::QpInitAttrEx, Any, usize, Any, usize, Any) -> c_int;
        ibv_cmd_open_qp(
            *mut c::Context, *mut c::VerbsQp, c_int, *mut c::QpOpenAttr, Any, usize, Any, usize) -> c_int;
        ibv_cmd_query_qp(
            *mut c::Qp, *mut c::QpAttr, c_int, *mut c::QpInitAttr, Any, usize) -> c_int;
        ibv_cmd_modify_qp(*mut c::Qp, *mut c::QpAttr, c_int, Any, usize) -> c_int;
        ibv_cmd_destroy_qp(*mut c::Qp) -> c_int;
        ibv_cmd_create_ah(*mut c::Pd, *mut c::Ah, *mut c::AhAttr, Any, usize) -> c_int;
        ibv_cmd_destroy_ah(*mut c::Ah) -> c_int;
        ibv_cmd_attach_mcast(*mut c::Qp, *const c::Gid, u16) -> c_int;
        ibv_cmd_detach_mcast(*mut c::Qp, *const c::Gid, u16) -> c_int;
    }
    in some {
        ibv_cmd_query_port_speed(*mut c::Context, u32, *mut u64) -> c_int;
        ibv_cmd_query_comp_cntr_caps(*mut c::Context, *mut c::CompCntrCaps, usize) -> c_int;
        ibv_cmd_create_comp_cntr(*mut c::Context, *mut c::CompCntr, Any) -> c_int;
        ibv_cmd_destroy_comp_cntr(*mut c::CompCntr) -> c_int;
        ibv_cmd_set_comp_cntr(*mut c::CompCntr, u64) -> c_int;
        ibv_cmd_set_err_comp_cntr(*mut c::CompCntr, u64) -> c_int;
        ibv_cmd_inc_comp_cntr(*mut c::CompCntr, u64) -> c_int;
        ibv_cmd_inc_err_comp_cntr(*mut c::CompCntr, u64) -> c_int;
        ibv_cmd_read_comp_cntr(*mut c::CompCntr, *mut u64) -> c_int;
        ibv_cmd_read_err_comp_cntr(*mut c::CompCntr, *mut u64) -> c_int;
        ibv_cmd_qp_attach_comp_cntr(*mut c::Qp, *mut c::CompCntr, *mut c::AttachCompCntrAttr) -> c_int;
    }
}

/// The functions, once they are found.
struct Found {
    ready: AtomicBool,
    symbols: UnsafeCell<MaybeUninit<Symbols>>,
}

// SAFETY: `symbols` is written once, before `ready` is set with release, and only read afterwards.
unsafe impl Sync for Found {}

static FOUND: Found = Found {
    ready: AtomicBool::new(false),
    symbols: UnsafeCell::new(MaybeUninit::uninit()),
};

/// Stores the functions.
///
/// # Safety
///
/// It is called once, when the library is loaded.
pub(super) unsafe fn set(symbols: Symbols) {
    // SAFETY: There is no reader before `ready` is set, and the caller guarantees that there is no other writer.
    unsafe { (*FOUND.symbols.get()).write(symbols) };
    FOUND.ready.store(true, Ordering::Release);
}

/// Returns the functions. `None` if the library was not registered; then it is not called either.
pub(super) fn get() -> Option<&'static Symbols> {
    if !FOUND.ready.load(Ordering::Acquire) {
        return None;
    }
    // SAFETY: The functions were written before `ready` was set, and are never written again.
    Some(unsafe { (*FOUND.symbols.get()).assume_init_ref() })
}
