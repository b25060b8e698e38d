//! Workers, fleets and the store in trouble.

use baton_model::fact::{Condemnation, Fact};
use baton_model::fleet::JobEnd;
use baton_model::notify::{Notice, NoticeKind};

use super::state::About;
use super::{Notifier, Observation, key};

impl Notifier {
    pub(super) fn resource(&mut self, seen: Observation<'_>, fact: &Fact) {
        match fact {
            Fact::WorkerCondemned {
                worker,
                reason: Condemnation::Unhealthy | Condemnation::GaveItselfUp,
                ..
            }
            | Fact::WorkerFaulted { worker, .. }
            | Fact::WorkerSuspected { worker, .. } => {
                let path = format!("/workers/{worker}");
                self.trouble(
                    seen,
                    NoticeKind::Worker,
                    &worker.to_string(),
                    Some(path),
                    None,
                );
            }
            Fact::CopyOpened { .. } | Fact::CopySettled { .. } => {
                self.trouble(seen, NoticeKind::Store, "store", None, None);
            }
            Fact::AttemptsDisowned { worker, .. } => {
                self.trouble(seen, NoticeKind::Store, &worker.to_string(), None, None);
            }
            Fact::JobEnded {
                fleet, end, detail, ..
            }
            // Only the first in a row: a fleet that fails tries again for hours.
            if is_trouble(*end) && self.state.failed(&format!("fleet:{fleet}"), seen.at) == 1 => {
                let detail = detail.as_deref().map(|it| format!(": {it}"));
                let title = format!(
                    "fleet {fleet}: a job gave no workers, {}{}",
                    end.sentence(),
                    detail.unwrap_or_default()
                );
                self.fleet(seen, fleet.as_str(), title);
            }
            Fact::JobArrived { fleet, .. }
                if self.state.succeeded(&format!("fleet:{fleet}")) > 0 =>
            {
                let title = format!("fleet {fleet}: workers come again");
                self.fleet(seen, fleet.as_str(), title);
            }
            _ => {}
        }
    }

    fn fleet(&mut self, seen: Observation<'_>, fleet: &str, title: String) {
        let path = format!("/fleets/{fleet}");
        self.trouble(seen, NoticeKind::Fleet, fleet, Some(path), Some(title));
    }

    fn trouble(
        &mut self,
        seen: Observation<'_>,
        kind: NoticeKind,
        subject: &str,
        path: Option<String>,
        title: Option<String>,
    ) {
        let about = About {
            series: format!("{kind}:{subject}"),
            ..About::default()
        };
        let notice = Notice {
            key: key(kind, subject, seen.seq, seen.epoch),
            kind,
            at: seen.at,
            series: about.series.clone(),
            title: title.unwrap_or_else(|| seen.fact.sentence(None)),
            subject: subject.to_owned(),
            owner: None,
            entry: None,
            tags: Vec::new(),
            reason: None,
            failures: None,
            counts: None,
            examples: Vec::new(),
            stderr: None,
            command: None,
            path,
        };
        self.raise(notice, &about, 0);
    }
}

const fn is_trouble(end: JobEnd) -> bool {
    match end {
        JobEnd::Refused | JobEnd::NeverSeen | JobEnd::Failed | JobEnd::Vanished => true,
        JobEnd::Ended | JobEnd::Preempted => false,
    }
}
