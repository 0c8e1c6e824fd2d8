//! An alarm that was set for somebody who has left, while others wait for what no timer brings.
//!
//! Owns: rule T6 where futures of other kinds than calls count on the alarm. Lacks calls that wait for one
//! another, which keep an alarm that is too early (`alarms.rs`).

mod common;

use common::{Task, World, counts, ms};

// rule T6
#[test]
fn whoever_waits_for_idle_keeps_no_alarm_that_a_call_has_left() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().max_concurrent(1).provider("a", |p| p).build().unwrap();
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    let mut idle = Task::waiting(admission.idle());
    assert_eq!(world.armed(), None, "nothing is queued, and no grant is out");
    let waiting = Task::waiting(a.admission_timeout(ms(60_000)).acquire());
    assert_eq!(world.armed(), Some(60_000));
    drop(waiting);
    assert_eq!((admission.counts(), world.armed()), (counts(1, 0, 0), None));
    // The same where the call starts.
    let mut waiting = Task::waiting(a.admission_timeout(ms(60_000)).acquire());
    drop(permit);
    let permit = waiting.ready().unwrap();
    assert_eq!((admission.counts(), world.armed()), (counts(1, 0, 0), None));
    drop(permit);
    idle.ready();
}
