//! The courier: finds the values for attempts whose workers have asked for them.
//!
//! The leader has checked who asks. The store, files and variables are read at once, on a thread that may block;
//! programs run beside it, each at most once at the same time, and what they print is used again for a while, also
//! if it is an error: the elements of an array start together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, mpsc};
use std::thread;

use baton_core::protocol::frame::SecretDelivery;
use baton_core::scheduler::SecretGrant;
use baton_model::ids::LeaseId;
use baton_model::message::WorkerAddress;
use baton_model::secret::{CommandSource, SecretName, SecretValue, SourceKind};
use baton_model::time::{Millis, Mono};
use tokio::runtime::Handle;

use super::sources::{read_file, read_variable, run_command};
use super::{SecretError, Secrets};
use crate::clock;
use crate::driver::event::{Event, Inbox};

/// The shortest time for which what a program has printed is used.
const CACHE_MIN: Millis = Millis::from_secs(1);
/// How long the failure of a program is used again.
const FAILURE_CACHE: Millis = Millis::from_secs(5);
/// Uses of one secret are recorded at most this often.
const USE_INTERVAL: Millis = Millis::from_secs(60);

/// Takes the grants of the leader, until it is dropped.
pub(crate) struct Courier(mpsc::Sender<Task>);

enum Task {
    Grant(SecretGrant),
    /// A program has ended.
    Printed(Place, Result<SecretValue, String>),
    Stop,
}

/// A source, by its place among those of the scheduler.
type Place = usize;

/// A value, or why there is none.
type Lookup = Result<SecretValue, String>;

struct Work {
    secrets: Arc<Secrets>,
    inbox: Inbox,
    /// Runs the programs; none in tests without one.
    runtime: Option<Handle>,
    own: mpsc::Sender<Task>,
    /// What programs have printed, and until when that is used.
    printed: BTreeMap<Place, (Mono, Lookup)>,
    running: BTreeSet<Place>,
    /// Attempts that wait for programs.
    waiting: BTreeMap<LeaseId, SecretGrant>,
    /// When the use of a secret was last recorded.
    recorded: BTreeMap<(String, SecretName), Mono>,
}

impl Courier {
    /// Starts the thread. It ends with the driver.
    pub(crate) fn start(secrets: Arc<Secrets>, inbox: Inbox) -> std::io::Result<Self> {
        let (sender, tasks) = mpsc::channel();
        let mut work = Work {
            secrets,
            inbox,
            runtime: Handle::try_current().ok(),
            own: sender.clone(),
            printed: BTreeMap::new(),
            running: BTreeSet::new(),
            waiting: BTreeMap::new(),
            recorded: BTreeMap::new(),
        };
        let thread = thread::Builder::new().name("secrets".to_owned());
        thread.spawn(move || {
            for task in tasks {
                if matches!(task, Task::Stop) {
                    return;
                }
                work.take(task);
            }
        })?;
        Ok(Self(sender))
    }

    /// Finds the secrets of an attempt; they come as [`Event::Secrets`].
    pub(crate) fn grant(&self, grant: SecretGrant) {
        // Without the thread the server shuts down.
        let _ = self.0.send(Task::Grant(grant));
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        // It has ended already if the process ends.
        let _ = self.0.send(Task::Stop);
    }
}

impl Work {
    fn take(&mut self, task: Task) {
        match task {
            Task::Stop => {}
            Task::Grant(grant) => self.answer(grant),
            Task::Printed(place, found) => {
                let cache = match (&found, self.command(place)) {
                    // At least for those who wait for it.
                    (Ok(_), Some(command)) => command.cache.max(CACHE_MIN),
                    _ => FAILURE_CACHE,
                };
                self.running.remove(&place);
                self.printed
                    .insert(place, (clock::now().mono + cache, found));
                for grant in std::mem::take(&mut self.waiting).into_values() {
                    self.answer(grant);
                }
            }
        }
    }

    /// Delivers all values of an attempt, or the first reason why one cannot be had.
    fn answer(&mut self, grant: SecretGrant) {
        let owner = grant.spec.owner.clone();
        let mut values = Vec::with_capacity(grant.spec.secrets.len());
        let names: BTreeSet<_> = grant
            .spec
            .secrets
            .iter()
            .map(|it| it.name.clone())
            .collect();
        for name in names {
            match self.value(&owner, &name) {
                Some(Ok(value)) => values.push((name, value)),
                Some(Err(reason)) => {
                    tracing::warn!("{} of {owner} gets no secrets: {reason}", grant.lease);
                    return self.deliver(grant.to, grant.lease, Err(reason));
                }
                None => {
                    self.waiting.insert(grant.lease, grant);
                    return;
                }
            }
        }
        for (name, _) in &values {
            tracing::debug!(
                "secret {owner}/{name} for {} on {}",
                grant.lease,
                grant.to.worker
            );
            self.record_use(&owner, name);
        }
        self.deliver(grant.to, grant.lease, Ok(values));
    }

    fn deliver(
        &self,
        to: WorkerAddress,
        lease: LeaseId,
        values: Result<Vec<(SecretName, SecretValue)>, String>,
    ) {
        let delivery = SecretDelivery { lease, values };
        self.inbox.send(Event::Secrets(to, Box::new(delivery)));
    }

    /// A value; none if a program has to print it first.
    fn value(&mut self, owner: &str, name: &SecretName) -> Option<Lookup> {
        let Some(source) = self.secrets.source(owner, name) else {
            let stored = self.secrets.stored_value(owner, name);
            return Some(stored.map_err(|error| error.to_string()));
        };
        let kind = source.from.word();
        let found = match &source.from {
            SourceKind::File(path) => read_file(path),
            SourceKind::Environment(variable) => read_variable(variable),
            SourceKind::Command(command) => {
                let place = self.place_of(owner, name)?;
                let command = command.clone();
                self.printed_by(place, command)?
            }
        };
        let name = name.clone();
        Some(found.map_err(|reason| SecretError::Source { name, kind, reason }.to_string()))
    }

    fn place_of(&self, owner: &str, name: &SecretName) -> Option<Place> {
        let wanted = self.secrets.source(owner, name)?;
        let mut sources = self.secrets.sources.iter();
        sources.position(|it| std::ptr::eq(it, wanted))
    }

    fn command(&self, place: Place) -> Option<&CommandSource> {
        match &self.secrets.sources.get(place)?.from {
            SourceKind::Command(command) => Some(command),
            _ => None,
        }
    }

    /// What a program has printed lately; otherwise it is started, unless it runs.
    fn printed_by(&mut self, place: Place, command: CommandSource) -> Option<Lookup> {
        let now = clock::now().mono;
        if let Some((until, found)) = self.printed.get(&place)
            && now < *until
        {
            return Some(found.clone());
        }
        let Some(runtime) = &self.runtime else {
            return Some(Err("this process runs no programs".to_owned()));
        };
        if self.running.insert(place) {
            let own = self.own.clone();
            runtime.spawn(async move {
                let found = run_command(&command).await;
                // Without the thread the server shuts down.
                let _ = own.send(Task::Printed(place, found));
            });
        }
        None
    }

    /// Records the use of a stored secret, not too often.
    fn record_use(&mut self, owner: &str, name: &SecretName) {
        if self.secrets.source(owner, name).is_some() {
            return;
        }
        let now = clock::now();
        let key = (owner.to_owned(), name.clone());
        let last = self.recorded.get(&key);
        if last.is_some_and(|last| now.mono.since(*last) < USE_INTERVAL) {
            return;
        }
        self.recorded.insert(key, now.mono);
        if let Err(error) = self.secrets.note_use(owner, name, now.wall) {
            tracing::warn!("the use of the secret {owner}/{name} is not recorded: {error}");
        }
    }
}
