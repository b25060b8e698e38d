//! Replies of the coordinator, as events of the supervisor.

use baton_core::supervision::io::Event;
use baton_runner::wire::{Reply, RunKey};

use crate::drive::Agent;
use crate::takeover::sight;

impl Agent {
    pub(crate) fn handle_reply(&mut self, reply: Reply) {
        let event = match reply {
            Reply::Accepted { run } => Event::Accepted(run),
            Reply::Started { run, at, identity } => Event::Started { run, at, identity },
            Reply::Ended(end) => {
                let attempt = self.supervisor.attempts().get(end.run);
                let assignment = attempt.map(|attempt| &attempt.assignment);
                if let Some(assignment) = assignment {
                    self.log_limit.cut(assignment.lease);
                    if assignment.is_task() {
                        self.end_filer.add(assignment.lease);
                    }
                }
                Event::Ended(end.run, self.launcher.ending(&end, assignment))
            }
            Reply::Unknown { run } => match self.unknown(run) {
                Some(event) => event,
                None => return,
            },
            Reply::Refused { run } => Event::Refused(run),
            Reply::GuardFired => {
                tracing::warn!("the lease has expired; the coordinator kills everything");
                Event::GuardFired
            }
            Reply::EverythingKilled { id, left } => {
                if left > 0 {
                    tracing::error!("{left} processes cannot be killed; retrying");
                }
                Event::EverythingKilled { id, left }
            }
            Reply::StraysKilled { left } => Event::StraysKilled { left },
            // A greeting only comes first, and nothing is probed.
            Reply::Hello { .. } | Reply::Probed { .. } => return,
        };
        self.handle(event);
    }

    /// An adopted run is gone, and the coordinator cannot know how it ended.
    fn unknown(&mut self, run: RunKey) -> Option<Event> {
        let attempt = self.supervisor.attempts().get(run)?;
        let (assignment, started) = (&attempt.assignment, attempt.started);
        if assignment.is_task() {
            self.end_filer.add(assignment.lease);
        }
        let sighting = sight(&mut self.coordinator, &self.launcher, assignment, started);
        Some(Event::Unknown(run, sighting))
    }
}
