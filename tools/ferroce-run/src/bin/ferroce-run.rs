// SPDX-License-Identifier: GPL-2.0

//! `ferroce-run`.

use std::ffi::OsString;

use clap::Parser;

use sandbox::channel::job::FAILED;
use sandbox::host::machine::{become_machine, BECOME_MACHINE};
use sandbox::host::options::Options;
use sandbox::host::{doctor, session};

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments
        .get(1)
        .is_some_and(|first| first == BECOME_MACHINE)
    {
        // Its standard error is the machine's log.
        eprintln!("{}", become_machine(arguments.get(2..).unwrap_or_default()));
        std::process::exit(FAILED);
    }
    // A fault of ours is told as all else, in a line.
    std::panic::set_hook(Box::new(|panic| session::say(&format!("{panic}"))));
    std::process::exit(std::panic::catch_unwind(run).unwrap_or(FAILED));
}

/// Does what the command line says. Returns the exit code.
fn run() -> i32 {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { FAILED } else { 0 };
        }
    };
    if options.doctor {
        return doctor::run();
    }
    session::run(&options).unwrap_or_else(|error| {
        session::say(&format!("{error:#}"));
        FAILED
    })
}
