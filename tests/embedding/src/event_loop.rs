//! A hand-written event loop around the bare core: one table of timers for everything, and a clock that
//! jumps to the next of them.
//!
//! Owns: the time, the timers, and a transcript of what happened. Lacks a way to cancel a timer: an alarm
//! that is not wanted any more rings all the same and finds nothing to do, which is as the core wants it
//! (an early timer does no harm). Its timers may be coarse, like those of a timer wheel: then they are
//! late, up to one tick.

use std::collections::BTreeMap;
use std::time::Duration;

use admission_core::{Config, ConfigError, Instant, ProviderId, Request, TicketId};

use crate::driver::{Driver, Next};

/// Something to run.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// What the transcript calls it.
    pub name: &'static str,
    /// How it asks.
    pub request: Request<'static>,
    /// How long it runs.
    pub lasts: Duration,
}

impl Job {
    /// A job for this provider that takes so many milliseconds.
    #[must_use]
    pub const fn new(name: &'static str, provider: u32, lasts_ms: u64) -> Self {
        Self {
            name,
            request: Request::new(ProviderId::new(provider)),
            lasts: Duration::from_millis(lasts_ms),
        }
    }
}

/// The loop.
#[derive(Debug)]
pub struct EventLoop {
    driver: Driver<Job>,
    now: Instant,
    /// The resolution of the timers.
    tick: Duration,
    timers: BTreeMap<(Instant, u64), Due>,
    made: u64,
    /// The earliest alarm that is set and has not rung.
    armed: Option<Instant>,
    transcript: Vec<String>,
    alarms: u64,
}

#[derive(Debug)]
enum Due {
    Submit(Job),
    Settle(TicketId, &'static str),
    /// For the coordinator, with the instant that it was meant for.
    Alarm(Instant),
}

impl EventLoop {
    /// A loop whose clock reads zero, with timers of this resolution.
    ///
    /// # Errors
    ///
    /// What is wrong with the configuration.
    pub fn new(config: &Config, tick: Duration) -> Result<Self, ConfigError> {
        Ok(Self {
            driver: Driver::new(config)?,
            now: Instant::ZERO,
            tick,
            timers: BTreeMap::new(),
            made: 0,
            armed: None,
            transcript: Vec::new(),
            alarms: 0,
        })
    }

    /// Has a job submitted at an instant, whatever the resolution: arrivals do not come from timers.
    pub fn submit_at(&mut self, at_ms: u64, job: Job) {
        self.made += 1;
        self.timers.insert((Instant::from_millis(at_ms), self.made), Due::Submit(job));
    }

    /// Runs until no timer is left.
    pub fn run(&mut self) {
        while let Some(((at, _), due)) = self.timers.pop_first() {
            self.now = self.now.max(at);
            match due {
                Due::Submit(job) => match self.driver.submit(&job.request, job, self.now) {
                    Next::Wait(_) => self.say(job.name, "waits"),
                    next => self.act(next),
                },
                Due::Settle(ticket, name) => {
                    self.say(name, "ends");
                    let waited = self.driver.settle(ticket, self.now);
                    debug_assert!(waited.is_none(), "it ran");
                }
                Due::Alarm(meant) => {
                    self.alarms += 1;
                    if self.armed == Some(meant) {
                        self.armed = None;
                    }
                    self.driver.tick(self.now);
                }
            }
            while let Some(next) = self.driver.next(self.now) {
                self.act(next);
            }
            self.arm();
        }
    }

    /// What happened: milliseconds, names and words.
    #[must_use]
    pub fn transcript(&self) -> &[String] {
        &self.transcript
    }

    /// How often an alarm rang.
    #[must_use]
    pub const fn alarms(&self) -> u64 {
        self.alarms
    }

    /// The coordinator and who waits for it.
    #[must_use]
    pub const fn driver(&self) -> &Driver<Job> {
        &self.driver
    }

    fn act(&mut self, next: Next<Job>) {
        match next {
            Next::Start(ticket, job) => {
                self.say(job.name, "starts");
                self.set(self.now + job.lasts, Due::Settle(ticket, job.name));
            }
            Next::Refused(job, refusal) => self.say(job.name, &refusal.to_string()),
            Next::Wait(_) => {}
        }
    }

    /// Only ever adds an alarm: those that are set for later will find nothing to do.
    fn arm(&mut self) {
        if let Some(until) = self.driver.until() {
            if self.armed.is_none_or(|armed| until < armed) {
                self.armed = Some(until);
                self.set(until, Due::Alarm(until));
            }
        }
    }

    /// A timer is due at the end of the tick that its instant lies in.
    fn set(&mut self, at: Instant, due: Due) {
        let tick = u64::try_from(self.tick.as_nanos()).unwrap_or(u64::MAX).max(1);
        let at = Instant::from_nanos(at.as_nanos().checked_next_multiple_of(tick).unwrap_or(u64::MAX));
        self.made += 1;
        self.timers.insert((at, self.made), due);
    }

    fn say(&mut self, name: &str, what: &str) {
        self.transcript.push(format!("{} {name} {what}", self.now.as_nanos() / 1_000_000));
    }
}
