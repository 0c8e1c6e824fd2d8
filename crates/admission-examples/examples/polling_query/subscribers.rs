//! Those who look at the query: each reads its own stream of snapshots, as fast as it likes, and prints
//! what it got.

use std::time::Duration;

use admission::{QuerySnapshot, QueryStatus, Subscription};
use admission_examples::http::Failure;
use admission_examples::time::{Stopwatch, milliseconds};

use crate::Reading;

/// One subscriber.
pub(crate) struct Reader {
    pub(crate) name: &'static str,
    /// How long it takes for each snapshot.
    pub(crate) pause: Duration,
    /// Leaves after so many snapshots, if it does not stay to the end.
    pub(crate) leaves_after: Option<u32>,
    pub(crate) clock: Stopwatch,
}

/// What a subscriber has to tell in the end.
pub(crate) struct Read {
    pub(crate) name: &'static str,
    pub(crate) is_newer_each_time: bool,
    /// The last status that it saw.
    pub(crate) last: Option<QueryStatus>,
}

impl Reader {
    /// Reads until the stream ends, with a line for each outcome; what the cycle went through stands
    /// before it.
    pub(crate) async fn read(self, mut snapshots: Subscription<Reading, Failure>) -> Read {
        let mut read = Read { name: self.name, is_newer_each_time: true, last: None };
        let (mut version, mut count, mut skipped) = (0, 0, 0);
        let mut steps = Vec::new();
        while let Some(snapshot) = snapshots.next().await {
            read.is_newer_each_time &= version < snapshot.version;
            skipped += snapshot.version.saturating_sub(version + 1);
            version = snapshot.version;
            read.last = Some(snapshot.status);
            count += 1;
            steps.push(words(&snapshot));
            let is_last = self.leaves_after == Some(count);
            if !snapshot.status.is_active() || is_last || self.pause > Duration::ZERO {
                let skips = if skipped > 0 { format!(" ({skipped} skipped)") } else { String::new() };
                self.say(&format!("v{version:<3} {}{skips}", steps.join(", ")));
                steps.clear();
                skipped = 0;
            }
            if is_last {
                self.say("leaves");
                return read;
            }
            tokio::time::sleep(self.pause).await;
        }
        self.say("the stream has ended");
        read
    }

    #[expect(clippy::print_stdout, reason = "this is the report")]
    fn say(&self, what: &str) {
        println!("{:>10}  {:<5}  {what}", milliseconds(self.clock.elapsed()), self.name);
    }
}

/// A snapshot in a few words.
fn words(snapshot: &QuerySnapshot<Reading, Failure>) -> String {
    match snapshot.status {
        QueryStatus::WaitingToRetry { delay, .. } => {
            let late = snapshot.times.latest.last().is_some_and(|attempt| attempt.is_timed_out);
            let why = if late { "timed out" } else { "failed" };
            format!("{why}, waits {}", milliseconds(delay))
        }
        QueryStatus::Data => {
            let data = snapshot.data.as_deref().map_or_else(String::new, Reading::to_string);
            let times = &snapshot.times;
            match times.attempts {
                1 => format!("data: {data}"),
                attempts => format!(
                    "data: {data}, after {attempts} attempts that waited {} and ran {}",
                    milliseconds(times.queued),
                    milliseconds(times.ran)
                ),
            }
        }
        QueryStatus::Error => {
            let error = snapshot.error.as_ref().map_or_else(String::new, ToString::to_string);
            format!("error: {error}")
        }
        status => status.to_string(),
    }
}
