// SPDX-License-Identifier: GPL-2.0

//! Where the output of commands goes.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use super::report::Report;

/// One of our standard streams, as the output of one machine is written to it. With several machines, each line tells
/// which it is from.
pub struct Stream {
    prefix: Option<String>,
    at_start: bool,
    report: Option<Arc<Mutex<Report>>>,
    to: To,
}

#[derive(Clone, Copy)]
enum To {
    Stdout,
    Stderr,
}

impl Stream {
    /// Standard output of a command. `report` reads along.
    pub fn stdout(prefix: Option<String>, report: Option<Arc<Mutex<Report>>>) -> Stream {
        Stream {
            prefix,
            at_start: true,
            report,
            to: To::Stdout,
        }
    }

    /// Standard error of a command.
    pub fn stderr(prefix: Option<String>) -> Stream {
        Stream {
            prefix,
            at_start: true,
            report: None,
            to: To::Stderr,
        }
    }

    /// Writes through, at once.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(report) = &self.report {
            report
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .read(bytes);
        }
        let marked;
        let bytes = match &self.prefix {
            None => bytes,
            Some(prefix) => {
                marked = mark(bytes, prefix, &mut self.at_start);
                &marked
            }
        };
        match self.to {
            // `Stdout` is line-buffered; flush, so that partial lines appear.
            To::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes)?;
                stdout.flush()
            }
            To::Stderr => io::stderr().lock().write_all(bytes),
        }
    }
}

/// `bytes`, with `prefix` at the start of each line.
fn mark(bytes: &[u8], prefix: &str, at_start: &mut bool) -> Vec<u8> {
    let mut marked = Vec::with_capacity(bytes.len() + prefix.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if *at_start {
            marked.extend_from_slice(prefix.as_bytes());
        }
        marked.extend_from_slice(line);
        *at_start = line.ends_with(b"\n");
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_marked_once() {
        let mut at_start = true;
        let pieces = ["one\ntw", "o\n", "", "\nthree"];
        let marked: Vec<u8> = pieces
            .iter()
            .flat_map(|piece| mark(piece.as_bytes(), "1: ", &mut at_start))
            .collect();
        assert_eq!(
            String::from_utf8(marked).unwrap(),
            "1: one\n1: two\n1: \n1: three"
        );
    }
}
