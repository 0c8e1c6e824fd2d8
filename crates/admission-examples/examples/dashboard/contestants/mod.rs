//! The four ways to make the same calls. Each call runs in a task of its own, all of them spawned at
//! once; what differs is what stands between the task and the wire.

pub(crate) mod admitted;
mod retry;

use std::error::Error;
use std::sync::Arc;

use clap::ValueEnum;
use tokio::task::JoinSet;

use self::admitted::{Admitted, Counts};
use crate::client::{CallError, Client};
use crate::progress::Board;
use crate::scenario::Scenario;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Contestant {
    /// Every call leaves at once, and once
    AtOnce,
    /// The same, but what is refused waits as told and tries again
    Retry,
    /// Through `admission`, whose windows count calls from their start
    FromStart,
    /// Through `admission`, whose windows count calls until one window after they settled
    UntilSettled,
}

impl Contestant {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AtOnce => "everything at once",
            Self::Retry => "retry on 429",
            Self::FromStart => "admission, from start",
            Self::UntilSettled => "admission, until settled",
        }
    }

    /// What it does, in a few words.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::AtOnce => "every call leaves at once; what is refused is lost",
            Self::Retry => "what is refused stays away as long as Retry-After says, then tries again",
            Self::FromStart => "every call waits for its turn; it counts for one window from its start",
            Self::UntilSettled => "every call waits for its turn; it counts until one window after its reply",
        }
    }
}

/// What stands between a task and the wire.
enum Way {
    Straight,
    Retry,
    Admitted(Admitted),
}

/// Makes all calls, and returns when every one has settled.
pub(crate) async fn run(
    contestant: Contestant,
    scenario: &Scenario,
    client: Client,
    board: &Arc<Board>,
) -> Result<(), Box<dyn Error>> {
    let way = Arc::new(match contestant {
        Contestant::AtOnce => Way::Straight,
        Contestant::Retry => Way::Retry,
        Contestant::FromStart => Way::Admitted(Admitted::new(scenario, Counts::FromStart)?),
        Contestant::UntilSettled => Way::Admitted(Admitted::new(scenario, Counts::UntilSettled)?),
    });
    let mut calls = JoinSet::new();
    for (provider, call) in scenario.calls() {
        let name = scenario.providers[provider].name;
        let way = Arc::clone(&way);
        let client = client.clone();
        let board = Arc::clone(board);
        calls.spawn(async move {
            let outcome: Result<String, CallError> = match &*way {
                Way::Straight => client.get(provider, name, call).await,
                Way::Retry => retry::get(&client, provider, name, call).await,
                Way::Admitted(admitted) => admitted.get(client, provider, name, call).await,
            };
            board.settled(provider, &outcome);
        });
    }
    while let Some(joined) = calls.join_next().await {
        joined?;
    }
    Ok(())
}
