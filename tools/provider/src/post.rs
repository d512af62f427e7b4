// SPDX-License-Identifier: GPL-2.0

//! Posting: send queues and receive queues, without locks and doorbells.

use crate::{
    abi::direct::{
        bytes,
        Mapping, //
    },
    doorbell::Held,
    errno::Errno,
    ffi::{
        memory::Map,
        wr::{
            Bind,
            Chain,
            RecvWr,
            SendWr,
            Sge,
            UserBytes, //
        },
    },
    ring::{
        Memory,
        Producer,
        Ring, //
    },
    sync::AtomicU64,
    wqe::{
        self,
        flag,
        opcode,
        Head,
        Operands,
        Target, //
    },
};

/// Why a list was not posted, and the first request that was not.
pub(crate) type BadWr<'a, W> = (Errno, Option<&'a W>);

/// What requests of a send queue may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Entries of a list.
    pub(crate) max_sge: u32,
    /// Bytes of inline data.
    pub(crate) max_inline: u32,
    /// All requests are datagrams.
    pub(crate) datagrams: bool,
    /// All requests name an SRQ of the peer.
    pub(crate) xrc: bool,
}

/// The producing end of a send queue.
pub(crate) struct SendQueue<M = Map> {
    queue: Producer<M>,
    limits: Limits,
    builder: Builder,
    pub(crate) held: Held,
}

/// The request that a program builds, or the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Builder {
    head: Head,
    error: Option<Errno>,
    /// Of all messages since the start.
    bytes: u64,
}

impl SendQueue {
    /// Maps the ring.
    ///
    /// # Errors
    ///
    /// Those of `mmap`; `EINVAL` if it is no ring.
    pub(crate) fn map(fd: i32, mapping: Mapping, limits: Limits) -> Result<Self, Errno> {
        let ring = Ring::new(Map::new(fd, mapping)?, bytes::SEND).ok_or(Errno::INVAL)?;
        Ok(Self::new(ring, limits))
    }
}

impl<M: Memory> SendQueue<M> {
    fn new(ring: Ring<M>, limits: Limits) -> Self {
        Self {
            queue: Producer::new(ring),
            limits,
            builder: Builder::default(),
            held: Held::default(),
        }
    }

    /// Begins a list: forgets what was not published.
    #[inline]
    pub(crate) fn start(&mut self) {
        self.queue.rewind();
        self.builder = Builder::default();
    }

    /// Writes a request without a message, which may follow.
    #[inline]
    pub(crate) fn begin(&mut self, head: Head, target: Target) {
        let begun = self.queue.vacant().ok_or(Errno::NOMEM);
        let written =
            begun.and_then(|element| wqe::begin(element, &head, target).ok_or(Errno::INVAL));
        self.builder.head = head;
        match written {
            Ok(()) if self.builder.error.is_none() => self.queue.advance(),
            Ok(()) => {}
            Err(error) => self.fail(error),
        }
    }

    #[cold]
    pub(crate) fn fail(&mut self, error: Errno) {
        self.builder.error = self.builder.error.or(Some(error));
    }

    /// Writes something to the request that was begun last. `write` returns the bytes of its message.
    #[inline]
    fn edit(&mut self, write: impl FnOnce(&[AtomicU64], &Head) -> Option<u64>) {
        if self.builder.error.is_some() {
            return;
        }
        let element = self.queue.last();
        match element.and_then(|element| write(element, &self.builder.head)) {
            Some(bytes) => self.builder.bytes = self.builder.bytes.wrapping_add(bytes),
            None => self.fail(Errno::INVAL),
        }
    }

    /// Sets the list of the request.
    #[inline]
    pub(crate) fn set_list(&mut self, list: &[Sge]) {
        let max_sge = usize::try_from(self.limits.max_sge).unwrap_or(usize::MAX);
        let fits = list.len() <= max_sge;
        match self.builder.head.opcode {
            opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD => {
                self.edit(|element, head| match list {
                    [sge] => wqe::result(element, head, sge).map(|()| 8),
                    _ => None,
                });
            }
            // Something else is in the place of a list.
            opcode::LOCAL_INV | opcode::BIND_MW | opcode::FLUSH | opcode::ATOMIC_WRITE => {
                self.edit(|_, _| list.is_empty().then_some(0));
            }
            _ => self.edit(|element, head| fits.then(|| wqe::list(element, head, list))?),
        }
    }

    /// Copies the message to the request.
    #[inline]
    pub(crate) fn set_inline<'a>(&mut self, message: impl Iterator<Item = UserBytes<'a>>) {
        let limit = self.limits.max_inline;
        match opcode::takes_inline(self.builder.head.opcode) {
            true => self.edit(|element, head| wqe::inline(element, head, message, limit)),
            false => self.fail(Errno::INVAL),
        }
    }

    /// Sets where a datagram goes.
    #[inline]
    pub(crate) fn set_target(&mut self, target: Target) {
        self.edit(|element, _| wqe::target(element, target).map(|()| 0));
    }

    /// Sets the SRQ of the peer.
    #[inline]
    pub(crate) fn set_srqn(&mut self, remote_srqn: u32) {
        self.edit(|element, _| wqe::srqn(element, remote_srqn).map(|()| 0));
    }

    /// Sets the operands of the request.
    pub(crate) fn set_operands(&mut self, operands: Operands) {
        self.edit(|element, _| wqe::operands(element, operands).map(|()| 0));
    }

    /// Begins a request that binds a window.
    pub(crate) fn begin_bind(&mut self, head: Head, bind: Bind) {
        self.begin(
            head,
            Target::Rdma {
                remote_addr: bind.addr,
                rkey: bind.rkey,
            },
        );
        self.set_operands(Operands::Bind {
            length: bind.length,
            mr_lkey: bind.mr_lkey,
            new_rkey: bind.new_rkey,
            access: bind.access,
        });
    }

    /// Ends a list. Publishes it, and returns its number of requests and the bytes of their messages; nothing is
    /// published if one of the requests is not possible.
    ///
    /// # Errors
    ///
    /// `EINVAL`, or `ENOMEM` if the queue is full.
    #[inline]
    pub(crate) fn finish(&mut self) -> Result<(u32, u64), Errno> {
        if let Some(error) = self.builder.error {
            self.queue.rewind();
            return Err(error);
        }
        Ok(self.publish())
    }

    #[inline]
    fn publish(&mut self) -> (u32, u64) {
        let posts = self.queue.unpublished();
        if posts > 0 {
            self.queue.publish();
        }
        (posts, self.builder.bytes)
    }

    /// Writes a request of a program.
    #[inline]
    fn write(&mut self, wr: &SendWr) -> Option<()> {
        let head = Head {
            wr_id: wr.wr_id(),
            opcode: u8::try_from(wr.opcode()).ok()?,
            // CAST: The mask has eight bits.
            flags: (wr.flags() & u32::from(flag::COMMON)) as u8,
            imm_or_key: wr.imm_or_key(),
        };
        if self.limits.datagrams {
            let (ah, qpn, qkey) = wr.datagram()?;
            self.begin(head, Target::Datagram { qpn, qkey, ah });
        } else {
            self.write_connected(head, wr)?;
            if self.limits.xrc {
                self.set_srqn(wr.remote_srqn());
            }
        }
        if wr.flags() & u32::from(flag::INLINE) != 0 && opcode::takes_inline(head.opcode) {
            self.set_inline(wr.inline()?);
        } else if !matches!(head.opcode, opcode::LOCAL_INV | opcode::BIND_MW) {
            self.set_list(wr.sges()?);
        }
        Some(())
    }

    /// Writes what a request is about, of a queue pair that is connected.
    #[inline]
    fn write_connected(&mut self, head: Head, wr: &SendWr) -> Option<()> {
        let rdma = |(remote_addr, rkey)| Target::Rdma { remote_addr, rkey };
        match head.opcode {
            opcode::SEND | opcode::SEND_WITH_IMM | opcode::SEND_WITH_INV | opcode::LOCAL_INV => {
                self.begin(head, Target::None);
            }
            opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM | opcode::RDMA_READ => {
                self.begin(head, rdma(wr.rdma()));
            }
            opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD => {
                let (target, (compare_add, swap)) = wr.atomic();
                self.begin(head, rdma(target));
                self.set_operands(Operands::Atomic { compare_add, swap });
            }
            opcode::BIND_MW => self.begin_bind(head, wr.bind()?),
            // The others can only be built: `struct ibv_send_wr` has no place for their operands.
            _ => return None,
        }
        Some(())
    }

    /// Posts a list, up to the first request that is not possible. Returns what was published, too.
    #[inline]
    pub(crate) fn post_all<'a>(
        &mut self,
        list: Chain<'a, SendWr>,
    ) -> ((u32, u64), Result<(), BadWr<'a, SendWr>>) {
        self.start();
        let mut result = Ok(());
        for wr in list {
            let before = (self.queue.unpublished(), self.builder.bytes);
            let written = self.write(wr);
            let error = self
                .builder
                .error
                .or(written.is_none().then_some(Errno::INVAL));
            if let Some(error) = error {
                let (posts, bytes) = before;
                self.queue.keep(posts);
                self.builder.bytes = bytes;
                result = Err((error, Some(wr)));
                break;
            }
        }
        (self.publish(), result)
    }

    /// Whether the kernel has promised to look at what was published.
    #[inline]
    pub(crate) fn no_doorbell(&self) -> bool {
        self.queue.no_doorbell()
    }

    /// Returns the number of elements.
    pub(crate) fn entries(&self) -> u32 {
        self.queue.entries()
    }
}

/// The producing end of a receive queue.
pub(crate) struct RecvQueue<M = Map> {
    queue: Producer<M>,
    max_sge: usize,
}

impl RecvQueue {
    /// Maps the ring.
    ///
    /// # Errors
    ///
    /// Those of `mmap`; `EINVAL` if it is no ring.
    pub(crate) fn map(fd: i32, mapping: Mapping, max_sge: u32) -> Result<Self, Errno> {
        let ring = Ring::new(Map::new(fd, mapping)?, bytes::RECV).ok_or(Errno::INVAL)?;
        Ok(Self::new(ring, max_sge))
    }
}

impl<M: Memory> RecvQueue<M> {
    fn new(ring: Ring<M>, max_sge: u32) -> Self {
        Self {
            queue: Producer::new(ring),
            max_sge: usize::try_from(max_sge).unwrap_or(usize::MAX),
        }
    }

    #[inline]
    fn post(&mut self, wr: &RecvWr) -> Result<(), Errno> {
        self.write(wr.wr_id(), wr.sges().ok_or(Errno::INVAL)?)
    }

    #[inline]
    fn write(&mut self, wr_id: u64, list: &[Sge]) -> Result<(), Errno> {
        if list.len() > self.max_sge {
            return Err(Errno::INVAL);
        }
        let element = self.queue.vacant().ok_or(Errno::NOMEM)?;
        wqe::receive(element, wr_id, list).ok_or(Errno::INVAL)?;
        self.queue.advance();
        Ok(())
    }

    /// Posts a list to a queue that may be missing, up to the first request that is not possible.
    ///
    /// # Errors
    ///
    /// `EINVAL`, or `ENOMEM` if the queue is full.
    #[inline]
    pub(crate) fn post_all<'a>(
        queue: &mut Option<Self>,
        mut list: Chain<'a, RecvWr>,
    ) -> Result<(), BadWr<'a, RecvWr>> {
        let Some(queue) = queue else {
            return Err((Errno::INVAL, list.next()));
        };
        let mut result = Ok(());
        for wr in list {
            if let Err(error) = queue.post(wr) {
                result = Err((error, Some(wr)));
                break;
            }
        }
        queue.queue.publish();
        result
    }
}

#[cfg(test)]
mod tests;
