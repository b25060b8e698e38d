//! The follower: reads facts, and stores what `baton_core::notify` raises of them.

use std::time::Duration;

use baton_core::notify::{
    Changes, Context, Need, Notifier, Observation, Recipient, Rules, RunContext,
};
use baton_core::workflow::items;
use baton_model::ids::{RunId, TaskNo};
use baton_model::notify::{Delivery, DeliveryState, Notice};
use baton_model::time::Wall;
use baton_store::facts::FactPage;
use baton_store::notices::NoticeBatch;
use baton_store::view::Seq;
use baton_store::{Store, StoreError};
use tokio::time::Instant;

use super::Notifications;
use crate::clock;
use crate::followers::{Follower, Next};
use crate::limits::{NOTICE_POSITION_PAUSE, NOTICE_STATE_PAUSE};

/// Observes facts for notifications.
pub(super) struct Observer {
    shared: Notifications,
    /// None until it has begun, and after a failure.
    notifier: Option<Notifier>,
    /// What is not stored yet. A notice is stored at once; what is only remembered may wait, because a
    /// successor comes to it again from the stored position.
    unstored: Changes,
    stored: Seq,
    stored_at: Instant,
    /// There are no channels, and no position is stored.
    has_forgotten: bool,
}

impl Observer {
    pub(super) fn new(shared: Notifications) -> Self {
        Self {
            shared,
            notifier: None,
            unstored: Changes::default(),
            stored: Seq(0),
            stored_at: Instant::now(),
            has_forgotten: false,
        }
    }

    /// Stores what has changed if it is time; false if it could not be stored.
    async fn store(&mut self, reached: Seq) -> bool {
        let age = self.stored_at.elapsed();
        let is_due = if !self.unstored.notices.is_empty() {
            true
        } else if !self.unstored.rows.is_empty() {
            age >= NOTICE_STATE_PAUSE
        } else {
            reached != self.stored && age >= NOTICE_POSITION_PAUSE
        };
        if !is_due {
            return true;
        }
        let Changes { rows, notices } = std::mem::take(&mut self.unstored);
        let now = clock::now().wall;
        let told = notices.iter().flat_map(|raised| raised.recipients.keys());
        let told: Vec<String> = told.cloned().collect();
        let notices = notices.into_iter().map(|raised| {
            let deliveries = raised.recipients.iter();
            let deliveries = deliveries.map(|(channel, it)| delivery(channel, *it, now));
            let deliveries: Vec<Delivery> = deliveries.collect();
            (raised.notice, deliveries)
        });
        let batch = NoticeBatch {
            position: Some(reached),
            rows,
            notices: notices.collect::<Vec<(Notice, Vec<Delivery>)>>(),
            ..NoticeBatch::default()
        };
        if !self.shared.record(batch).await {
            return false;
        }
        self.stored = reached;
        self.stored_at = Instant::now();
        for channel in told {
            if let Some(waker) = self.shared.0.wakers.get(&channel) {
                waker.notify_one();
            }
        }
        true
    }

    /// When it must be called again, although nothing happens.
    fn pause(&self, now: Wall) -> Option<Duration> {
        let state = (!self.unstored.is_empty()).then_some(NOTICE_STATE_PAUSE);
        let digest = self.notifier.as_ref().and_then(Notifier::next_due);
        let digest = digest.map(|due| Duration::from_millis(due.since(now).0.max(10)));
        [state, digest].into_iter().flatten().min()
    }
}

impl Follower for Observer {
    fn is_active(&self) -> bool {
        self.shared.epoch().is_some() && !self.has_forgotten
    }

    async fn begin(&mut self) -> Option<Seq> {
        let source = &self.shared.0.source;
        let found = source.call(|store| store.notice_position()).await.ok()?;
        self.notifier = None;
        self.unstored = Changes::default();
        self.stored_at = Instant::now();
        if self.shared.settings().channels.is_empty() {
            // A later configuration begins at the end of the history.
            let batch = NoticeBatch {
                forgets: true,
                ..NoticeBatch::default()
            };
            self.has_forgotten = found.seq.is_none() || self.shared.record(batch).await;
            return None;
        }
        let seq = match found.seq {
            Some(seq) => seq,
            None => {
                let last = source.last().await.ok()?;
                let batch = NoticeBatch {
                    position: Some(last),
                    ..NoticeBatch::default()
                };
                if !self.shared.record(batch).await {
                    return None;
                }
                last
            }
        };
        let rules = Rules::from(self.shared.settings());
        self.notifier = Some(Notifier::restore(rules, &found.rows, seq.0));
        self.stored = seq;
        Some(seq)
    }

    async fn handle(&mut self, after: Seq, reached: Seq, page: FactPage) -> Next {
        let Some(notifier) = self.notifier.take() else {
            return Next::Restart;
        };
        let source = &self.shared.0.source;
        let now = clock::now().wall;
        let seen = source.call(move |store| observe(store, notifier, after, reached, &page, now));
        let Ok(mut notifier) = seen.await else {
            return Next::Restart;
        };
        let changes = notifier.take();
        self.notifier = Some(notifier);
        self.unstored.rows.extend(changes.rows);
        self.unstored.notices.extend(changes.notices);
        if !self.store(reached).await {
            return Next::Restart;
        }
        Next::Continue(self.pause(now))
    }
}

/// Handles a page, with what must be read for it.
fn observe(
    store: &dyn Store,
    mut notifier: Notifier,
    after: Seq,
    reached: Seq,
    page: &FactPage,
    now: Wall,
) -> Result<Notifier, StoreError> {
    if page.pruned > after {
        // Ends of instances may be among what is gone.
        for (first, last) in notifier.open_arrays() {
            let (counted_to, live) = store.live(first, last)?;
            notifier.anchor(first, live, counted_to.0);
        }
    }
    for entry in &page.items {
        for (first, last) in notifier.uncertain(&entry.fact) {
            let (counted_to, live) = store.live(first, last)?;
            notifier.anchor(first, live, counted_to.0);
        }
        let context = match notifier.need(&entry.fact) {
            Need::Nothing => Context::Nothing,
            Need::Instance(id) => match store.instance(id)? {
                Some(record) => Context::Instance(record.instance.spec),
                None => Context::Nothing,
            },
            Need::Run(run) => run_context(store, run)?,
            Need::Entry(task) => entry_context(store, task)?,
        };
        let seen = Observation {
            seq: entry.seq.0,
            at: entry.at,
            epoch: entry.epoch,
            fact: &entry.fact,
        };
        notifier.handle(seen, &context);
    }
    notifier.passed(reached.0, now);
    notifier.tick(now);
    Ok(notifier)
}

fn run_context(store: &dyn Store, run: RunId) -> Result<Context, StoreError> {
    let Some(record) = store.run(run)? else {
        return Ok(Context::Nothing);
    };
    let plan = store.plan(run)?;
    let counts = plan.iter().flat_map(|plan| &plan.tasks);
    let counts = counts.map(|task| items::count(&task.items));
    let head = record.head;
    Ok(Context::Run(RunContext {
        name: head.name,
        owner: head.owner,
        origin: head.origin.map(|origin| origin.task),
        items: counts.sum::<Option<u64>>().filter(|_| plan.is_some()),
        rule: plan.and_then(|plan| plan.notify.clone()),
    }))
}

fn entry_context(store: &dyn Store, task: TaskNo) -> Result<Context, StoreError> {
    let mut names = store.task_names(&[task].into())?;
    let Some(name) = names.remove(&task) else {
        return Ok(Context::Nothing);
    };
    let record = store.task(&name, None)?;
    let definition = record.map(|record| record.definition);
    let rule = definition.and_then(|definition| {
        let of_task = definition.spec.as_ref().map(|spec| &spec.notify);
        let of_workflow = definition.plan.as_ref().map(|plan| &plan.notify);
        of_task.or(of_workflow).cloned().flatten()
    });
    Ok(Context::Entry { name, rule })
}

/// A new delivery.
fn delivery(channel: &str, recipient: Recipient, now: Wall) -> Delivery {
    let (state, error) = match recipient {
        Recipient::Deliver => (DeliveryState::Waiting, None),
        Recipient::Digest => (DeliveryState::Digested, None),
        Recipient::Unknown => (
            DeliveryState::GivenUp,
            Some("the scheduler has no channel of this name".to_owned()),
        ),
    };
    Delivery {
        channel: channel.to_owned(),
        state,
        attempts: 0,
        next_at: None,
        changed_at: now,
        error,
    }
}
