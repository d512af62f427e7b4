// SPDX-License-Identifier: GPL-2.0

//! Work items embedded in objects that an [`Arc`] holds: operations that [`kernel::workqueue`] lacks.
//!
//! Queues an item on a chosen CPU, and cancels a queued item. A queued item holds a reference to its object.
//! The run takes that reference over.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use crate::bindings;
use kernel::{
    cpu::CpuId,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
    workqueue::{
        HasWork,
        RawWorkItem,
        Work,
        WorkItem, //
    }, //
};

/// Queues a work item on the softirq workqueue of `cpu`, or of this CPU if `cpu` is going offline. An item that is
/// running stays on its CPU.
///
/// For contexts under RCU, such as those with a spinlock held: otherwise `cpu` may go offline meanwhile, and the item
/// waits until it is back.
///
/// # Errors
///
/// Returns the object if the item is already queued, on any CPU.
pub fn enqueue_bh_on<T, const ID: u64>(cpu: CpuId, object: Arc<T>) -> Result<(), Arc<T>>
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasWork<T, ID> + Send + Sync + 'static,
{
    // SAFETY: `cpu_active` accepts the number of any possible CPU, and `CpuId` holds only such numbers.
    let cpu = match unsafe { bindings::ferroce_helper_cpu_active(cpu.as_u32()) } {
        // CAST: A CPU number is small.
        true => cpu.as_u32() as c_int,
        false => bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
    };
    // SAFETY: `__enqueue` requires a queue function that takes the item exactly when it returns true:
    // `queue_work_on` returns false only if the item is queued or being cancelled. `T` is `Send` and
    // `'static`, so it may run on another thread at any later time. `system_bh_wq` always exists. If the CPU
    // goes offline after this, C runs the item on another.
    unsafe {
        RawWorkItem::<ID>::__enqueue(object, |work| {
            bindings::queue_work_on(cpu, bindings::system_bh_wq, work)
        })
    }
}

/// Cancels a work item if it is queued, and waits until a running one has finished. Must not be called from
/// the item itself. Sleeps.
///
/// An attempt to queue the item meanwhile fails as if it were queued. A queued item is not waited for: on a
/// `WQ_MEM_RECLAIM` queue it may start only after memory was freed, possibly by the caller.
pub fn cancel_work<T, const ID: u64>(object: ArcBorrow<'_, T>)
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasWork<T, ID>,
{
    cancel_with(object, bindings::cancel_work_sync);
}

/// Cancels a work item that is queued and has not started; does not wait for a running one. For any context
/// in which an object may be dropped.
pub fn cancel_work_nowait<T, const ID: u64>(object: ArcBorrow<'_, T>)
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasWork<T, ID>,
{
    cancel_with(object, bindings::cancel_work);
}

/// Cancels the work item with `cancel`. Drops the reference of a queued item.
fn cancel_with<T, const ID: u64>(
    object: ArcBorrow<'_, T>,
    cancel: unsafe extern "C" fn(*mut bindings::work_struct) -> bool,
) where
    T: WorkItem<ID, Pointer = Arc<T>> + HasWork<T, ID>,
{
    let object = Arc::into_raw(object.into());
    // SAFETY: Our reference keeps the object, so the pointer is valid. Its item is initialised, as every
    // `Work` is.
    let queued = unsafe { cancel(Work::raw_get(T::raw_get_work(object.cast_mut()))) };
    // SAFETY: `object` comes from `Arc::into_raw` above, and this takes that reference back once.
    drop(unsafe { Arc::from_raw(object) });
    if queued {
        // SAFETY: `__enqueue` of an `Arc` leaves one reference to the item, which its run takes over. The
        // item was cancelled, so it will not run, and the reference is ours.
        drop(unsafe { Arc::from_raw(object) });
    }
}
