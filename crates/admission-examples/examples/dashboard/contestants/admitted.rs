//! The library at work: one coordinator for the whole client, each provider with the limits that its
//! server enforces. This is the only module here that knows `admission`.

use std::error::Error;

use admission::Window;
use admission::tokio::{Admission, Provider};

use crate::client::{CallError, Client};
use crate::scenario::Scenario;

/// How many sockets the whole client may have open, whoever they lead to.
const MOST_SOCKETS: u32 = 64;

/// What a window counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    /// A call counts for one window from its start.
    FromStart,
    /// A call counts until one window after it settled.
    UntilSettled,
}

/// Every provider of the scenario, behind one coordinator.
#[derive(Debug)]
pub(crate) struct Admitted {
    providers: Vec<Provider>,
}

impl Admitted {
    pub(crate) fn new(scenario: &Scenario, counts: Counts) -> Result<Self, Box<dyn Error>> {
        let mut admission =
            Admission::builder().max_concurrent(MOST_SOCKETS).max_queued(scenario.calls().count() as u32);
        for provider in &scenario.providers {
            let window = Window::new(provider.limit as u64, provider.window);
            let window = match counts {
                Counts::FromStart => window,
                Counts::UntilSettled => window.until_settled(),
            };
            admission = admission.provider(provider.name, |p| match provider.cap {
                Some(cap) => p.log(window).max_concurrent(cap as u32),
                None => p.log(window),
            });
        }
        let admission = admission.build()?;
        let providers = scenario.providers.iter();
        let providers = providers.map(|provider| admission.provider(provider.name));
        Ok(Self { providers: providers.collect::<Result<_, _>>()? })
    }

    /// One call, in its turn.
    pub(crate) async fn get(
        &self,
        client: Client,
        provider: usize,
        name: &'static str,
        call: usize,
    ) -> Result<String, CallError> {
        self.providers[provider]
            .run(|| async move { client.get(provider, name, call).await })
            .await
            .map_err(|rejected| CallError::NotAdmitted(rejected.to_string()))?
    }
}
