//! Whether the scheduler records what happens, for commands that wait.

use std::time::{Duration, Instant};

use baton_client::Client;

use crate::output::clean;

/// How long to wait before the scheduler is asked: most work ends sooner.
const ASK_AFTER: Duration = Duration::from_secs(3);

/// What was last reported about the scheduler.
pub(crate) struct ReadinessReport {
    began: Instant,
    trouble: Option<String>,
}

impl ReadinessReport {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            trouble: None,
        }
    }

    /// Reports once why the scheduler is not ready, such as a full disk, and once that it is again.
    /// Without an answer there is nothing to report: the next request of the caller finds out why.
    pub(crate) async fn update(&mut self, client: &Client, report: impl FnOnce(&str)) {
        if self.began.elapsed() < ASK_AFTER {
            return;
        }
        let Ok(scheduler) = client.ready().await else {
            return;
        };
        let trouble = scheduler.reason.filter(|_| !scheduler.ready);
        if trouble == self.trouble {
            return;
        }
        match &trouble {
            Some(reason) => report(&format!(
                "the scheduler is not ready, what ends is recorded later: {}",
                clean(reason)
            )),
            None => report("the scheduler is ready again"),
        }
        self.trouble = trouble;
    }
}
