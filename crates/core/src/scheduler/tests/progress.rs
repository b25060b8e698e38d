//! Progress of attempts: live in memory, and kept with their ends.

use baton_model::outcome::Report;
use baton_model::progress::Progress;

use super::placing::rig;
use super::*;

fn line(text: &str) -> Progress {
    Progress::parse(text, Wall(5)).expect("a line")
}

impl Leader {
    fn tell(&mut self, worker: &Remote, lease: LeaseId, progress: Progress) {
        let facts = self.facts.len();
        self.give(Input::Message(ToScheduler::Progress {
            association: worker.association(),
            attempts: vec![(lease, progress)],
        }));
        assert_eq!(self.facts.len(), facts, "progress is no fact");
    }

    fn shown(&self, lease: LeaseId) -> Option<String> {
        self.core.progress(lease).map(Progress::text)
    }

    fn end_saying(&mut self, worker: &Remote, lease: LeaseId, progress: Option<Progress>) {
        let report = Report {
            progress,
            ..Report::from(Outcome::Exited(3))
        };
        self.give(Input::Message(ToScheduler::UpdateStatus {
            association: worker.association(),
            statuses: vec![(lease, Status::Ended(report))],
        }));
    }

    /// The progress in the last end.
    fn kept_text(&self) -> Option<String> {
        let ends = self.facts.iter().rev();
        let mut ends = ends.filter_map(|fact| match fact {
            Fact::AttemptEnded { progress, .. } => Some(progress),
            _ => None,
        });
        let progress = ends.next().expect("an end");
        progress.as_deref().map(Progress::text)
    }
}

#[test]
fn progress_is_shown_while_it_runs_and_kept_with_the_end() {
    let (mut leader, worker) = rig();
    leader.submit(1, Exclusive::Timed);
    let lease = leader.lease(1);
    assert_eq!(leader.shown(lease), None);
    for text in ["1/4 a", "2/4 b"] {
        leader.tell(&worker, lease, line(text));
        assert_eq!(leader.shown(lease).as_deref(), Some(text));
    }
    leader.end_saying(&worker, lease, Some(line("3/4 c")));
    assert_eq!(leader.kept_text().as_deref(), Some("3/4 c"));
    assert_eq!(leader.shown(lease), None, "its lease is closed");
    leader.tell(&worker, lease, line("4/4 late"));
    assert_eq!(leader.shown(lease), None);
    let seats = leader.core.seats().values();
    assert!(
        seats.flat_map(|it| &it.progress).next().is_none(),
        "nothing is left"
    );
}

#[test]
fn the_last_live_line_is_kept_if_the_report_has_none() {
    let (mut leader, worker) = rig();
    for (id, live, kept) in [(1, Some("1/2"), Some("1/2")), (2, None, None)] {
        leader.submit(id, Exclusive::Timed);
        let lease = leader.lease(id);
        if let Some(live) = live {
            leader.tell(&worker, lease, line(live));
        }
        leader.end_saying(&worker, lease, None);
        assert_eq!(leader.kept_text().as_deref(), kept);
        leader.give(cancel(id));
    }
}

#[test]
fn a_lost_attempt_keeps_the_last_line_that_its_worker_told() {
    let (mut leader, worker) = rig();
    leader.submit(1, Exclusive::Timed);
    let lease = leader.lease(1);
    leader.tell(&worker, lease, line("70% of it"));
    while leader.core.ledger().open_lease(lease).is_some() {
        leader.wait(lease_time());
    }
    assert_eq!(leader.kept_text().as_deref(), Some("70% of it"));
}

#[test]
fn progress_of_anothers_attempt_or_beyond_the_limits_is_not_shown() {
    let (mut leader, worker) = rig();
    leader.submit(1, Exclusive::Timed);
    let lease = leader.lease(1);
    let mut other = Remote::new("v", 8, 1);
    leader.welcome(&mut other, &[]);
    leader.tell(&other, lease, line("1/2"));
    let long = Progress {
        message: "x".repeat(1_000).into(),
        ..line("1/2")
    };
    leader.tell(&worker, lease, long.clone());
    assert_eq!(leader.shown(lease), None);
    leader.end_saying(&worker, lease, Some(long));
    assert_eq!(leader.kept_text(), None);
}
