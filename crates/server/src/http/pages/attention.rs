//! The part of the overview that looks further than one list: entries whose last executions have failed.

use baton_model::api::{Instance, Links, List, Run};
use baton_model::state::UniversalState;
use baton_web::pages::attention::Failing;
use serde::de::DeserializeOwned;

use super::api_client::ApiClient;
use crate::http::views::encoded;

/// Entries of each kind that are looked at: those that have failed last.
const ENTRIES_MAX: usize = 8;

/// Executions of an entry that are looked at.
const EXECUTIONS: u64 = 20;

/// What instances and runs have in common here.
struct Execution {
    owner: String,
    name: String,
    /// The page of its entry, if it is of one.
    entry: Option<String>,
    state: UniversalState,
    id: String,
    page: String,
    end_text: String,
    ended_at: u64,
    /// The time by which its list is ordered.
    listed_at: u64,
}

impl Execution {
    fn is_of(&self, owner: &str, name: &str) -> bool {
        (&*self.owner, &*self.name) == (owner, name)
    }

    /// What goes on has decided nothing, and a halt is no failure.
    fn has_decided(&self) -> bool {
        matches!(self.state, UniversalState::Done | UniversalState::Failed)
    }

    fn has_succeeded(&self) -> bool {
        self.state == UniversalState::Done
    }
}

/// A list of executions, and its order from the oldest on.
#[derive(Clone, Copy)]
struct Source {
    list: &'static str,
    oldest_first: &'static str,
}

const HISTORY: Source = Source {
    list: "/history",
    oldest_first: "ended",
};
const RUNS: Source = Source {
    list: "/runs",
    oldest_first: "submitted",
};

/// Entries that have failed and not succeeded since, the latest first.
pub(super) async fn failing(
    api: &ApiClient,
    instances: &List<Instance>,
    runs: &List<Run>,
) -> Vec<Failing> {
    let instances = instances.items.iter().filter_map(of_instance);
    let runs = runs.items.iter().map(of_run);
    let (mut found, of_runs) = tokio::join!(
        streaks(api, instances, HISTORY, |list: List<Instance>| {
            list.items.iter().filter_map(of_instance).collect()
        }),
        streaks(api, runs, RUNS, |list: List<Run>| {
            list.items.iter().map(of_run).collect()
        }),
    );
    found.extend(of_runs);
    found.sort_by_key(|it| std::cmp::Reverse(it.ended_at));
    found
}

/// The entries of failures, with their failures in a row.
async fn streaks<T: DeserializeOwned>(
    api: &ApiClient,
    failures: impl Iterator<Item = Execution>,
    source: Source,
    parse: impl Fn(T) -> Vec<Execution>,
) -> Vec<Failing> {
    let mut entries: Vec<(String, Execution)> = Vec::new();
    for it in failures.filter(|it| it.state == UniversalState::Failed) {
        let Some(entry) = it.entry.clone() else {
            continue;
        };
        let is_known = entries.iter().any(|(known, _)| *known == entry);
        if !is_known && entries.len() < ENTRIES_MAX {
            entries.push((entry, it));
        }
    }
    let mut found = Vec::new();
    for (entry, last) in entries {
        let (owner, name) = (&last.owner, &last.name);
        let of = format!("owner={}&name={}", encoded(owner), encoded(name));
        let part = format!("Whether {owner}/{name} fails");
        let read = async |rest: String| {
            let path = format!("{}?{of}&limit={EXECUTIONS}{rest}", source.list);
            let mut executions = parse(api.get_part::<T>(&path, &part).await?);
            // The filter takes patterns, and a name may look like one.
            executions.retain(|it| it.is_of(owner, name));
            Some(executions)
        };
        let Some(mut executions) = read(String::new()).await else {
            continue;
        };
        if !executions.iter().any(Execution::has_decided) {
            // One page looks only so far: much else has ended since. What came next tells whether it has
            // recovered, and what came before how often it has failed.
            let (at, next) = (last.listed_at, source.oldest_first);
            let (after, before) = tokio::join!(
                read(format!("&since={at}&sort={next}")),
                read(format!("&until={}", at + 1)),
            );
            if after.is_none_or(|it| it.iter().any(Execution::has_succeeded)) {
                continue;
            }
            executions = before.unwrap_or_default();
        }
        found.extend(streak(&executions, &format!("{owner}/{name}"), &entry));
    }
    found
}

/// The failures since the last success, of executions from the latest on.
fn streak(executions: &[Execution], name: &str, entry: &str) -> Option<Failing> {
    let decided: Vec<&Execution> = executions.iter().filter(|it| it.has_decided()).collect();
    let failures = decided.iter().take_while(|it| !it.has_succeeded());
    let failures = failures.count();
    let last = decided.first().filter(|_| failures > 0)?;
    Some(Failing {
        name: name.to_owned(),
        href: entry.to_owned(),
        failures: failures as u64,
        is_cut: failures == decided.len() && executions.len() as u64 == EXECUTIONS,
        last: (last.id.clone(), last.page.clone()),
        end_text: last.end_text.clone(),
        ended_at: last.ended_at,
    })
}

/// An instance; none if it is an item, whose run is the execution.
fn of_instance(it: &Instance) -> Option<Execution> {
    let id = match &it.last {
        Some(last) => format!("{}..{last}", it.id),
        None => it.id.clone(),
    };
    it.run.is_none().then(|| Execution {
        owner: it.owner.clone(),
        name: it.name.clone(),
        entry: entry(&it.links),
        state: it.state,
        page: format!("/instances/{id}"),
        id,
        end_text: it.end_text.clone().unwrap_or_default(),
        ended_at: it.changed_at,
        listed_at: it.changed_at,
    })
}

fn of_run(it: &Run) -> Execution {
    Execution {
        owner: it.owner.clone(),
        name: it.name.clone(),
        entry: entry(&it.links),
        state: it.state,
        id: it.id.clone(),
        page: format!("/runs/{}", it.id),
        end_text: String::new(),
        ended_at: it.ended_at.unwrap_or(it.begun_at),
        listed_at: it.begun_at,
    }
}

fn entry(links: &Links) -> Option<String> {
    links.get("task").cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executions(states: &[UniversalState]) -> Vec<Execution> {
        let executions = states.iter().enumerate().map(|(number, state)| Execution {
            owner: "a".to_owned(),
            name: "etl".to_owned(),
            entry: Some("/a/tasks/etl".to_owned()),
            state: *state,
            id: format!("r{}", 100 - number),
            page: format!("/runs/r{}", 100 - number),
            end_text: String::new(),
            ended_at: 100 - number as u64,
            listed_at: 100 - number as u64,
        });
        executions.collect()
    }

    #[test]
    fn failures_in_a_row_end_at_the_last_success() {
        use UniversalState::{Done, Failed, Halted, Running};
        let of = |states: &[UniversalState]| {
            let found = streak(&executions(states), "a/etl", "/a/tasks/etl");
            found.map(|it| (it.failures, it.is_cut, it.last.0))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[Done, Failed]), None, "it has recovered");
        assert_eq!(of(&[Halted, Running]), None);
        let (last, second) = ("r100".to_owned(), "r99".to_owned());
        assert_eq!(of(&[Failed, Failed, Done, Failed]), Some((2, false, last)));
        assert_eq!(
            of(&[Running, Failed, Halted, Done]),
            Some((1, false, second))
        );
        let all = [Failed; EXECUTIONS as usize];
        assert_eq!(of(&all), Some((EXECUTIONS, true, "r100".to_owned())));
    }
}
