// SPDX-License-Identifier: GPL-2.0

//! The sandbox's own files.

use std::path::PathBuf;

use anyhow::{bail, Context, Result};

/// Names the directory, in place of the one beside this program.
const VARIABLE: &str = "FERROCE_SANDBOX";

/// Where the files lie, as seen from the directory of this program: as installed, and as unpacked.
const PLACES: [&str; 2] = ["../lib/ferroce-sandbox", "."];

/// The kernel and what its machines start with.
pub struct Files {
    /// The program that is the kernel.
    pub kernel: PathBuf,
    /// The directory that a machine starts on.
    pub guest: PathBuf,
    /// Debian's kernel, with what its machines start with.
    pub stock: PathBuf,
}

impl Files {
    /// Finds them.
    pub fn find() -> Result<Files> {
        let mut places: Vec<PathBuf> = std::env::var_os(VARIABLE)
            .into_iter()
            .map(PathBuf::from)
            .collect();
        if places.is_empty() {
            let program = std::env::current_exe().context("/proc is not there")?;
            places = PLACES
                .iter()
                .filter_map(|place| Some(program.parent()?.join(place)))
                .collect();
        }
        for place in &places {
            let files = Files {
                kernel: place.join("linux"),
                guest: place.join("guest"),
                stock: place.join("stock"),
            };
            if files.kernel.is_file() && files.guest.is_dir() {
                return Ok(files);
            }
        }
        let looked: Vec<_> = places
            .iter()
            .map(|place| place.display().to_string())
            .collect();
        bail!(
            "the sandbox's own files are neither of {}: unpack it whole, or set {VARIABLE}",
            looked.join(", ")
        )
    }
}
