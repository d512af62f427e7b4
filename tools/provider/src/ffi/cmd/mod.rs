// SPDX-License-Identifier: GPL-2.0

//! Commands to the kernel, which libibverbs sends.
//!
//! The kernel's part of a command has ferroce's part behind it, and so has a response. libibverbs has to be given room
//! for its own part, which is never read here. `queues` has the commands of completion queues, shared receive queues
//! and QPs, `memory` those of protection domains, regions and windows, `comp_cntr` those of completion counters.

mod comp_cntr;
mod memory;
mod queues;

pub(crate) use comp_cntr::{
    attach_comp_cntr,
    change_comp_cntr,
    create_comp_cntr,
    destroy_comp_cntr,
    query_comp_cntr_caps,
    read_comp_cntr,
    read_err_comp_cntr,
    AttachAttr,
    CapsQuery,
    CntrChange,
    CntrValue, //
};
pub(crate) use memory::{
    advise_mr,
    alloc_mw,
    alloc_pd,
    dealloc_mw,
    dealloc_pd,
    dereg_mr,
    query_mr,
    reg_dmabuf_mr,
    reg_mr,
    rereg_mr,
    Advice,
    DmaBuf,
    Range, //
};
pub(crate) use queues::{
    create_cq,
    create_cq_ex,
    create_qp,
    create_qp_ex,
    create_srq,
    create_srq_ex,
    destroy_cq,
    destroy_qp,
    destroy_srq,
    modify_cq,
    modify_qp,
    modify_srq,
    open_qp,
    query_qp,
    query_srq,
    req_notify_cq,
    resize_cq,
    CqArguments,
    Moderation,
    OpenQp,
    QpState,
    SrqAttr, //
};

use super::{
    c,
    object::{
        Ah,
        Context,
        Pd,
        Qp,
        Xrcd, //
    },
    symbols, //
};
use crate::{
    abi::direct::{
        CreateAhResp,
        GetContextReq,
        GetContextResp, //
    },
    errno::Errno, //
};
use core::{
    ffi::c_void,
    ptr, //
};

/// A response: the part of the core, in words, and that of ferroce.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Resp<const WORDS: usize, T> {
    core: Core<WORDS>,
    driver: T,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Core<const WORDS: usize>([u32; WORDS]);

impl<const WORDS: usize> Default for Core<WORDS> {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

/// Room for a command of libibverbs with this many bytes at most.
type Scratch = [u64; 20];

fn any<T>(of: &mut T) -> *mut c_void {
    ptr::from_mut(of).cast()
}

/// Calls a function of libibverbs. All arguments that are pointers are of objects that live until it returns.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let symbols = symbols::get().ok_or(Errno::OPNOTSUPP)?;
        // SAFETY: The function has this type. The pointers are of references and objects that live until it returns,
        // sizes are those of what the pointers point to, and null stands where it is optional. Objects that
        // it writes to are given exclusively, or are such that libibverbs guards them itself.
        Errno::check(unsafe { (symbols.$name)($($argument),*) })
    }};
}

use call;

/// As `call`, of a function that not all releases of libibverbs have.
macro_rules! call_if_there {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let symbols = symbols::get().ok_or(Errno::OPNOTSUPP)?;
        let function = symbols.$name.ok_or(Errno::OPNOTSUPP)?;
        // SAFETY: As in `call`.
        Errno::check(unsafe { function($($argument),*) })
    }};
}

use call_if_there;

/// A context that is being made.
pub(super) struct RawContext(pub(super) *mut c::VerbsContext);

/// Asks the kernel for a context.
///
/// # Errors
///
/// The kernel's.
pub(super) fn get_context(
    context: &RawContext,
    request: GetContextReq,
) -> Result<GetContextResp, Errno> {
    #[repr(C)]
    struct Command {
        core: [u64; 2],
        driver: GetContextReq,
    }
    let mut command = Command {
        core: [0; 2],
        driver: request,
    };
    let mut resp = Resp::<2, GetContextResp>::default();
    let (size, at) = (size_of_val(&resp), any(&mut resp) as usize);
    let arguments = match symbols::get()
        .ok_or(Errno::OPNOTSUPP)?
        .version
        .context_has_fds
    {
        true => [0, at, size],
        false => [at, size, 0],
    };
    let [fourth, fifth, sixth] = arguments;
    let command_size = size_of_val(&command);
    call!(ibv_cmd_get_context(
        context.0,
        any(&mut command),
        command_size,
        fourth,
        fifth,
        sixth
    ))?;
    Ok(resp.driver)
}

/// Asks the kernel whether the context of a file, which another process may have made, is one of this ABI.
///
/// # Errors
///
/// The kernel's.
pub(super) fn query_context(context: Context<'_>) -> Result<(), Errno> {
    call!(ibv_cmd_query_context(context.raw(), ptr::null_mut()))
}

/// The file that an XRC domain belongs to, as a program passes it.
#[derive(Clone, Copy)]
pub(crate) struct XrcdFile(pub(super) *mut c::XrcdInitAttr);

/// Opens an XRC domain.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn open_xrcd(
    context: Context<'_>,
    file: XrcdFile,
    xrcd: &mut Xrcd,
) -> Result<(), Errno> {
    const SIZE: core::ffi::c_int = 16;
    let (mut command, mut resp) = (Scratch::default(), [0_u32; 1]);
    call!(ibv_cmd_open_xrcd(
        context.raw(),
        xrcd.head(),
        SIZE,
        file.0,
        any(&mut command),
        24,
        any(&mut resp),
        4
    ))
}

/// Closes an XRC domain.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn close_xrcd(xrcd: &Xrcd) -> Result<(), Errno> {
    call!(ibv_cmd_close_xrcd(xrcd.head()))
}

/// A multicast group that a program passes.
#[derive(Clone, Copy)]
pub(crate) struct Group {
    pub(super) gid: *const c::Gid,
    pub(super) lid: u16,
}

/// Attaches a QP to a multicast group.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn attach_mcast(qp: &Qp, group: Group) -> Result<(), Errno> {
    call!(ibv_cmd_attach_mcast(qp.head().cast(), group.gid, group.lid))
}

/// Detaches a QP from a multicast group.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn detach_mcast(qp: &Qp, group: Group) -> Result<(), Errno> {
    call!(ibv_cmd_detach_mcast(qp.head().cast(), group.gid, group.lid))
}

/// The address that a program passes to `create_ah`.
#[derive(Clone, Copy)]
pub(crate) struct Address(pub(super) *mut c::AhAttr);

/// Creates an address handle.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn create_ah(pd: &Pd, address: Address, ah: &mut Ah) -> Result<CreateAhResp, Errno> {
    let mut resp = Resp::<1, CreateAhResp>::default();
    let size = size_of_val(&resp);
    call!(ibv_cmd_create_ah(
        pd.head(),
        ah.head(),
        address.0,
        any(&mut resp),
        size
    ))?;
    Ok(resp.driver)
}

/// Destroys an address handle.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn destroy_ah(ah: &Ah) -> Result<(), Errno> {
    call!(ibv_cmd_destroy_ah(ah.head()))
}

/// Where a program wants the attributes of a port.
#[derive(Clone, Copy)]
pub(crate) struct PortQuery {
    pub(super) port: u8,
    pub(super) attr: *mut c::PortAttr,
}

/// Queries a port.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn query_port(context: Context<'_>, query: PortQuery) -> Result<(), Errno> {
    let mut command = Scratch::default();
    call!(ibv_cmd_query_port(
        context.raw(),
        query.port,
        query.attr,
        any(&mut command),
        24
    ))
}

/// Where a program wants the speed of a port.
#[derive(Clone, Copy)]
pub(crate) struct SpeedQuery {
    pub(super) port: u32,
    pub(super) speed: *mut u64,
}

/// Queries the speed of a port.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn query_port_speed(context: Context<'_>, query: SpeedQuery) -> Result<(), Errno> {
    call_if_there!(ibv_cmd_query_port_speed(
        context.raw(),
        query.port,
        query.speed
    ))
}

/// Where a program wants the attributes of a device. They begin with the version of the firmware, as text.
#[derive(Clone, Copy)]
pub(crate) struct DeviceQuery {
    pub(super) input: *const c::QueryDeviceInput,
    pub(super) attr: *mut c_void,
    pub(super) size: usize,
}

/// Bytes of the text.
pub(crate) const FIRMWARE_BYTES: usize = 64;

/// Queries a device. `firmware` converts the version to text.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn query_device(
    context: Context<'_>,
    query: DeviceQuery,
    firmware: impl FnOnce(u64) -> [u8; FIRMWARE_BYTES],
) -> Result<(), Errno> {
    // `struct ib_uverbs_ex_query_device_resp`, which begins with the number.
    let mut resp = [0_u64; 38];
    let mut size = size_of_val(&resp);
    call!(ibv_cmd_query_device_any(
        context.raw(),
        query.input,
        query.attr,
        query.size,
        any(&mut resp),
        &mut size
    ))?;
    let [number, ..] = resp;
    // SAFETY: libibverbs has accepted the size, so the attributes have at least `struct ibv_device_attr`, which
    // begins with the text.
    unsafe {
        query
            .attr
            .cast::<[u8; FIRMWARE_BYTES]>()
            .write(firmware(number))
    };
    Ok(())
}
