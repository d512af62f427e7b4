// SPDX-License-Identifier: GPL-2.0

//! Standard input on its way to a command that may not read it.

use std::io::{self, Read};
use std::sync::mpsc::Receiver;

use super::message::{ToGuest, PART_BYTES, STDIN_WINDOW_BYTES};

/// Reads our standard input to its end, and sends it. `taken` tells how many bytes the command has been given.
pub fn forward(
    taken: &Receiver<u64>,
    mut send: impl FnMut(ToGuest) -> io::Result<()>,
) -> io::Result<()> {
    let mut piece = vec![0; PART_BYTES];
    let mut under_way = 0;
    loop {
        // What cannot be read has ended.
        let length = io::stdin().read(&mut piece).unwrap_or(0);
        if length == 0 {
            return send(ToGuest::StdinEnd);
        }
        send(ToGuest::Stdin(piece[..length].to_vec()))?;
        under_way += length as u64;
        while under_way + PART_BYTES as u64 > STDIN_WINDOW_BYTES as u64 {
            let Ok(taken) = taken.recv() else {
                return Ok(());
            };
            under_way = under_way.saturating_sub(taken);
        }
    }
}
