// SPDX-License-Identifier: GPL-2.0

//! `advise_mr`: prefetches pages of ODP regions.
//!
//! Called in process context. The caller or a work item faults the pages in, which may sleep for long. Page faults of
//! messages are in [`page_fault`](crate::mem::page_fault).

use crate::{
    device::ferroce::Ferroce,
    mem::{
        page_fault::FaultRequest,
        pd::Pd, //
    },
    port::state::Port, //
};
use kernel::{
    impl_has_work,
    new_work,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    workqueue::{
        Work,
        WorkItem, //
    }, //
};
use rdma::{
    ib::{
        device::Device,
        driver::Advice,
        wr::SgeList, //
    },
    mm::hmm_range::Fetch,
    sync::quiesce::LiveRef,
    util::alloc::gfp_user, //
};
use roce::access::Access;

/// Limit of work items that prefetch at a time. Beyond it, callers prefetch themselves.
const MAX_PENDING_PREFETCHES: u32 = 256;

/// Limit of the bytes that one work item prefetches. Beyond it, the caller prefetches itself, and a signal stops it.
const MAX_PREFETCH_BYTES: u64 = 1 << 30;

/// Work items that prefetch.
static PENDING_PREFETCHES: Atomic<u32> = Atomic::new(0);

/// Prefetches memory that a consumer will need. `wait`: returns when the pages are present.
///
/// # Errors
///
/// `EINVAL` if a range is not in an ODP region of `pd`, or not writable; `ENOMEM`. If the caller prefetches, those of
/// [`OnDemand::fault`](rdma::mm::on_demand::OnDemand::fault).
pub(crate) fn advise(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    advice: Advice,
    wait: bool,
    sges: &SgeList<'_>,
) -> Result {
    let (fetch, access) = match advice {
        Advice::Prefetch => (Fetch::Read, Access::NONE),
        Advice::PrefetchWrite => (Fetch::Write, Access::LOCAL_WRITE),
        Advice::PrefetchPresent => (Fetch::Present, Access::NONE),
    };
    let port = dev.port();
    let mut requests = KVVec::with_capacity(sges.len(), gfp_user())?;
    for sge in sges.iter().filter(|sge| sge.length != 0) {
        let request = FaultRequest {
            pd: pd.clone(),
            peer_of: None,
            key: sge.lkey,
            va: sge.addr,
            len: sge.length,
            around_len: 0,
            access,
        };
        request.lookup(port.keys()).ok_or(EINVAL)?;
        requests.push(request, gfp_user())?;
    }
    let bytes: u64 = requests.iter().map(|request| u64::from(request.len)).sum();
    if wait
        || bytes > MAX_PREFETCH_BYTES
        || PENDING_PREFETCHES.load(Relaxed) >= MAX_PENDING_PREFETCHES
    {
        return prefetch_all(&requests, port, fetch);
    }
    let prefetch = Arc::pin_init(
        pin_init!(Prefetch {
            requests,
            fetch,
            port: port.clone(),
            work <- new_work!("odp::Prefetch"),
            _live_ref: dev.shared().qps().join(),
        }),
        GFP_KERNEL_ACCOUNT,
    )?;
    PENDING_PREFETCHES.add(1, Relaxed);
    // Cannot fail: the work item is new, so it is not queued yet.
    let _ = port.workqueues().page_faults.enqueue(prefetch);
    Ok(())
}

/// Faults in the memory of all `requests`. Sleeps.
fn prefetch_all(requests: &[FaultRequest], port: &Port, fetch: Fetch) -> Result {
    requests
        .iter()
        .try_for_each(|request| request.prefetch(port.keys(), fetch))
}

/// Work item that prefetches.
#[pin_data]
struct Prefetch {
    requests: KVVec<FaultRequest>,
    fetch: Fetch,
    port: Arc<Port>,
    #[pin]
    work: Work<Self>,
    /// Keeps the module loaded. The last field, so it is dropped last.
    _live_ref: LiveRef,
}

impl_has_work! {
    impl HasWork<Self> for Prefetch { self.work }
}

impl WorkItem for Prefetch {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // Prefetching is advisory, and no caller waits for the result.
        let _ = prefetch_all(&this.requests, &this.port, this.fetch);
        PENDING_PREFETCHES.fetch_sub(1, Relaxed);
    }
}
