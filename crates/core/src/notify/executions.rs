//! Instances, arrays and runs that fail or recover, and due times that are missed.

use baton_model::fact::Verdict;
use baton_model::ids::{Epoch, InstanceId, InstanceRange, RunId, TaskNo};
use baton_model::notify::{Notice, NoticeCounts, NoticeKind};
use baton_model::schedule::{SkipReason, TickVerdict};
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;
use baton_model::time::Wall;

use super::state::{About, Failures, Group};
use super::{Context, Notifier, Observation, STDERR_CHARS_MAX, key, text};
use crate::clock::Zone;

/// The failure of one instance.
pub(super) struct Failure<'a> {
    pub(super) reason: String,
    pub(super) stderr: Option<&'a str>,
}

impl Failure<'_> {
    fn stderr(&self) -> Option<String> {
        let tail = self.stderr.filter(|tail| !tail.is_empty());
        tail.map(|tail| text::tail(tail, STDERR_CHARS_MAX))
    }
}

/// The reason for which a due time has no launch, if that is a miss.
pub(super) const fn is_missed(verdict: TickVerdict) -> Option<SkipReason> {
    match verdict {
        TickVerdict::Skip(SkipReason::Paused | SkipReason::Replaced)
        | TickVerdict::Launch
        | TickVerdict::Late { .. } => None,
        TickVerdict::Skip(reason) => Some(reason),
    }
}

/// What routes see of an instance. Failures in a row are those of its entry; without one, its own.
pub(super) fn about_instance(id: InstanceId, spec: &InstanceSpec) -> About {
    About {
        series: match (spec.origin, spec.array) {
            (Some(origin), _) => format!("entry:{}", origin.task.0),
            (None, Some(array)) => format!("array:{}", array.first.0),
            (None, None) => format!("instance:{}", id.0),
        },
        owner: Some(spec.owner.clone()),
        entry: Some(format!("{}/{}", spec.owner, spec.name)),
        tags: spec.tags.clone(),
        rule: spec.notify.clone(),
    }
}

pub(super) fn about_context(context: &Context, series: String) -> About {
    let (owner, name, rule) = match context {
        Context::Run(run) => (&run.owner, &run.name, &run.rule),
        Context::Entry { name, rule } => (&name.owner, &name.name, rule),
        Context::Instance(_) | Context::Nothing => {
            return About {
                series,
                ..About::default()
            };
        }
    };
    About {
        series,
        owner: Some(owner.clone()),
        entry: Some(format!("{owner}/{name}")),
        tags: Vec::new(),
        rule: rule.clone(),
    }
}

/// A notice about work, without details.
pub(super) fn notice(kind: NoticeKind, about: &About, subject: String, at: Wall) -> Notice {
    Notice {
        key: String::new(),
        kind,
        at,
        series: about.series.clone(),
        title: String::new(),
        subject,
        owner: about.owner.clone(),
        entry: about.entry.clone(),
        tags: about.tags.clone(),
        reason: None,
        failures: None,
        counts: None,
        examples: Vec::new(),
        stderr: None,
        command: None,
        path: None,
    }
}

/// The name of the work, for titles.
fn name<'a>(about: &'a About, subject: &'a str) -> &'a str {
    about.entry.as_deref().unwrap_or(subject)
}

impl Notifier {
    pub(super) fn submitted(
        &mut self,
        seq: u64,
        first: InstanceId,
        last: InstanceId,
        spec: &InstanceSpec,
    ) {
        let Some(array) = spec.array else {
            return;
        };
        let count = last.0 - first.0 + 1;
        // An array with items has a fact for each of them.
        let known = self.state.change_group(array.first, |group| {
            group.last = group.last.max(last);
            group.total += count;
            if seq > group.counted_to {
                group.live += count;
            }
        });
        if known.is_some() {
            return;
        }
        let about = about_instance(first, spec);
        if spec.part.is_none() && self.rules.concerns(&about) {
            self.state.open(Group {
                first: array.first,
                last,
                about,
                total: count,
                live: count,
                counted_to: 0,
                done: 0,
                failed: 0,
                unresolved: 0,
                round: 0,
                open: true,
                failures: Failures::default(),
            });
        }
    }

    pub(super) fn attempt_ended(
        &mut self,
        seen: Observation<'_>,
        context: &Context,
        id: InstanceId,
        verdict: Verdict,
        failure: &Failure<'_>,
    ) {
        if verdict == Verdict::Requeued {
            return;
        }
        let of_array = self.state.change_group(id, |group| {
            if seen.seq > group.counted_to {
                group.live = group.live.saturating_sub(1);
            }
            match verdict {
                Verdict::Done => group.done += 1,
                Verdict::GaveUp => {
                    group.failed += 1;
                    group.failures.add(id, &failure.reason, failure.stderr());
                }
                Verdict::Stopped | Verdict::Requeued => {}
            }
        });
        if of_array.is_some() {
            return;
        }
        match (verdict, context) {
            (Verdict::GaveUp, Context::Instance(spec)) => match spec.part {
                Some(part) => self.state.item_failed(part.run, |run| {
                    run.failed += 1;
                    run.failures.add(id, &failure.reason, failure.stderr());
                }),
                None => self.instance_failed(seen, &about_instance(id, spec), id, failure),
            },
            (Verdict::GaveUp, _) => {
                let about = About {
                    series: format!("instance:{}", id.0),
                    ..About::default()
                };
                self.instance_failed(seen, &about, id, failure);
            }
            (Verdict::Done, Context::Instance(spec)) if spec.part.is_none() => {
                let about = about_instance(id, spec);
                let path = format!("/instances/{id}");
                self.recovered(
                    &about,
                    id.to_string(),
                    path,
                    seen.at,
                    (seen.seq, seen.epoch),
                );
            }
            _ => {}
        }
    }

    fn instance_failed(
        &mut self,
        seen: Observation<'_>,
        about: &About,
        id: InstanceId,
        failure: &Failure<'_>,
    ) {
        if !self.rules.concerns(about) {
            return;
        }
        let failures = self.state.failed(&about.series, seen.at);
        let subject = id.to_string();
        let in_row = in_row(failures);
        let notice = Notice {
            key: key(NoticeKind::Failed, &subject, seen.seq, seen.epoch),
            title: format!(
                "{} failed{in_row}: {}",
                name(about, &subject),
                failure.reason
            ),
            reason: Some(failure.reason.clone()),
            failures: Some(failures),
            stderr: failure.stderr(),
            command: Some(format!("baton retry {id}")),
            path: Some(format!("/instances/{id}")),
            ..notice(NoticeKind::Failed, about, subject, seen.at)
        };
        self.raise(notice, about, failures);
    }

    fn recovered(
        &mut self,
        about: &About,
        subject: String,
        path: String,
        at: Wall,
        (seq, epoch): (u64, Epoch),
    ) {
        let failures = self.state.succeeded(&about.series);
        if failures == 0 {
            return;
        }
        let after = match failures {
            1 => "a failure".to_owned(),
            _ => format!("{} failures in a row", text::number(failures.into())),
        };
        let notice = Notice {
            key: key(NoticeKind::Recovered, &subject, seq, epoch),
            title: format!("{} succeeded again, after {after}", name(about, &subject)),
            failures: Some(failures),
            path: Some(path),
            ..notice(NoticeKind::Recovered, about, subject, at)
        };
        self.raise(notice, about, failures);
    }

    /// Ends a round of an array, all of whose instances have ended.
    pub(super) fn close(&mut self, first: InstanceId, at: Wall) {
        let Some(group) = self.state.end_group(first) else {
            return;
        };
        let (seq, epoch) = (self.seq, self.epoch);
        let about = &group.about;
        let subject = InstanceRange(group.first, group.last).to_string();
        let path = format!("/instances/{subject}");
        if group.failed == 0 {
            if group.unresolved == 0 && group.done == group.total {
                self.recovered(about, subject, path, at, (seq, epoch));
            }
            return;
        }
        let failures = self.state.failed(&about.series, at);
        let retried = if group.round > 0 { " retried" } else { "" };
        let notice = Notice {
            key: key(NoticeKind::Failed, &subject, seq, epoch),
            title: format!(
                "{}: {} of {}{retried} failed{}",
                name(about, &subject),
                text::number(group.failed),
                text::number(group.total),
                in_row(failures),
            ),
            reason: group.failures.reason.clone(),
            failures: Some(failures),
            counts: Some(NoticeCounts {
                failed: group.failed,
                total: group.total,
            }),
            examples: group.failures.examples.clone(),
            stderr: group.failures.stderr.clone(),
            command: Some(format!("baton retry {subject}")),
            path: Some(path),
            ..notice(NoticeKind::Failed, about, subject, at)
        };
        self.raise(notice, about, failures);
    }

    pub(super) fn run_ended(
        &mut self,
        seen: Observation<'_>,
        context: &Context,
        run: RunId,
        state: UniversalState,
    ) {
        let ended = self.state.take_run(run);
        let origin = match context {
            Context::Run(found) => found.origin,
            _ => None,
        };
        let series = match origin {
            Some(task) => format!("entry:{}", task.0),
            None => format!("run:{}", run.0),
        };
        let about = &about_context(context, series);
        let (subject, path) = (run.to_string(), format!("/runs/{run}"));
        match state {
            UniversalState::Done => {
                self.recovered(about, subject, path, seen.at, (seen.seq, seen.epoch));
            }
            UniversalState::Failed if self.rules.concerns(about) => {
                let failures = self.state.failed(&about.series, seen.at);
                let items = match context {
                    Context::Run(found) => found.items,
                    _ => None,
                };
                let counts = items
                    .filter(|_| ended.failed > 0)
                    .map(|total| NoticeCounts {
                        failed: ended.failed,
                        total,
                    });
                let count = match counts {
                    Some(NoticeCounts { failed, total }) => format!(
                        ": {} of {} items failed",
                        text::number(failed),
                        text::number(total)
                    ),
                    None => String::new(),
                };
                let title = format!(
                    "{} failed{}{count}",
                    name(about, &subject),
                    in_row(failures)
                );
                let notice = Notice {
                    key: key(NoticeKind::Failed, &subject, seen.seq, seen.epoch),
                    title,
                    reason: ended.failures.reason,
                    failures: Some(failures),
                    counts,
                    examples: ended.failures.examples,
                    stderr: ended.failures.stderr,
                    command: Some(format!("baton retry {run}")),
                    path: Some(path),
                    ..notice(NoticeKind::Failed, about, subject, seen.at)
                };
                self.raise(notice, about, failures);
            }
            _ => {}
        }
    }

    pub(super) fn due(
        &mut self,
        seen: Observation<'_>,
        context: &Context,
        entry: TaskNo,
        (first, last, count): (Wall, Wall, u64),
        verdict: TickVerdict,
    ) {
        let Some(reason) = is_missed(verdict) else {
            return;
        };
        let about = &about_context(context, format!("entry:{}", entry.0));
        let time = |at| Zone::UTC.format("%Y-%m-%d %H:%M:%S UTC", at);
        let when = match count {
            1 => format!("the due time {}", time(first)),
            _ => format!(
                "{} due times from {} to {}",
                text::number(count),
                time(first),
                time(last)
            ),
        };
        let subject = entry.to_string();
        let work = name(about, &subject);
        let notice = Notice {
            key: key(NoticeKind::Missed, &subject, seen.seq, seen.epoch),
            title: format!("{work} was not launched for {when}: {reason}"),
            reason: Some(reason.to_string()),
            command: Some(format!("baton ticks {work}")),
            path: match context {
                Context::Entry { name, .. } => Some(format!("/{}/tasks/{}", name.owner, name.name)),
                _ => None,
            },
            ..notice(NoticeKind::Missed, about, subject.clone(), seen.at)
        };
        self.raise(notice, about, 0);
    }
}

fn in_row(failures: u32) -> String {
    match failures {
        0 | 1 => String::new(),
        _ => format!(" {} times in a row", text::number(failures.into())),
    }
}
