//! The deliveries of one channel.
//!
//! Notices of one series are delivered in order: the second waits until the first was acknowledged or
//! given up. Other series pass by a notice that its receiver refuses. While the channel fails, one
//! delivery at a time is tried, after a pause that doubles; so a receiver that is down is not flooded
//! when it comes back.

use std::time::Duration;

use baton_core::scheduler::Command;
use baton_model::notify::{Delivery, DeliveryState, Transport};
use baton_model::time::Millis;
use baton_store::notices::{NoticeBatch, NoticeRecord};
use tokio::time::sleep;

use super::{Health, Notifications};
use crate::clock;
use crate::limits::{
    NOTICE_BACKOFF, NOTICE_DUE_MAX, NOTICE_FAULT_AFTER, NOTICE_GIVE_UP, NOTICE_LOOK_PAUSE,
};

/// Characters of an error that are kept.
const ERROR_CHARS_MAX: usize = 300;

/// Delivers the notices of one channel while this scheduler leads.
pub(super) struct ChannelTask {
    shared: Notifications,
    name: String,
    transport: Transport,
    /// Whether a fact says that it fails.
    is_reported: bool,
}

impl ChannelTask {
    pub(super) fn new(shared: Notifications, name: String) -> Self {
        let transport = shared.0.settings.channels[&name].transport.clone();
        Self {
            shared,
            name,
            transport,
            is_reported: false,
        }
    }

    pub(super) async fn run(mut self) {
        let mut status = self.shared.0.source.status.clone();
        loop {
            status.mark_unchanged();
            if self.shared.epoch().is_none() {
                self.shared.lock().remove(&self.name);
                if status.changed().await.is_err() {
                    return;
                }
                continue;
            }
            if !self.read_report().await {
                sleep(NOTICE_LOOK_PAUSE).await;
                continue;
            }
            while self.shared.epoch().is_some() {
                let pause = self.deliver_due().await;
                let waker = &self.shared.0.wakers[&self.name];
                let is_failing = self.shared.health(&self.name).failures > 0;
                let woken = async {
                    // A failing channel keeps its pause whatever is new.
                    if is_failing {
                        std::future::pending::<()>().await;
                    }
                    waker.notified().await;
                };
                tokio::select! {
                    () = sleep(pause) => {}
                    () = woken => {}
                    changed = status.changed() => if changed.is_err() {
                        return;
                    },
                }
            }
        }
    }

    fn report_row(&self) -> String {
        format!("fault:{}", self.name)
    }

    /// Reads whether an earlier leader has reported that the channel fails.
    async fn read_report(&mut self) -> bool {
        let found = self
            .shared
            .0
            .source
            .call(|store| store.notice_position())
            .await;
        let Ok(found) = found else {
            return false;
        };
        self.is_reported = found.rows.contains_key(&self.report_row());
        true
    }

    /// Delivers what is due, and returns when to look again.
    async fn deliver_due(&mut self) -> Duration {
        let (name, now) = (self.name.clone(), clock::now().wall);
        let source = &self.shared.0.source;
        let found = source
            .call(move |store| store.due_deliveries(&name, now, NOTICE_DUE_MAX))
            .await;
        let Ok(found) = found else {
            return NOTICE_LOOK_PAUSE;
        };
        let is_more = !found.due.is_empty();
        for record in found.due {
            if self.shared.epoch().is_none() || !self.deliver(&record).await {
                let failures = self.shared.health(&self.name).failures;
                return backoff(failures);
            }
        }
        if is_more {
            return Duration::ZERO;
        }
        let next = found.next_at.map(|at| at.since(now).0.max(10));
        next.map_or(NOTICE_LOOK_PAUSE, Duration::from_millis)
            .min(NOTICE_LOOK_PAUSE)
    }

    /// Tries one delivery, and records the result; false if the channel should pause.
    async fn deliver(&mut self, record: &NoticeRecord) -> bool {
        let Some(before) = record.deliveries.first() else {
            return true;
        };
        let sent = self.shared.send(&self.transport, &record.notice).await;
        let now = clock::now().wall;
        let attempts = before.attempts.saturating_add(1);
        let mut after = Delivery {
            attempts,
            changed_at: now,
            ..before.clone()
        };
        let mut batch = NoticeBatch::default();
        let error = match sent {
            Ok(_) => {
                after.state = DeliveryState::Sent;
                after.next_at = None;
                after.error = None;
                self.shared.0.metrics.notification_sent();
                None
            }
            Err(error) => {
                let error: String = error.chars().take(ERROR_CHARS_MAX).collect();
                self.shared.0.metrics.notification_failed();
                if now.since(record.notice.at) >= NOTICE_GIVE_UP {
                    after.state = DeliveryState::GivenUp;
                    after.next_at = None;
                } else {
                    let pause = backoff(attempts).as_millis();
                    let pause = Millis(u64::try_from(pause).unwrap_or(u64::MAX));
                    after.next_at = Some(baton_model::time::Wall(now.0 + pause.0));
                }
                after.error = Some(error.clone());
                Some(error)
            }
        };
        let report = self.note(error.as_deref(), now);
        if let Some(fault) = &report {
            batch.rows.insert(self.report_row(), fault.clone());
        }
        batch.deliveries.push((record.id, after));
        if !self.shared.record(batch).await {
            // Its result is lost: it is delivered again.
            return false;
        }
        if let Some(fault) = report {
            self.report(fault).await;
        }
        error.is_none()
    }

    /// Notes a result, and returns what an event must say: a fault, or none if it has passed.
    fn note(&self, error: Option<&str>, now: baton_model::time::Wall) -> Option<Option<String>> {
        let mut all = self.shared.lock();
        let health = all.entry(self.name.clone()).or_default();
        let Some(error) = error else {
            *health = Health::default();
            return self.is_reported.then_some(None);
        };
        health.failures = health.failures.saturating_add(1);
        health.failing_since.get_or_insert(now);
        health.error = Some(error.to_owned());
        let is_new = health.failures >= NOTICE_FAULT_AFTER && !self.is_reported;
        is_new.then(|| Some(error.to_owned()))
    }

    /// Records a fact about the channel. If it is lost with the leader, the row that was stored before says
    /// that it was reported; the list of notifications shows the failure in any case.
    async fn report(&mut self, fault: Option<String>) {
        self.is_reported = fault.is_some();
        let command = Command::ReportChannel {
            channel: self.name.clone(),
            fault: fault.map(Into::into),
        };
        // The answer of a leader that has just been deposed does not matter.
        let _ = self.shared.0.inbox.command(None, command).await;
    }
}

/// The pause after so many failures.
fn backoff(failures: u32) -> Duration {
    let [first, max] = NOTICE_BACKOFF;
    let doubled = 1_u32.checked_shl(failures.saturating_sub(1));
    let factor = doubled.unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_a_quarter_of_an_hour() {
        let secs = |failures| backoff(failures).as_secs();
        assert_eq!([1, 2, 3, 10, 11, 40].map(secs), [1, 2, 4, 512, 900, 900]);
    }
}
