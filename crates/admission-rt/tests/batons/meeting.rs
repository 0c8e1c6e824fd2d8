//! Threads that meet at one coordinator, and are counted there from outside.
//!
//! Owns: what the callers do, what the warden changes meanwhile, what each of them asserts, and how many tickets
//! the callers saw in two permits. Lacks the number of rounds.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::task::Poll;

use admission_rt::{Permit, Rejected};

use super::common::dice::Dice;
use super::common::{Acquire, Admission, Provider, Task, World, ms};

const NAMES: [&str; 3] = ["p", "q", "r"];

/// How many are inside, counted from outside, and how many may be.
pub(crate) struct Room {
    pub(crate) inside: AtomicU32,
    most: u32,
}

impl Room {
    const fn of(most: u32) -> Self {
        Self { inside: AtomicU32::new(0), most }
    }

    fn enter(&self) {
        let inside = self.inside.fetch_add(1, SeqCst) + 1;
        assert!(inside <= self.most, "rule L1: {inside} are inside where {} may be", self.most);
    }

    /// Out before anybody may come in.
    fn leave(&self) {
        self.inside.fetch_sub(1, SeqCst);
    }
}

/// Something that is so for a while: odd while it surely is, even otherwise.
#[derive(Default)]
struct Spell(AtomicU64);

impl Spell {
    fn turn(&self) {
        self.0.fetch_add(1, SeqCst);
    }

    fn now(&self) -> u64 {
        self.0.load(SeqCst)
    }

    /// Whether it was so all the time since.
    fn held_since(&self, before: u64) -> bool {
        before % 2 == 1 && self.now() == before
    }
}

/// Where threads meet.
pub(crate) struct Meeting {
    world: Arc<World>,
    pub(crate) admission: Admission,
    all: Room,
    /// "p" takes three and at times one, who is the warden; "q" one, and is gone at times; "r" two.
    pub(crate) rooms: [Room; 3],
    key: Room,
    /// Looked up before any of them can be gone.
    providers: [Provider; 3],
    is_tight: Spell,
    is_gone: Spell,
    is_closed: AtomicBool,
    /// How many callers have yet to make half of their calls.
    early: AtomicU32,
}

/// One of those who have, once this is gone.
struct Early<'a>(&'a AtomicU32);

impl Drop for Early<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Meeting {
    /// For so many callers.
    pub(crate) fn new(callers: u32) -> Self {
        let world = World::new();
        let _entered = world.enter();
        let builder = world.builder().max_concurrent(5).max_queued(8);
        let most = [3, 1, 2];
        let builder = NAMES.iter().zip(most).fold(builder, |builder, (name, most)| {
            builder.provider(*name, |limits| limits.max_concurrent(most))
        });
        let admission = builder.build().unwrap();
        Self {
            providers: NAMES.map(|name| admission.provider(name).unwrap()),
            admission,
            world: world.clone(),
            all: Room::of(5),
            rooms: most.map(Room::of),
            key: Room::of(1),
            is_tight: Spell::default(),
            is_gone: Spell::default(),
            is_closed: AtomicBool::new(false),
            early: AtomicU32::new(callers),
        }
    }

    fn enter(&self, nth: usize, is_keyed: bool) {
        self.all.enter();
        self.rooms[nth].enter();
        if is_keyed {
            self.key.enter();
        }
    }

    fn leave(&self, nth: usize, is_keyed: bool, permit: Permit) {
        if is_keyed {
            self.key.leave();
        }
        self.rooms[nth].leave();
        self.all.leave();
        drop(permit);
    }

    /// What a caller does. Says how many tickets it got that it had had before: they were taken over.
    pub(crate) fn call(&self, seed: u64, calls: usize) -> u64 {
        let _entered = self.world.enter();
        let mut dice = Dice::new(seed);
        let mut held = Vec::new();
        let (mut had, mut taken_over) = (HashSet::new(), 0);
        let mut early = Some(Early(&self.early));
        for nth_call in 0..calls {
            early = early.filter(|_| nth_call < calls / 2);
            let nth = dice.below(3) as usize;
            let is_keyed = dice.one_in(8);
            let call = if is_keyed { self.providers[nth].key(1) } else { self.providers[nth].call() };
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
                taken_over += u64::from(!had.insert(format!("{permit:?}")));
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
        taken_over
    }

    /// What the warden does, who is in "p" all the time: that many changes, and more until each caller has made
    /// half of its calls.
    pub(crate) fn watch(&self, seed: u64, changes: usize) {
        let _entered = self.world.enter();
        let mut dice = Dice::new(seed);
        let p = &self.providers[0];
        let warden = waited_for(p.acquire()).expect("it is open");
        self.enter(0, false);
        let mut made = 0;
        while made < changes || self.early.load(SeqCst) > 0 {
            made += 1;
            match dice.below(8) {
                0 => {
                    p.set_limits(|p| p.max_concurrent(1)).unwrap();
                    self.is_tight.turn();
                    pause(&mut dice);
                    self.is_tight.turn();
                    p.set_limits(|p| p.max_concurrent(3)).unwrap();
                }
                1 => {
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

fn pause(dice: &mut Dice) {
    for _ in 0..dice.below(200) {
        std::hint::spin_loop();
    }
    std::thread::yield_now();
}

/// The answer of a call that waits for as long as it takes.
fn waited_for(call: Acquire) -> Result<Permit, Rejected> {
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
