// SPDX-License-Identifier: GPL-2.0

//! Layouts: of libibverbs's private interface (`version`, `ops`), and of ferroce's ABI (`direct`).

pub(crate) mod direct;
pub(crate) mod ops;
pub(crate) mod version;
