//! The bare core in a loop like that of mio, in real time: one thread polls a channel until the core's
//! next instant, and two others are the world in which the calls take place. No upper bound on any time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use admission_core::{Config, Counts, Instant, Key, Limits, ProviderId, Request, TicketId};
use admission_rt::runtime::{Clock, SystemClock};
use embedding::{Driver, Next};

/// What the loop hears of.
enum Event {
    Submit(Call),
    Over(TicketId),
}

#[derive(Clone, Copy, Debug)]
struct Call {
    number: u64,
    provider: u32,
    key: Option<Key>,
}

/// The source of events: like a poller with a timeout.
struct Poll {
    events: Receiver<Event>,
    clock: Arc<SystemClock>,
}

impl Poll {
    /// The next event; nothing if the time comes first. May well return early or late.
    fn poll(&self, until: Option<Instant>) -> Option<Event> {
        let Some(until) = until else { return self.events.recv().ok() };
        let timeout = until.saturating_duration_since(self.clock.now());
        self.events.recv_timeout(timeout).ok()
    }
}

/// A thread on which calls take place, and what it watches.
fn world(calls: Arc<Mutex<Receiver<(TicketId, Call)>>>, over: Sender<Event>, watch: Arc<Watch>) {
    loop {
        let next = calls.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((ticket, call)) = next else { return };
        watch.begins(call);
        thread::sleep(Duration::from_micros(call.number % 5 * 300));
        watch.ends(call);
        if over.send(Event::Over(ticket)).is_err() {
            return;
        }
    }
}

struct Watch {
    clock: Arc<SystemClock>,
    starts: Mutex<Vec<(u32, Instant)>>,
    keys: Mutex<BTreeMap<Key, u32>>,
    running: AtomicU32,
}

impl Watch {
    fn begins(&self, call: Call) {
        let now = self.clock.now();
        self.starts.lock().expect("no panic").push((call.provider, now));
        assert!(self.running.fetch_add(1, Ordering::SeqCst) < 2, "more than two at once");
        if let Some(key) = call.key {
            let before = self.keys.lock().expect("no panic").insert(key, call.provider);
            assert_eq!(before, None, "two calls with one key at once");
        }
    }

    fn ends(&self, call: Call) {
        if let Some(key) = call.key {
            self.keys.lock().expect("no panic").remove(&key);
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn a_poll_loop_is_never_early() {
    // rules L1, L2, L3, T3
    let (interval, window) = (Duration::from_millis(2), Duration::from_millis(20));
    let mut config = Config::new();
    config.client = Limits::new().max_concurrent(2);
    config.providers.push(Limits::new().interval(interval));
    config.providers.push(Limits::new().window(10, window));

    let clock = Arc::new(SystemClock::new());
    let (events, heard) = channel();
    let poll = Poll { events: heard, clock: Arc::clone(&clock) };
    let watch = Arc::new(Watch {
        clock: Arc::clone(&clock),
        starts: Mutex::default(),
        keys: Mutex::default(),
        running: AtomicU32::new(0),
    });
    let (run, calls) = channel();
    let calls = Arc::new(Mutex::new(calls));
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (calls, over, watch) = (Arc::clone(&calls), events.clone(), Arc::clone(&watch));
            thread::spawn(move || world(calls, over, watch))
        })
        .collect();

    let began = clock.now();
    let total = 120;
    let submitter = thread::spawn(move || {
        for number in 0..total {
            let key = (number % 4 == 0).then_some(Key(number % 3));
            let call = Call { number, provider: (number % 2) as u32, key };
            if events.send(Event::Submit(call)).is_err() {
                return;
            }
        }
    });

    // The loop.
    let mut driver = Driver::new(&config).expect("a good configuration");
    let mut over = 0;
    while over < total {
        let event = poll.poll(driver.until());
        let now = clock.now();
        let mut next = match event {
            Some(Event::Submit(call)) => {
                let mut request = Request::new(ProviderId::new(call.provider));
                request.key = call.key;
                Some(driver.submit(&request, call, now))
            }
            Some(Event::Over(ticket)) => {
                over += 1;
                driver.settle(ticket, now);
                None
            }
            None => {
                driver.tick(now);
                None
            }
        };
        while let Some(what) = next.take().or_else(|| driver.next(now)) {
            match what {
                Next::Start(ticket, call) => run.send((ticket, call)).expect("a world"),
                Next::Refused(call, refusal) => panic!("{call:?} is refused: {refusal}"),
                Next::Wait(_) => {}
            }
        }
    }
    assert_eq!((driver.counts(), driver.until()), (Counts::default(), None));
    drop(run);
    submitter.join().expect("no panic");
    for worker in workers {
        worker.join().expect("no panic");
    }

    let starts = watch.starts.lock().expect("no panic");
    let of = |provider| {
        let mut times: Vec<_> = starts.iter().filter(|(p, _)| *p == provider).map(|(_, at)| *at).collect();
        times.sort_unstable();
        times
    };
    // The first start of each was not before `began`, so none of the later ones may be before these.
    for (count, at) in (0..).zip(of(0)) {
        assert!(at.saturating_duration_since(began) >= interval * count, "start {count} at {at:?} is early");
    }
    for (count, at) in (0..).zip(of(1)) {
        assert!(at.saturating_duration_since(began) >= window * (count / 10), "start {count} is early");
    }
    assert_eq!(starts.len() as u64, total);
}
