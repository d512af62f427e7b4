// SPDX-License-Identifier: GPL-2.0

//! Protection domains, thread domains, and parent domains.
//!
//! A thread domain is a promise of the program: one thread at a time uses the queues of it. The kernel does not know
//! of it. A parent domain is a protection domain, by the same handle, with such a promise.

use crate::{
    errno::Errno,
    ffi::{
        attr::ParentAttr,
        cmd,
        memory::Owned,
        object::{
            Context,
            Pd,
            Td,
            Use,
            Users, //
        },
    },
};

/// What a protection domain has behind its head.
pub(crate) struct PdBody {
    users: Users,
    parent: Option<Parent>,
}

/// What a parent domain refers to.
struct Parent {
    _pd: Use,
    td: Option<Use>,
}

impl PdBody {
    fn new(parent: Option<Parent>) -> Self {
        Self {
            users: Users::none(),
            parent,
        }
    }

    /// Returns the parent domains of this one.
    pub(crate) fn users(&self) -> &Users {
        &self.users
    }

    /// Whether there is a thread domain.
    pub(crate) fn has_td(&self) -> bool {
        self.parent
            .as_ref()
            .is_some_and(|parent| parent.td.is_some())
    }
}

/// Allocates a protection domain.
///
/// # Errors
///
/// `ENOMEM`, or the kernel's.
pub(crate) fn allocate(context: Context<'_>) -> Result<Owned<Pd>, Errno> {
    let mut pd = Pd::allocate(PdBody::new(None))?;
    cmd::alloc_pd(context, &mut pd)?;
    Ok(pd)
}

/// Frees a protection domain, or a parent domain.
///
/// # Errors
///
/// `EBUSY` while there is a parent domain of it; the kernel's.
pub(crate) fn deallocate(pd: &Pd) -> Result<(), Errno> {
    pd.body().users.check_none()?;
    match pd.body().parent {
        // The kernel knows nothing of it.
        Some(_) => Ok(()),
        None => cmd::dealloc_pd(pd),
    }
}

/// Returns a domain that the kernel has already, by its handle.
///
/// # Errors
///
/// `ENOMEM`. The kernel is not asked: the first use tells whether there is such a domain.
pub(crate) fn import(context: Context<'_>, handle: u32) -> Result<Owned<Pd>, Errno> {
    let mut pd = Pd::allocate(PdBody::new(None))?;
    pd.set_handle(context, handle);
    Ok(pd)
}

/// Allocates a thread domain.
///
/// # Errors
///
/// `ENOMEM`; `EOPNOTSUPP` for attributes: there are none.
pub(crate) fn allocate_td(context: Context<'_>, comp_mask: u32) -> Result<Owned<Td>, Errno> {
    if comp_mask != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let mut td = Td::allocate(Users::none())?;
    td.set_context(context);
    Ok(td)
}

/// Allocates a parent domain.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL` without a protection domain; `EOPNOTSUPP` for allocators: the kernel allocates the queues.
pub(crate) fn allocate_parent(
    context: Context<'_>,
    attr: ParentAttr<'_>,
) -> Result<Owned<Pd>, Errno> {
    /// What allocators are called with. Without them it means nothing.
    const PD_CONTEXT: u32 = 1 << 1;
    let (pd, use_of_pd) = attr.pd().ok_or(Errno::INVAL)?;
    if attr.comp_mask() & !PD_CONTEXT != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let parent = Parent {
        _pd: use_of_pd,
        td: attr.td(),
    };
    let mut made = Pd::allocate(PdBody::new(Some(parent)))?;
    made.set_handle(context, pd.handle());
    Ok(made)
}
