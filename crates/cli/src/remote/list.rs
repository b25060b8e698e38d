//! `baton bullpen`, `arena` and `history`: lists of queued, running and ended instances.

use std::io::Write;

use baton_client::{Client, PageOptions, View};
use baton_model::api::{Instance, InstanceFilter, WaitGroup};
use baton_model::state::UniversalState;
use clap::Args;

use super::filters::InstanceFilterArgs;
use crate::connection::refused;
use crate::output::{CommandResult, Failure, Output, Style, clean, note};
use crate::table::{Cell, Table};
use crate::text::{count, grouped};
use crate::time::now;
use crate::views::rows;

/// Default number of rows.
const ROWS: u64 = 50;
/// Rows per request.
const PAGE: u64 = 500;

/// Filter and output options.
#[derive(Debug, Args)]
struct ListArgs {
    /// Maximum number of rows
    #[arg(short = 'n', long, value_name = "N", default_value_t = ROWS)]
    number: u64,
    /// Print all rows
    #[arg(long, conflicts_with = "number")]
    all: bool,
    #[command(flatten)]
    filter: InstanceFilterArgs,
    /// Order of the rows: submitted, or -submitted for the latest first
    #[arg(long, value_name = "ORDER", allow_hyphen_values = true)]
    sort: Option<String>,
    /// Print a JSON array of instances, in the API's format
    #[arg(long)]
    json: bool,
}

/// Ended instances have orders of their own.
const HISTORY_ORDERS: &str = "Order of the rows: -ended, or ended for the oldest first";

/// List queued instances (the bullpen)
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton bullpen
  baton bullpen --reasons            what waits, and for what: a row for each reason
  baton bullpen --owner analytics --all --json | jq '.[].id'
  baton explain i12                  why an instance is queued")]
pub(crate) struct Bullpen {
    /// One row for each reason to wait, with the number of instances: of all, or of an --owner
    #[arg(long)]
    reasons: bool,
    #[command(flatten)]
    args: ListArgs,
}

/// List instances that are launched or running on workers (the arena)
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton arena
  baton arena --name nightly-report --json
  baton arena --worker w1 --until 6h          what has run for more than six hours there")]
pub(crate) struct Arena {
    #[command(flatten)]
    args: ListArgs,
}

/// List ended instances
#[derive(Debug, Args)]
#[command(mut_arg("sort", |sort| sort.help(HISTORY_ORDERS)))]
#[command(after_help = "\
Examples:
  baton history -n 10
  baton history --state FAILED --owner analytics --since 1d
  baton history --since '2026-11-01 06:00' --until 2026-11-02 --sort ended
  baton history --all --json > history.json")]
pub(crate) struct History {
    #[command(flatten)]
    args: ListArgs,
}

/// Parses any state; the scheduler decides which view it belongs to.
pub(super) fn state(text: &str) -> Result<UniversalState, String> {
    let wanted = text.to_ascii_uppercase();
    let mut all = UniversalState::ALL.iter();
    all.find(|state| state.word() == wanted)
        .copied()
        .ok_or_else(|| {
            let listed = UniversalState::ALL
                .iter()
                .filter(|it| view_of(**it).is_some());
            let words: Vec<&str> = listed.map(|it| it.word()).collect();
            format!("expected one of: {}", words.join(", "))
        })
}

/// The view that has the instances in this state.
pub(super) const fn view_of(state: UniversalState) -> Option<View> {
    use UniversalState as S;
    match state {
        S::Queued => Some(View::Bullpen),
        S::Launched | S::Running => Some(View::Arena),
        S::Done | S::Failed | S::Halted | S::Aborted => Some(View::History),
        S::Registering | S::Instantiating | S::Triaging => None,
    }
}

pub(super) async fn bullpen(command: &Bullpen, client: &Client) -> CommandResult {
    if command.reasons {
        return reasons(&command.args, client).await;
    }
    list(View::Bullpen, &command.args, client).await
}

/// Columns of [`wait_group`].
pub(super) const WAIT_GROUP: &[&str] = &["COUNT", "FIRST", "REASON"];

/// A row for instances that wait for the same.
pub(super) fn wait_group(group: &WaitGroup) -> Vec<Cell> {
    vec![
        Cell::from(grouped(group.count)),
        Cell::new(clean(&group.first), Style::Strong),
        clean(&group.text).into(),
    ]
}

async fn reasons(args: &ListArgs, client: &Client) -> CommandResult {
    let filter = args.filter.filter();
    let by_owner = InstanceFilter {
        owner: filter.owner.clone(),
        ..InstanceFilter::default()
    };
    if filter != by_owner {
        return Err(Failure::usage(
            "--reasons counts all that waits, or all of an --owner; other filters do not apply",
        ));
    }
    let owner = filter.owner.as_deref();
    let (groups, total) = client.wait_groups(owner).await.map_err(refused)?;
    let mut out = Output::new();
    if args.json {
        out.json(&groups)?;
        return out.done();
    }
    if groups.is_empty() {
        note(&empty_notice(View::Bullpen, &filter));
        return Ok(());
    }
    let mut table = Table::headed(WAIT_GROUP);
    for group in &groups {
        table.row(wait_group(group));
    }
    table.print(&mut out)?;
    out.done()?;
    let counted: u64 = groups.iter().map(|group| group.count).sum();
    if counted < total {
        let others = count(total - counted, "other instance", "other instances");
        note(&format!(
            "{others} of small classes: see `baton explain ID`"
        ));
    }
    Ok(())
}

pub(super) async fn arena(command: &Arena, client: &Client) -> CommandResult {
    list(View::Arena, &command.args, client).await
}

pub(super) async fn history(command: &History, client: &Client) -> CommandResult {
    list(View::History, &command.args, client).await
}

async fn list(view: View, args: &ListArgs, client: &Client) -> CommandResult {
    let most = if args.all { u64::MAX } else { args.number };
    let filter = args.filter.filter();
    let options = PageOptions {
        sort: args.sort.clone(),
        limit: Some(most.clamp(1, PAGE)),
        reasons: view == View::Bullpen,
    };
    let mut pages = client.view(view, &filter, &options);
    let mut printer = Printer::new(view, args.json);
    let (mut left, mut total, mut more) = (most, None, false);
    while left > 0
        && let Some(mut page) = pages.next().await.map_err(refused)?
    {
        let last = !page.links.contains_key("next");
        let room = usize::try_from(left).unwrap_or(usize::MAX);
        more = page.items.len() > room || !last;
        page.items.truncate(room);
        total = page.total.or(total);
        left -= u64::try_from(page.items.len()).unwrap_or(left);
        printer.page(&page.items)?;
        if last {
            break;
        }
    }
    let printed = printer.finish()?;
    if args.json {
        return Ok(());
    }
    match (printed, more && !args.all) {
        (0, false) => note(&empty_notice(view, &filter)),
        (printed, true) => note(&truncated_notice(printed, total)),
        _ => {}
    }
    Ok(())
}

fn empty_notice(view: View, filter: &InstanceFilter) -> String {
    if *filter == InstanceFilter::default() {
        format!("the {} is empty", view.into_str())
    } else {
        format!("no instance in the {} matches", view.into_str())
    }
}

fn truncated_notice(printed: u64, total: Option<u64>) -> String {
    let printed = count(printed, "row", "rows");
    match total {
        Some(total) => format!(
            "{printed} of {}; show more with -n N or --all",
            count(total, "instance", "instances")
        ),
        None => format!("{printed}, and there are more; show more with -n N or --all"),
    }
}

/// Prints page by page: a history may not fit into memory.
struct Printer {
    out: Output,
    view: View,
    json: bool,
    printed: u64,
}

impl Printer {
    fn new(view: View, json: bool) -> Self {
        Self {
            out: Output::new(),
            view,
            json,
            printed: 0,
        }
    }

    fn page(&mut self, items: &[Instance]) -> CommandResult {
        let before = self.printed;
        self.printed += u64::try_from(items.len()).unwrap_or_default();
        if !self.json {
            let mut table = match before {
                0 if items.is_empty() => return Ok(()),
                0 if self.view == View::Bullpen => Table::headed(rows::QUEUED),
                0 => Table::headed(rows::INSTANCE),
                _ => Table::default(),
            };
            let now = now();
            for item in items {
                table.row(match self.view {
                    View::Bullpen => rows::queued(item, now),
                    View::Arena | View::History => rows::instance(item, now),
                });
            }
            return Ok(table.print(&mut self.out)?);
        }
        for (index, item) in items.iter().enumerate() {
            let first = before == 0 && index == 0;
            write!(self.out, "{}", if first { "[\n" } else { ",\n" })?;
            serde_json::to_writer(&mut self.out, item)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<u64, Failure> {
        if self.json {
            writeln!(self.out, "{}", if self.printed == 0 { "[]" } else { "\n]" })?;
        }
        self.out.done()?;
        Ok(self.printed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_in_any_case() {
        assert_eq!(state("failed"), Ok(UniversalState::Failed));
        assert_eq!(state("QUEUED"), Ok(UniversalState::Queued));
        let error = state("x").expect_err("no state");
        let listed = "QUEUED, LAUNCHED, RUNNING, DONE, FAILED, HALTED, ABORTED";
        assert_eq!(error, format!("expected one of: {listed}"));
    }

    #[test]
    fn what_is_not_shown_is_told() {
        assert_eq!(
            truncated_notice(50, Some(12_345)),
            "50 rows of 12,345 instances; show more with -n N or --all"
        );
        assert_eq!(
            truncated_notice(1, Some(2)),
            "1 row of 2 instances; show more with -n N or --all"
        );
        assert_eq!(
            empty_notice(View::Arena, &InstanceFilter::default()),
            "the arena is empty"
        );
        let filter = InstanceFilter {
            owner: Some("x".to_owned()),
            ..InstanceFilter::default()
        };
        assert_eq!(
            empty_notice(View::History, &filter),
            "no instance in the history matches"
        );
    }
}
