//! Threads that meet at one coordinator, and are counted there from outside.
//!
//! Owns: what the callers do, what the warden changes meanwhile, and what each of them asserts. Lacks the number
//! of rounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::task::Poll;

use admission_rt::{Permit, Rejected};

use super::common::{Acquire, Admission, Task, World, ms};
use super::dice::Dice;
use super::house::NAMES;

/// How many are inside, counted from outside, and how many may be.
pub(crate) struct Room {
    pub(crate) inside: AtomicU32,
    most: u32,
}

impl Room {
    pub(crate) const fn of(most: u32) -> Self {
        Self { inside: AtomicU32::new(0), most }
    }

    pub(crate) fn enter(&self) {
        let inside = self.inside.fetch_add(1, SeqCst) + 1;
        assert!(inside <= self.most, "rule L1: {inside} are inside where {} may be", self.most);
    }

    /// Out before anybody may come in.
    pub(crate) fn leave(&self) {
        self.inside.fetch_sub(1, SeqCst);
    }
}

/// Something that is so for a while: odd while it surely is, even otherwise.
#[derive(Default)]
pub(crate) struct Spell(AtomicU64);

impl Spell {
    pub(crate) fn turn(&self) {
        self.0.fetch_add(1, SeqCst);
    }

    pub(crate) fn now(&self) -> u64 {
        self.0.load(SeqCst)
    }

    /// Whether it was so all the time since.
    pub(crate) fn held_since(&self, before: u64) -> bool {
        before % 2 == 1 && self.now() == before
    }
}

/// Where threads meet.
pub(crate) struct Yard {
    world: Arc<World>,
    pub(crate) admission: Admission,
    all: Room,
    /// "p" takes three and at times one, who is the warden; "q" one, and is gone at times; "r" two.
    pub(crate) rooms: [Room; 3],
    key: Room,
    is_tight: Spell,
    is_gone: Spell,
    is_closed: AtomicBool,
}

impl Yard {
    pub(crate) fn new() -> Self {
        let world = World::new();
        let _entered = world.enter();
        let builder = world.builder().max_concurrent(5).max_queued(8);
        let most = [3, 1, 2];
        let builder = NAMES.iter().zip(most).fold(builder, |builder, (name, most)| {
            builder.provider(*name, |limits| limits.max_concurrent(most))
        });
        Self {
            admission: builder.build().unwrap(),
            world: world.clone(),
            all: Room::of(5),
            rooms: most.map(Room::of),
            key: Room::of(1),
            is_tight: Spell::default(),
            is_gone: Spell::default(),
            is_closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn enter(&self, nth: usize, is_keyed: bool) {
        self.all.enter();
        self.rooms[nth].enter();
        if is_keyed {
            self.key.enter();
        }
    }

    pub(crate) fn leave(&self, nth: usize, is_keyed: bool, permit: Permit) {
        if is_keyed {
            self.key.leave();
        }
        self.rooms[nth].leave();
        self.all.leave();
        drop(permit);
    }

    /// What a caller's thread does.
    pub(crate) fn call(&self, seed: u64, calls: usize) {
        let _entered = self.world.enter();
        let mut dice = Dice(seed);
        let providers = NAMES.map(|name| self.admission.provider(name));
        let Ok(providers) = providers.into_iter().collect::<Result<Vec<_>, _>>() else { return };
        let mut held = Vec::new();
        for _ in 0..calls {
            let nth = dice.below(3) as usize;
            let is_keyed = dice.one_in(8);
            let call = if is_keyed { providers[nth].key(1) } else { providers[nth].call() };
            let (tight, gone, closed) =
                (self.is_tight.now(), self.is_gone.now(), self.is_closed.load(SeqCst));
            let answer = if held.is_empty() && dice.one_in(6) {
                waited_for(call.acquire())
            } else {
                call.try_acquire()
            };
            if answer.is_ok() {
                self.enter(nth, is_keyed);
                assert!(!closed, "rule W4: it was closed before");
                assert!(nth != 0 || !self.is_tight.held_since(tight), "rule L7: the warden was alone");
                assert!(nth != 1 || !self.is_gone.held_since(gone), "rule L10: it was not there");
            } else if closed {
                assert!(matches!(answer, Err(Rejected::Closed)), "rule D5");
            }
            if let Ok(permit) = answer {
                held.push((nth, is_keyed, permit));
            }
            while held.len() > 1 || (!held.is_empty() && !dice.one_in(4)) {
                let (nth, is_keyed, permit) = held.swap_remove(dice.below(held.len() as u64) as usize);
                self.leave(nth, is_keyed, permit);
            }
        }
        for (nth, is_keyed, permit) in held {
            self.leave(nth, is_keyed, permit);
        }
    }

    /// What the warden does, who is in "p" all the time.
    pub(crate) fn watch(&self, seed: u64, changes: usize) {
        let _entered = self.world.enter();
        let mut dice = Dice(seed);
        let p = self.admission.provider("p").unwrap();
        let warden = waited_for(p.acquire()).expect("it is open");
        self.enter(0, false);
        for _ in 0..changes {
            match dice.below(8) {
                0 => {
                    p.set_limits(|p| p.max_concurrent(1)).unwrap();
                    self.is_tight.turn();
                    pause(&mut dice);
                    self.is_tight.turn();
                    p.set_limits(|p| p.max_concurrent(3)).unwrap();
                }
                // From then on nothing is left beside the lock.
                1 if dice.one_in(16) => {
                    self.admission.remove_provider("q").unwrap();
                    self.is_gone.turn();
                    pause(&mut dice);
                    self.is_gone.turn();
                    self.admission.add_provider("q", |q| q.max_concurrent(1)).unwrap();
                }
                2 => {
                    let counts = self.admission.counts();
                    assert!(counts.running + counts.granted <= 5 && counts.running > 0, "{counts:?}");
                }
                3 => {
                    let snapshot = self.admission.snapshot();
                    let of = |name: &str| snapshot.provider(name).map_or(0, |at| at.running + at.granted);
                    assert_eq!(
                        NAMES.map(of).iter().sum::<u32>(),
                        snapshot.client.running + snapshot.client.granted
                    );
                }
                4 => p.cooldown(ms(0)).unwrap(),
                _ => pause(&mut dice),
            }
        }
        self.leave(0, false, warden);
        self.admission.close();
        self.is_closed.store(true, SeqCst);
    }
}

pub(crate) fn pause(dice: &mut Dice) {
    for _ in 0..dice.below(200) {
        std::hint::spin_loop();
    }
    std::thread::yield_now();
}

/// The answer of a call that waits for as long as it takes.
pub(crate) fn waited_for(call: Acquire) -> Result<Permit, Rejected> {
    let mut task = Task::new(call);
    loop {
        let wakes = task.wakes();
        if let Poll::Ready(answer) = task.poll() {
            return answer;
        }
        while task.wakes() == wakes {
            std::thread::yield_now();
        }
    }
}
