//! Changes to a coordinator in use.
//!
//! Owns: which, and within which bounds, so that the observer's are never passed. Lacks the limits that are checked
//! exactly: those never change.

use std::sync::Arc;
use std::time::Duration;

use crate::Dice;
use crate::alarms::Watched;
use crate::around;
use crate::callers::is_of_the_soak;
use crate::ground::{COME_AND_GO, FLEX, Ground, QUEUE, limits};
use crate::host::Host;
use crate::observer::{CLIENT, PLACES};
use crate::tally::Event;

/// Makes one.
pub(crate) fn change<H: Host>(ground: &Arc<Ground>, dice: &mut Dice) {
    let tally = &ground.observer.tally;
    let admission = ground.admission.on::<Watched<H::Runtime>>();
    tally.count(Event::Change);
    match dice.below(14) {
        0..3 => {
            let most = u64::from(PLACES[FLEX].most);
            let concurrency = 1 + dice.below(most) as u32;
            let (limit, window) = (5 + dice.below(200), Duration::from_micros(500 + dice.below(4_000)));
            let kind = dice.below(3);
            tally.count(Event::SetLimits);
            if let Ok(flex) = ground.provider::<H::Runtime>(FLEX) {
                let changed = flex.set_limits(|p| match kind {
                    0 => p.max_concurrent(concurrency),
                    1 => p.max_concurrent(concurrency).window(limit, window),
                    _ => p.max_concurrent(concurrency).interval(Duration::from_micros(100)),
                });
                if let Err(error) = changed {
                    ground.observer.fault(format!("limits could not be set: {error}"));
                }
            }
        }
        3 => {
            tally.count(Event::SetLimits);
            let changed = admission.set_limits(|client| {
                client.max_concurrent(CLIENT).window(5_000 + dice.below(2_000), Duration::from_millis(10))
            });
            if let Err(error) = changed {
                ground.observer.fault(format!("limits could not be set: {error}"));
            }
        }
        4 => {
            tally.count(Event::SetMaxQueued);
            admission.set_max_queued(QUEUE / 2 + dice.below(u64::from(QUEUE)) as u32);
        }
        5 | 6 => {
            tally.count(Event::Cooldown);
            // Unknown for as long as it is removed.
            drop(admission.cooldown(PLACES[FLEX].name, Duration::from_micros(dice.below(800))));
            drop(admission.cooldown(PLACES[COME_AND_GO].name, Duration::from_micros(dice.below(100))));
        }
        7 => {
            tally.count(Event::Reset);
            admission.reset();
            if let Ok(flex) = ground.provider::<H::Runtime>(FLEX) {
                drop(flex.reset());
            }
        }
        8 => {
            if admission.remove_provider(PLACES[COME_AND_GO].name).is_ok() {
                tally.count(Event::RemoveProvider);
            }
        }
        9 => {
            if admission.add_provider(PLACES[COME_AND_GO].name, |p| limits(p, COME_AND_GO)).is_ok() {
                tally.count(Event::AddProvider);
            }
        }
        10 => {
            tally.count(Event::PauseQuery);
            if let Some(query) = ground.query(dice.any()) {
                query.pause();
                query.resume();
            }
        }
        11 => {
            tally.count(Event::Dispose);
            let at = dice.any();
            let query = around::query::<H>(ground, at as usize % 64, dice);
            if let Some(old) = query.and_then(|query| ground.replace(at, query)) {
                old.dispose();
            }
        }
        _ => {
            tally.count(Event::Look);
            let snapshot = admission.snapshot();
            let running = snapshot.client.running;
            if running > CLIENT {
                ground.observer.fault(format!("the snapshot says that {running} run"));
            }
            drop(snapshot.to_string());
            drop(admission.waiting());
        }
    }
}

/// Whether nothing is known any more of the providers that the template made.
pub(crate) fn are_guests_forgotten(ground: &Ground) -> bool {
    ground.admission.snapshot().providers.iter().all(|provider| is_of_the_soak(provider.name()))
}
