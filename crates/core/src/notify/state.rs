//! Open arrays and runs, failures in a row and the use of channels, each a row of text.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::ids::{InstanceId, RunId};
use baton_model::notify::{NoticeKind, NotifyRule};
use baton_model::time::Wall;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{EXAMPLES_MAX, GROUPS_ENDED_MAX, GROUPS_MAX, SERIES_MAX};

/// The properties of work that routes compare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct About {
    /// Orders its notices, and counts its failures in a row.
    pub(super) series: String,
    pub(super) owner: Option<String>,
    /// `OWNER/NAME`.
    pub(super) entry: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) rule: Option<NotifyRule>,
}

/// An array: from its submission until all of it has ended, and again when some of it is retried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Group {
    pub(super) first: InstanceId,
    pub(super) last: InstanceId,
    pub(super) about: About,
    /// Instances of this round: all of them, or those that were retried.
    pub(super) total: u64,
    /// Of these, those that have not ended.
    pub(super) live: u64,
    /// Up to this fact, ends are in `live` already.
    pub(super) counted_to: u64,
    pub(super) done: u64,
    pub(super) failed: u64,
    /// Failures of earlier rounds that no retry has made good.
    pub(super) unresolved: u64,
    /// The number of this round, from 0.
    pub(super) round: u32,
    pub(super) open: bool,
    pub(super) failures: Failures,
}

/// Failures of parts: the first, and some.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failures {
    pub(super) reason: Option<String>,
    pub(super) stderr: Option<String>,
    pub(super) examples: Vec<String>,
}

impl Failures {
    pub(super) fn add(&mut self, id: InstanceId, reason: &str, stderr: Option<String>) {
        if self.reason.is_none() {
            self.reason = Some(reason.to_owned());
            self.stderr = stderr;
        }
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(format!("{id}: {reason}"));
        }
    }
}

/// The failed items of a run in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunFailures {
    pub(super) failed: u64,
    pub(super) failures: Failures,
}

/// Failures in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Series {
    pub(super) failures: u32,
    pub(super) last: Wall,
}

/// The use of a channel in the current minute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Window {
    pub(super) since: Wall,
    pub(super) sent: u32,
    pub(super) held: Option<Held>,
}

/// Notices beyond the rate of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    /// The key of the first of them.
    pub(super) first: String,
    pub(super) kinds: BTreeMap<NoticeKind, u64>,
    pub(super) examples: Vec<String>,
}

/// Everything that is remembered between facts.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    groups: BTreeMap<InstanceId, Group>,
    runs: BTreeMap<RunId, RunFailures>,
    series: BTreeMap<String, Series>,
    windows: BTreeMap<String, Window>,
    changed: BTreeSet<String>,
    /// Groups to close when their facts were handled.
    ending: BTreeSet<InstanceId>,
}

impl State {
    pub(super) fn restore(rows: &BTreeMap<String, String>) -> Self {
        let mut state = Self::default();
        for (key, body) in rows {
            let Some((kind, name)) = key.split_once(':') else {
                continue;
            };
            match kind {
                "array" => {
                    if let Some(group) = parse::<Group>(body) {
                        if group.open && group.live == 0 {
                            state.ending.insert(group.first);
                        }
                        state.groups.insert(group.first, group);
                    }
                }
                "run" => {
                    let run = name.parse().ok().map(RunId);
                    state.runs.extend(run.zip(parse(body)));
                }
                "series" => {
                    state
                        .series
                        .extend(parse(body).map(|it| (name.to_owned(), it)));
                }
                "channel" => {
                    state
                        .windows
                        .extend(parse(body).map(|it| (name.to_owned(), it)));
                }
                _ => {}
            }
        }
        state
    }

    /// The rows that have changed since the last call.
    pub(super) fn take_rows(&mut self) -> BTreeMap<String, Option<String>> {
        let changed = std::mem::take(&mut self.changed);
        let rows = changed.into_iter().map(|key| {
            let body = self.body(&key);
            (key, body)
        });
        rows.collect()
    }

    fn body(&self, key: &str) -> Option<String> {
        let (kind, name) = key.split_once(':')?;
        match kind {
            "array" => {
                let id = InstanceId(name.parse().ok()?);
                self.groups.get(&id).map(written)
            }
            "run" => {
                let id = RunId(name.parse().ok()?);
                self.runs.get(&id).map(written)
            }
            "series" => self.series.get(name).map(written),
            _ => self.windows.get(name).map(written),
        }
    }

    /// The array of an instance.
    pub(super) fn group_of(&self, id: InstanceId) -> Option<&Group> {
        let (_, group) = self.groups.range(..=id).next_back()?;
        (id <= group.last).then_some(group)
    }

    /// Changes the array of an instance.
    pub(super) fn change_group(
        &mut self,
        id: InstanceId,
        change: impl FnOnce(&mut Group),
    ) -> Option<&Group> {
        let first = self.group_of(id)?.first;
        let group = self.groups.get_mut(&first)?;
        change(group);
        self.changed.insert(format!("array:{}", first.0));
        if group.open && group.live == 0 {
            self.ending.insert(first);
        } else {
            self.ending.remove(&first);
        }
        Some(group)
    }

    /// Adds an array, unless there are too many.
    pub(super) fn open(&mut self, group: Group) {
        let open = self.groups.values().filter(|it| it.open).count();
        if self.groups.len() >= GROUPS_MAX && open >= GROUPS_MAX {
            return;
        }
        self.changed.insert(format!("array:{}", group.first.0));
        self.groups.insert(group.first, group);
    }

    /// Ends a round of an array, and returns it.
    pub(super) fn end_group(&mut self, first: InstanceId) -> Option<Group> {
        self.ending.remove(&first);
        self.changed.insert(format!("array:{}", first.0));
        let group = self.groups.get_mut(&first)?;
        let ended = group.clone();
        if group.round == 0 {
            group.unresolved = group.failed;
        } else {
            group.unresolved = group.unresolved.saturating_sub(group.done);
        }
        group.open = false;
        let is_over = group.unresolved == 0 && group.done == group.total;
        let unresolved = group.unresolved;
        if is_over {
            self.groups.remove(&first);
        }
        let ended_groups = self.groups.values().filter(|it| !it.open);
        let ended_groups: Vec<InstanceId> = ended_groups.map(|it| it.first).collect();
        let surplus = ended_groups.len().saturating_sub(GROUPS_ENDED_MAX);
        for first in ended_groups.into_iter().take(surplus) {
            self.changed.insert(format!("array:{}", first.0));
            self.groups.remove(&first);
        }
        Some(Group {
            unresolved,
            ..ended
        })
    }

    /// Arrays whose instances have all ended, and whose facts up to this one were handled.
    pub(super) fn settled(&self, seq: u64) -> Vec<InstanceId> {
        let ending = self.ending.iter();
        let groups = ending.filter_map(|first| self.groups.get(first));
        let settled = groups.filter(|group| group.counted_to <= seq);
        settled.map(|group| group.first).collect()
    }

    /// The open arrays that overlap a range.
    pub(super) fn open_within(
        &self,
        first: InstanceId,
        last: InstanceId,
    ) -> Vec<(InstanceId, InstanceId)> {
        let before = self.groups.range(..=last).rev();
        let groups = before.take_while(|(_, group)| group.last >= first);
        let open = groups.filter(|(_, group)| group.open);
        open.map(|(_, group)| (group.first, group.last)).collect()
    }

    pub(super) fn anchor(&mut self, first: InstanceId, live: u64, counted_to: u64) {
        self.change_group(first, |group| {
            group.live = live;
            group.counted_to = counted_to;
        });
    }

    /// Counts an instance that runs again.
    pub(super) fn retried(&mut self, id: InstanceId, seq: u64) {
        self.change_group(id, |group| {
            if group.open {
                if seq > group.counted_to {
                    group.live += 1;
                }
                if group.round == 0 {
                    group.failed = group.failed.saturating_sub(1);
                } else {
                    group.total += 1;
                }
            } else {
                group.open = true;
                group.round += 1;
                (group.total, group.live) = (1, 1);
                (group.done, group.failed, group.counted_to) = (0, 0, 0);
                group.failures = Failures::default();
            }
        });
    }

    /// Counts a failed item of a run.
    pub(super) fn item_failed(&mut self, run: RunId, add: impl FnOnce(&mut RunFailures)) {
        add(self.runs.entry(run).or_default());
        self.changed.insert(format!("run:{}", run.0));
    }

    /// Ends a generation of a run, and returns its failures.
    pub(super) fn take_run(&mut self, run: RunId) -> RunFailures {
        self.forget_run(run).unwrap_or_default()
    }

    pub(super) fn forget_run(&mut self, run: RunId) -> Option<RunFailures> {
        let found = self.runs.remove(&run)?;
        self.changed.insert(format!("run:{}", run.0));
        Some(found)
    }

    /// True if anything is failing.
    pub(super) fn has_series(&self) -> bool {
        !self.series.is_empty()
    }

    /// Counts a failure, and returns how many there were in a row.
    pub(super) fn failed(&mut self, name: &str, at: Wall) -> u32 {
        if self.series.len() >= SERIES_MAX && !self.series.contains_key(name) {
            let oldest = self.series.iter().min_by_key(|(_, it)| it.last);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.succeeded(&oldest);
            }
        }
        let series = self.series.entry(name.to_owned()).or_insert(Series {
            failures: 0,
            last: at,
        });
        series.failures = series.failures.saturating_add(1);
        series.last = at;
        let failures = series.failures;
        self.changed.insert(format!("series:{name}"));
        failures
    }

    /// Ends a row of failures, and returns how many there were.
    pub(super) fn succeeded(&mut self, name: &str) -> u32 {
        let Some(series) = self.series.remove(name) else {
            return 0;
        };
        self.changed.insert(format!("series:{name}"));
        series.failures
    }

    /// Changes the use of a channel.
    pub(super) fn window(&mut self, channel: &str) -> &mut Window {
        self.changed.insert(format!("channel:{channel}"));
        self.windows.entry(channel.to_owned()).or_default()
    }

    pub(super) fn windows(&self) -> impl Iterator<Item = (&String, &Window)> {
        self.windows.iter()
    }
}

fn parse<T: DeserializeOwned>(body: &str) -> Option<T> {
    serde_json::from_str(body).ok()
}

/// Plain data with text keys always serializes.
fn written(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
