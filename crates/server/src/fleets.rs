//! Calls of the backends of fleets, on threads of their own.
//!
//! The leader decides and records a call before it leaves; here it is carried out, and its answer goes back
//! to the driver. Commands of a cluster manager may take half a minute, so no call waits for another,
//! except that lists are asked for together: one list of a manager serves all its fleets.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use baton_fleet::{Containment, NoTokens, PilotToken, Site, TokenStore, answer, list_together};
use baton_model::fleet::{FleetAnswer, FleetCall, FleetName, FleetSpec};
use baton_model::ids::{Epoch, StoreId};

use crate::driver::event::{Event, Inbox};
use crate::pilot_tokens::PilotTokens;

/// What pilots of all fleets need to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetSettings {
    /// The binary `baton`, as the hosts of pilots find it.
    pub binary: PathBuf,
    /// Worker addresses of the schedulers, which pilots try in turn. If there are none, that of the worker
    /// port.
    pub schedulers: Vec<String>,
    /// The operator's file with the token of pilots; without it, the scheduler issues one for each
    /// fleet, where workers need any.
    pub token_file: Option<PathBuf>,
    /// The directory of scripts, logs and states of pilots.
    pub dir: PathBuf,
}

impl FleetSettings {
    /// The site of a store, whose jobs have names that begin with `store`.
    pub(crate) fn site(
        &self,
        issues_tokens: bool,
        store: String,
        containment: Containment,
    ) -> Site {
        Site {
            binary: self.binary.clone(),
            schedulers: self.schedulers.clone(),
            token: match &self.token_file {
                Some(file) => PilotToken::File(file.clone()),
                None if issues_tokens => PilotToken::Issued,
                None => PilotToken::None,
            },
            dir: self.dir.clone(),
            store,
            env: Vec::new(),
            timeout: Site::TIMEOUT,
            kill_after: Site::KILL_AFTER,
            containment,
        }
    }
}

/// Carries out the calls of one process' leaders.
pub(crate) struct FleetCalls {
    settings: Option<FleetSettings>,
    tokens: Option<PilotTokens>,
    inbox: Inbox,
    lists: Arc<Mutex<PendingLists>>,
    containment: Containment,
}

/// Lists that were asked for.
#[derive(Default)]
struct PendingLists {
    fleets: Vec<(FleetName, Arc<FleetSpec>)>,
    /// A thread is going to take them.
    is_served: bool,
}

impl FleetCalls {
    pub(crate) fn new(
        settings: Option<FleetSettings>,
        tokens: Option<PilotTokens>,
        inbox: Inbox,
    ) -> Self {
        Self {
            settings,
            tokens,
            inbox,
            lists: Arc::default(),
            containment: Containment::default(),
        }
    }

    /// Carries out a call of the leader of this epoch.
    pub(crate) fn start(&self, epoch: Epoch, store: StoreId, call: FleetCall) {
        let answers = Answers {
            epoch,
            inbox: self.inbox.clone(),
        };
        let Some(settings) = &self.settings else {
            return answers.send(failed(&call, "this scheduler was started without fleets"));
        };
        let name = format!("baton-{:x}", store.0);
        let site = settings.site(self.tokens.is_some(), name, self.containment.clone());
        if let FleetCall::List { fleet, spec } = call {
            return self.list(fleet, spec, site, answers);
        }
        let refused = call.clone();
        let on_failure = answers.clone();
        let tokens = self.tokens.clone();
        let started = spawn(move || {
            let tokens: &dyn TokenStore = match &tokens {
                Some(tokens) => tokens,
                None => &NoTokens,
            };
            answers.send(answer(&call, &site, tokens));
        });
        if let Err(error) = started {
            on_failure.send(failed(&refused, &error));
        }
    }

    fn list(&self, fleet: FleetName, spec: Arc<FleetSpec>, site: Site, answers: Answers) {
        let mut pending = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        pending.fleets.push((fleet, spec));
        if std::mem::replace(&mut pending.is_served, true) {
            return;
        }
        let lists = Arc::clone(&self.lists);
        let on_failure = answers.clone();
        let started = spawn(move || {
            while let Some(fleets) = take(&lists) {
                for answer in list_together(&fleets, &site) {
                    answers.send(answer);
                }
            }
        });
        if let Err(reason) = started {
            pending.is_served = false;
            for (fleet, _) in pending.fleets.drain(..) {
                let reason = reason.clone();
                on_failure.send(FleetAnswer::ListFailed { fleet, reason });
            }
        }
    }
}

/// The lists that were asked for since the last call; if there are none, the next one needs a thread.
fn take(lists: &Mutex<PendingLists>) -> Option<Vec<(FleetName, Arc<FleetSpec>)>> {
    let mut pending = lists.lock().unwrap_or_else(PoisonError::into_inner);
    pending.is_served = !pending.fleets.is_empty();
    pending
        .is_served
        .then(|| std::mem::take(&mut pending.fleets))
}

/// Where the answers to one leader's calls go.
#[derive(Clone)]
struct Answers {
    epoch: Epoch,
    inbox: Inbox,
}

impl Answers {
    fn send(&self, answer: FleetAnswer) {
        self.inbox
            .send(Event::FleetAnswered(self.epoch, Box::new(answer)));
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let thread = thread::Builder::new().name("fleet call".to_owned());
    let spawned = thread.spawn(work);
    spawned
        .map(drop)
        .map_err(|error| format!("no thread for the call: {error}"))
}

/// The answer to a call that was not made.
fn failed(call: &FleetCall, reason: &str) -> FleetAnswer {
    let reason = reason.to_owned();
    match call {
        FleetCall::Submit { fleet, job, .. } => FleetAnswer::Refused {
            fleet: fleet.clone(),
            job: *job,
            reason,
        },
        FleetCall::List { fleet, .. } => FleetAnswer::ListFailed {
            fleet: fleet.clone(),
            reason,
        },
        FleetCall::Token { fleet, call, .. } => FleetAnswer::TokenFailed {
            fleet: fleet.clone(),
            call: *call,
            reason,
        },
        FleetCall::Cancel { fleet, .. } => FleetAnswer::CancelFailed {
            fleet: fleet.clone(),
            reason,
        },
    }
}
