//! The machine alone: no lock, no future, given time. A request, the grant that it gets, and its release, while
//! nobody waits and while many do; and a wait that is given up.
//!
//! Instructions are what these are about: they must not grow with the number that waits, and by little with the
//! number of providers.

use std::collections::VecDeque;
use std::time::Duration;

use admission_core::{
    Admitted, Config, Coordinator, Event, Instant, Key, Limits, ProviderId, Request, Step, TicketId,
};

use crate::{Case, Dice, Group, Run, case, large, reference};

/// How many run at once.
const RUNNING: usize = 64;

/// How the queue of a busy machine is made up.
#[derive(Clone, Copy, Debug)]
pub enum Mix {
    /// Every ticket has a key of its own, and every provider may start.
    Open,
    /// So many keys, each of which many tickets have.
    Keys(u64),
    /// All providers but the first are in a cooldown without end; one ticket in sixteen is the first's.
    Blocked,
    /// The same, and only the last ticket is the first's. For two providers and more.
    BlockedButLast,
    /// All but a few tickets wait for one key, which runs for ever.
    HotKey,
}

/// A machine with tickets that wait, and calls that run.
#[derive(Debug)]
pub struct Busy {
    /// The machine.
    pub machine: Coordinator,
    running: VecDeque<TicketId>,
    providers: Vec<u32>,
    now: u64,
    key: u64,
    mix: Mix,
}

/// Limits that are all on, while time always allows the next start.
#[must_use]
pub fn timed() -> Limits {
    let nano = Duration::from_nanos(1);
    Limits::new().max_concurrent(1 << 20).interval(nano).window(60, nano)
}

fn machine(providers: usize, limits: &Limits, queued: usize) -> Coordinator {
    let mut config = Config::new();
    config.max_queued = queued as u32 + 64;
    config.client = Limits::new().max_concurrent(RUNNING as u32);
    config.providers = vec![limits.clone(); providers];
    Coordinator::new(&config).expect("the configuration is right")
}

impl Busy {
    /// So many providers with these limits, and so many tickets that wait.
    ///
    /// # Panics
    ///
    /// If the machine does otherwise than it should.
    #[must_use]
    pub fn new(providers: usize, limits: &Limits, queued: usize, mix: Mix) -> Self {
        let mut machine = machine(providers, limits, queued);
        let mut dice = Dice::new(5);
        let open = if matches!(mix, Mix::Blocked | Mix::BlockedButLast) { 1 } else { providers };
        let now = 1_000_000;
        for blocked in open..providers {
            let forever = Duration::from_secs(1 << 33);
            let provider = ProviderId::new(blocked as u32);
            machine.cooldown(provider, forever, Instant::from_nanos(now)).expect("it is there");
        }
        let among = (0..4_096).map(|_| dice.below(open) as u32).collect();
        let mut busy = Self {
            machine,
            running: VecDeque::with_capacity(RUNNING + 1),
            providers: among,
            now,
            key: 0,
            mix,
        };
        while busy.running.len() < RUNNING {
            let provider = busy.providers[busy.running.len()];
            let key = busy.own_key();
            // The first one runs for ever, if one key is to be hot.
            busy.submit(provider, if busy.key == 1 { HOT } else { key });
        }
        for number in 0..queued {
            let is_special = number % 16 == 0;
            let provider = match mix {
                Mix::Blocked if is_special => 0,
                Mix::BlockedButLast if number + 1 == queued => 0,
                Mix::BlockedButLast => 1 + dice.below(providers - 1) as u32,
                _ => dice.below(providers) as u32,
            };
            let key = busy.next_key();
            let is_hot = matches!(mix, Mix::HotKey) && !is_special;
            busy.submit(provider, if is_hot { HOT } else { key });
        }
        if matches!(mix, Mix::HotKey) {
            busy.running.pop_front();
        }
        assert_eq!(busy.machine.counts().queued as usize, queued);
        busy
    }

    fn own_key(&mut self) -> u64 {
        self.key += 1;
        self.key | 1 << 40
    }

    fn next_key(&mut self) -> u64 {
        let own = self.own_key();
        if let Mix::Keys(keys) = self.mix { self.key % keys } else { own }
    }

    fn submit(&mut self, provider: u32, key: u64) {
        self.now += 10;
        let request = Request::new(ProviderId::new(provider)).key(Key(key));
        match self.machine.request(&request, Instant::from_nanos(self.now)) {
            Ok(Admitted::Started(ticket)) => self.running.push_back(ticket),
            Ok(Admitted::Queued(_)) => {}
            Err(refusal) => panic!("refused: {refusal:?}"),
        }
    }

    /// One release, the grant that it allows, that ticket's start, and a request that joins the queue.
    #[inline]
    pub fn turn_over(&mut self) {
        self.now += 10;
        let now = Instant::from_nanos(self.now);
        if let Some(ticket) = self.running.pop_front() {
            self.machine.handle_release(ticket, now);
        }
        while let Some(event) = self.machine.poll_event() {
            if let Event::Granted(ticket) = event {
                assert_eq!(self.machine.step(ticket, now), Step::Start);
                self.running.push_back(ticket);
            }
        }
        let key = self.next_key();
        let provider = self.providers[(self.key & 4_095) as usize];
        self.submit(provider, key);
    }

    /// A request that joins the queue, and leaves it.
    #[inline]
    pub fn give_up(&mut self) {
        let key = self.own_key();
        let provider = ProviderId::new(self.providers[(self.key & 4_095) as usize]);
        let now = Instant::from_nanos(self.now);
        match self.machine.request(&Request::new(provider).key(Key(key)), now) {
            Ok(Admitted::Queued(ticket)) => self.machine.handle_release(ticket, now),
            other => panic!("not queued: {other:?}"),
        }
    }

    fn into_run(mut self, operation: fn(&mut Self)) -> Run {
        let (running, queued) = (self.running.len(), self.machine.counts().queued);
        Box::new(move |n| {
            for _ in 0..n {
                operation(&mut self);
            }
            assert_eq!((self.running.len(), self.machine.counts().queued), (running, queued));
        })
    }
}

const HOT: u64 = u64::MAX >> 1;

/// Nobody waits: what is asked for starts at once, and ends.
fn idle(providers: usize, limits: &Limits) -> Run {
    let mut machine = machine(providers, limits, 1_000);
    let mut dice = Dice::new(5);
    let among: Vec<u32> = (0..4_096).map(|_| dice.below(providers) as u32).collect();
    let (mut now, mut key) = (1_000_000, 0_u64);
    Box::new(move |n| {
        for _ in 0..n {
            now += 10;
            key = key.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let provider = ProviderId::new(among[(key >> 52) as usize]);
            let request = Request::new(provider).key(Key(key));
            let at = Instant::from_nanos(now);
            match machine.request(&request, at) {
                Ok(Admitted::Started(ticket)) => machine.handle_release(ticket, at),
                other => panic!("not started: {other:?}"),
            }
        }
    })
}

fn busy(name: String, providers: usize, limits: Limits, queued: usize, mix: Mix) -> Case {
    let make = move || Busy::new(providers, &limits, queued, mix).into_run(Busy::turn_over);
    if queued >= 1_000_000 { large(name, make) } else { case(name, make) }
}

/// The table.
#[must_use]
pub fn group() -> Group {
    let mut cases = vec![reference()];
    let some = [1, 16, 1_024];
    for (what, limits) in [("caps and keys", Limits::new()), ("all limits", timed())] {
        for providers in some {
            let limits = limits.clone();
            cases.push(case(format!("P={providers}, N=0, {what}"), move || idle(providers, &limits)));
        }
        for queued in [1_000, 1_000_000] {
            for providers in some {
                let name = format!("P={providers}, N={queued}, {what}");
                cases.push(busy(name, providers, limits.clone(), queued, Mix::Open));
            }
        }
    }
    for queued in [1_000, 1_000_000] {
        for providers in [16, 1_024] {
            let name = format!("P={providers}, N={queued}, all providers but one blocked");
            cases.push(busy(name, providers, Limits::new(), queued, Mix::Blocked));
        }
        let name = format!("P=16, N={queued}, one hot key");
        cases.push(busy(name, 16, Limits::new(), queued, Mix::HotKey));
    }
    let name = "P=16, N=10000 on 1,000 keys".to_owned();
    cases.push(busy(name, 16, Limits::new(), 10_000, Mix::Keys(1_000)));
    for queued in [1_000, 1_000_000] {
        let make = move || Busy::new(16, &Limits::new(), queued, Mix::Open).into_run(Busy::give_up);
        let name = format!("P=16, N={queued}, submit and cancel");
        cases.push(if queued >= 1_000_000 { large(name, make) } else { case(name, make) });
    }
    Group { name: "machine", cases, against: vec![] }
}
