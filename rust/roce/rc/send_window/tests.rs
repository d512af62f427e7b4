// SPDX-License-Identifier: GPL-2.0

//! Compares the window with a simple, slow model that keeps each packet separately.

extern crate std;

use super::*;
use crate::{
    rc::testing::{
        at,
        request, //
    },
    wr::SendOp, //
};
use std::{
    vec,
    vec::Vec, //
};

/// Number of slots.
const SLOTS: u32 = 4;

/// A packet, of the request or of the response to a READ.
#[derive(Clone, Copy, Debug)]
struct Packet {
    request: usize,
    /// Index of the READ part in its request.
    part: usize,
    bytes: u32,
    read: bool,
    /// Sent since the last rewind.
    in_flight: bool,
    /// Ever sent.
    sent: bool,
    acked: bool,
    /// The last packet of its request.
    last: bool,
}

/// All packets of all begun requests, in order.
#[derive(Default)]
struct Model {
    /// Is a READ, length, is reported.
    requests: Vec<(bool, u32, bool)>,
    begun: usize,
    packets: Vec<Packet>,
    /// Packets of a part.
    part: usize,
}

impl Model {
    fn begin(&mut self) {
        let (read, length, _) = self.requests[self.begun];
        let mut left = length;
        for index in 0.. {
            let bytes = left.min(256);
            self.packets.push(Packet {
                request: self.begun,
                part: index / self.part,
                bytes,
                read,
                in_flight: false,
                sent: false,
                acked: false,
                last: false,
            });
            left -= bytes;
            if left == 0 {
                self.packets.last_mut().unwrap().last = true;
                break;
            }
        }
        self.begun += 1;
    }

    fn una(&self) -> usize {
        self.packets.iter().filter(|packet| packet.acked).count()
    }

    fn next(&self) -> usize {
        let next = self.packets.iter().rposition(|p| p.in_flight || p.acked);
        next.map_or(0, |last| last + 1)
    }

    fn high(&self) -> usize {
        let last = self.packets.iter().rposition(|packet| packet.sent);
        last.map_or(0, |last| last + 1)
    }

    fn complete(&self) -> usize {
        let left = self.packets.iter().find(|packet| !packet.acked);
        left.map_or(self.begun, |packet| packet.request)
    }

    fn send(&mut self) {
        if self.next() == self.packets.len() {
            self.begin();
        }
        let first = self.packets[self.next()];
        for packet in self
            .packets
            .iter_mut()
            .filter(|p| (p.request, p.part) == (first.request, first.part))
        {
            let wanted = !packet.acked && !packet.in_flight;
            if wanted {
                (packet.in_flight, packet.sent) = (true, true);
                if !first.read {
                    return;
                }
            }
        }
    }

    fn rewind(&mut self) {
        for packet in &mut self.packets {
            packet.in_flight = false;
        }
    }

    /// Acknowledges packets before `upto`; returns whether data is missing.
    fn acknowledge(&mut self, upto: usize) -> Reach {
        for packet in &mut self.packets[..upto] {
            match packet {
                Packet { acked: true, .. } => {}
                Packet { read: true, .. } => return Reach::Gap,
                _ => (packet.acked, packet.in_flight) = (true, false),
            }
        }
        Reach::Whole
    }

    fn flight(&self) -> InFlight {
        let all = self.packets.iter().filter(|packet| packet.in_flight);
        let reads = all.clone().filter(|packet| packet.read);
        let receives = all.clone().filter(|packet| packet.last && !packet.read);
        let mut reads: Vec<_> = reads.map(|read| (read.request, read.part)).collect();
        reads.dedup();
        InFlight {
            receives: receives.count() as u32,
            bytes: all.clone().map(|packet| packet.bytes).sum(),
            packets: all.count() as u32,
            reads: reads.len() as u32,
        }
    }
}

/// A window and its model. All operations apply to both.
struct Both {
    window: SendWindow<Vec<Slot>>,
    split: ReadSplit,
    model: Model,
    first: Psn,
}

impl Both {
    fn new(first: Psn, part: u32) -> Self {
        let split = ReadSplit::of(part);
        let mut window = SendWindow::new(vec![Slot::EMPTY; SLOTS as usize]);
        window.configure(first, Mtu::Mtu256);
        let part = part as usize;
        Self {
            window,
            split,
            model: Model {
                part,
                ..Model::default()
            },
            first,
        }
    }

    fn compare(&self) {
        let psn = |count: usize| self.first.add(count as u32);
        let (window, model) = (&self.window, &self.model);
        assert_eq!(window.una(), psn(model.una()));
        assert_eq!(window.psn(), psn(model.next()));
        assert_eq!(window.high(), psn(model.high()));
        assert_eq!(window.flight(), model.flight());
        assert_eq!(window.is_drained(), model.complete() == model.begun);
        assert_eq!(window.acked as usize, model.complete());
        assert_eq!(
            window.has_pending(),
            model.complete() < model.requests.len()
        );
        let reported = model.requests.iter().filter(|request| request.2).count();
        assert_eq!(window.has_complete(), reported < model.complete());
        assert_eq!(
            window.free_slots() as usize,
            SLOTS as usize + reported - model.requests.len()
        );
        for offset in 0..8 {
            let near = window.una().sub(2).add(offset);
            let inside = (model.una()..model.high()).any(|count| psn(count) == near);
            assert_eq!(window.contains(near), inside, "{near:?}");
        }
    }

    fn post(&mut self, read: bool, length: u32) {
        let op = match read {
            true => SendOp::Read { remote: at(0) },
            false => SendOp::Send { imm: None },
        };
        let slot = Slot::new(request(op, length), op.wc_opcode(), None);
        let place = self.window.push(slot);
        if self.window.head as usize == self.model.requests.len() {
            assert_eq!(place, None);
        } else {
            assert_eq!(
                place,
                Some(SlotIndex(self.model.requests.len() as u32 % SLOTS))
            );
            self.model.requests.push((read, length, false));
        }
    }

    fn send(&mut self) {
        if self.window.current().is_none() {
            assert_eq!(self.model.next(), self.model.packets.len());
            assert_eq!(self.model.begun, self.model.requests.len());
            return;
        }
        self.window.sent(self.split, 1);
        self.model.send();
    }

    fn acknowledge(&mut self, count: usize) {
        let upto = (self.model.una() + count).min(self.model.high());
        let reach = self.window.acknowledge(self.first.add(upto as u32));
        assert_eq!(reach, self.model.acknowledge(upto));
    }

    fn data(&mut self) {
        let una = self.model.una();
        if una < self.model.high() && self.model.packets[una].read {
            self.window.advance(1);
            let packet = &mut self.model.packets[una];
            (packet.acked, packet.in_flight) = (true, false);
        }
    }

    fn retire(&mut self) {
        let place = self.model.requests.iter().position(|request| !request.2);
        let place = place.filter(|&place| place < self.model.complete());
        let retired = self.window.retire();
        assert_eq!(retired.is_some(), place.is_some());
        if let (Some((index, slot)), Some(place)) = (retired, place) {
            assert_eq!(index.0, place as u32 % SLOTS);
            assert_eq!(slot.wr.length, self.model.requests[place].1);
            assert_eq!(slot.status, Some(WcStatus::Success));
            self.model.requests[place].2 = true;
        }
    }
}

#[test]
fn the_window_agrees_with_a_model_of_single_packets() {
    let mut bits = 1_u64;
    let mut below = |end: u64| {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (bits >> 33) % end
    };
    for round in 0..300 {
        let mut both = Both::new(Psn::new(0xff_ffff - round % 30), 1 + round % 6);
        for _ in 0..200 {
            match below(10) {
                0 | 1 => both.post(below(3) == 0, below(1200) as u32),
                2..=5 => both.send(),
                6 => both.acknowledge(below(6) as usize),
                7 => both.data(),
                8 => both.retire(),
                _ if below(3) == 0 => {
                    both.window.rewind();
                    both.model.rewind();
                }
                _ => both.data(),
            }
            both.compare();
        }
    }
}

#[test]
fn the_capacity_is_rounded_down_to_a_power_of_two() {
    for (len, capacity) in [(0, 0), (1, 1), (3, 2), (4, 4), (7, 4)] {
        let mut window = SendWindow::new(vec![Slot::EMPTY; len]);
        assert_eq!(window.free_slots(), capacity);
        let slot = Slot::EMPTY;
        let pushed = (0..10).filter_map(|_| window.push(slot)).count();
        assert_eq!(pushed as u32, capacity);
    }
}

#[test]
fn no_request_at_or_after_an_aborted_one_is_current() {
    let mut both = Both::new(Psn::new(0), 1);
    for _ in 0..4 {
        both.post(false, 1);
    }
    for _ in 0..3 {
        both.send();
    }
    assert!(both
        .window
        .abort_slot(SlotIndex(1), WcStatus::LocProtErr)
        .is_some());
    assert!(both.window.current().is_none());
    both.window.rewind();
    assert_eq!(both.window.current().unwrap().1, SlotIndex(0));
    assert_eq!(both.window.acknowledge(Psn::new(3)), Reach::Whole);
    assert_eq!(
        both.window.una(),
        Psn::new(1),
        "the aborted request is not acknowledged"
    );
    assert!(both
        .window
        .abort_slot(SlotIndex(0), WcStatus::LocProtErr)
        .is_none());
}

#[test]
fn the_first_aborted_request_stops_all_later_ones() {
    for order in [[1, 3], [3, 1]] {
        let mut both = Both::new(Psn::new(0), 1);
        for _ in 0..4 {
            both.post(false, 1);
        }
        for place in order {
            assert!(both
                .window
                .abort_slot(SlotIndex(place), WcStatus::LocProtErr)
                .is_some());
        }
        both.send();
        assert_eq!(both.window.psn(), Psn::new(1));
        assert!(both.window.current().is_none());
    }
}

#[test]
fn indices_wrap() {
    let mut both = Both::new(Psn::new(0), 1);
    both.window.seek(u32::MAX - 1);
    for expected in [2, 3, 0, 1] {
        let place = both.window.push(Slot::EMPTY);
        assert_eq!(place, Some(SlotIndex(expected)));
    }
    assert_eq!(both.window.free_slots(), 0);
    for _ in 0..4 {
        assert_eq!(both.window.begun, both.window.cursor);
        both.window.sent(ReadSplit::WHOLE, 1);
    }
    assert_eq!(both.window.acknowledge(Psn::new(4)), Reach::Whole);
    assert_eq!((0..9).filter(|_| both.window.retire().is_some()).count(), 4);
}
