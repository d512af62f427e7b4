// SPDX-License-Identifier: GPL-2.0

//! What the core asks of a host while it takes one frame.

use super::*;

/// The receives of a host.
#[derive(Default)]
pub(super) struct ReceiveQueue {
    pub(super) posted: VecDeque<Posted>,
    pub(super) in_progress: Option<Posted>,
}

/// What the core asks of the host, for one frame.
pub(super) struct Host<'a> {
    pub(super) frame: &'a [u8],
    pub(super) memory: &'a mut Memory,
    pub(super) locals: &'a [Option<u64>],
    pub(super) queue: &'a mut ReceiveQueue,
    pub(super) received: &'a mut Vec<(Completion, bool)>,
    pub(super) absences: &'a mut Absences,
    pub(super) invalidated: &'a mut Vec<Rkey>,
    pub(super) flushed: &'a mut Vec<(Remote, FlushScope, Placement)>,
    pub(super) atomics: &'a mut u64,
}

impl Host<'_> {
    /// Where memory is absent, a part of the bytes may have been copied.
    fn strikes<E>(&mut self) -> Result<(), Obstacle<E>> {
        match self.absences.strike() {
            true => Err(Obstacle::Absent),
            false => Ok(()),
        }
    }

    fn bytes(&self, payload: RxPayload) -> &[u8] {
        let start = u32_as_usize(payload.offset);
        &self.frame[start..start + u32_as_usize(payload.len)]
    }
}

impl ResponseContext for Host<'_> {
    fn place(
        &mut self,
        slot: SlotIndex,
        offset: u32,
        payload: RxPayload,
    ) -> Result<(), Obstacle<WcStatus>> {
        let va = self.locals[u32_as_usize(slot.0)].ok_or(WcStatus::LocProtErr)?;
        let bytes = self.bytes(payload).to_vec();
        self.memory.put(va + u64::from(offset), &bytes);
        self.strikes()
    }

    fn place_value(&mut self, slot: SlotIndex, found: u64) -> Result<(), Obstacle<WcStatus>> {
        let va = self.locals[u32_as_usize(slot.0)].ok_or(WcStatus::LocProtErr)?;
        self.memory.put(va, &found.to_ne_bytes());
        self.strikes()
    }

    fn invalidate(&mut self, rkey: Rkey) -> Result<(), WcStatus> {
        self.memory.revoke(rkey);
        self.invalidated.push(rkey);
        Ok(())
    }
}

impl RecvContext for Host<'_> {
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
        self.memory.put(receive.va + u64::from(offset), &bytes);
        self.strikes()
    }

    fn check_remote(
        &mut self,
        remote: Remote,
        length: u32,
        access: Access,
    ) -> Result<(), Obstacle<AccessError>> {
        assert_ne!(length, 0, "the key of nothing is asked for");
        self.memory.check(remote, length, access)?;
        self.strikes()
    }

    fn place_remote(
        &mut self,
        remote: Remote,
        payload: RxPayload,
    ) -> Result<(), Obstacle<AccessError>> {
        self.memory
            .check(remote, payload.len, Access::REMOTE_WRITE)?;
        let bytes = self.bytes(payload).to_vec();
        self.memory.put(remote.va, &bytes);
        self.strikes()
    }

    fn complete_receive(&mut self, completion: Completion, solicited: bool) {
        self.received.push((completion, solicited));
    }
}

impl RequestContext for Host<'_> {
    fn execute_atomic(
        &mut self,
        remote: Remote,
        op: AtomicOp,
    ) -> Result<u64, Obstacle<AccessError>> {
        self.strikes()?;
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
        self.place_remote(remote, payload)?;
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
        self.strikes()?;
        self.memory.check_flush(remote, scope, placement.access())?;
        self.flushed.push((remote, scope, placement));
        Ok(())
    }

    fn invalidate(&mut self, rkey: Rkey) -> Result<(), AccessError> {
        if !self.memory.knows(rkey) {
            return Err(AccessError::Key);
        }
        self.memory.revoke(rkey);
        self.invalidated.push(rkey);
        Ok(())
    }
}
