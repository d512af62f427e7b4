// SPDX-License-Identifier: GPL-2.0

//! An unreliable connection: UC sender and receiver, the network and the clock.

use crate::{
    memory::Memory,
    net::Net, //
};
use roce::{
    access::{
        Access,
        AccessError,
        Obstacle, //
    },
    id::Qpn,
    message::connection,
    num::u32_as_usize,
    psn::Psn,
    recv_context::RecvContext,
    segmentation::{
        mtu::Mtu,
        tx_desc::{
            BurstLimit,
            RxPayload,
            SlotIndex, //
        }, //
    },
    status::WcStatus,
    time::{
        Duration,
        Instant, //
    },
    uc::{
        receiver::{
            ReceiverConfig,
            UcReceiver, //
        },
        sender::{
            SenderConfig,
            UcSender, //
        }, //
    },
    wire::{
        opcode::Service,
        packet::Packet, //
    },
    wr::{
        BadRecv,
        Completion,
        RecvWr,
        Remote,
        SendWr, //
    }, //
};
use std::collections::VecDeque;

/// Maximum length of a message, and length of each receive.
pub const MAX_MESSAGE_LEN: usize = 3_000;

/// The context of one frame at the receiver.
struct TestContext<'a> {
    frame: &'a [u8],
    memory: &'a mut Memory,
    receives: &'a mut VecDeque<u64>,
    current: &'a mut Option<u64>,
    done: &'a mut Vec<Completion>,
}

impl TestContext<'_> {
    fn payload(&self, payload: RxPayload) -> Vec<u8> {
        let start = u32_as_usize(payload.offset);
        self.frame[start..start + u32_as_usize(payload.len)].to_vec()
    }
}

impl RecvContext for TestContext<'_> {
    fn take_receive(&mut self) -> Option<Result<RecvWr, BadRecv>> {
        let va = self.receives.pop_front()?;
        *self.current = Some(va);
        Some(Ok(RecvWr {
            wr_id: va,
            length: MAX_MESSAGE_LEN as u32,
        }))
    }

    fn place_receive(&mut self, offset: u32, payload: RxPayload) -> Result<(), Obstacle<WcStatus>> {
        let va = self.current.expect("a receive was taken");
        let bytes = self.payload(payload);
        assert!(u32_as_usize(offset) + bytes.len() <= MAX_MESSAGE_LEN);
        self.memory.write(va + u64::from(offset), &bytes);
        Ok(())
    }

    fn check_remote(
        &mut self,
        remote: Remote,
        length: u32,
        access: Access,
    ) -> Result<(), Obstacle<AccessError>> {
        Ok(self.memory.check(remote, length, access)?)
    }

    fn place_remote(
        &mut self,
        remote: Remote,
        payload: RxPayload,
        _left: u32,
    ) -> Result<(), Obstacle<AccessError>> {
        self.memory
            .check(remote, payload.len, Access::REMOTE_WRITE)?;
        let bytes = self.payload(payload);
        self.memory.write(remote.va, &bytes);
        Ok(())
    }

    fn complete_receive(&mut self, completion: Completion, _solicited: bool) {
        assert_eq!(completion.status, WcStatus::Success);
        self.done.push(completion);
    }
}

/// A connection.
pub struct Connection {
    /// The network.
    pub net: Net,
    /// The clock.
    pub now: Instant,
    /// Path MTU.
    pub mtu: Mtu,
    /// The sender.
    pub sender: UcSender,
    /// The receiver.
    pub receiver: UcReceiver,
    /// Memory of the receiver's host.
    pub memory: Memory,
    /// Posted receives: their addresses, which are also their `wr_id`.
    pub receives: VecDeque<u64>,
    current: Option<u64>,
    /// Completions of receives.
    pub done: Vec<Completion>,
}

impl Connection {
    /// Connects a sender and a receiver.
    #[must_use]
    pub fn new(mtu: Mtu, psn: Psn, net: Net) -> Self {
        let mut sender = UcSender::new();
        sender.configure(&SenderConfig {
            connection: connection::Connection::new(Service::Uc, Qpn::new(0x12)),
            first_psn: psn,
            path_mtu: mtu,
        });
        sender.start();
        let mut receiver = UcReceiver::new();
        receiver.configure(&ReceiverConfig {
            expected_psn: psn,
            path_mtu: mtu,
            access: Access::REMOTE_WRITE,
        });
        receiver.start();
        Self {
            net,
            now: Instant::from_nanos(0),
            mtu,
            sender,
            receiver,
            memory: Memory::new(1 << 40),
            receives: VecDeque::new(),
            current: None,
            done: Vec::new(),
        }
    }

    /// Sends a message in bursts of `packets()` packets.
    ///
    /// # Panics
    ///
    /// If the message is not sent successfully.
    pub fn send(&mut self, wr: SendWr, bytes: &[u8], mut packets: impl FnMut() -> u32) {
        self.sender.post(SlotIndex(0), wr);
        let expected = wr.signaled.then_some(WcStatus::Success);
        loop {
            let mut limit = BurstLimit {
                bytes: u32::MAX,
                packets: packets(),
            };
            for desc in self.sender.burst(&mut limit) {
                let len = u32_as_usize(desc.length);
                let mut frame = desc.headers.emit(len).as_slice().to_vec();
                let start = u32_as_usize(desc.offset);
                frame.extend_from_slice(&bytes[start..start + len]);
                frame.resize(frame.len() + len.wrapping_neg() % 4, 0);
                self.net.send(self.now, 0, frame);
            }
            self.now = self.now.saturating_add(Duration::from_nanos(1_000));
            self.deliver();
            if let Some(done) = self.sender.poll_completion() {
                assert_eq!(done.completion().map(|done| done.status), expected);
                return;
            }
        }
    }

    /// Delivers the frames that have arrived.
    fn deliver(&mut self) {
        while let Some((to, frame)) = self.net.arrive(self.now) {
            assert_eq!(to, 1);
            let mut context = TestContext {
                frame: &frame,
                memory: &mut self.memory,
                receives: &mut self.receives,
                current: &mut self.current,
                done: &mut self.done,
            };
            let packet = Packet::parse(&frame, frame.len() + 4).expect("a sent packet");
            let _ = self.receiver.handle_request(&packet, &mut context);
            assert!(!self.receiver.take_failure());
        }
    }

    /// Delivers all frames in flight.
    pub fn settle(&mut self) {
        while let Some(at) = self.net.next_arrival() {
            self.now = at;
            self.deliver();
        }
    }
}
