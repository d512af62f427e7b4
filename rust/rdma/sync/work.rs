// SPDX-License-Identifier: GPL-2.0

//! Work items of objects that an `Arc` holds: what [`kernel::workqueue`] does not offer.
//!
//! Owns how an item is queued on a CPU of one's choice, and how it is taken back. A queued item holds a reference to
//! its object, which its run takes.
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

/// Queues a work item for the softirqs of `cpu`, or of this CPU if that one is offline; but an item that runs goes on
/// where it does. For contexts that nothing preempts, since a CPU may go offline meanwhile.
///
/// # Errors
///
/// The object, if the item is queued already, on whatever CPU.
pub fn enqueue_bh_on<T, const ID: u64>(cpu: CpuId, object: Arc<T>) -> Result<(), Arc<T>>
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasWork<T, ID> + Send + Sync + 'static,
{
    // SAFETY: May be asked of any number.
    let cpu = match unsafe { bindings::ferroce_helper_cpu_online(cpu.as_u32()) } {
        // CAST: A number of a CPU.
        true => cpu.as_u32() as c_int,
        false => bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
    };
    // SAFETY: Only an item that is queued, or is being taken back, is refused. `T` may be sent and has no lifetime. The
    // queue is one of the kernel's own, and the item is there until it has run: `__enqueue` sees to that. If the CPU
    // goes after this, the item runs on another.
    unsafe {
        RawWorkItem::<ID>::__enqueue(object, |work| {
            bindings::queue_work_on(cpu, bindings::system_bh_wq, work)
        })
    }
}

/// Takes a work item back if it is queued, and waits for its end if it runs. Not from within the item itself.
///
/// Who queues it while this waits is told that it is queued already. What is queued is not waited for: it may
/// have its turn only when memory has been freed, and who calls may be the one that frees it (`WQ_MEM_RECLAIM`).
pub fn cancel_work<T, const ID: u64>(object: ArcBorrow<'_, T>)
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasWork<T, ID>,
{
    take_back(object, bindings::cancel_work_sync);
}

/// Takes a work item back that was queued and has not begun. One that has goes on, and nobody waits for it. For any
/// context in which an object may be dropped.
pub fn take_back_work<T, const ID: u64>(object: ArcBorrow<'_, T>)
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasWork<T, ID>,
{
    take_back(object, bindings::cancel_work);
}

/// Has `cancel` take the work item back, and drops the reference that it was queued with.
fn take_back<T, const ID: u64>(
    object: ArcBorrow<'_, T>,
    cancel: unsafe extern "C" fn(*mut bindings::work_struct) -> bool,
) where
    T: WorkItem<ID, Pointer = Arc<T>> + HasWork<T, ID>,
{
    let object = Arc::into_raw(object.into());
    // SAFETY: The object is there, since we have a reference. Its item is initialised, as every `Work` is.
    let queued = unsafe { cancel(Work::raw_get(T::raw_get_work(object.cast_mut()))) };
    // SAFETY: The reference of above.
    drop(unsafe { Arc::from_raw(object) });
    if queued {
        // SAFETY: An item of an `Arc` is queued with a reference, which its run takes back. This one will not run.
        drop(unsafe { Arc::from_raw(object) });
    }
}
