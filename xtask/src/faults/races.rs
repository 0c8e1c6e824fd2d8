//! Faults of the async layer that another thread brings to light: for loom, which tries every order of a race's
//! steps, and for shuttle, which draws many.

use super::{Fault, in_loom, in_shuttle};

const ABORT: &str = "crates/admission-rt/src/abort.rs";
const ACQUIRE: &str = "crates/admission-rt/src/acquire.rs";
const BATON: &str = "crates/admission-rt/src/baton.rs";
const FOLLOW_UP: &str = "crates/admission-rt/src/shared/follow_up.rs";
const KEY: &str = "crates/admission-rt/src/key.rs";
const OFFER: &str = "crates/admission-rt/src/offer.rs";
const SHARED: &str = "crates/admission-rt/src/shared.rs";

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        rule: "T6",
        what: "who has armed an alarm does not look whether others wanted another time meanwhile",
        file: FOLLOW_UP,
        right: "if event.is_some() || !state.is_quiet() {",
        wrong: "if event.is_some() {",
        test: in_loom("two that set one alarm"),
    },
    Fault {
        rule: "W3",
        what: "a call that is dropped is deaf before it is out of the queue",
        file: ACQUIRE,
        right: "if let Stage::Waiting { provider, ticket } = self.stage {",
        wrong: "if let Some(rare) = &mut self.extras.0 { rare.leave() }
        if let Stage::Waiting { provider, ticket } = self.stage {",
        test: in_loom("an abort against a drop"),
    },
    Fault {
        rule: "W3",
        what: "whether a signal has fired is looked at before its listeners are locked",
        file: ABORT,
        right: "let mut listeners = inner.lock();
        // Looked at under the lock: whoever sets the reason takes the listeners after that.
        if inner.reason.get().is_none() {",
        wrong: "let is_early = inner.reason.get().is_none();
        let mut listeners = inner.lock();
        if is_early {",
        test: in_shuttle("an abort against an enqueue"),
    },
    Fault {
        rule: "W3",
        what: "the listeners of a signal are taken before its reason is set",
        file: ABORT,
        right: "if self.reason.set(reason).is_err() {
            return;
        }
        let Some(reason) = self.reason.get() else { return };
        let mut listeners = std::mem::take(&mut *self.lock());",
        wrong: "let mut listeners = std::mem::take(&mut *self.lock());
        if self.reason.set(reason).is_err() {
            return;
        }
        let Some(reason) = self.reason.get() else { return };",
        test: in_shuttle("an abort against another"),
    },
    Fault {
        rule: "W6",
        what: "a waker is put in its place, and nobody asks whether its turn has come meanwhile",
        file: ACQUIRE,
        right: "stage.step(state, now, told, |state, ticket| {
                waker = state.sit(ticket, waker.take(), runtime, &mut booked);
                Heard::Settled
            })",
        wrong: "let Stage::Waiting { ticket, .. } = *stage else { return (Heard::Refused, None::<Waker>) };
            let _ = (now, &told);
            waker = state.sit(ticket, waker.take(), runtime, &mut booked);
            (Heard::Settled, None)",
        test: in_loom("a newcomer against a release"),
    },
    Fault {
        rule: "W6",
        what: "a ticket is released in one turn, and its waker taken out in another",
        file: SHARED,
        right: "let waker = state.leave(ticket);
            let now = state.time_of(time);
            state.core.handle_release(ticket, now);
            // One that nobody ever polled leaves without anything to see to.
            self.guess.note_state(state);
            waker
        });
        unwind.swallow();
        drop(waker);",
        wrong: "let now = state.time_of(time);
            state.core.handle_release(ticket, now);
            self.guess.note_state(state);
        });
        unwind.swallow();
        let () = waker;
        drop(self.turn(|state, _| state.leave(ticket)));",
        test: in_loom("a waiter that is dropped against a newcomer"),
    },
    Fault {
        rule: "S4",
        what: "who finds a grant offered closes the place by what it has read, and not by what is there",
        file: OFFER,
        right: "word = self.0.swap(CLOSED, Ordering::Relaxed);",
        wrong: "self.0.store(CLOSED, Ordering::Relaxed);",
        test: in_loom("a granted call that starts against its hand-off time"),
    },
    Fault {
        rule: "S4",
        what: "who finds a grant offered leaves the place open, for the end of the turn opens it again",
        file: OFFER,
        right: "if word & TAKEN == 0 {
            word",
        wrong: "if word & TAKEN == 0 {
            return;
        }
        if word & TAKEN == 0 {
            word",
        test: in_loom("a granted call and a newcomer against its hand-off time"),
    },
    Fault {
        rule: "L1",
        what: "a grant is offered again when the lock is gone",
        file: SHARED,
        right: "self.open_offer(&state);
            return (value, Unwind::new());",
        wrong: "let again = state.may_offer();
            drop(state);
            if let Some(ticket) = again {
                self.offer.open(ticket);
            }
            return (value, Unwind::new());",
        test: in_loom("a granted call against two newcomers"),
    },
    Fault {
        rule: "L1",
        what: "a grant is offered, and not what was done before it",
        file: OFFER,
        right: "self.0.store(ticket.to_bits(), Ordering::Release);",
        wrong: "self.0.store(ticket.to_bits(), Ordering::Relaxed);",
        test: in_loom("a granted call that starts against what was done before"),
    },
    Fault {
        rule: "L1",
        what: "whoever takes the lock does not hear of a call that has started beside it",
        file: SHARED,
        right: "let mut state = self.lock_and(Batons::close);
        self.offer.close(&mut state);
        state",
        wrong: "self.lock_and(Batons::close)",
        test: in_loom("a granted call that starts against another's end"),
    },
    Fault {
        rule: "D3",
        what: "the last user of a key forgets its number after another may have come for it",
        file: KEY,
        right: "if entry.get().users == 0 {
            entry.remove();",
        wrong: "let is_last = entry.get().users == 0;
        drop(table);
        let mut table = self.keys.lock();
        let entries = &mut table.entries;
        if is_last {
            let Ok(entry) = entries.find_entry(self.hash, |entry| entry.number == self.number) else { return };
            entry.remove();",
        test: in_loom("a key's last user against its next"),
    },
    Fault {
        rule: "W6",
        what: "what is left beside the lock is looked at, and then forgotten, in two steps",
        file: BATON,
        right: "match place.swap(CLOSED, Ordering::Acquire) {",
        wrong: "place.store(CLOSED, Ordering::Release);
            match word {",
        test: in_loom("a call that takes over against a waiter"),
    },
    Fault {
        rule: "L1",
        what: "a key is free before all is done that was done with it",
        file: BATON,
        right: "let word = place.load(Ordering::Acquire);",
        wrong: "let word = place.load(Ordering::Relaxed);",
        test: in_loom("a key that comes free against who wants it"),
    },
    Fault {
        rule: "L1",
        what: "a call takes over the ticket of a call to another provider",
        file: BATON,
        right: "word & !TICKET == mark",
        wrong: "word & (OPEN | ALIKE) == ALIKE && mark > 0",
        test: in_loom("a call that takes over against another kind"),
    },
];
