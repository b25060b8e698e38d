//! Filters of instances and runs, as options of commands.

use baton_model::api::{InstanceFilter, RunFilter, query_pairs};
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use clap::Args;

use super::list;
use crate::output::clean;
use crate::text::shell;
use crate::time::{past, stamp};

/// Filter of instances.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct InstanceFilterArgs {
    /// Only instances in this state, such as QUEUED, RUNNING or FAILED
    #[arg(long, value_name = "STATE", value_parser = list::state)]
    state: Option<UniversalState>,
    #[command(flatten)]
    others: OtherFilterArgs,
}

/// Filter of instances without a state, for a command whose `--state` means more than one thing.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct OtherFilterArgs {
    /// Only instances of this owner
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// Only instances with this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only instances with this tag
    #[arg(long, value_name = "WORD")]
    tag: Option<String>,
    /// Only instances whose current attempt, or else the last one, is on this worker
    #[arg(long, value_name = "WORKER")]
    worker: Option<String>,
    /// Only instances that were submitted, started or have ended, whatever was last, at this time or
    /// later: how long ago, such as 90m or 2d, or when
    #[arg(long, value_name = "TIME", value_parser = past)]
    since: Option<Wall>,
    /// Only instances of which the last of these was before this time
    #[arg(long, value_name = "TIME", value_parser = past)]
    until: Option<Wall>,
}

impl InstanceFilterArgs {
    pub(super) fn filter(&self) -> InstanceFilter {
        self.others.filter(self.state)
    }
}

impl OtherFilterArgs {
    /// The filter, with a state.
    pub(super) fn filter(&self, state: Option<UniversalState>) -> InstanceFilter {
        let others = self.clone();
        InstanceFilter {
            state,
            owner: others.owner,
            name: others.name,
            tag: others.tag,
            worker: others.worker,
            since: others.since,
            until: others.until,
        }
    }
}

/// Filter of runs.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct RunFilterArgs {
    /// Only runs in this state, such as RUNNING or FAILED
    #[arg(long, value_name = "STATE", value_parser = list::state)]
    state: Option<UniversalState>,
    /// Only runs of this owner
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// Only runs of this workflow
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only runs that have begun at this time or later: how long ago, such as 2h, or when
    #[arg(long, value_name = "TIME", value_parser = past)]
    since: Option<Wall>,
    /// Only runs that have begun before this time
    #[arg(long, value_name = "TIME", value_parser = past)]
    until: Option<Wall>,
}

impl RunFilterArgs {
    pub(super) fn filter(&self) -> RunFilter {
        let args = self.clone();
        RunFilter {
            state: args.state,
            owner: args.owner,
            name: args.name,
            since: args.since,
            until: args.until,
        }
    }
}

/// A filter as options of a command line: `--name sim`.
pub(super) fn options(filter: &InstanceFilter) -> Vec<String> {
    let texts = texts(filter).into_iter();
    texts
        .map(|(name, text)| format!("--{name} {}", shell(&text)))
        .collect()
}

/// A filter in words: `name sim, since 2026-11-15 13:30:00Z`.
pub(super) fn describe(filter: &InstanceFilter) -> String {
    let texts = texts(filter).into_iter();
    let texts = texts.map(|(name, text)| format!("{name} {}", clean(&text)));
    texts.collect::<Vec<_>>().join(", ")
}

/// The names and values of what is set; times as people read them, so that the filter means the same
/// later.
fn texts(filter: &InstanceFilter) -> Vec<(String, String)> {
    let mut pairs = query_pairs(filter);
    for (name, text) in &mut pairs {
        let time = match name.as_str() {
            "since" => filter.since,
            "until" => filter.until,
            _ => None,
        };
        if let Some(time) = time {
            *text = stamp(time);
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_written_as_it_is_read() {
        let filter = InstanceFilter {
            state: Some(UniversalState::Failed),
            name: Some("a b".to_owned()),
            since: Some(Wall(1_763_210_000_000)),
            ..InstanceFilter::default()
        };
        assert_eq!(
            options(&filter),
            [
                "--name 'a b'",
                "--since '2025-11-15 12:33:20Z'",
                "--state FAILED"
            ]
        );
        assert_eq!(
            describe(&filter),
            "name a b, since 2025-11-15 12:33:20Z, state FAILED"
        );
        assert_eq!(past("2025-11-15 12:33:20Z"), Ok(Wall(1_763_210_000_000)));
    }
}
