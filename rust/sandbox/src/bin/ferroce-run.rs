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
    let options = Options::try_parse().unwrap_or_else(|error| {
        let _ = error.print();
        std::process::exit(if error.use_stderr() { FAILED } else { 0 });
    });
    let code = if options.doctor {
        doctor::run()
    } else {
        session::run(&options).unwrap_or_else(|error| {
            session::say(&format!("{error:#}"));
            FAILED
        })
    };
    std::process::exit(code);
}
