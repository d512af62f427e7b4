// SPDX-License-Identifier: GPL-2.0

//! `--doctor`: what this machine lacks, and what to do.

use std::fs;

use super::engine::MachineEngine;
use super::{limits, session};

/// Memory that a machine with a command in it takes, in MiB.
const MEMORY: u64 = 256;

/// Processes that a test suite wants, twice: a machine gets half.
const PROCESSES: u64 = 256;

/// Memory maps of one process: a process of the machine has one for each page that is nowhere near another.
const MAPS: u64 = 65530;

/// One thing that was looked at.
struct Finding {
    what: &'static str,
    /// What was found; as an error, with what to do.
    found: Result<String, String>,
}

/// Prints all. Returns the exit code: 0 if a machine starts.
pub fn run() -> i32 {
    let findings = [
        architecture(),
        filters(),
        memory(),
        processes(),
        maps(),
        overcommit(),
    ];
    for finding in &findings {
        print(finding);
    }
    // Others are tried only where the best does not start.
    let starts = MachineEngine::ALL.into_iter().any(|engine| {
        let started = session::try_out(engine);
        print(&Finding {
            what: engine.title(),
            found: match &started {
                Ok(()) => Ok("starts, and runs a command".into()),
                Err(error) => Err(format!("does not start: {error:#}")),
            },
        });
        started.is_ok()
    });
    i32::from(!starts)
}

fn print(finding: &Finding) {
    match &finding.found {
        Ok(text) => println!("ok       {}: {text}", finding.what),
        Err(text) => println!("PROBLEM  {}: {text}", finding.what),
    }
}

fn architecture() -> Finding {
    let found = match std::env::consts::ARCH {
        "x86_64" => Ok("x86_64".into()),
        other => Err(format!(
            "{other}; user-mode Linux has several processors only on x86_64"
        )),
    };
    Finding {
        what: "processor",
        found,
    }
}

fn filters() -> Finding {
    let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    let found = if actions.split_whitespace().any(|action| action == "trap") {
        Ok("a process may filter its own system calls".into())
    } else {
        Err("this kernel has no seccomp filters: it needs CONFIG_SECCOMP_FILTER".into())
    };
    Finding {
        what: "seccomp",
        found,
    }
}

/// The number after `name` in /proc/meminfo, in MiB.
fn meminfo(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
}

fn memory() -> Finding {
    let free = meminfo("MemAvailable").unwrap_or(0);
    let limit = limits::cgroup(["memory.max", "memory/memory.limit_in_bytes"])
        .map_or(u64::MAX, |bytes| bytes >> 20);
    let have = free.min(limit);
    let found = if have >= MEMORY {
        Ok(format!("{have} MiB"))
    } else {
        Err(format!("{have} MiB, and a machine takes {MEMORY}: give this container more (`--memory` of its engine)"))
    };
    Finding {
        what: "memory",
        found,
    }
}

fn processes() -> Finding {
    let have = limits::processes();
    let found = if have == u64::MAX {
        Ok("as many as you like".into())
    } else if have >= PROCESSES {
        Ok(have.to_string())
    } else {
        Err(format!("{have}, and a test suite may want {PROCESSES}: raise `ulimit -u`, or the engine's `--pids-limit`"))
    };
    Finding {
        what: "processes",
        found,
    }
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn maps() -> Finding {
    let found = match number("/proc/sys/vm/max_map_count") {
        Some(maps) if maps < MAPS => Err(format!(
            "{maps}: big programs will run out of them; as root, sysctl vm.max_map_count={MAPS}"
        )),
        Some(maps) => Ok(maps.to_string()),
        None => Err("/proc/sys is not there: mount /proc".into()),
    };
    Finding {
        what: "memory maps",
        found,
    }
}

fn overcommit() -> Finding {
    let found = match number("/proc/sys/vm/overcommit_memory") {
        Some(2) => Err(
            "vm.overcommit_memory is 2: all of --memory must be free at once; make it small".into(),
        ),
        _ => Ok("memory is taken when it is used".into()),
    };
    Finding {
        what: "overcommit",
        found,
    }
}
