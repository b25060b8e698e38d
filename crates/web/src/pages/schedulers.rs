//! The schedulers of the store: which one leads, and which ones can take over.

use askama::Template;
use baton_model::api::{List, Scheduler, SchedulerRole};

use super::fleet::Change;
use crate::frame::Frame;
use crate::text::{count, duration};
use crate::time::Stamp;

/// The list of schedulers.
#[derive(Template)]
#[template(path = "schedulers.html")]
pub struct SchedulersPage {
    pub frame: Frame,
    /// Who leads, in a sentence.
    pub summary: String,
    /// No scheduler leads, or one is silent.
    pub needs_attention: bool,
    /// When its term began, if this server has seen that.
    pub since: Option<Stamp>,
    pub rows: Vec<SchedulerRow>,
    /// No other scheduler can take over.
    pub is_alone: bool,
    /// The store can be shared by several schedulers.
    pub is_shared: bool,
    /// Changes since the server has started, the latest first.
    pub history: Vec<(Stamp, String)>,
}

/// A scheduler.
#[derive(Debug)]
pub struct SchedulerRow {
    pub name: String,
    pub role: &'static str,
    /// The class of its colour.
    pub class: &'static str,
    pub answers: bool,
    pub epoch: String,
    pub url: String,
    /// The URL, if it can be a link.
    pub href: Option<String>,
    pub workers: String,
    pub up: String,
    pub up_seconds: u64,
    pub heard: String,
}

impl SchedulerRow {
    fn new(scheduler: &Scheduler) -> Self {
        let url = &scheduler.url;
        // It is announced by another process: only a web address becomes a link.
        let is_web = url.starts_with("http://") || url.starts_with("https://");
        Self {
            name: scheduler.name.clone(),
            role: scheduler.role.word(),
            class: match scheduler.role {
                SchedulerRole::Leader => "s-HEALTHY",
                SchedulerRole::Follower => "s-RUNNING",
                SchedulerRole::Silent => "s-UNHEALTHY",
            },
            answers: scheduler.answers,
            epoch: scheduler
                .epoch
                .map_or_else(|| "–".to_owned(), |epoch| epoch.to_string()),
            url: url.clone(),
            href: (is_web && !scheduler.answers).then(|| format!("{url}/schedulers/")),
            workers: scheduler.workers.clone(),
            up: duration(scheduler.started_seconds),
            up_seconds: scheduler.started_seconds.max(0.0) as u64,
            heard: duration(scheduler.heard_seconds),
        }
    }
}

/// What the server knows of its schedulers beside the list.
#[derive(Clone, Debug, Default)]
pub struct Leadership {
    /// The store can be shared by several schedulers.
    pub is_shared: bool,
    /// When the term in force began, in milliseconds since 1970.
    pub since: Option<u64>,
    pub changes: Vec<Change>,
}

impl SchedulersPage {
    #[must_use]
    pub fn new(frame: Frame, list: &List<Scheduler>, leadership: Leadership) -> Self {
        let present = |it: &&Scheduler| it.role != SchedulerRole::Silent;
        Self {
            frame,
            summary: summary(&list.items),
            needs_attention: needs_attention(&list.items),
            since: leadership.since.map(Stamp),
            rows: list.items.iter().map(SchedulerRow::new).collect(),
            is_alone: list.items.iter().filter(present).count() < 2,
            is_shared: leadership.is_shared,
            history: leadership
                .changes
                .into_iter()
                .map(|change| (Stamp(change.at), change.text))
                .collect(),
        }
    }
}

/// The scheduler that leads.
#[must_use]
pub fn leader(schedulers: &[Scheduler]) -> Option<&Scheduler> {
    let mut leaders = schedulers.iter();
    leaders.find(|it| it.role == SchedulerRole::Leader)
}

/// Whether no scheduler leads, or one is silent.
pub(super) fn needs_attention(schedulers: &[Scheduler]) -> bool {
    let is_silent = |it: &Scheduler| it.role == SchedulerRole::Silent;
    leader(schedulers).is_none_or(|leader| leader.epoch.is_none())
        || schedulers.iter().any(is_silent)
}

/// Who leads, who can take over, and who is silent, in sentences.
pub(super) fn summary(schedulers: &[Scheduler]) -> String {
    let number = |role| schedulers.iter().filter(|it| it.role == role).count() as u64;
    let mut summary = match leader(schedulers) {
        Some(Scheduler {
            name,
            epoch: Some(epoch),
            ..
        }) => format!("{name} leads, epoch {epoch}."),
        _ => "No scheduler leads: changes are refused until one is elected.".to_owned(),
    };
    let followers = number(SchedulerRole::Follower);
    if followers > 0 {
        summary.push_str(&format!(" {} can take over.", count(followers, "follower")));
    }
    let silent = number(SchedulerRole::Silent);
    if silent > 0 {
        let is = if silent == 1 { "is" } else { "are" };
        summary.push_str(&format!(" {} {is} silent.", count(silent, "scheduler")));
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Mood, Refresh, Site, Viewer};

    fn scheduler(name: &str, role: SchedulerRole, epoch: Option<u64>) -> Scheduler {
        Scheduler {
            name: name.to_owned(),
            url: format!("http://{name}:8080"),
            workers: format!("{name}:8081"),
            role,
            answers: name == "b",
            epoch,
            heard_seconds: 0.5,
            started_seconds: 90.0,
        }
    }

    fn page(items: Vec<Scheduler>, leadership: Leadership) -> String {
        let frame = Frame {
            site: Site::Scheduler,
            title: "Schedulers".to_owned(),
            section: "/schedulers/",
            mood: Mood::Idle,
            viewer: Viewer::default(),
            here: "/schedulers/".to_owned(),
            refresh: Refresh::Often,
            failures: Vec::new(),
            now: 0,
        };
        let list = List {
            total: None,
            items,
            links: baton_model::api::Links::default(),
        };
        let page = SchedulersPage::new(frame, &list, leadership).render();
        page.expect("it renders")
    }

    #[test]
    fn the_leader_the_followers_and_the_silent_ones_are_named() {
        let (leader, follower, silent) = (
            scheduler("a", SchedulerRole::Leader, Some(7)),
            scheduler("b", SchedulerRole::Follower, None),
            scheduler("<c>", SchedulerRole::Silent, Some(3)),
        );
        let two = [leader.clone(), follower.clone()];
        assert_eq!(summary(&two), "a leads, epoch 7. 1 follower can take over.");
        assert!(!needs_attention(&two));
        let three = vec![leader, follower.clone(), silent];
        assert!(needs_attention(&three));
        let shown = page(
            three,
            Leadership {
                since: Some(1_763_331_003_250),
                ..Leadership::default()
            },
        );
        assert!(shown.contains("1 scheduler is silent."), "{shown}");
        assert!(shown.contains("Its term began <time"), "{shown}");
        assert!(
            shown.contains("href=\"http://a:8080/schedulers/\""),
            "{shown}"
        );
        assert!(!shown.contains("href=\"http://b:8080"), "{shown}");
        assert!(!shown.contains("<c>"), "{shown}");
        assert!(!shown.contains("Add a second scheduler"), "{shown}");
        assert!(summary(&[follower]).starts_with("No scheduler leads"));
    }

    #[test]
    fn the_only_scheduler_says_how_to_add_another() {
        let only = || vec![scheduler("a", SchedulerRole::Leader, Some(1))];
        let own = page(only(), Leadership::default());
        assert!(own.contains("baton store copy"), "{own}");
        let shared = page(
            only(),
            Leadership {
                is_shared: true,
                ..Leadership::default()
            },
        );
        assert!(shared.contains("Add a second scheduler"), "{shared}");
        assert!(!shared.contains("baton store copy"), "{shared}");
    }
}
