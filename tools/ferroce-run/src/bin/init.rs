// SPDX-License-Identifier: GPL-2.0

//! The program that a machine has of its own: its first process, what runs before each command, and `ferroce-on`.

use std::ffi::OsString;
use std::path::Path;

use sandbox::guest::{exec, init, on};

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let name = arguments
        .first()
        .and_then(|name| Path::new(name).file_name());
    let rest = arguments.get(1..).unwrap_or_default();
    if name.is_some_and(|name| name == on::NAME) {
        std::process::exit(on::main(rest));
    }
    match rest.split_first() {
        Some((first, rest)) if first == exec::NAME => std::process::exit(exec::main(rest)),
        _ => init::main(),
    }
}
