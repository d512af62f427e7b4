// SPDX-License-Identifier: GPL-2.0

//! One call of `ferroce-run`, from the start of the machines to the exit code.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{BufWriter, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{mpsc, Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, Endianness};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::Signals;

use super::engine::{Hardware, MachineEngine};
use super::files::Files;
use super::hub;
use super::job::{job, processors};
use super::machine::Machine;
use super::options::Options;
use super::output::Stream;
use super::report::Report;
use super::stdin::{self, RawTerminal};
use super::traffic::conclude;
use crate::channel::job::{Outcome, Topology, FAILED, SIGNALED};
use crate::channel::message::{receive, send, split_job, ToGuest, ToHost};
use crate::channel::traffic::DeviceTraffic;
use crate::threads::{self, NoThread};

/// Exit code of a call whose time is up.
pub const TIME_IS_UP: i32 = 124;
const SIGPIPE: i32 = 13;

/// How long a machine may take to start. Fifty at once on two processors take a while.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// What happens while machines run.
enum Event {
    /// A machine says something.
    Said(usize, ToHost),
    /// A machine's channel has ended, or has something else on it than messages.
    Gone(usize),
    /// Our standard output has been closed.
    OutputClosed,
    /// We got a signal.
    Signal(i32),
}

/// A machine and what is known of it.
struct Node {
    machine: Machine,
    channel: Arc<Mutex<UnixStream>>,
    /// What it has not been told yet of its job.
    job: VecDeque<ToGuest>,
    outcome: Option<Outcome>,
    /// What its RDMA devices have carried.
    traffic: Vec<DeviceTraffic>,
}

impl Node {
    fn tell(&self, message: &ToGuest) {
        // That a machine has gone is told by its own end.
        let _ = send(
            &mut *self.channel.lock().unwrap_or_else(PoisonError::into_inner),
            message,
        );
    }
}

/// Does all that the options say. Returns the exit code.
pub fn run(options: &Options) -> Result<i32> {
    options.check()?;
    let files = Files::find()?;
    let began = Instant::now();
    let report = (options.tap.is_some() || options.junit.is_some())
        .then(|| Arc::new(Mutex::new(Report::default())));
    let terminal = if report.is_none() {
        RawTerminal::take()
    } else {
        None
    };
    if options.keep && terminal.is_none() {
        bail!("--keep starts a shell, which needs a terminal");
    }
    let (sender, events) = mpsc::channel();
    forward_signals(sender.clone())?;
    let setup = Setup {
        options,
        files: &files,
        report: report.clone(),
        terminal: terminal.is_some(),
        input: true,
        events: sender,
    };
    let end = options.timeout.map(|timeout| began + timeout);
    let result = match options.engine {
        Some(engine) => setup.run(engine, end, &events).result,
        None => setup.run_on_the_best(end, &events),
    };
    drop(terminal);
    let code = match result {
        Ok(code) => code,
        Err(error) => {
            say(&format!("{error:#}"));
            FAILED
        }
    };
    if let Some(report) = report {
        let report = report.lock().unwrap_or_else(PoisonError::into_inner);
        write_reports(options, &report, code, began.elapsed())?;
    }
    Ok(code)
}

/// Tells the caller something.
pub fn say(text: &str) {
    eprintln!("ferroce-run: {text}");
}

fn write_reports(options: &Options, report: &Report, code: i32, time: Duration) -> Result<()> {
    let words: Vec<_> = options
        .command
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    let command = words.join(" ");
    if let Some(path) = &options.tap {
        let mut file = BufWriter::new(create(path)?);
        report
            .write_tap(&mut file, &command, code)
            .with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &options.junit {
        let mut file = BufWriter::new(create(path)?);
        report
            .write_junit(&mut file, &command, code, time)
            .with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("cannot write {}", path.display()))
}

fn forward_signals(events: mpsc::Sender<Event>) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH])?;
    threads::spawn(move || {
        signals
            .forever()
            .all(|signal| events.send(Event::Signal(signal)).is_ok())
    })?;
    Ok(())
}

/// All machines of a call.
struct Session {
    nodes: Vec<Node>,
    /// Those whose end is the end of the call.
    awaited: Vec<usize>,
    /// Bytes of standard input that the command has been given.
    taken: mpsc::Sender<u64>,
    /// The other end, until the command is started.
    input: Option<mpsc::Receiver<u64>>,
    readers: Vec<JoinHandle<()>>,
    /// Whether a machine has said anything.
    spoken: bool,
}

/// What the machines of a call have in common.
struct Setup<'a> {
    options: &'a Options,
    files: &'a Files,
    /// Reads what the first machine's command prints.
    report: Option<Arc<Mutex<Report>>>,
    /// Whether the command gets a terminal.
    terminal: bool,
    /// Whether it gets our standard input.
    input: bool,
    events: mpsc::Sender<Event>,
}

/// What has become of machines.
struct Attempt {
    /// The exit code.
    result: Result<i32>,
    /// Whether a machine has got as far as its first process.
    spoken: bool,
}

impl Setup<'_> {
    /// Runs the machines on the first engine on which their first process starts.
    fn run_on_the_best(&self, end: Option<Instant>, events: &mpsc::Receiver<Event>) -> Result<i32> {
        let mut failures = Vec::new();
        for engine in MachineEngine::ALL {
            if let Err(error) = engine.check() {
                failures.push((engine.title(), error));
                continue;
            }
            if let Some((failed, _)) = failures.first() {
                say(&format!(
                    "{failed} does not start here; this is {}",
                    engine.title()
                ));
            }
            let attempt = self.run(engine, end, events);
            match attempt.result {
                Err(error) if !attempt.spoken && !error.is::<NoThread>() => {
                    failures.push((engine.title(), error))
                }
                result => return result,
            }
        }
        let reasons = failures
            .iter()
            .fold(String::new(), |text, (engine, error)| {
                text + &format!("\n{engine}: {error:#}")
            });
        bail!("no machine starts here{reasons}")
    }

    /// Runs the machines to their end.
    fn run(
        &self,
        engine: MachineEngine,
        end: Option<Instant>,
        events: &mpsc::Receiver<Event>,
    ) -> Attempt {
        let mut session = match engine.check().and_then(|()| Session::start(self, engine)) {
            Ok(session) => session,
            Err(error) => {
                return Attempt {
                    result: Err(error),
                    spoken: false,
                }
            }
        };
        let result = session.follow(end, events);
        session.stop();
        let result = result.map(|code| conclude(self.options, &session.traffic(), code, say));
        // Drop queued messages, and keep signals for the next engine.
        let signals: Vec<Event> = events
            .try_iter()
            .filter(|event| matches!(event, Event::Signal(_)))
            .collect();
        for signal in signals {
            let _ = self.events.send(signal);
        }
        Attempt {
            result,
            spoken: session.spoken,
        }
    }
}

impl Session {
    fn start(setup: &Setup<'_>, engine: MachineEngine) -> Result<Session> {
        let wires = match setup.options.topology {
            Topology::Nodes => hub::join(setup.options.nodes, engine)?,
            Topology::Single | Topology::Netns => Vec::new(),
        };
        let (taken, input) = mpsc::channel();
        let mut session = Session {
            nodes: Vec::new(),
            awaited: Vec::new(),
            taken,
            input: setup.input.then_some(input),
            readers: Vec::new(),
            spoken: false,
        };
        let mut wires = wires.into_iter();
        for number in 0..setup.options.machines() {
            session.add(setup, engine, number, wires.next())?;
        }
        Ok(session)
    }

    /// Starts another machine. Options for a single machine apply to the first.
    fn add(
        &mut self,
        setup: &Setup<'_>,
        engine: MachineEngine,
        number: u32,
        wire: Option<OwnedFd>,
    ) -> Result<()> {
        let options = setup.options;
        let first = number == 0;
        let (channel, theirs) = UnixStream::pair().context("cannot make sockets")?;
        let hardware = Hardware {
            cpus: options.cpus.unwrap_or_else(processors),
            memory: options.memory,
            channel: theirs.into(),
            wire,
            mtu: options.mtu,
            verbose: options.dmesg.is_some(),
        };
        let dmesg = options
            .dmesg
            .as_deref()
            .filter(|_| first)
            .map(create)
            .transpose()?;
        let capture = options
            .pcap
            .as_deref()
            .filter(|_| first)
            .map(packets)
            .transpose()?;
        let machine = Machine::start(engine.launch(setup.files, hardware)?, dmesg)?;
        let prefix = (!first).then(|| format!("[{number}] "));
        let report = setup.report.clone().filter(|_| first);
        let streams = [
            Stream::stdout(prefix.clone(), report),
            Stream::stderr(prefix),
        ];
        let reader = channel.try_clone()?;
        let events = setup.events.clone();
        let node = number as usize;
        if first || options.node_command.is_empty() {
            self.awaited.push(node);
        }
        self.readers.push(threads::spawn(move || {
            read(node, reader, streams, capture, &events)
        })?);
        let job = split_job(&job(options, engine, number, setup.terminal && first)?)?;
        self.nodes.push(Node {
            machine,
            channel: Arc::new(Mutex::new(channel)),
            job,
            outcome: None,
            traffic: Vec::new(),
        });
        Ok(())
    }

    /// Answers events until the command has ended.
    fn follow(&mut self, end: Option<Instant>, events: &mpsc::Receiver<Event>) -> Result<i32> {
        let start_end = Instant::now() + START_TIMEOUT;
        let mut ready = HashSet::new();
        let mut stops = 0;
        while self
            .awaited
            .iter()
            .any(|node| self.nodes[*node].outcome.is_none())
        {
            let started = ready.len() == self.nodes.len();
            let next = if started {
                end
            } else {
                Some(end.map_or(start_end, |end| end.min(start_end)))
            };
            let event = match next {
                None => events.recv().ok(),
                Some(next) => events
                    .recv_timeout(next.saturating_duration_since(Instant::now()))
                    .ok(),
            };
            match event {
                None if end.is_some_and(|end| Instant::now() >= end) => {
                    say("time is up");
                    return Ok(TIME_IS_UP);
                }
                None => bail!(
                    "a machine does not start; --doctor may say why{}",
                    self.last_words(0)
                ),
                Some(Event::OutputClosed) => return Ok(SIGNALED + SIGPIPE),
                Some(Event::Gone(node)) => self.gone(node)?,
                Some(Event::Signal(signal)) => {
                    if let Some(code) = self.signal(signal, started, &mut stops) {
                        return Ok(code);
                    }
                }
                Some(Event::Said(node, ToHost::Ready)) => {
                    ready.insert(node);
                    if ready.len() == self.nodes.len() {
                        self.start_commands()?;
                    }
                }
                Some(Event::Said(node, message)) => self.hear(node, message)?,
            }
        }
        Ok(self.exit_code())
    }

    fn start_commands(&mut self) -> Result<()> {
        for node in &self.nodes {
            node.tell(&ToGuest::Start);
        }
        if let (Some(input), Some(first)) = (self.input.take(), self.nodes.first()) {
            stdin::forward(first.channel.clone(), input)?;
        }
        Ok(())
    }

    fn hear(&mut self, node: usize, message: ToHost) -> Result<()> {
        self.spoken = true;
        match message {
            ToHost::Hello | ToHost::JobTaken => {
                if let Some(part) = self.nodes[node].job.pop_front() {
                    self.nodes[node].tell(&part);
                }
            }
            ToHost::StdinTaken(length) if node == 0 => drop(self.taken.send(length)),
            ToHost::Traffic(traffic) => self.nodes[node].traffic = traffic,
            ToHost::Notice(text) => say(&text),
            ToHost::Ended(Outcome::Failed(reason)) => bail!("{reason}"),
            ToHost::Ended(outcome) => {
                if !self.awaited.contains(&node) && outcome != Outcome::Exited(0) {
                    say(&format!(
                        "the command of machine {node} has ended: {outcome:?}"
                    ));
                }
                self.nodes[node].outcome = Some(outcome);
            }
            _ => {}
        }
        Ok(())
    }

    fn gone(&mut self, node: usize) -> Result<()> {
        if self.nodes[node].outcome.is_some() {
            return Ok(());
        }
        let how = self.nodes[node]
            .machine
            .stop()
            .unwrap_or_else(|| "its channel is broken".into());
        bail!("machine {node} has died: {how}{}", self.last_words(node))
    }

    /// What its kernel said last, to be added to a message.
    fn last_words(&self, node: usize) -> String {
        let words = self
            .nodes
            .get(node)
            .map(|node| node.machine.last_words())
            .unwrap_or_default();
        words
            .iter()
            .fold(String::new(), |text, line| text + "\n    " + line)
    }

    /// Passes a signal on to the command. A second termination signal aborts the session: returns the exit code.
    fn signal(&self, signal: i32, started: bool, stops: &mut u32) -> Option<i32> {
        if signal == SIGWINCH {
            if let (Some(window), Some(first)) = (stdin::window(), self.nodes.first()) {
                first.tell(&ToGuest::Window(window));
            }
            return None;
        }
        if [SIGINT, SIGTERM, SIGHUP, SIGQUIT].contains(&signal) {
            *stops += 1;
            if *stops > 1 || !started {
                say("stopped");
                return Some(SIGNALED + signal);
            }
        }
        for node in &self.nodes {
            node.tell(&ToGuest::Signal(signal));
        }
        None
    }

    /// The exit code of the first command that has failed.
    fn exit_code(&self) -> i32 {
        let codes = self
            .awaited
            .iter()
            .filter_map(|node| self.nodes[*node].outcome.as_ref())
            .map(Outcome::exit_code);
        codes.into_iter().find(|code| *code != 0).unwrap_or(0)
    }

    /// What the devices of each machine have carried.
    fn traffic(&self) -> Vec<Vec<DeviceTraffic>> {
        self.nodes.iter().map(|node| node.traffic.clone()).collect()
    }

    /// Ends all machines, and waits until all that they said has been written.
    fn stop(&mut self) {
        for node in &mut self.nodes {
            node.machine.stop();
            let channel = node.channel.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = channel.shutdown(std::net::Shutdown::Write);
        }
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }
}

/// Passes on what a machine says: the output of its command to ours, packets to their file, and all else to `events`.
fn read(
    node: usize,
    mut channel: UnixStream,
    [mut stdout, mut stderr]: [Stream; 2],
    mut capture: Option<PcapWriter<BufWriter<File>>>,
    events: &mpsc::Sender<Event>,
) {
    loop {
        let event = match receive(&mut channel) {
            Ok(Some(ToHost::Stdout(bytes))) => match stdout.write(&bytes) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => Event::OutputClosed,
                _ => continue,
            },
            Ok(Some(ToHost::Stderr(bytes))) => {
                let _ = stderr.write(&bytes);
                continue;
            }
            Ok(Some(ToHost::Packet { time, bytes })) => {
                if let Some(capture) = &mut capture {
                    let packet =
                        PcapPacket::new(Duration::from_nanos(time), bytes.len() as u32, &bytes);
                    let _ = capture.write_packet(&packet);
                }
                continue;
            }
            Ok(Some(message)) => Event::Said(node, message),
            Ok(None) | Err(_) => {
                let _ = events.send(Event::Gone(node));
                return;
            }
        };
        if events.send(event).is_err() {
            return;
        }
    }
}

fn packets(path: &Path) -> Result<PcapWriter<BufWriter<File>>> {
    let header = PcapHeader {
        datalink: DataLink::ETHERNET,
        endianness: Endianness::Little,
        snaplen: u32::MAX,
        ..PcapHeader::default()
    };
    PcapWriter::with_header(BufWriter::new(create(path)?), header)
        .with_context(|| path.display().to_string())
}

/// Whether a machine starts at all, for `--doctor`: the error if not.
pub fn try_out(engine: MachineEngine) -> Result<()> {
    use clap::Parser;
    let options = Options::parse_from(["ferroce-run", "--", "true"]);
    let (sender, events) = mpsc::channel();
    let files = Files::find()?;
    let setup = Setup {
        options: &options,
        files: &files,
        report: None,
        terminal: false,
        input: false,
        events: sender,
    };
    let end = Instant::now() + START_TIMEOUT;
    match setup.run(engine, Some(end), &events).result? {
        0 => Ok(()),
        code => bail!("`true` returned {code}"),
    }
}
