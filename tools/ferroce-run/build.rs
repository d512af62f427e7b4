// SPDX-License-Identifier: GPL-2.0

//! Finds the version in scripts/versions, where it stands for all of ferroce.

fn main() {
    let path = "../../scripts/versions";
    println!("cargo:rerun-if-changed={path}");
    let versions = std::fs::read_to_string(path).unwrap_or_default();
    let version = versions
        .lines()
        .find_map(|line| line.strip_prefix("VERSION="))
        .unwrap_or("unknown");
    println!("cargo:rustc-env=FERROCE_VERSION={version}");
}
