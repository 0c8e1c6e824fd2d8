//! The two duties of whoever drives the bare core: drain the events, and come back in time.
//!
//! Owns: a table of what is to be run, under the numbers of the tickets, and the list of those that the
//! core has news for. Lacks a clock and timers: every call takes `now`, and [`Driver::until`] says when
//! to come back.

use std::collections::VecDeque;

use admission_core::{Admitted, Config, ConfigError, Coordinator, Counts, Event, Instant, Refusal, Request};
use admission_core::{Step, TicketId};

/// A coordinator together with the jobs that wait for it.
#[derive(Debug)]
pub struct Driver<J> {
    coordinator: Coordinator,
    /// The jobs that wait, each at its ticket's number.
    jobs: Vec<Option<J>>,
    /// Whom the core has news for.
    news: VecDeque<TicketId>,
}

/// What is to be done with a job.
#[derive(Debug)]
pub enum Next<J> {
    /// Run it now, and [`settle`](Driver::settle) its ticket when it is over.
    Start(TicketId, J),
    /// It will not run.
    Refused(J, Refusal),
    /// It waits; [`Driver::next`] will have news of it. Only a newcomer is told so.
    Wait(TicketId),
}

impl<J> Driver<J> {
    /// A driver of a coordinator with this configuration.
    ///
    /// # Errors
    ///
    /// What is wrong with the configuration.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        let coordinator = Coordinator::new(config)?;
        let mut jobs = Vec::new();
        jobs.resize_with(coordinator.capacity(), || None);
        Ok(Self { coordinator, jobs, news: VecDeque::new() })
    }

    /// A newcomer.
    pub fn submit(&mut self, request: &Request<'_>, job: J, now: Instant) -> Next<J> {
        let answer = match self.coordinator.request(request, now) {
            Ok(Admitted::Started(ticket)) => Next::Start(ticket, job),
            Ok(Admitted::Queued(ticket)) => {
                if self.jobs.len() <= ticket.index() {
                    self.jobs.resize_with(ticket.index() + 1, || None);
                }
                self.jobs[ticket.index()] = Some(job);
                Next::Wait(ticket)
            }
            Err(refusal) => Next::Refused(job, refusal),
        };
        self.drain();
        answer
    }

    /// A job is over, or is given up while it waits.
    pub fn settle(&mut self, ticket: TicketId, now: Instant) -> Option<J> {
        self.coordinator.handle_release(ticket, now);
        self.drain();
        self.jobs.get_mut(ticket.index())?.take()
    }

    /// Time has come to `now`. Early does no harm.
    pub fn tick(&mut self, now: Instant) {
        self.coordinator.handle_timeout(now);
        self.drain();
    }

    /// When to [`tick`](Self::tick) next, if at all. Any other call may change the answer.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        self.coordinator.poll_timeout()
    }

    /// The next job that there is something to do with. To be asked until there is none.
    pub fn next(&mut self, now: Instant) -> Option<Next<J>> {
        while let Some(ticket) = self.news.pop_front() {
            let step = self.coordinator.step(ticket, now);
            self.drain();
            let refusal = match step {
                Step::Start => None,
                Step::GiveUp(refusal) => Some(refusal),
                // Old news: its grant is gone again; or it was settled before anybody came here, and by
                // now its number may be another's.
                Step::Wait | Step::Running | Step::Gone => continue,
            };
            let Some(job) = self.jobs.get_mut(ticket.index()).and_then(Option::take) else { continue };
            return Some(match refusal {
                None => Next::Start(ticket, job),
                Some(refusal) => Next::Refused(job, refusal),
            });
        }
        None
    }

    /// How many are where.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.coordinator.counts()
    }

    /// After every call: whom does the core have news for?
    fn drain(&mut self) {
        while let Some(event) = self.coordinator.poll_event() {
            match event {
                Event::Granted(ticket) | Event::Refused(ticket, _) => self.news.push_back(ticket),
                // It waits again, and whoever comes for it will be told so.
                _ => {}
            }
        }
    }
}
