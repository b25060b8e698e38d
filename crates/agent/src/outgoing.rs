//! Coalescing of messages to the scheduler.
//!
//! The state machine sends one message for each event. Verdicts and statuses of one iteration of
//! the loop are combined, verdicts first; their order among each other has no meaning. Nothing is
//! moved past a message of another kind.

use baton_core::protocol::frame::{FrameError, encode_to_scheduler};
use baton_model::ids::{Association, LeaseId};
use baton_model::limits::LAUNCHES_PER_MESSAGE_MAX;
use baton_model::message::{LaunchVerdict, Status, ToScheduler, update_status};

/// The messages of this iteration.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    association: Option<Association>,
    verdicts: Vec<(LeaseId, LaunchVerdict)>,
    statuses: Vec<(LeaseId, Status)>,
    ready: Vec<ToScheduler>,
}

impl Outgoing {
    pub(crate) fn push(&mut self, message: ToScheduler) {
        match message {
            ToScheduler::RunTaskReply {
                association,
                mut verdicts,
            } => {
                self.set_association(association);
                self.verdicts.append(&mut verdicts);
            }
            ToScheduler::UpdateStatus {
                association,
                mut statuses,
            } => {
                self.set_association(association);
                self.statuses.append(&mut statuses);
            }
            other => {
                self.close_group();
                self.ready.push(other);
            }
        }
    }

    /// Drops everything: there is no connection.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Appends everything as frames.
    pub(crate) fn encode(&mut self, out: &mut Vec<u8>) -> Result<(), FrameError> {
        self.close_group();
        let mut result = Ok(());
        // A message that is too long does not affect the others.
        for message in std::mem::take(&mut self.ready) {
            result = result.and(encode_to_scheduler(&message, out));
        }
        result
    }

    fn set_association(&mut self, association: Association) {
        if self.association != Some(association) {
            self.close_group();
            self.association = Some(association);
        }
    }

    fn close_group(&mut self) {
        let Some(association) = self.association.take() else {
            return;
        };
        for chunk in self.verdicts.chunks(LAUNCHES_PER_MESSAGE_MAX) {
            let verdicts = chunk.to_vec();
            self.ready.push(ToScheduler::RunTaskReply {
                association,
                verdicts,
            });
        }
        self.verdicts.clear();
        let statuses = std::mem::take(&mut self.statuses);
        self.ready.extend(update_status(association, statuses));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::protocol::frame::decode_to_scheduler;
    use baton_model::ids::{
        AttemptId, AttemptNo, CheckId, Epoch, Incarnation, IncarnationNo, InstanceId, Lineage,
        SessionId, StoreId,
    };
    use baton_model::limits::{FRAME_BYTES_MAX, OUTPUTS_BYTES_MAX, STATUSES_PER_MESSAGE_MAX};
    use baton_model::outcome::{Outcome, Report};
    use std::sync::Arc;

    fn association(session: u64) -> Association {
        Association {
            store: StoreId(1),
            epoch: Epoch(1),
            incarnation: Incarnation {
                lineage: Lineage(1),
                number: IncarnationNo(1),
            },
            session: SessionId(session),
        }
    }

    fn lease(instance: u64) -> LeaseId {
        LeaseId {
            attempt: AttemptId {
                instance: InstanceId(instance),
                number: AttemptNo(1),
            },
            epoch: Epoch(1),
        }
    }

    fn status(instance: u64, session: u64) -> ToScheduler {
        ToScheduler::UpdateStatus {
            association: association(session),
            statuses: vec![(lease(instance), Status::WasNotRunning)],
        }
    }

    fn verdict(instance: u64) -> ToScheduler {
        ToScheduler::RunTaskReply {
            association: association(1),
            verdicts: vec![(lease(instance), LaunchVerdict::Accepted)],
        }
    }

    fn sent(outgoing: &mut Outgoing) -> Vec<ToScheduler> {
        let (mut bytes, mut sent) = (Vec::new(), Vec::new());
        outgoing.encode(&mut bytes).expect("short enough");
        let mut left = &bytes[..];
        while let Some((message, taken)) = decode_to_scheduler(left).expect("well formed") {
            sent.push(message);
            left = &left[taken..];
        }
        sent
    }

    #[test]
    fn what_belongs_together_is_one_message_and_no_longer_than_allowed() {
        let mut outgoing = Outgoing::default();
        let many = STATUSES_PER_MESSAGE_MAX as u64 + 1;
        for instance in 0..many {
            outgoing.push(verdict(instance));
            outgoing.push(status(instance, 1));
        }
        let sizes: Vec<usize> = sent(&mut outgoing)
            .iter()
            .map(|message| match message {
                ToScheduler::RunTaskReply { verdicts, .. } => verdicts.len(),
                ToScheduler::UpdateStatus { statuses, .. } => statuses.len(),
                _ => 0,
            })
            .collect();
        assert_eq!(sizes, [1024, 1, 1024, 1]);
        assert!(sent(&mut outgoing).is_empty());
    }

    #[test]
    fn outputs_are_sent_in_as_many_messages_as_they_need() {
        let mut outgoing = Outgoing::default();
        let outputs: Arc<str> = " ".repeat(OUTPUTS_BYTES_MAX).into();
        let many = FRAME_BYTES_MAX / OUTPUTS_BYTES_MAX;
        for instance in 0..many as u64 {
            let report = Report {
                outputs: Some(Arc::clone(&outputs)),
                ..Report::from(Outcome::Exited(0))
            };
            outgoing.push(ToScheduler::UpdateStatus {
                association: association(1),
                statuses: vec![(lease(instance), Status::Ended(report))],
            });
        }
        let statuses: usize = sent(&mut outgoing)
            .iter()
            .map(|message| match message {
                ToScheduler::UpdateStatus { statuses, .. } => statuses.len(),
                _ => 0,
            })
            .sum();
        assert_eq!(
            statuses, many,
            "in one message they would be too long for a frame"
        );
    }

    #[test]
    fn nothing_moves_past_another_kind_or_another_association() {
        let mut outgoing = Outgoing::default();
        let check = ToScheduler::HealthReport {
            association: association(1),
            check: CheckId(1),
            ok: true,
        };
        let expected = [status(1, 1), check, status(2, 1), status(3, 2)];
        for message in expected.clone() {
            outgoing.push(message);
        }
        assert_eq!(sent(&mut outgoing), expected);
    }
}
