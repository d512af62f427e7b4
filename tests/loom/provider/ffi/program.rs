// SPDX-License-Identifier: GPL-2.0

//! A program, as the models' tests see it: verbs on queues that are made in the beginning.

use super::{
    attr::QpAttr,
    c,
    cmd::CqArguments,
    memory::Owned,
    object::{
        Context,
        ContextBody,
        Cq,
        Pd,
        Qp,
        Users, //
    },
    spin_lock::SpinLock,
    wr::{
        Chain,
        SendWr, //
    },
};
use crate::{abi::direct::FEATURE_NO_DOORBELL, cq, cqe::Cqe, kernel::Kernel, pd::PdBody, qp};
use roce::time::Duration;
use std::{
    mem::MaybeUninit,
    ptr,
    sync::Arc, //
};

/// A context, as libibverbs allocates it.
#[repr(C)]
struct UserContext {
    head: c::Context,
    body: ContextBody,
}

/// A process with completion queues, and with QPs that use them.
pub struct Program {
    kernel: Arc<Kernel>,
    qps: Vec<Owned<Qp>>,
    cqs: Vec<Owned<Cq>>,
    _pd: Owned<Pd>,
    _context: Box<UserContext>,
}

// SAFETY: The pointers are those of objects that verbs may use in any thread.
unsafe impl Send for Program {}
// SAFETY: As above; the library's own locks are part of the model.
unsafe impl Sync for Program {}

/// Returns a structure of C that is all zeroes.
///
/// # Safety
///
/// All zeroes are a value of the type.
unsafe fn zeroed<T>() -> T {
    // SAFETY: The caller guarantees that.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

impl Program {
    /// Elements of a send queue: a stream begins before it is full, and half of them are not held back.
    const ENTRIES: u32 = 32;

    fn new(cqs: usize, cqe: u32) -> Self {
        let kernel = Kernel::start();
        let body = ContextBody {
            features: FEATURE_NO_DOORBELL,
            driver_id: 0,
            is_imported: false,
        };
        let mut owner = Box::new(UserContext {
            // SAFETY: It has integers and raw pointers only.
            head: unsafe { zeroed() },
            body,
        });
        // SAFETY: The context has a body, and lives as long as its objects.
        let context = unsafe { Context::from_c(ptr::from_mut(&mut *owner).cast()) };
        let mut pd = Pd::allocate(PdBody(Users::none())).unwrap();
        pd.set_handle(context, 0);
        let cqs = (0..cqs).map(|_| cq::create(context, CqArguments { cqe }).unwrap());
        Self {
            kernel,
            qps: Vec::new(),
            cqs: cqs.collect(),
            _pd: pd,
            _context: owner,
        }
    }

    /// A program with so many completion queues, and with one QP for each of `qps`: the completion queues of its sends
    /// and of its receives, by index.
    #[must_use]
    pub fn posting(cqs: usize, qps: &[(usize, usize)]) -> Self {
        let mut program = Self::new(cqs, 4);
        for &(send_cq, recv_cq) in qps {
            let qp = program.create_qp(send_cq, recv_cq);
            program.qps.push(qp);
        }
        program
    }

    /// A program that polls one completion queue with `entries` elements.
    #[must_use]
    pub fn polling(entries: u32) -> Self {
        Self::new(1, entries)
    }

    fn create_qp(&self, send_cq: usize, recv_cq: usize) -> Owned<Qp> {
        const RC: u32 = 2;
        // SAFETY: It has integers and raw pointers only.
        let mut attr: c::QpInitAttr = unsafe { zeroed() };
        attr.send_cq = self.cqs[send_cq].head();
        attr.recv_cq = self.cqs[recv_cq].head();
        // Without a receive queue.
        attr.srq = ptr::dangling_mut();
        attr.cap.max_send_wr = Self::ENTRIES;
        attr.qp_type = RC;
        // SAFETY: The attributes are valid, and so are the completion queues as long as the program.
        qp::create(&self._pd, unsafe { QpAttr::from_c(&mut attr) }).unwrap()
    }

    /// Posts a request.
    pub fn post(&self, qp: usize) {
        // SAFETY: It has integers and raw pointers only.
        let wr: SendWr = unsafe { zeroed() };
        // SAFETY: The list is one request, which outlives the call.
        let list = unsafe { Chain::new(&wr) };
        assert!(qp::post_send(&self.qps[qp], list).is_ok());
    }

    /// Posts until the kernel looks at the queue by itself: the next request is held back. Returns how many that were.
    #[must_use]
    pub fn stream(&self, qp: usize) -> u32 {
        for posted in 1..Self::ENTRIES {
            self.post(qp);
            if self.kernel.seen(self.qps[qp].handle()) == (posted, true) {
                return posted;
            }
        }
        panic!("no stream");
    }

    /// Polls a completion queue. Returns the completion that there is.
    pub fn poll(&self, cq: usize) -> Option<Vec<u32>> {
        let mut taken = None;
        let count = cq::poll(&self.cqs[cq], 1, |_, cqe| taken = Some(fields(&cqe)));
        assert_eq!(count, Some(usize::from(taken.is_some())));
        taken
    }

    /// As [`poll`](Self::poll), field by field: the lock of the queue is held all the time.
    pub fn read(&self, cq: usize) -> Option<Vec<u32>> {
        let body = self.cqs[cq].body();
        body.polling.with(|polling| {
            let started = cq::start(body, polling).is_ok();
            polling.end();
            started.then(|| fields(&polling.current.cqe))
        })
    }

    /// Asks for an event at the next completion.
    pub fn request_event(&self, cq: usize) {
        cq::request_event(&self.cqs[cq], 0).unwrap();
    }

    /// Destroys a QP, which no thread may use then.
    pub fn destroy(&self, qp: usize) {
        qp::destroy(&self.qps[qp]).unwrap();
    }

    /// The kernel completes something: all fields say `value`. Returns whether there was room.
    pub fn complete(&self, cq: usize, value: u32) -> bool {
        let _ = &self.cqs[cq];
        self.kernel.complete(cq as u32, value)
    }

    /// The time comes at which the kernel looks at a send queue, if it does. Returns whether it does.
    pub fn expire(&self, qp: usize) -> bool {
        self.kernel.expire(self.qps[qp].handle())
    }

    /// Microseconds pass.
    pub fn pass(&self, qp: usize, micros: u64) {
        let time = Duration::from_micros(micros);
        self.kernel.pass(self.qps[qp].handle(), time);
    }

    /// Returns how many requests the kernel has seen, and whether it looks for more by itself.
    #[must_use]
    pub fn seen(&self, qp: usize) -> (u32, bool) {
        self.kernel.seen(self.qps[qp].handle())
    }

    /// Returns how many events there were.
    #[must_use]
    pub fn events(&self, cq: usize) -> u32 {
        self.kernel.events(cq as u32)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kernel.stop();
    }
}

fn fields(cqe: &Cqe) -> Vec<u32> {
    let words = [
        cqe.status,
        cqe.opcode,
        cqe.vendor_err,
        cqe.byte_len,
        cqe.imm_or_key,
        cqe.qp_num,
        cqe.src_qp,
        cqe.wc_flags,
    ];
    let id = [cqe.wr_id as u32, (cqe.wr_id >> 32) as u32];
    words.into_iter().chain(id).collect()
}

/// A number under the library's lock. The model panics if a use is not ordered after the earlier ones.
pub struct Locked(SpinLock<u32>);

impl Default for Locked {
    fn default() -> Self {
        Self(SpinLock::new(0))
    }
}

impl Locked {
    /// Adds one. Returns the sum.
    pub fn add_one(&self) -> u32 {
        self.0.with(|number| {
            *number += 1;
            *number
        })
    }
}
