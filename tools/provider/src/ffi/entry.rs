// SPDX-License-Identifier: GPL-2.0

//! Registration with libibverbs, and the life of devices and contexts.

use super::{
    c,
    cmd::{
        self,
        RawContext, //
    },
    comp_cntr_ops, libc,
    memory::Owned,
    object::{
        Context,
        ContextBody, //
    },
    ops,
    symbols::{
        self,
        Symbols, //
    },
};
use crate::{
    abi::{
        direct::{
            MAGIC,
            RXE_UVERBS_ABI,
            UVERBS_ABI, //
        },
        ops::{
            entries,
            MAX_ENTRIES, //
        },
        version::{
            Version,
            NUMBERS, //
        },
    },
    context,
    device,
    errno::Errno, //
};
use core::{
    ffi::{
        c_char,
        c_int,
        c_void,
        CStr, //
    },
    mem::MaybeUninit,
    ptr, //
};

/// `struct verbs_match_ent`.
#[repr(C)]
struct Match {
    driver_data: *const c_void,
    driver_id: u64,
    vendor: u16,
    device: u16,
    kind: u8,
}

impl Match {
    /// A driver id.
    const fn driver_id(driver_id: u64) -> Self {
        const DRIVER_ID: u8 = 3;
        Self {
            driver_data: ptr::null(),
            driver_id,
            vendor: 0,
            device: 0,
            kind: DRIVER_ID,
        }
    }

    /// The end of a table.
    const END: Self = Self {
        kind: 0,
        ..Self::driver_id(0)
    };
}

/// A table of two entries at most.
#[repr(transparent)]
struct Table([Match; 2]);

// SAFETY: It is only read.
unsafe impl Sync for Table {}

/// `RDMA_DRIVER_RXE`.
const RXE: u64 = 14;

static OWN_ID: Table = Table([Match::driver_id(MAGIC as u64), Match::END]);

/// With the id in the table, libibverbs asks us before librxe, if we are registered before it.
static RXE_ID: Table = Table([Match::driver_id(RXE), Match::END]);

/// `struct verbs_device_ops`.
#[repr(C)]
struct DeviceOps {
    name: *const c_char,
    match_min_abi_version: u32,
    match_max_abi_version: u32,
    match_table: *const Table,
    static_providers: *const c_void,
    match_device: Option<unsafe extern "C" fn(*mut SysfsDevice) -> bool>,
    alloc_context:
        unsafe extern "C" fn(*mut c::VerbsDevice, c_int, *mut c_void) -> *mut c::VerbsContext,
    import_context: unsafe extern "C" fn(*mut c::VerbsDevice, c_int) -> *mut c::VerbsContext,
    alloc_device: unsafe extern "C" fn(*mut SysfsDevice) -> *mut c::VerbsDevice,
    uninit_device: unsafe extern "C" fn(*mut c::VerbsDevice),
}

// SAFETY: It is only read.
unsafe impl Sync for DeviceOps {}

impl DeviceOps {
    const fn new(abi: u32, match_table: *const Table) -> Self {
        Self {
            name: c"ferroce".as_ptr(),
            match_min_abi_version: abi,
            match_max_abi_version: abi,
            match_table,
            static_providers: ptr::null(),
            match_device: None,
            alloc_context,
            import_context,
            alloc_device,
            uninit_device,
        }
    }
}

/// For devices with our own driver id.
static OWN: DeviceOps = DeviceOps::new(UVERBS_ABI, &OWN_ID);

/// For devices of ferroce with the id of rdma_rxe, if the user wants us.
static AS_RXE: DeviceOps = DeviceOps {
    match_device: Some(match_device),
    ..DeviceOps::new(RXE_UVERBS_ABI, &RXE_ID)
};

/// `struct verbs_sysfs_dev`, up to what is read. Later releases have the same fields there.
#[repr(C)]
struct SysfsDevice {
    head: [u64; 22],
    ibdev_path: [c_char; 256],
    modalias: [c_char; 512],
    node_guid: u64,
    driver_id: u32,
}

/// A device: what libibverbs has of it, and the driver id by which the kernel knows it.
#[repr(C)]
struct Device {
    head: MaybeUninit<c::VerbsDevice>,
    driver_id: u32,
}

/// Whether a device is ours, see [`device`].
///
/// # Safety
///
/// The device is one that libibverbs has found.
unsafe extern "C" fn match_device(device: *mut SysfsDevice) -> bool {
    // SAFETY: libibverbs passes a device that it has found.
    let device = unsafe { &*device };
    if u64::from(device.driver_id) != RXE {
        return false;
    }
    // SAFETY: libibverbs has written a text to the field, with a NUL.
    device::is_ferroce(unsafe { CStr::from_ptr(device.ibdev_path.as_ptr()) })
}

/// Makes a device.
///
/// # Safety
///
/// The device of sysfs is one that libibverbs has found.
unsafe extern "C" fn alloc_device(device: *mut SysfsDevice) -> *mut c::VerbsDevice {
    let made = Owned::new(Device {
        head: MaybeUninit::zeroed(),
        // SAFETY: libibverbs passes a device that it has found.
        driver_id: unsafe { (*device).driver_id },
    });
    match made {
        Ok(made) => made.into_raw().cast(),
        Err(error) => {
            libc::set_errno(error);
            ptr::null_mut()
        }
    }
}

/// Frees a device.
///
/// # Safety
///
/// It is from [`alloc_device`], and libibverbs uses it no more.
unsafe extern "C" fn uninit_device(device: *mut c::VerbsDevice) {
    // SAFETY: The device is from `alloc_device`, and libibverbs uses it no more.
    drop(unsafe { Owned::from_raw(device.cast::<Device>()) });
}

/// Makes a context.
///
/// # Safety
///
/// The device is from [`alloc_device`], and `cmd_fd` is its file, which is given away.
unsafe extern "C" fn alloc_context(
    device: *mut c::VerbsDevice,
    cmd_fd: c_int,
    _private_data: *mut c_void,
) -> *mut c::VerbsContext {
    let negotiate = |_: &Symbols, raw: &RawContext, driver_id: u32| {
        let answer = cmd::get_context(raw, context::REQUEST)?;
        let features = context::features(answer)?;
        Ok(ContextBody {
            features,
            driver_id,
            is_imported: false,
        })
    };
    // SAFETY: libibverbs passes a device of ours, and the file of it, which is given away.
    match unsafe { make_context(device, cmd_fd, negotiate) } {
        Ok(context) => context,
        Err(error) => {
            // SAFETY: The device is ours, and libibverbs has named it.
            unsafe { refuse(device, error) };
            libc::set_errno(error);
            ptr::null_mut()
        }
    }
}

/// Makes a context of one that the kernel has already, for this process or another one.
///
/// # Safety
///
/// The device is from [`alloc_device`], and `cmd_fd` is the file of a context of it, which is given away.
unsafe extern "C" fn import_context(
    device: *mut c::VerbsDevice,
    cmd_fd: c_int,
) -> *mut c::VerbsContext {
    let negotiated = |symbols: &Symbols, raw: &RawContext, driver_id: u32| {
        let offset = symbols.version.context_offset();
        // SAFETY: The context lies in what was allocated at this offset, and lives until this function ends.
        let context = unsafe { Context::from_c(raw.0.byte_add(offset).cast()) };
        cmd::query_context(context)?;
        Ok(ContextBody {
            features: context::IMPORTED_FEATURES,
            driver_id,
            is_imported: true,
        })
    };
    // SAFETY: libibverbs passes a device of ours, and the file of it, which is given away.
    match unsafe { make_context(device, cmd_fd, negotiated) } {
        Ok(context) => context,
        Err(error) => {
            libc::set_errno(error);
            ptr::null_mut()
        }
    }
}

/// Makes a context, whose body `negotiate` returns.
///
/// # Safety
///
/// The device is from [`alloc_device`], and `cmd_fd` is its file, which is given away.
unsafe fn make_context(
    device: *mut c::VerbsDevice,
    cmd_fd: c_int,
    negotiate: impl FnOnce(&Symbols, &RawContext, u32) -> Result<ContextBody, Errno>,
) -> Result<*mut c::VerbsContext, Errno> {
    let symbols = symbols::get().ok_or(Errno::OPNOTSUPP)?;
    let body_offset = symbols
        .version
        .context_offset()
        .wrapping_add(size_of::<c::Context>());
    let size = body_offset.wrapping_add(size_of::<ContextBody>());
    // SAFETY: The caller guarantees that the device is ours. The structure of libibverbs is at the beginning of what
    // it allocates, which has room for it and for our part. It closes the file if it fails.
    let (allocated, driver_id) = unsafe {
        let driver_id = (*device.cast::<Device>()).driver_id;
        let init = symbols._verbs_init_and_alloc_context;
        (init(device, cmd_fd, size, 0, driver_id), driver_id)
    };
    if allocated.is_null() {
        return Err(libc::errno());
    }
    let raw = RawContext(allocated.cast());
    match negotiate(symbols, &raw, driver_id) {
        Ok(made) => {
            // SAFETY: There is room for our part at this offset, which is aligned, and the context is ours alone.
            unsafe {
                let body = allocated.byte_add(body_offset).cast::<ContextBody>();
                body.write(made);
                set_ops(symbols, raw.0);
            }
            Ok(raw.0)
        }
        Err(error) => {
            // SAFETY: The context was made above. Nothing uses it.
            unsafe {
                (symbols.verbs_uninit_context)(raw.0);
                libc::free(allocated);
            }
            Err(error)
        }
    }
}

/// Says why a device is not opened.
///
/// # Safety
///
/// The device is from [`alloc_device`], and libibverbs has completed it.
unsafe fn refuse(device: *mut c::VerbsDevice, error: Errno) {
    /// Offset of `name` of `struct ibv_device`.
    const NAME: usize = 24;
    // SAFETY: The caller guarantees that the device has a name, with a NUL.
    let name = unsafe { CStr::from_ptr(device.byte_add(NAME).cast()) }.to_bytes();
    let why: &[u8] = match error {
        // A kernel that knows no such request refuses it, or takes it for one of librxe and answers nothing.
        Errno::PROTONOSUPPORT | Errno::INVAL | Errno::OPNOTSUPP => {
            b": the module in the kernel does not have the ABI of this library (version 1)"
        }
        _ => b": the kernel refuses a context",
    };
    libc::complain(&[b"ferroce: ", name, why]);
}

/// Gives a context its operations.
///
/// # Safety
///
/// The context is valid, and has no objects yet.
unsafe fn set_ops(symbols: &Symbols, context: *mut c::VerbsContext) {
    let family = symbols.version.family;
    let mut table = [ptr::null::<()>(); MAX_ENTRIES];
    for (op, function) in ops::table().into_iter().chain(comp_cntr_ops::table()) {
        let place = op.place(family);
        if let Some(slot) = place.and_then(|place| table.get_mut(place)) {
            *slot = function;
        }
    }
    debug_assert!(entries(family) <= table.len());
    // SAFETY: The caller guarantees that the context is valid. The table has at least as many entries as the structure
    // of this libibverbs, and each is null or a function of the type of its place. libibverbs copies it.
    unsafe { (symbols.verbs_set_ops)(context, table.as_ptr()) };
}

/// The operation that frees a context.
///
/// # Safety
///
/// The context is ours, and neither it nor an object of it is used any more.
pub(super) unsafe extern "C" fn free_context(context: *mut c::Context) {
    let Some(symbols) = symbols::get() else {
        return;
    };
    // SAFETY: The context lies in what was allocated at this offset, and is not used any more.
    unsafe {
        let allocated = context
            .cast::<c_void>()
            .byte_sub(symbols.version.context_offset());
        (symbols.verbs_uninit_context)(allocated.cast());
        libc::free(allocated);
    }
}

/// Registers the library when it is loaded.
#[cfg_attr(test, allow(dead_code))]
extern "C" fn register() {
    // SAFETY: The name ends with a NUL. The handle is that of a library that is loaded, and it stays: it has loaded us.
    let library = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_LAZY_NOLOAD) };
    if library.is_null() {
        libc::complain(&[b"ferroce: there is no libibverbs.so.1 in this process"]);
        return;
    }
    // SAFETY: The handle was opened above.
    let found = unsafe {
        NUMBERS
            .into_iter()
            .find_map(|number| Some((number, register_function(library, number)?)))
    };
    // SAFETY: As above, and the name ends with a NUL.
    let port_speed = unsafe { libc::dlsym(library, c"ibv_cmd_query_port_speed".as_ptr()) };
    let version = found.and_then(|(number, _)| Version::new(number, !port_speed.is_null()));
    let (Some((_, function)), Some(version)) = (found, version) else {
        libc::complain(&[
            b"ferroce: this libibverbs has a provider interface that this library does not know; ",
            b"it knows 34, 57, 59, 64 and 65",
        ]);
        return;
    };
    // SAFETY: The handle was opened above, and its interface is `version`.
    match unsafe { Symbols::find(library, version) } {
        // SAFETY: This function runs once. `function` is that of libibverbs, and takes statics.
        Ok(symbols) => unsafe {
            symbols::set(symbols);
            function(&OWN);
            if wanted() {
                function(&AS_RXE);
            }
        },
        Err(name) => libc::complain(&[b"ferroce: this libibverbs does not have ", name.to_bytes()]),
    }
}

type Register = unsafe extern "C" fn(*const DeviceOps);

/// Returns `verbs_register_driver_NN` of this number.
///
/// # Safety
///
/// `library` is a handle.
unsafe fn register_function(library: *mut c_void, number: u32) -> Option<Register> {
    let mut name = *b"verbs_register_driver_NN\0";
    let [.., tens, ones, _] = &mut name;
    // CAST: The remainders are digits.
    (*tens, *ones) = (b'0' | (number / 10 % 10) as u8, b'0' | (number % 10) as u8);
    // SAFETY: The caller guarantees that the handle is valid. The name ends with a NUL.
    let found = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: In all releases the function of this name has this type. It is not null.
    Some(unsafe { core::mem::transmute::<*mut c_void, Register>(found) })
}

/// Whether the environment names us as libibverbs reads it: not for programs with another user's rights.
fn wanted() -> bool {
    let lookup = |name: &CStr| {
        // SAFETY: The name ends with a NUL. The value ends with one, too, and is read before the
        // program goes on.
        unsafe {
            let value = libc::secure_getenv(name.as_ptr());
            (!value.is_null()).then(|| device::names_us(CStr::from_ptr(value).to_bytes()))
        }
    };
    lookup(c"RDMAV_DRIVERS").or_else(|| lookup(c"IBV_DRIVERS")) == Some(true)
}

#[cfg(not(test))]
#[used]
#[link_section = ".init_array"]
static INIT: extern "C" fn() = register;

/// Nothing here panics, and scripts/release/provider.sh proves it. The language demands the function all the same.
#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        libc::yield_now();
    }
}

const _: () = assert!(size_of::<Match>() == 24);
const _: () = assert!(size_of::<DeviceOps>() == 72);
const _: () = assert!(core::mem::offset_of!(SysfsDevice, ibdev_path) == 176);
const _: () = assert!(core::mem::offset_of!(SysfsDevice, driver_id) == 952);
