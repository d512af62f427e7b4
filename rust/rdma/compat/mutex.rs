// SPDX-License-Identifier: GPL-2.0

//! Whether a mutex of zeros is one that is not held. Before 7.2 its list of waiters must be initialized.

/// Whether it is, but for the checks of a debug kernel.
pub(crate) const ZEROS_ARE_VALID: bool = cfg!(has_mutex_first_waiter);
