//! The instances and runs that a command is about: ids as lists print them, ranges, runs, filters.
//!
//! Ids and ranges are sent as they are written. A filter is resolved here, by reading the views: what
//! is counted and confirmed is exactly what is changed, also if more matches meanwhile.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use baton_client::{Client, PageOptions, Span, View};
use baton_model::api::{Instance, InstanceFilter};
use baton_model::ids::{InstanceId, RunId};
use baton_model::state::UniversalState;
use clap::Args;

use super::{filters, list};
use crate::connection::refused;
use crate::ids::{self, IdArg, Target};
use crate::output::{CommandResult, Failure, clean, note};
use crate::text::grouped;

/// Rows of one page while a filter is resolved: the maximum that a scheduler returns.
const PAGE: u64 = 1_000;

/// Instances that a command reads one by one.
pub(super) const EXPANDED_MAX: u64 = 1_000;

/// The confirmation of a change to all instances that match a filter.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filters")]
pub(super) struct ConfirmArgs {
    /// Do not ask whether to change all instances that match
    #[arg(short, long)]
    yes: bool,
}

/// Ids and a filter as they are written on a command line.
pub(super) fn command_line(ids: &[IdArg], filter: &InstanceFilter) -> String {
    let ids = ids.iter().map(|id| id.target.to_string());
    let words: Vec<String> = ids.chain(filters::options(filter)).collect();
    clean(&words.join(" "))
}

/// One thing that a command is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// An instance that was named.
    Instance(InstanceId),
    /// A range that was named, of which a command tells counts.
    Range(Span),
    /// A run that was named.
    Run(RunId),
    /// All instances that match a filter.
    Matches(Matches),
}

/// The instances that match a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Matches {
    pub(super) spans: Vec<Span>,
    pub(super) filter: String,
}

impl Matches {
    pub(super) fn count(&self) -> u64 {
        self.spans.iter().map(|span| span.count()).sum()
    }

    /// `12 instances (name sim)`.
    pub(super) fn describe(&self) -> String {
        format!("{} ({})", instances(self.count()), self.filter)
    }
}

/// `1 instance`, `12 instances`.
pub(super) fn instances(count: u64) -> String {
    match count {
        1 => "1 instance".to_owned(),
        many => format!("{} instances", grouped(many)),
    }
}

/// Resolves ids and a filter. Without ids, all instances in these views that match; with ids, those
/// of them.
pub(super) async fn resolve(
    ids: &[IdArg],
    filter: &InstanceFilter,
    views: &[View],
    client: &Client,
) -> Result<Vec<Unit>, Failure> {
    let unfiltered = *filter == InstanceFilter::default();
    if ids.is_empty() && unfiltered {
        return Err(Failure::usage(
            "name an instance such as i12, a range such as i1..i9, a run such as r3, or a filter \
             such as --name NAME",
        ));
    }
    let targets = check_indices(ids, client).await?;
    if unfiltered {
        return Ok(ids.iter().map(Unit::from).collect());
    }
    let mut within = Vec::new();
    for target in targets {
        match target {
            Target::Instances(span) => within.push(span),
            Target::Run(run) => {
                return Err(Failure::usage(format!(
                    "filters such as --name apply to instances, not to the run {run}"
                )));
            }
        }
    }
    let spans = matching(filter, views, &within, client).await?;
    if spans.is_empty() {
        return Err(Failure::failed(format!(
            "no instance matches ({})",
            filters::describe(filter)
        )));
    }
    let filter = filters::describe(filter);
    Ok(vec![Unit::Matches(Matches { spans, filter })])
}

/// Resolves what to retry. The scheduler itself selects the instances of named ranges by their state,
/// and a filter is about FAILED ones, unless it names a state.
pub(super) async fn resolve_retried(
    ids: &[IdArg],
    filter: &InstanceFilter,
    views: &[View],
    client: &Client,
) -> Result<Vec<Unit>, Failure> {
    let by_scheduler = InstanceFilter::default();
    // A single instance is retried in either state, unless one is named.
    let names_state = filter.state.is_some() && ids.iter().any(|id| !id.is_range);
    if !ids.is_empty() && filter.is_by_state_only() && !names_state {
        return resolve(ids, &by_scheduler, views, client).await;
    }
    let mut filter = filter.clone();
    if filter != by_scheduler {
        filter.state.get_or_insert(UniversalState::Failed);
    }
    resolve(ids, &filter, views, client).await
}

/// Asks before a change of everything that matches a filter, unless ids or `-y` are given.
pub(super) fn confirm(
    verb: &str,
    units: &[Unit],
    ids: &[IdArg],
    confirm: &ConfirmArgs,
) -> CommandResult {
    let [Unit::Matches(matches)] = units else {
        return Ok(());
    };
    if confirm.yes || !ids.is_empty() {
        return Ok(());
    }
    let question = format!("{verb} {}", matches.describe());
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::usage(format!(
            "this would {question}; confirm it with -y"
        )));
    }
    let _ = write!(io::stderr(), "baton: {question}? [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    let yes = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if read.is_ok() && yes {
        Ok(())
    } else {
        Err(Failure::failed("nothing was changed"))
    }
}

/// The instances of named and matching units, one by one, if they are not too many; runs stay what they are.
pub(super) fn expand(units: &[Unit], most: u64) -> Result<Vec<Target>, Failure> {
    let (mut all, mut count) = (Vec::new(), 0);
    for unit in units {
        let single;
        let spans = match unit {
            Unit::Run(run) => {
                all.push(Target::Run(*run));
                continue;
            }
            Unit::Instance(id) => {
                single = [one_of(*id)];
                &single[..]
            }
            Unit::Range(span) => std::slice::from_ref(span),
            Unit::Matches(matches) => &*matches.spans,
        };
        for span in spans {
            count += span.count();
            if count > most {
                return Err(Failure::usage(format!(
                    "more than {} instances; name fewer",
                    grouped(most)
                )));
            }
            let one = |id| Target::Instances(one_of(InstanceId(id)));
            all.extend((span.first.0..=span.last.0).map(one));
        }
    }
    Ok(all)
}

/// The exit code of a command about several units: that of the first failure.
#[derive(Debug, Default)]
pub(super) struct Failures(Option<u8>);

impl Failures {
    /// Prints the message of a failure, and goes on.
    pub(super) fn record<T>(&mut self, result: Result<T, Failure>) -> Result<Option<T>, Failure> {
        let code = match result {
            Ok(value) => return Ok(Some(value)),
            Err(Failure::Closed) => return Err(Failure::Closed),
            Err(Failure::Silent(code)) => code,
            Err(Failure::Message(code, message)) => {
                note(&message);
                code
            }
        };
        self.0.get_or_insert(code);
        Ok(None)
    }

    pub(super) const fn end(self) -> CommandResult {
        match self.0 {
            None => Ok(()),
            Some(code) => Err(Failure::Silent(code)),
        }
    }
}

/// The results of several targets, each printed by itself: as a JSON array, if that is wanted, with
/// null in place of one that has failed.
pub(super) struct Sequence {
    array: bool,
    begun: usize,
    failures: Failures,
}

impl Sequence {
    pub(super) fn new(array: bool) -> Self {
        Self {
            array,
            begun: 0,
            failures: Failures::default(),
        }
    }

    /// Call it before each result.
    pub(super) fn begin(&mut self) -> CommandResult {
        self.begun += 1;
        self.print(if self.begun == 1 { "[" } else { "," })
    }

    /// Call it after each result.
    pub(super) fn record(&mut self, result: CommandResult) -> CommandResult {
        match self.failures.record(result)? {
            Some(()) => Ok(()),
            None => self.print("null"),
        }
    }

    pub(super) fn end(self) -> CommandResult {
        self.print("]")?;
        self.failures.end()
    }

    fn print(&self, text: &str) -> CommandResult {
        if self.array {
            writeln!(io::stdout(), "{text}")?;
        }
        Ok(())
    }
}

impl From<&IdArg> for Unit {
    fn from(id: &IdArg) -> Self {
        match id.target {
            Target::Instances(span) if id.is_range => Self::Range(span),
            Target::Instances(span) => Self::Instance(span.first),
            Target::Run(run) => Self::Run(run),
        }
    }
}

/// The range of one instance.
pub(super) const fn one_of(id: InstanceId) -> Span {
    Span {
        first: id,
        last: id,
    }
}

/// Checks that `i1523[3]` has that index: the number before the bracket is an instance, not its array.
pub(super) async fn check_indices(ids: &[IdArg], client: &Client) -> Result<Vec<Target>, Failure> {
    for id in ids {
        let (Some(index), Target::Instances(span)) = (id.index, id.target) else {
            continue;
        };
        let instance = client.instance(span.first).await.map_err(refused)?;
        if instance.array_index != Some(index) {
            return Err(Failure::usage(wrong_index(span.first, index, &instance)));
        }
    }
    Ok(ids.iter().map(|id| id.target).collect())
}

fn wrong_index(id: InstanceId, index: u64, instance: &Instance) -> String {
    match instance.array_index {
        None => format!("{id} is no element of an array; write {id}"),
        Some(found) => {
            let distance = i128::from(index) - i128::from(found);
            let meant = u64::try_from(i128::from(id.0) + distance).ok();
            let hint = meant.map_or_else(String::new, |meant| {
                format!("; of an array without gaps, index {index} is i{meant}")
            });
            format!("{id} has the index {found}, not {index}{hint}")
        }
    }
}

/// The instances in these views that match, and are within the given ranges if there are any.
async fn matching(
    filter: &InstanceFilter,
    views: &[View],
    within: &[Span],
    client: &Client,
) -> Result<Vec<Span>, Failure> {
    let options = PageOptions {
        limit: Some(PAGE),
        ..PageOptions::default()
    };
    let mut found = Vec::new();
    for view in views {
        if filter
            .state
            .is_some_and(|state| list::view_of(state) != Some(*view))
        {
            continue;
        }
        let mut pages = client.view(*view, filter, &options);
        while let Some(page) = pages.next().await.map_err(refused)? {
            for row in &page.items {
                found.push(row_of(row)?);
            }
        }
    }
    Ok(merge(found, within))
}

/// The ids of a row, its submission time, and the index of its first element.
fn row_of(row: &Instance) -> Result<(Span, u64, Option<u64>), Failure> {
    let read = |text: &str| {
        ids::instance(text).map_err(|_| {
            let text = format!("the scheduler returned an invalid id, `{}`", clean(text));
            Failure::Message(crate::connection::REFUSED, text)
        })
    };
    let first = read(&row.id)?;
    let last = row.last.as_deref().map_or(Ok(first), read)?;
    Ok((Span { first, last }, row.submitted_at, row.array_index))
}

/// Sorts rows by id, joins neighbours of one array, and cuts them to the given ranges. Only elements
/// of one array are joined: a token that is limited to an owner may not name more.
fn merge(mut rows: Vec<(Span, u64, Option<u64>)>, within: &[Span]) -> Vec<Span> {
    rows.sort_unstable_by_key(|(span, ..)| span.first);
    rows.dedup_by_key(|(span, ..)| span.first);
    let mut spans: Vec<(Span, u64, Option<u64>)> = Vec::new();
    for (span, submitted, index) in rows {
        if let Some((last, at, Some(from))) = spans.last_mut()
            && last.last.next() == span.first
            && *at == submitted
            && index == Some(*from + last.count())
        {
            last.last = span.last;
        } else {
            spans.push((span, submitted, index));
        }
    }
    let spans = spans.into_iter().map(|(span, ..)| span);
    if within.is_empty() {
        return spans.collect();
    }
    let cut = |span: Span| {
        within.iter().filter_map(move |range| {
            let first = span.first.max(range.first);
            let last = span.last.min(range.last);
            (first <= last).then_some(Span { first, last })
        })
    };
    spans.flat_map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first: u64, last: u64) -> Span {
        Span {
            first: InstanceId(first),
            last: InstanceId(last),
        }
    }

    #[test]
    fn neighbours_of_one_array_are_one_range() {
        let rows = vec![
            (span(7, 7), 5, Some(3)),
            (span(6, 6), 5, Some(2)),
            (span(8, 8), 5, Some(0)),
            (span(10, 20), 6, None),
            (span(1, 1), 4, None),
            (span(2, 2), 4, None),
        ];
        let all = [span(1, 1), span(2, 2), span(6, 7), span(8, 8), span(10, 20)];
        assert_eq!(merge(rows.clone(), &[]), all);
        assert_eq!(
            merge(rows, &[span(2, 6), span(12, 99)]),
            [span(2, 2), span(6, 6), span(12, 20)]
        );
    }

    #[test]
    fn a_range_is_read_one_by_one_up_to_a_limit() {
        let units = [Unit::Range(span(1, 3)), Unit::Run(RunId(4))];
        let expanded = expand(&units, 4).expect("few");
        assert_eq!(expanded.len(), 4);
        assert_eq!(expanded[2], Target::Instances(span(3, 3)));
        assert!(expand(&[Unit::Range(span(1, 1_001))], 1_000).is_err());
    }

    #[test]
    fn an_index_belongs_to_its_instance() {
        let mut element = crate::views::rows::tests::fresh("i1523");
        element.array_index = Some(3);
        assert_eq!(
            wrong_index(InstanceId(1_523), 5, &element),
            "i1523 has the index 3, not 5; of an array without gaps, index 5 is i1525"
        );
    }
}
