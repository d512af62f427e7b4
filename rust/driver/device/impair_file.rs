// SPDX-License-Identifier: GPL-2.0

//! The file `impair` of a device in debugfs: shows and sets the impairments of its port.
//!
//! Read and written in process context, until the device is dropped.

use crate::port::state::Port;
use kernel::{
    debugfs,
    fmt,
    prelude::*,
    sync::Arc,
    uaccess::UserSliceReader, //
};
use roce::impair::Impairments;

/// Longest text that is accepted.
const MAX_TEXT_LEN: usize = 256;

/// The file `impair` of a device.
pub(crate) struct ImpairFile(Arc<Port>);

impl ImpairFile {
    /// Creates the contents of the file.
    pub(crate) fn new(port: Arc<Port>) -> Self {
        Self(port)
    }
}

impl debugfs::Writer for ImpairFile {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0.impairments().get())
    }
}

impl debugfs::Reader for ImpairFile {
    fn read_from_slice(&self, reader: &mut UserSliceReader) -> Result {
        let mut text = [0; MAX_TEXT_LEN];
        let text = text.get_mut(..reader.len()).ok_or(EINVAL)?;
        reader.read_slice(text)?;
        let text = core::str::from_utf8(text).map_err(|_| EINVAL)?;
        let new = Impairments::parse(text).ok_or(EINVAL)?;
        self.0.impairments().set(&new);
        Ok(())
    }
}
