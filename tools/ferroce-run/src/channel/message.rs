// SPDX-License-Identifier: GPL-2.0

//! Messages, and how they are laid out on a stream: the length of the rest in four bytes, least significant first, then
//! the message as postcard writes it.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::job::{Job, Outcome, Window};
use super::traffic::DeviceTraffic;

/// A longer message is a fault of the stream.
const LONGEST: u32 = 64 << 20;

/// Bytes of standard input that may be on their way to the machine. Its terminal has room for 4096 bytes. Beyond that,
/// the terminal's driver reads on several processors at once and mixes up what it reads, so the launcher waits for an
/// answer before.
pub const STDIN_WINDOW_BYTES: usize = 3584;
/// Most of a job or of standard input in one message.
pub const PART_BYTES: usize = 1536;

/// From the launcher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToGuest {
    /// What to do, in parts; always the first. The guest answers each by [`ToHost::JobTaken`].
    Job {
        /// Some bytes of the job.
        #[serde(with = "serde_bytes")]
        part: Vec<u8>,
        /// Whether these are the last.
        last: bool,
    },
    /// All machines are ready: the command may start.
    Start,
    /// For the command's standard input. The guest answers [`ToHost::StdinTaken`].
    Stdin(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The end of standard input.
    StdinEnd,
    /// A signal for the command and its process group.
    Signal(i32),
    /// The terminal has changed its size.
    Window(Window),
}

/// From a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToHost {
    /// The machine waits for its job.
    Hello,
    /// The machine has a part of its job.
    JobTaken,
    /// Its devices are there.
    Ready,
    /// The command's standard output.
    Stdout(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The command's standard error.
    Stderr(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The command has been given so many bytes of standard input.
    StdinTaken(u64),
    /// A packet of the wire, and when it was seen.
    Packet {
        /// Nanoseconds since 1970.
        time: u64,
        /// From the Ethernet header on.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// What its RDMA devices have carried until now.
    Traffic(Vec<DeviceTraffic>),
    /// Something the caller should know; a line without its end.
    Notice(String),
    /// The command has ended, and all that it wrote to files is with the host. The last.
    Ended(Outcome),
}

/// A job in messages.
pub fn split_job(job: &Job) -> io::Result<VecDeque<ToGuest>> {
    let bytes = postcard::to_stdvec(job).map_err(io::Error::other)?;
    let count = bytes.len().div_ceil(PART_BYTES);
    let parts = bytes.chunks(PART_BYTES).zip(1..);
    Ok(parts
        .map(|(part, number)| ToGuest::Job {
            part: part.to_vec(),
            last: number == count,
        })
        .collect())
}

/// Reads a job that comes in messages; `None` if the stream ends or holds something else. Calls `taken` for each part.
pub fn receive_job(
    stream: &mut impl Read,
    mut taken: impl FnMut() -> io::Result<()>,
) -> io::Result<Option<Job>> {
    let mut bytes = Vec::new();
    while let Some(ToGuest::Job { part, last }) = receive(stream)? {
        bytes.extend_from_slice(&part);
        taken()?;
        if last {
            return postcard::from_bytes(&bytes)
                .map(Some)
                .map_err(io::Error::other);
        }
    }
    Ok(None)
}

/// Writes one message.
pub fn send(stream: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let body = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(body.len() + 4);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&body);
    stream.write_all(&bytes)?;
    stream.flush()
}

/// Reads one message; `None` if the stream ends before it begins.
pub fn receive<M: DeserializeOwned>(stream: &mut impl Read) -> io::Result<Option<M>> {
    let mut length = [0; 4];
    if stream.read(&mut length[..1])? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut length[1..])?;
    let length = u32::from_le_bytes(length);
    if length > LONGEST {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message of {length} bytes"),
        ));
    }
    let mut body = vec![0; length as usize];
    stream.read_exact(&mut body)?;
    postcard::from_bytes(&body)
        .map(Some)
        .map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were_sent() {
        let messages = [
            ToHost::Hello,
            ToHost::Stdout(vec![0, 255, 10, 13]),
            ToHost::Packet {
                time: u64::MAX,
                bytes: vec![1; 5000],
            },
            ToHost::Ended(Outcome::Failed("no".into())),
        ];
        let mut stream = Vec::new();
        for message in &messages {
            send(&mut stream, message).unwrap();
        }
        let mut stream = stream.as_slice();
        for message in messages {
            assert_eq!(receive(&mut stream).unwrap(), Some(message));
        }
        assert_eq!(receive::<ToHost>(&mut stream).unwrap(), None);
    }

    #[test]
    fn a_stream_that_is_cut_is_an_error() {
        let mut stream = Vec::new();
        send(&mut stream, &ToHost::Stdout(vec![7; 100])).unwrap();
        for length in 1..stream.len() {
            assert!(
                receive::<ToHost>(&mut &stream[..length]).is_err(),
                "{length}"
            );
        }
    }

    #[test]
    fn nobody_makes_us_allocate_without_end() {
        let stream = u32::MAX.to_le_bytes();
        assert_eq!(
            receive::<ToHost>(&mut stream.as_slice())
                .unwrap_err()
                .kind(),
            io::ErrorKind::InvalidData
        );
    }
}
