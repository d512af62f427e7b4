// SPDX-License-Identifier: GPL-2.0

//! The callbacks of the core while it handles one frame.

use super::*;

/// The receive queue of a host.
#[derive(Default)]
pub(super) struct ReceiveQueue {
    pub(super) posted: VecDeque<Posted>,
    pub(super) in_progress: Option<Posted>,
}

/// The context of one frame.
pub(super) struct PacketContext<'a> {
    pub(super) frame: &'a [u8],
    pub(super) memory: &'a mut Memory,
    pub(super) locals: &'a [Option<u64>],
    pub(super) queue: &'a mut ReceiveQueue,
    pub(super) received: &'a mut Vec<(Completion, bool)>,
    pub(super) page_faults: &'a mut PageFaults,
    pub(super) invalidated: &'a mut Vec<Rkey>,
    pub(super) flushed: &'a mut Vec<(Remote, FlushScope, Placement)>,
    pub(super) atomics: &'a mut u64,
}

impl PacketContext<'_> {
    /// Fails at random with memory not present. Some of the bytes may have been copied.
    fn page_fault<E>(&mut self) -> Result<(), Obstacle<E>> {
        match self.page_faults.occurs() {
            true => Err(Obstacle::Absent),
            false => Ok(()),
        }
    }

    fn bytes(&self, payload: RxPayload) -> &[u8] {
        let start = u32_as_usize(payload.offset);
        &self.frame[start..start + u32_as_usize(payload.len)]
    }
}

impl ResponseContext for PacketContext<'_> {
    fn place(
        &mut self,
        slot: SlotIndex,
        offset: u32,
        payload: RxPayload,
    ) -> Result<(), Obstacle<WcStatus>> {
        let va = self.locals[u32_as_usize(slot.0)].ok_or(WcStatus::LocProtErr)?;
        let bytes = self.bytes(payload).to_vec();
        self.memory.write(va + u64::from(offset), &bytes);
        self.page_fault()
    }

    fn place_value(&mut self, slot: SlotIndex, found: u64) -> Result<(), Obstacle<WcStatus>> {
        let va = self.locals[u32_as_usize(slot.0)].ok_or(WcStatus::LocProtErr)?;
        self.memory.write(va, &found.to_ne_bytes());
        self.page_fault()
    }

    fn invalidate(&mut self, rkey: Rkey) -> Result<(), WcStatus> {
        self.memory.revoke(rkey);
        self.invalidated.push(rkey);
        Ok(())
    }
}

impl RecvContext for PacketContext<'_> {
    fn take_receive(&mut self) -> Option<Result<RecvWr, BadRecv>> {
        let posted = self.queue.posted.pop_front()?;
        if let Some(status) = posted.bad {
            let wr_id = posted.wr.wr_id;
            return Some(Err(BadRecv { wr_id, status }));
        }
        self.queue.in_progress = Some(posted);
        Some(Ok(posted.wr))
    }

    fn place_receive(&mut self, offset: u32, payload: RxPayload) -> Result<(), Obstacle<WcStatus>> {
        let receive = self.queue.in_progress.expect("a receive is in progress");
        assert!(
            offset + payload.len <= receive.wr.length,
            "past the end of a receive"
        );
        let bytes = self.bytes(payload).to_vec();
        self.memory.write(receive.va + u64::from(offset), &bytes);
        self.page_fault()
    }

    fn check_remote(
        &mut self,
        remote: Remote,
        length: u32,
        access: Access,
    ) -> Result<(), Obstacle<AccessError>> {
        assert_ne!(length, 0, "a key was checked for 0 bytes");
        self.memory.check(remote, length, access)?;
        self.page_fault()
    }

    fn place_remote(
        &mut self,
        remote: Remote,
        payload: RxPayload,
        _left: u32,
    ) -> Result<(), Obstacle<AccessError>> {
        self.memory
            .check(remote, payload.len, Access::REMOTE_WRITE)?;
        let bytes = self.bytes(payload).to_vec();
        self.memory.write(remote.va, &bytes);
        self.page_fault()
    }

    fn complete_receive(&mut self, completion: Completion, solicited: bool) {
        self.received.push((completion, solicited));
    }
}

impl RequestContext for PacketContext<'_> {
    fn execute_atomic(
        &mut self,
        remote: Remote,
        op: AtomicOp,
    ) -> Result<u64, Obstacle<AccessError>> {
        self.page_fault()?;
        let found = self.memory.atomic(remote, op)?;
        *self.atomics += 1;
        Ok(found)
    }

    fn write_atomic(
        &mut self,
        remote: Remote,
        payload: RxPayload,
    ) -> Result<(), Obstacle<AccessError>> {
        assert_eq!((payload.len, remote.va % 8), (8, 0));
        self.place_remote(remote, payload, payload.len)?;
        *self.atomics += 1;
        Ok(())
    }

    fn flush(
        &mut self,
        remote: Remote,
        scope: FlushScope,
        placement: Placement,
    ) -> Result<(), Obstacle<AccessError>> {
        assert_ne!(scope, FlushScope::Range(0));
        self.page_fault()?;
        self.memory.check_flush(remote, scope, placement.access())?;
        self.flushed.push((remote, scope, placement));
        Ok(())
    }

    fn invalidate(&mut self, rkey: Rkey) -> Result<(), AccessError> {
        if !self.memory.is_registered(rkey) {
            return Err(AccessError::Key);
        }
        self.memory.revoke(rkey);
        self.invalidated.push(rkey);
        Ok(())
    }
}
