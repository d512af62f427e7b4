// SPDX-License-Identifier: GPL-2.0

//! Objects of verbs: a structure of libibverbs, with what the library needs behind it.
//!
//! libibverbs and the program have a pointer to the structure, which is a pointer to the object. Both write to some
//! fields of it, so here it is only accessed through raw pointers.

use super::{
    c,
    libc,
    lock::Locking,
    memory::Owned, //
};
use crate::{
    ah::AhBody,
    cq::CqBody,
    doorbell::CommandFile,
    errno::Errno,
    pd::PdBody,
    qp::QpBody,
    srq::SrqBody, //
};
use core::{
    cell::UnsafeCell,
    ffi::c_int,
    marker::PhantomData,
    mem::MaybeUninit,
    ops::Deref,
    ptr,
    sync::atomic::{
        AtomicU32,
        Ordering, //
    }, //
};

/// A structure of C that may be all zeroes.
///
/// # Safety
///
/// All zeroes are a value of the type.
pub(super) unsafe trait CStruct {}

macro_rules! c_structs {
    ($($name:ident)+) => {
        $(
            // SAFETY: It has integers and raw pointers only.
            unsafe impl CStruct for c::$name {}
        )+
    };
}

c_structs!(Td Pd Xrcd CompCntr Mr Mw Ah CqEx Srq VerbsQp);

/// An object, whose head C knows.
#[repr(C)]
pub(crate) struct Object<H, B> {
    head: UnsafeCell<H>,
    body: B,
}

/// A thread domain.
pub(crate) type Td = Object<c::Td, Users>;
/// A protection domain.
pub(crate) type Pd = Object<c::Pd, PdBody>;
/// An XRC domain.
pub(crate) type Xrcd = Object<c::Xrcd, ()>;
/// A completion counter.
pub(crate) type CompCntr = Object<c::CompCntr, ()>;
/// A memory region.
pub(crate) type Mr = Object<c::Mr, ()>;
/// A memory window.
pub(crate) type Mw = Object<c::Mw, ()>;
/// An address handle.
pub(crate) type Ah = Object<c::Ah, AhBody>;
/// A completion queue.
pub(crate) type Cq = Object<c::CqEx, CqBody>;
/// A shared receive queue.
pub(crate) type Srq = Object<c::Srq, SrqBody>;
/// A queue pair.
pub(crate) type Qp = Object<c::VerbsQp, QpBody>;

#[allow(private_bounds)]
impl<H: CStruct, B> Object<H, B> {
    /// Allocates an object whose head is all zeroes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn allocate(body: B) -> Result<Owned<Self>, Errno> {
        Owned::new(Self {
            // SAFETY: `CStruct` says that all zeroes are a value.
            head: UnsafeCell::new(unsafe { MaybeUninit::zeroed().assume_init() }),
            body,
        })
    }

    /// Returns the object that C knows by its head.
    ///
    /// # Safety
    ///
    /// `head` is from [`give`], and its object is not destroyed while the reference is used.
    #[inline]
    pub(super) unsafe fn from_c<'a>(head: *mut H) -> &'a Self {
        // SAFETY: The head is the first field of the object. The caller guarantees that it is one of ours, and lives.
        unsafe { &*head.cast::<Self>() }
    }

    /// Returns a pointer to the head.
    #[inline]
    pub(super) fn head(&self) -> *mut H {
        self.head.get()
    }

    /// Returns what is behind the head.
    #[inline]
    pub(crate) fn body(&self) -> &B {
        &self.body
    }

    /// Returns what is behind the head, of an object that C does not know yet.
    pub(crate) fn body_mut(&mut self) -> &mut B {
        &mut self.body
    }
}

/// Hands a new object to C, or sets errno.
pub(super) fn give<H: CStruct, B>(made: Result<Owned<Object<H, B>>, Errno>) -> *mut H {
    match made {
        Ok(object) => object.into_raw().cast(),
        Err(error) => {
            libc::set_errno(error);
            ptr::null_mut()
        }
    }
}

/// Destroys an object that C has given back, if `destroy` succeeds: else C still has it.
///
/// # Safety
///
/// `head` is from [`give`], and no other thread uses the object.
pub(super) unsafe fn take_back<H: CStruct, B>(
    head: *mut H,
    destroy: impl FnOnce(&Object<H, B>) -> Result<(), Errno>,
) -> c_int {
    // SAFETY: The caller guarantees that it is an object that `give` gave away, and that no other thread uses it.
    let Some(object) = (unsafe { Owned::from_raw(head.cast::<Object<H, B>>()) }) else {
        return Errno::INVAL.0;
    };
    let result = destroy(&object);
    if result.is_err() {
        object.into_raw();
    }
    returned(result)
}

/// Converts a result to what a verb returns.
pub(super) fn returned(result: Result<(), Errno>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            libc::set_errno(error);
            error.0
        }
    }
}

/// A user context, which its objects keep alive.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    raw: *mut c::Context,
    _lives: PhantomData<&'a c::Context>,
}

/// What the library has behind `struct ibv_context`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ContextBody {
    /// The features of the ABI that both sides can use.
    pub(crate) features: u64,
    /// The driver id of the device.
    pub(crate) driver_id: u32,
    /// The context is one that the kernel had already.
    pub(crate) is_imported: bool,
}

impl Context<'_> {
    /// Returns the context that C knows by this pointer.
    ///
    /// # Safety
    ///
    /// It is one of ours (see `entry`), and is not freed while the result is used.
    pub(super) unsafe fn from_c(raw: *mut c::Context) -> Self {
        Self {
            raw,
            _lives: PhantomData,
        }
    }

    /// Returns the pointer for C.
    pub(super) fn raw(self) -> *mut c::Context {
        self.raw
    }

    /// Returns the file of the context.
    pub(crate) fn file(self) -> CommandFile {
        CommandFile {
            // SAFETY: `from_c` demands that the context is valid. libibverbs sets the field when it makes a context.
            fd: unsafe { (*self.raw).cmd_fd },
            driver_id: self.body().driver_id,
            by_ioctl: self.body().is_imported,
        }
    }

    /// Returns the features of the ABI that both sides can use.
    pub(crate) fn features(self) -> u64 {
        self.body().features
    }

    fn body(self) -> ContextBody {
        // SAFETY: `from_c` demands that the context is ours, and ours have a body behind them.
        unsafe { self.raw.add(1).cast::<ContextBody>().read() }
    }
}

impl Td {
    /// Sets the context.
    pub(crate) fn set_context(&mut self, context: Context<'_>) {
        // SAFETY: The head is valid, and the domain is ours alone as yet.
        unsafe { (*self.head()).context = context.raw() };
    }
}

impl Pd {
    /// Returns the context of the domain.
    pub(crate) fn context(&self) -> Context<'_> {
        // SAFETY: The field is set when the domain is made, and a program frees a context after its objects.
        unsafe { Context::from_c((*self.head()).context) }
    }

    /// Returns the handle.
    pub(crate) fn handle(&self) -> u32 {
        // SAFETY: The head is valid, and the handle is written only when the domain is made.
        unsafe { (*self.head()).handle }
    }

    /// Makes it a domain that the kernel knows by this handle.
    pub(crate) fn set_handle(&mut self, context: Context<'_>, handle: u32) {
        let head = self.head();
        // SAFETY: The head is valid, and the domain is ours alone as yet.
        unsafe {
            (*head).context = context.raw();
            (*head).handle = handle;
        }
    }

    /// Whether the queues that are made in this domain need locks.
    pub(crate) fn locking(&self) -> Locking {
        match self.body().has_td() {
            // SAFETY: With a thread domain the program promises that one thread at a time uses the objects of it.
            true => unsafe { Locking::omitted() },
            false => Locking::NEEDED,
        }
    }
}

impl CompCntr {
    /// Makes it the counter that the kernel knows by this handle.
    pub(crate) fn set_handle(&mut self, context: Context<'_>, handle: u32) {
        let head = self.head();
        // SAFETY: The head is valid, and the counter is ours alone as yet.
        unsafe {
            (*head).context = context.raw();
            (*head).handle = handle;
        }
    }
}

/// Number of parent domains that refer to an object, which is not freed before them.
pub(crate) struct Users(AtomicU32);

impl Users {
    /// There are none.
    pub(crate) const fn none() -> Self {
        Self(AtomicU32::new(0))
    }

    /// # Errors
    ///
    /// `EBUSY` if there are some.
    pub(crate) fn check_none(&self) -> Result<(), Errno> {
        match self.0.load(Ordering::Acquire) {
            0 => Ok(()),
            _ => Err(Errno::BUSY),
        }
    }
}

/// A use of an object.
pub(crate) struct Use(*const Users);

// SAFETY: It is no more than a shared reference to an atomic number.
unsafe impl Send for Use {}
// SAFETY: As above.
unsafe impl Sync for Use {}

impl Use {
    /// Counts a use.
    ///
    /// # Safety
    ///
    /// The object of `users` is one that C knows, and is freed only if [`Users::check_none`] succeeds.
    pub(super) unsafe fn new(users: &Users) -> Self {
        users.0.fetch_add(1, Ordering::Relaxed);
        Self(users)
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        // SAFETY: The object is not freed while this use is counted, as `new` demands.
        unsafe { (*self.0).0.fetch_sub(1, Ordering::Release) };
    }
}

impl Qp {
    /// Returns the handle.
    #[inline]
    pub(crate) fn handle(&self) -> u32 {
        // SAFETY: The head is valid, and the handle is written only when the QP is made.
        unsafe { (*self.head()).qp.handle }
    }

    /// Returns the number.
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: The head is valid, and the number is written only when the QP is made.
        unsafe { (*self.head()).qp.qp_num }
    }

    /// Returns the state, as the program last set or queried it.
    #[inline]
    pub(crate) fn state(&self) -> u32 {
        // SAFETY: The head is valid. libibverbs writes the field when the program changes the state, and a program
        // that posts at that time could not tell which of both was first.
        unsafe { ptr::read_volatile(&raw const (*self.head()).qp.state) }
    }
}

impl Cq {
    /// Sets the fields that a program reads of the completion that it polls.
    pub(crate) fn set_current(&self, status: u32, wr_id: u64) {
        let head = self.head();
        // SAFETY: The head is valid. Only the thread that polls uses these fields, under the lock of the queue.
        unsafe {
            (*head).status = status;
            (*head).wr_id = wr_id;
        }
    }
}

impl Srq {
    /// Sets the number that XRC knows the queue by.
    pub(crate) fn set_number(&mut self, number: u32) {
        // SAFETY: The head is valid, and the queue is ours alone as yet.
        unsafe { (*self.head()).srq_num = number };
    }

    /// Returns the number that XRC knows the queue by; 0 if it has none.
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: The head is valid, and the number is written only when the queue is made.
        unsafe { (*self.head()).srq_num }
    }
}

impl Mw {
    /// Returns the key.
    pub(crate) fn rkey(&self) -> u32 {
        // SAFETY: The head is valid. Programs bind a window from one thread at a time, or do not know its key.
        unsafe { (*self.head()).rkey }
    }

    /// Sets the key.
    pub(crate) fn set_rkey(&self, rkey: u32) {
        // SAFETY: As in `rkey`.
        unsafe { (*self.head()).rkey = rkey };
    }
}

/// A completion queue that a QP uses: the kernel keeps it until the QP is destroyed.
#[derive(Clone, Copy)]
pub(crate) struct CqRef(*const Cq);

// SAFETY: It is no more than a shared reference, and a `Cq` is used by several threads.
unsafe impl Send for CqRef {}

impl CqRef {
    /// Returns the reference; `None` for null.
    ///
    /// # Safety
    ///
    /// `cq` is null, or from [`give`] and not destroyed while the result is used.
    pub(super) unsafe fn from_c(cq: *mut c::CqEx) -> Option<Self> {
        (!cq.is_null()).then_some(Self(cq.cast()))
    }

    /// Returns whether both are the same queue.
    pub(crate) fn is(self, other: Self) -> bool {
        self.0 == other.0
    }
}

impl Deref for CqRef {
    type Target = Cq;

    #[inline]
    fn deref(&self) -> &Cq {
        // SAFETY: `from_c` demands that the object is valid.
        unsafe { &*self.0 }
    }
}
