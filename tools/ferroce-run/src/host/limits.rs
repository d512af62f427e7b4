// SPDX-License-Identifier: GPL-2.0

//! What this process may use of the host.

use std::fs;

use nix::sys::resource::{getrlimit, Resource};

/// How many processes and threads the caller may have; `u64::MAX` if there is no limit.
pub fn processes() -> u64 {
    let limit = getrlimit(Resource::RLIMIT_NPROC).map_or(u64::MAX, |(soft, _)| soft);
    limit.min(cgroup(["pids.max", "pids/pids.max"]).unwrap_or(u64::MAX))
}

/// A number of our control group, of either version of the interface; `None` if there is no limit.
pub fn cgroup(names: [&str; 2]) -> Option<u64> {
    names.iter().find_map(|name| {
        fs::read_to_string(format!("/sys/fs/cgroup/{name}"))
            .ok()?
            .trim()
            .parse()
            .ok()
    })
}
