// SPDX-License-Identifier: GPL-2.0

//! The functions of libc that the library uses.

use crate::errno::Errno;
use core::{
    ffi::{
        c_char,
        c_int,
        c_long,
        c_ulong,
        c_void,
        CStr, //
    },
    ptr,
};

#[link(name = "c")]
extern "C" {
    pub(super) fn malloc(size: usize) -> *mut c_void;
    pub(super) fn free(memory: *mut c_void);
    pub(super) fn mmap(
        addr: *mut c_void,
        length: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
    pub(super) fn munmap(addr: *mut c_void, length: usize) -> c_int;
    pub(super) fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    pub(super) fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    pub(super) fn secure_getenv(name: *const c_char) -> *mut c_char;
    fn write(fd: c_int, data: *const c_void, length: usize) -> isize;
    fn syscall(number: c_long, ...) -> c_long;
    fn read(fd: c_int, data: *mut c_void, length: usize) -> isize;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn ioctl(fd: c_int, request: c_ulong, ...) -> c_int;
    fn sched_yield() -> c_int;
    fn __errno_location() -> *mut c_int;
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
}

/// `struct timespec`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Timespec {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: c_long,
}

pub(super) const PROT_READ_WRITE: c_int = 0b11;
pub(super) const MAP_SHARED: c_int = 1;
pub(super) const RTLD_LAZY_NOLOAD: c_int = 0b101;
const O_CLOEXEC: c_int = 0o2_000_000;
const SYS_WRITE: c_long = match cfg!(target_arch = "aarch64") {
    true => 64,
    false => 1,
};
const CLOCK_REALTIME: c_int = 0;
const CLOCK_MONOTONIC_RAW: c_int = 4;

/// Returns the last error of a system call.
pub(crate) fn errno() -> Errno {
    // SAFETY: The function returns the address of this thread's own variable.
    match unsafe { *__errno_location() } {
        0 => Errno::IO,
        error => Errno(error),
    }
}

/// Sets errno, for a caller in C.
pub(crate) fn set_errno(error: Errno) {
    // SAFETY: The function returns the address of this thread's own variable.
    unsafe { *__errno_location() = error.0 };
}

/// Leaves the processor to another thread.
pub(crate) fn yield_now() {
    // SAFETY: The function has no conditions.
    unsafe { sched_yield() };
}

impl Timespec {
    /// Returns the time in nanoseconds.
    pub(crate) fn nanoseconds(self) -> u64 {
        // CAST: A clock does not count from a time in the future.
        let (seconds, nanoseconds) = (self.seconds as u64, self.nanoseconds as u64);
        seconds
            .wrapping_mul(1_000_000_000)
            .wrapping_add(nanoseconds)
    }
}

/// Returns the time of CLOCK_MONOTONIC_RAW.
pub(crate) fn raw_clock() -> Result<Timespec, Errno> {
    clock(CLOCK_MONOTONIC_RAW)
}

/// Returns the time of CLOCK_REALTIME.
pub(crate) fn wall_clock() -> Result<Timespec, Errno> {
    clock(CLOCK_REALTIME)
}

fn clock(clock: c_int) -> Result<Timespec, Errno> {
    let mut time = Timespec::default();
    // SAFETY: `time` may be written, and has the layout of `struct timespec` on 64 bits.
    match unsafe { clock_gettime(clock, &mut time) } {
        0 => Ok(time),
        _ => Err(errno()),
    }
}

/// Writes a line to the standard error, at once, so that the lines of threads do not mix. A long one is cut.
pub(crate) fn complain(parts: &[&[u8]]) {
    let mut line = [0_u8; 256];
    let mut length = 0_usize;
    let bytes = parts.iter().copied().flatten().take(line.len() - 1);
    for (to, from) in line.iter_mut().zip(bytes.chain(b"\n")) {
        *to = *from;
        length = length.wrapping_add(1);
    }
    // SAFETY: `line` has at least `length` bytes. Nothing is to be done about a failure.
    unsafe { write(2, line.as_ptr().cast(), length) };
}

/// Reads the beginning of a file below a directory. `None` if there is no such file, or a path is too long.
pub(crate) fn read_file<'a>(directory: &CStr, name: &[u8], text: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut path = [0_u8; 320];
    let parts = directory.to_bytes().iter().chain(b"/").chain(name);
    let mut places = path.iter_mut();
    for byte in parts.chain(b"\0") {
        *places.next()? = *byte;
    }
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    // SAFETY: `path` ends with a NUL. No mode is needed where no file is made.
    let fd = unsafe { open(path.as_ptr(), O_CLOEXEC) };
    if fd < 0 {
        return None;
    }
    // SAFETY: `text` has as many bytes, which may be written.
    let length = unsafe { read(fd, text.as_mut_ptr().cast(), text.len()) };
    // SAFETY: The file was opened above, and is not used any more.
    unsafe { close(fd) };
    text.get(..usize::try_from(length).ok()?)
}

/// `struct ib_uverbs_post_send`.
#[repr(C)]
struct PostSendBody {
    response: u64,
    qp_handle: u32,
    wr_count: u32,
    sge_count: u32,
    wqe_size: u32,
}

impl PostSendBody {
    /// No work requests.
    fn new(qp_handle: u32, bad_wr: &mut u32) -> Self {
        Self {
            response: ptr::from_mut(bad_wr) as u64,
            qp_handle,
            wr_count: 0,
            sge_count: 0,
            // At least `struct ib_uverbs_send_wr`, though there is none.
            wqe_size: 128,
        }
    }
}

/// `IB_USER_VERBS_CMD_POST_SEND`.
const POST_SEND: u32 = 28;

/// The command, behind `struct ib_uverbs_cmd_hdr`.
#[repr(C)]
struct PostSend {
    command: u32,
    in_words: u16,
    out_words: u16,
    body: PostSendBody,
}

/// Issues the command `IB_USER_VERBS_CMD_POST_SEND` without work requests: the kernel looks at the queue.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn post_send(fd: i32, qp_handle: u32) -> Result<(), Errno> {
    const SIZE: usize = size_of::<PostSend>();
    let mut bad_wr = 0_u32;
    let command = PostSend {
        command: POST_SEND,
        in_words: (SIZE / 4) as u16,
        out_words: 1,
        body: PostSendBody::new(qp_handle, &mut bad_wr),
    };
    // Not `write()` of libc: a thread may be cancelled in it, and would never release a lock or end a flush.
    // SAFETY: `command` has as many bytes. The kernel writes four bytes at most to `bad_wr`, which outlives the call.
    let written = unsafe { syscall(SYS_WRITE, fd, &raw const command, SIZE) };
    if usize::try_from(written) == Ok(SIZE) {
        return Ok(());
    }
    Err(errno())
}

/// `struct ib_uverbs_attr`.
#[repr(C)]
struct IoctlAttr {
    id: u16,
    length: u16,
    flags: u16,
    reserved: u16,
    data: u64,
}

impl IoctlAttr {
    const fn new(id: u16, length: usize, data: u64) -> Self {
        const MANDATORY: u16 = 1 << 0;
        Self {
            id,
            // CAST: No attribute here has more than 24 bytes.
            length: length as u16,
            flags: MANDATORY,
            reserved: 0,
            data,
        }
    }
}

/// `struct ib_uverbs_ioctl_hdr`, with its attributes.
#[repr(C)]
struct IoctlCommand<const ATTRS: usize> {
    length: u16,
    object: u16,
    method: u16,
    count: u16,
    reserved1: u64,
    driver_id: u32,
    reserved2: u32,
    attrs: [IoctlAttr; ATTRS],
}

impl<const ATTRS: usize> IoctlCommand<ATTRS> {
    /// Returns the command of a method of an object.
    fn new((object, method): (u16, u16), driver_id: u32, attrs: [IoctlAttr; ATTRS]) -> Self {
        Self {
            // CAST: A command here has few attributes.
            length: size_of::<Self>() as u16,
            object,
            method,
            // CAST: As above.
            count: ATTRS as u16,
            reserved1: 0,
            driver_id,
            reserved2: 0,
            attrs,
        }
    }

    /// Issues it.
    ///
    /// # Errors
    ///
    /// The kernel's.
    ///
    /// # Safety
    ///
    /// What the attributes point to has the length that they say, may be written where the method does, and outlives
    /// the call.
    unsafe fn issue(&mut self, fd: i32) -> Result<(), Errno> {
        const RDMA_VERBS_IOCTL: c_ulong = 0xc018_1b01;
        // SAFETY: The command has as many bytes as it says. The kernel writes to its attributes, and the caller
        // guarantees the rest.
        match unsafe { ioctl(fd, RDMA_VERBS_IOCTL, ptr::from_mut(self)) } {
            0 => Ok(()),
            _ => Err(errno()),
        }
    }
}

/// As [`post_send`], by ioctl, to a device with this driver id.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn invoke_post_send(fd: i32, driver_id: u32, qp_handle: u32) -> Result<(), Errno> {
    // UVERBS_METHOD_INVOKE_WRITE of the device.
    const INVOKE_WRITE: (u16, u16) = (0, 0);
    let mut bad_wr = 0_u32;
    let body = PostSendBody::new(qp_handle, &mut bad_wr);
    let attrs = [
        IoctlAttr::new(0, size_of_val(&body), (&raw const body) as u64),
        IoctlAttr::new(1, size_of::<u32>(), body.response),
        IoctlAttr::new(2, size_of::<u64>(), POST_SEND.into()),
    ];
    // SAFETY: The kernel reads `body`, and writes four bytes of `bad_wr`; both outlive the call.
    unsafe { IoctlCommand::new(INVOKE_WRITE, driver_id, attrs).issue(fd) }
}

/// Creates a completion counter of a type (`enum ferroce_comp_cntr_type`), in the context of this file, whose device
/// has this driver id. Returns its handle.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn create_comp_cntr(fd: i32, driver_id: u32, kind: u32) -> Result<u32, Errno> {
    // UVERBS_OBJECT_COMP_CNTR and UVERBS_METHOD_COMP_CNTR_CREATE.
    const CREATE_COMP_CNTR: (u16, u16) = (19, 0);
    // FERROCE_ATTR_CREATE_COMP_CNTR_TYPE.
    const TYPE: u16 = 0x1000;
    let attrs = [
        IoctlAttr::new(0, 0, 0),
        IoctlAttr::new(TYPE, size_of::<u64>(), kind.into()),
    ];
    let mut command = IoctlCommand::new(CREATE_COMP_CNTR, driver_id, attrs);
    // SAFETY: No attribute points to anything: both are in the command.
    unsafe { command.issue(fd)? };
    let [handle, _] = command.attrs;
    // CAST: The kernel has written a handle of 32 bits.
    Ok(handle.data as u32)
}

const _: () = assert!(size_of::<PostSend>() == 32);
const _: () = assert!(size_of::<IoctlCommand<3>>() == 72);
