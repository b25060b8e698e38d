//! Who gets a notice.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::notify::{NoticeKind, NotifyRule, NotifySettings, Route};

use super::state::About;

/// The routes of the scheduler, and the rates of its channels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub routes: Vec<Route>,
    /// Notices in a minute, by channel.
    pub rates: BTreeMap<String, u32>,
}

impl From<&NotifySettings> for Rules {
    fn from(settings: &NotifySettings) -> Self {
        let channels = settings.channels.iter();
        Self {
            routes: settings.routes.clone(),
            rates: channels
                .map(|(name, channel)| (name.clone(), channel.rate))
                .collect(),
        }
    }
}

impl Rules {
    /// The channels of a notice. `failures` are those in a row: with the one that it is about, or
    /// before the recovery.
    pub(super) fn recipients(
        &self,
        kind: NoticeKind,
        about: &About,
        failures: u32,
    ) -> BTreeSet<String> {
        let routes = self.routes.iter();
        let routes = routes.filter(|route| route.on.contains(&kind) && matches(route, about));
        let routes = routes.map(|route| (&route.channels, route.after));
        let own = about.rule.iter();
        let own = own.filter(|rule| rule.on.contains(&kind));
        let own = own.map(|rule| (&rule.channels, rule.after));
        let due = routes
            .chain(own)
            .filter(|(_, after)| is_due(kind, *after, failures));
        due.flat_map(|(channels, _)| channels.iter().cloned())
            .collect()
    }

    /// True if anyone is told of failures or recoveries of this work.
    pub(super) fn concerns(&self, about: &About) -> bool {
        let on = |kinds: &[NoticeKind]| {
            kinds.contains(&NoticeKind::Failed) || kinds.contains(&NoticeKind::Recovered)
        };
        let own = about.rule.as_ref();
        own.is_some_and(|rule: &NotifyRule| on(&rule.on))
            || self
                .routes
                .iter()
                .any(|route| on(&route.on) && matches(route, about))
    }
}

fn matches(route: &Route, about: &About) -> bool {
    let same = |wanted: &Option<String>, found: &Option<String>| {
        wanted.is_none() || wanted.as_deref() == found.as_deref()
    };
    same(&route.owner, &about.owner)
        && same(&route.entry, &about.entry)
        && route.tags.iter().all(|tag| about.tags.contains(tag))
}

/// Whether a notice comes after the right number of failures. One that was not told of a failure is
/// not told of its end.
const fn is_due(kind: NoticeKind, after: Option<u32>, failures: u32) -> bool {
    match (kind, after) {
        (NoticeKind::Failed, Some(after)) => failures == after,
        (NoticeKind::Recovered, Some(after)) => failures >= after,
        _ => true,
    }
}
