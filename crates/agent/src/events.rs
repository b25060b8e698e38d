//! Replies of the coordinator, as events of the supervisor.

use baton_core::supervision::io::{Event, Sighting};
use baton_model::outcome::{KillCause, Outcome};
use baton_model::task::RunNo;
use baton_runner::wire::{Reply, RunKey};

use crate::drive::Agent;
use crate::stderr_tail;
use crate::takeover::sight;

impl Agent {
    pub(crate) fn handle_reply(&mut self, reply: Reply) {
        let event = match reply {
            Reply::HostFault { run, reason } => Some(self.host_fault(run, &reason)),
            Reply::Ended(end) => {
                let attempt = self.supervisor.attempts().get(end.run);
                let assignment = attempt.map(|attempt| &attempt.assignment);
                if let Some(assignment) = assignment {
                    self.log_limit.cut(assignment.lease);
                    if assignment.is_task() {
                        self.end_filer.add(assignment.lease);
                    }
                    if end.outcome == Outcome::Killed(KillCause::LeaseLapsed) {
                        let lease = assignment.lease;
                        tracing::warn!(
                            "killed {lease}: no scheduler has answered for too long (lost_after)"
                        );
                    }
                }
                let ending = self.launcher.ending(&end, assignment);
                Some(Event::Ended(end.run, ending))
            }
            Reply::Unknown { run } => Some(self.unknown(run)),
            plain => {
                self.note_reply(&plain);
                Event::of_reply(&plain)
            }
        };
        if let Some(event) = event {
            self.handle(event);
        }
    }

    /// Follows up on a reply outside of the supervisor.
    fn note_reply(&mut self, reply: &Reply) {
        match reply {
            Reply::Started { .. } if std::mem::replace(&mut self.is_faulty, false) => {
                tracing::info!("this host can launch processes again");
            }
            // A task whose runner may not start again has ended.
            Reply::Refused { run } if run.run > RunNo(0) => {
                if let Some(attempt) = self.supervisor.attempts().get(*run) {
                    self.end_filer.add(attempt.assignment.lease);
                }
            }
            Reply::EverythingKilled { left, .. } if *left > 0 => {
                tracing::error!("{left} processes cannot be killed; retrying");
            }
            _ => {}
        }
    }

    /// This host could not launch an attempt, or a health check.
    pub(crate) fn host_fault(&mut self, run: RunKey, reason: &str) -> Event {
        // The reasons of single attempts differ by their paths.
        if !std::mem::replace(&mut self.is_faulty, true) {
            tracing::error!(
                "this host cannot launch processes: {reason}; attempts are given back, and none is \
                 taken until a health check passes"
            );
        }
        if let Some(attempt) = self.supervisor.attempts().get(run)
            && run.run == RunNo(0)
        {
            self.launcher.discard(&attempt.assignment);
        }
        Event::HostFault(run, stderr_tail::fault_text(reason))
    }

    /// An adopted run is gone, and the coordinator cannot know how it ended.
    fn unknown(&mut self, run: RunKey) -> Event {
        let Some(attempt) = self.supervisor.attempts().get(run) else {
            return Event::Unknown(run, Sighting::Unknown);
        };
        let (assignment, started) = (&attempt.assignment, attempt.started);
        if assignment.is_task() {
            self.end_filer.add(assignment.lease);
        }
        let sighting = sight(&mut self.coordinator, &self.launcher, assignment, started);
        Event::Unknown(run, sighting)
    }
}
