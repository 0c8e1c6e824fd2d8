//! What waits to be read: the outputs of a stream, in the order in which they are handed out.
//!
//! Owns: that order. Lacks the bound on how many there may be, which is the engine's.

use std::collections::VecDeque;

use crate::unwind::quietly;

/// The order of outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// That of their items in the source.
    Source,
    /// That in which they were finished.
    Completed,
}

/// Outputs that are finished, and places of those that are not.
pub(super) struct Outbox<O> {
    order: Order,
    /// In the order of the source there is one for every item that was begun and not handed out; in
    /// the other, one for every item that is finished.
    places: VecDeque<Place<O>>,
    /// The number of the item at the front, in the order of the source.
    front: u64,
    /// The number of the next item.
    next: u64,
    finished: usize,
}

enum Place<O> {
    Open,
    Finished(O),
    /// Its item comes to nothing.
    Void,
}

impl<O> Outbox<O> {
    pub(super) const fn new(order: Order) -> Self {
        Self { order, places: VecDeque::new(), front: 0, next: 0, finished: 0 }
    }

    /// How many wait to be read.
    pub(super) const fn finished(&self) -> usize {
        self.finished
    }

    /// The number of the item that is begun next.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// It is begun.
    pub(super) fn begin(&mut self) {
        self.next += 1;
        if self.order == Order::Source {
            self.places.push_back(Place::Open);
        }
    }

    /// An item is finished.
    pub(super) fn file(&mut self, item: u64, output: O) {
        match self.order {
            Order::Completed => self.places.push_back(Place::Finished(output)),
            Order::Source => self.fill(item, Place::Finished(output)),
        }
        self.finished += 1;
    }

    /// An item comes to nothing, and those behind it do not wait for it.
    pub(super) fn void(&mut self, item: u64) {
        if self.order == Order::Source {
            self.fill(item, Place::Void);
        }
    }

    /// The next one in order, if it is finished.
    pub(super) fn pop(&mut self) -> Option<O> {
        loop {
            if let Place::Open = self.places.front()? {
                return None;
            }
            self.front += 1;
            if let Some(Place::Finished(output)) = self.places.pop_front() {
                self.finished -= 1;
                return Some(output);
            }
        }
    }

    fn fill(&mut self, item: u64, place: Place<O>) {
        // No place for it: everything was thrown away meanwhile.
        let Some(offset) = item.checked_sub(self.front) else { return };
        if let Some(open) = self.places.get_mut(offset as usize) {
            *open = place;
        }
    }
}

/// One by one: two outputs that panic when they are dropped would end the process.
impl<O> Drop for Outbox<O> {
    fn drop(&mut self) {
        for place in self.places.drain(..) {
            quietly(|| drop(place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(order: Order, items: u64) -> Outbox<char> {
        let mut outbox = Outbox::new(order);
        for item in 0..items {
            assert_eq!(outbox.next(), item);
            outbox.begin();
        }
        outbox
    }

    // rule I4
    #[test]
    fn outputs_come_in_the_order_of_the_source() {
        let mut outbox = begun(Order::Source, 3);
        outbox.file(1, 'b');
        assert_eq!((outbox.pop(), outbox.finished()), (None, 1));
        outbox.file(0, 'a');
        assert_eq!((outbox.pop(), outbox.pop(), outbox.pop()), (Some('a'), Some('b'), None));
        outbox.begin();
        outbox.file(3, 'd');
        assert_eq!(outbox.pop(), None);
        outbox.void(2);
        assert_eq!((outbox.pop(), outbox.pop(), outbox.finished()), (Some('d'), None, 0));
    }

    // rule I4
    #[test]
    fn outputs_come_as_they_are_completed() {
        let mut outbox = begun(Order::Completed, 4);
        outbox.file(2, 'c');
        outbox.void(1);
        outbox.file(0, 'a');
        assert_eq!(outbox.finished(), 2);
        assert_eq!((outbox.pop(), outbox.pop(), outbox.pop()), (Some('c'), Some('a'), None));
    }
}
