// SPDX-License-Identifier: GPL-2.0

//! The completion queue of a ULP, compared with a model, while values are removed in steps.

use crate::fifo::Fifo;
use proptest::prelude::*;
use std::collections::VecDeque;

/// A value: its QP and a serial number.
type Value = (u8, u32);

#[derive(Clone, Debug)]
enum Step {
    Push(u8),
    Pop,
    /// Starts to remove the values of a QP, unless a removal is in progress.
    Begin(u8),
    /// Examines this many values.
    Remove(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..3_u8).prop_map(Step::Push),
        3 => Just(Step::Pop),
        1 => (0..3_u8).prop_map(Step::Begin),
        3 => (0..4_u32).prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 0..200)
}

/// The queue, its model, and the removal in progress: of a QP, up to a serial number.
struct World {
    fifo: Fifo<Value>,
    model: VecDeque<Value>,
    serial: u32,
    removal: Option<(u8, u32)>,
}

impl World {
    fn is_removed(&self, value: &Value) -> bool {
        self.removal
            .is_some_and(|(owner, until)| value.0 == owner && value.1 < until)
    }

    fn remove(&mut self, count: u32) {
        if let Some((owner, until)) = self.removal {
            // Values that were added later do not belong to the QP being destroyed.
            if self
                .fifo
                .remove_step(count, |value| value.0 == owner && value.1 < until)
            {
                self.model
                    .retain(|value| !(value.0 == owner && value.1 < until));
                self.removal = None;
            }
        }
    }

    fn pop(&mut self) {
        let popped = self.fifo.pop();
        // A value to be removed may be returned until the removal reaches it. No other value may be
        // skipped.
        while self.model.front().copied() != popped {
            let skipped = self.model.pop_front();
            assert!(skipped.is_some_and(|value| self.is_removed(&value)));
        }
        self.model.pop_front();
    }

    fn push(&mut self, owner: u8) {
        let value = (owner, self.serial);
        self.serial += 1;
        match self.fifo.push(value) {
            Ok(()) => self.model.push_back(value),
            Err(back) => {
                assert_eq!(back, value);
                assert!(
                    self.model.len() >= self.fifo.capacity() as usize,
                    "full too early"
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn removal_in_steps_keeps_the_order_of_the_rest(capacity in 1..20_u32, steps in steps()) {
        let fifo = Fifo::new(capacity).unwrap();
        let mut world = World { fifo, model: VecDeque::new(), serial: 0, removal: None };
        for step in steps {
            match step {
                Step::Push(owner) => world.push(owner),
                Step::Pop => world.pop(),
                Step::Begin(owner) if world.removal.is_none() => {
                    world.removal = Some((owner, world.serial));
                    world.fifo.begin_removal();
                }
                Step::Begin(_) => {}
                Step::Remove(count) => world.remove(count),
            }
            prop_assert!(world.fifo.len() as usize <= world.model.len());
        }
        while world.removal.is_some() {
            world.remove(1);
        }
        prop_assert_eq!(world.fifo.len() as usize, world.model.len());
        while let Some(value) = world.model.pop_front() {
            prop_assert_eq!(world.fifo.pop(), Some(value));
        }
        prop_assert_eq!(world.fifo.pop(), None);
    }

    #[test]
    fn a_step_examines_at_most_count_values(values in 0..50_u32, count in 1..10_u32) {
        let mut fifo = Fifo::new(50).unwrap();
        for serial in 0..values {
            fifo.push((0_u8, serial)).unwrap();
        }
        fifo.begin_removal();
        let mut steps = 1;
        let seen = std::cell::Cell::new(0);
        let mut last = 0;
        while !fifo.remove_step(count, |_| { seen.set(seen.get() + 1); true }) {
            prop_assert!(seen.get() - last <= count);
            last = seen.get();
            steps += 1;
        }
        prop_assert_eq!(seen.get(), values);
        prop_assert!(steps <= values / count + 1);
        prop_assert_eq!(fifo.len(), 0);
    }
}
