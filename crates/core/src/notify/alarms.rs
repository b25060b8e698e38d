//! Work that is late, slow, short or stuck.

use baton_model::alarm::{Alarm, AlarmKind};
use baton_model::conditions::Subject;
use baton_model::notify::{Notice, NoticeKind};

use super::executions::{about_context, about_instance, notice};
use super::{Context, Notifier, Observation, key};

impl Notifier {
    pub(super) fn alarm(&mut self, seen: Observation<'_>, context: &Context, alarm: &Alarm) {
        let kind = match alarm.kind {
            AlarmKind::Late => NoticeKind::Late,
            AlarmKind::Stuck => NoticeKind::Stuck,
            AlarmKind::Slow | AlarmKind::Short => NoticeKind::Unusual,
        };
        let subject = alarm.subject.to_string();
        let (mut about, path) = match (context, alarm.subject) {
            (Context::Instance(spec), Subject::Instances { first, .. }) => {
                (about_instance(first, spec), format!("/instances/{subject}"))
            }
            (Context::Run(found), Subject::Run(run)) => {
                let series = match found.origin {
                    Some(task) => format!("entry:{}", task.0),
                    None => format!("run:{}", run.0),
                };
                (about_context(context, series), format!("/runs/{run}"))
            }
            // It was pruned meanwhile.
            _ => (
                about_context(&Context::Nothing, format!("alarm:{subject}")),
                format!("/instances/{subject}"),
            ),
        };
        about.owner = Some(alarm.owner.to_string());
        about.entry = Some(format!("{}/{}", alarm.owner, alarm.name));
        let command = match alarm.kind {
            AlarmKind::Stuck => format!("baton explain {subject}"),
            _ => format!("baton show {subject}"),
        };
        let notice = Notice {
            // A run may be late once in each generation.
            key: key(kind, &subject, seen.seq, seen.epoch),
            title: alarm.sentence(),
            reason: Some(alarm.reason.to_string()),
            command: Some(command),
            path: Some(path),
            ..notice(kind, &about, subject, seen.at)
        };
        self.raise(notice, &about, 0);
    }
}
