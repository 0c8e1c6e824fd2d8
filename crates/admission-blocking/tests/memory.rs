//! What a call costs in memory, once its thread has made one before.

use admission_blocking::Admission;
use allocation_counter::measure;

// rule W5
#[test]
fn a_call_that_need_not_wait_allocates_nothing() {
    let admission = Admission::builder().provider("a", |p| p.max_concurrent(1)).build();
    let admission = admission.expect("a sound configuration");
    let a = admission.provider("a").expect("it is there");
    a.run(|| ()).expect("it is free");
    let acquired = measure(|| drop(a.acquire().expect("it is free")));
    assert_eq!(acquired.count_total, 0, "{acquired:?}");
    let run = measure(|| a.run(|| ()).expect("it is free"));
    assert_eq!(run.count_total, 0, "{run:?}");
}
