//! A history that fails, cut down to what it takes.
//!
//! Owns: the search. It leaves out steps, then parts of steps and of the setup, for as long as the same rule
//! stays broken. Lacks any knowledge of what a step means.

use std::cell::Cell;

use crate::history::live;
use crate::limits::LimitSpec;
use crate::observer::Violation;
use crate::plan::{Setup, Signal, Step};

/// The shortest history found that breaks the same rule.
pub(crate) fn shrink(mut setup: Setup, mut steps: Vec<Step>, violation: &Violation) -> (Setup, Vec<Step>) {
    let tries = Cell::new(0);
    let fails = |setup: &Setup, steps: &[Step]| {
        tries.set(tries.get() + 1);
        tries.get() < MOST_TRIES
            && live(setup, steps, false).violation.is_some_and(|found| found.rule == violation.rule)
    };
    loop {
        let before = (steps.len(), cost(&setup, &steps));
        let mut chunk = steps.len().div_ceil(2).max(1);
        loop {
            let mut at = 0;
            while at < steps.len() {
                let mut fewer = steps.clone();
                fewer.drain(at..(at + chunk).min(steps.len()));
                if fails(&setup, &fewer) {
                    steps = fewer;
                } else {
                    at += chunk;
                }
            }
            if chunk == 1 {
                break;
            }
            chunk = chunk.div_ceil(2);
        }
        for simpler in simpler_setups(&setup) {
            if cost(&simpler, &steps) < cost(&setup, &steps) && fails(&simpler, &steps) {
                setup = simpler;
            }
        }
        for at in 0..steps.len() {
            for simpler in simpler_steps(&steps[at]) {
                let mut changed = steps.clone();
                changed[at] = simpler;
                if changed[at] != steps[at] && fails(&setup, &changed) {
                    steps = changed;
                }
            }
        }
        if (steps.len(), cost(&setup, &steps)) >= before {
            return (setup, steps);
        }
    }
}

/// A long history that cannot be cut any shorter is better than none.
const MOST_TRIES: u32 = 4_000;

/// How much there is to read.
fn cost(setup: &Setup, steps: &[Step]) -> usize {
    setup.to_string().len() + steps.iter().map(|step| step.to_string().len()).sum::<usize>()
}

fn simpler_limits(limits: &LimitSpec) -> Vec<LimitSpec> {
    let mut simpler = vec![LimitSpec::default(), LimitSpec { max_concurrent: None, ..limits.clone() }];
    for n in 0..limits.pacers.len() {
        let mut fewer = limits.clone();
        fewer.pacers.remove(n);
        simpler.push(fewer);
    }
    simpler
}

fn simpler_setups(setup: &Setup) -> Vec<Setup> {
    let mut simpler = vec![
        Setup { template: None, ..setup.clone() },
        Setup { max_wait: None, ..setup.clone() },
        Setup { max_queued: 9, ..setup.clone() },
    ];
    simpler.extend(simpler_limits(&setup.client).into_iter().map(|client| Setup { client, ..setup.clone() }));
    for n in 0..setup.providers.len() {
        for limits in simpler_limits(&setup.providers[n]) {
            let mut fewer = setup.clone();
            fewer.providers[n] = limits;
            simpler.push(fewer);
        }
    }
    simpler
}

fn simpler_steps(step: &Step) -> Vec<Step> {
    match step {
        Step::Call(who, spec) => {
            let call = |change: &dyn Fn(&mut crate::plan::CallSpec)| {
                let mut spec = spec.clone();
                change(&mut spec);
                Step::Call(*who, spec)
            };
            vec![
                call(&|spec| spec.key = None),
                call(&|spec| spec.tokens = 0),
                call(&|spec| spec.timeout = None),
                call(&|spec| spec.signal = Signal::None),
                call(&|spec| spec.is_fickle = false),
                call(&|spec| spec.runtime = 0),
            ]
        }
        Step::SetLimits(scope, limits) => {
            simpler_limits(limits).into_iter().map(|limits| Step::SetLimits(*scope, limits)).collect()
        }
        _ => Vec::new(),
    }
}
