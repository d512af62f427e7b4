// SPDX-License-Identifier: GPL-2.0

//! On-demand paging, as a consumer sees it: regions whose memory is not pinned, and advice on what
//! to bring before it is needed.
//!
//! Owns which registrations are on demand, and the work items that follow advice. What happens when
//! memory is absent in the middle of a message is elsewhere (`fault_wait`).

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
        attr::MrInit,
        device::Device,
        driver::Advice,
        wr::SgeList, //
    },
    mm::{
        hmm_range::Fetch,
        memory::Memory,
        on_demand::OnDemand, //
    },
    sync::quiesce::LiveRef,
    util::alloc::gfp_user, //
};
use roce::access::Access;

/// Rights that need memory that can be written.
const WRITING: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::MW_BIND);

/// Memory on demand for a region that a process registers. From address 0 on without an end, it is
/// all memory that the process has or will have (implicit on-demand paging).
///
/// The flag for huge pages changes nothing here: whatever pages there are can be used.
///
/// # Errors
///
/// `EINVAL`: no bytes, not in an address space, or another name for all memory; `ENOMEM`.
pub(crate) fn memory(init: &MrInit) -> Result<Memory> {
    let access = Access::from_bits(init.access);
    let writable = access.intersection(WRITING) != Access::NONE;
    let region = if init.start == 0 && init.length == u64::MAX {
        if init.iova != 0 || access.contains(Access::HUGETLB) {
            return Err(EINVAL);
        }
        OnDemand::implicit(writable)?
    } else {
        OnDemand::new(init.start, init.length, writable)?
    };
    Ok(Memory::OnDemand(region))
}

/// Most work items that follow advice at a time. Further advice is followed by who gives it.
const MOST_PENDING: u32 = 256;

/// Most bytes that a work item brings. Who asks for more brings them, and may be killed.
const MOST_AHEAD: u64 = 1 << 30;

/// Work items that follow advice.
static PENDING: Atomic<u32> = Atomic::new(0);

/// Brings memory that a consumer says it will need. `wait`: return when it is there.
///
/// # Errors
///
/// `EINVAL`: a range is not in a region on demand of this protection domain, or may not be written.
/// If it was to wait, those of [`OnDemand::fault`].
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
    let mut wants = KVVec::with_capacity(sges.len(), gfp_user())?;
    for sge in sges.iter().filter(|sge| sge.length != 0) {
        let request = FaultRequest {
            pd: pd.clone(),
            peer_of: None,
            key: sge.lkey,
            va: sge.addr,
            must: sge.length,
            may: 0,
            access,
        };
        request.find(port.keys()).ok_or(EINVAL)?;
        wants.push(request, gfp_user())?;
    }
    let bytes: u64 = wants.iter().map(|request| u64::from(request.must)).sum();
    if wait || bytes > MOST_AHEAD || PENDING.load(Relaxed) >= MOST_PENDING {
        return follow(&wants, port, fetch);
    }
    let prefetch = Arc::pin_init(
        pin_init!(Prefetch {
            wants,
            fetch,
            port: port.clone(),
            work <- new_work!("odp::Prefetch"),
            _alive: dev.shared().qps().join(),
        }),
        GFP_KERNEL_ACCOUNT,
    )?;
    PENDING.add(1, Relaxed);
    // A new item cannot be queued already.
    let _ = port.workqueues().pages.enqueue(prefetch);
    Ok(())
}

fn follow(wants: &[FaultRequest], port: &Port, fetch: Fetch) -> Result {
    wants
        .iter()
        .try_for_each(|request| request.prefetch(port.keys(), fetch))
}

/// Advice that is being followed.
#[pin_data]
struct Prefetch {
    wants: KVVec<FaultRequest>,
    fetch: Fetch,
    port: Arc<Port>,
    #[pin]
    work: Work<Self>,
    /// The module cannot go while one of these is left. So it is dropped last.
    _alive: LiveRef,
}

impl_has_work! {
    impl HasWork<Self> for Prefetch { self.work }
}

impl WorkItem for Prefetch {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // It was advice, and nobody waits for it.
        let _ = follow(&this.wants, &this.port, this.fetch);
        PENDING.fetch_sub(1, Relaxed);
    }
}
