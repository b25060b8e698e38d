//! The same measurement with both stores, in turns.
//!
//! The speed of a shared machine drifts from second to second, so a figure of one store alone says
//! little. Each round measures both, the first one in turn, and the ratios of the rounds have a median.

use std::io::Write as _;
use std::path::Path;

use baton_server::{Backend, STORE_FILE};
use baton_store::postgres::{PostgresStore, ScratchSchema, StoreUrl};
use baton_store::{SqliteStore, Store};
use baton_terminal::output::{CommandResult, Failure, Output};
use baton_terminal::table::Table;
use clap::Args;
use serde::Serialize;

use crate::cluster::BenchDir;

/// Options of a benchmark that can compare the stores.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Compare SQLite with PostgreSQL: the URL of a database without a store, which gets a schema
    /// `baton` for the time of the benchmark
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Rounds of a comparison; each measures both stores, and medians are printed
    #[arg(long, value_name = "N", default_value_t = 3, requires = "store")]
    rounds: usize,
}

/// A store that a benchmark starts its scheduler with.
#[derive(Clone, Debug)]
pub(crate) enum BenchStore {
    /// A file in the data directory.
    Sqlite,
    /// The scratch schema of a database.
    Postgres(String),
}

impl BenchStore {
    /// The value of `--store` of a scheduler.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres(url) => url,
        }
    }

    /// Opens it in this process.
    pub(crate) fn open(&self, data: &Path) -> Result<Box<dyn Store>, Failure> {
        Ok(match self {
            Self::Sqlite => {
                Box::new(SqliteStore::open(&data.join(STORE_FILE)).map_err(Failure::failed)?)
            }
            Self::Postgres(url) => {
                let url = StoreUrl::from(url.as_str());
                Box::new(PostgresStore::connect(&url).map_err(Failure::failed)?)
            }
        })
    }
}

/// A store that can be emptied.
pub(crate) struct Scratch<'a> {
    store: &'a BenchStore,
    schema: &'a ScratchSchema,
}

impl Scratch<'_> {
    /// The store, empty: of a file the caller chooses a new directory.
    pub(crate) fn fresh(&self) -> Result<&BenchStore, Failure> {
        self.schema.clear().map_err(Failure::failed)?;
        Ok(self.store)
    }
}

/// One figure of a benchmark.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: Unit,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    PerSecond,
    Seconds,
    Milliseconds,
    /// CPU time.
    Microseconds,
}

impl Unit {
    const fn word(self) -> &'static str {
        match self {
            Self::PerSecond => "/s",
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Microseconds => "µs",
        }
    }

    /// The speed of `value` relative to the speed of `reference`.
    fn relative_speed(self, value: f64, reference: f64) -> f64 {
        match self {
            Self::PerSecond => value / reference.max(1e-9),
            Self::Seconds | Self::Milliseconds | Self::Microseconds => reference / value.max(1e-9),
        }
    }

    fn show(self, value: f64) -> String {
        let word = self.word();
        match self {
            Self::PerSecond => format!("{value:.0}{word}"),
            Self::Seconds | Self::Milliseconds => format!("{value:.2} {word}"),
            Self::Microseconds => format!("{value:.0} {word}"),
        }
    }
}

#[derive(Debug, Serialize)]
struct Comparison {
    rounds: usize,
    figures: Vec<ComparedFigure>,
}

#[derive(Debug, Serialize)]
struct ComparedFigure {
    name: String,
    unit: Unit,
    /// The medians of all rounds.
    sqlite: f64,
    postgres: f64,
    /// Speed of PostgreSQL relative to SQLite: the median of the rounds' ratios.
    relative_speed: f64,
    relative_speeds: Vec<f64>,
}

impl CompareArgs {
    /// Measures with both stores and prints the result, if a comparison is wanted. `measure` gets a
    /// directory of its own each time.
    pub(crate) fn run(
        &self,
        place: Option<&Path>,
        json: bool,
        measure: impl Fn(&Scratch<'_>, &Path) -> Result<Vec<Figure>, Failure>,
    ) -> Option<CommandResult> {
        let url = self.store.as_deref()?;
        Some(self.compare(url, place, json, measure))
    }

    fn compare(
        &self,
        url: &str,
        place: Option<&Path>,
        json: bool,
        measure: impl Fn(&Scratch<'_>, &Path) -> Result<Vec<Figure>, Failure>,
    ) -> CommandResult {
        let Backend::Postgres(target) =
            url.parse().map_err(|error: String| Failure::usage(error))?
        else {
            let hint = "--store takes the URL of a PostgreSQL database: SQLite is the other side";
            return Err(Failure::usage(hint));
        };
        let dir = BenchDir::new(place)?;
        let schema = ScratchSchema::create(&target).map_err(Failure::failed)?;
        let stores = [BenchStore::Sqlite, BenchStore::Postgres(url.to_owned())];
        let mut rounds = Vec::new();
        for round in 0..self.rounds.max(1) {
            let mut figures = [Vec::new(), Vec::new()];
            // What is left of the first one slows the second one down: they take turns.
            for turn in 0..stores.len() {
                let which = (round + turn) % stores.len();
                let data = dir.path().join(format!("round-{round}-{which}"));
                let scratch = Scratch {
                    store: &stores[which],
                    schema: &schema,
                };
                figures[which] = measure(&scratch, &data)?;
                // Frees the disk space for the next one.
                let _ = std::fs::remove_dir_all(&data);
            }
            rounds.push(figures);
        }
        drop(schema);
        print(json, &summarize(&rounds))
    }
}

/// The medians of rounds of SQLite's and PostgreSQL's figures.
fn summarize(rounds: &[[Vec<Figure>; 2]]) -> Comparison {
    let names = rounds.first().map_or(&[][..], |[sqlite, _]| sqlite);
    let figures = names.iter().enumerate().map(|(at, figure)| {
        let of = |store: usize| rounds.iter().filter_map(move |round| round[store].get(at));
        let values = |store| of(store).map(|it| it.value).collect::<Vec<_>>();
        let (sqlite, postgres) = (values(0), values(1));
        let pairs = postgres.iter().zip(&sqlite);
        let relative_speeds: Vec<f64> = pairs
            .map(|(postgres, sqlite)| figure.unit.relative_speed(*postgres, *sqlite))
            .collect();
        ComparedFigure {
            name: figure.name.clone(),
            unit: figure.unit,
            sqlite: median(sqlite),
            postgres: median(postgres),
            relative_speed: median(relative_speeds.clone()),
            relative_speeds,
        }
    });
    Comparison {
        rounds: rounds.len(),
        figures: figures.collect(),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        even if even % 2 == 0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

fn table(comparison: &Comparison) -> Table {
    let mut table = Table::indented(0);
    table.row(["", "SQLite", "PostgreSQL", "speed"].map(Into::into));
    for figure in &comparison.figures {
        table.row([
            figure.name.clone().into(),
            figure.unit.show(figure.sqlite).into(),
            figure.unit.show(figure.postgres).into(),
            format!("{:.0} %", 100.0 * figure.relative_speed).into(),
        ]);
    }
    table
}

fn print(json: bool, comparison: &Comparison) -> CommandResult {
    let mut out = Output::new();
    if json {
        out.json(comparison)?;
        return out.done();
    }
    table(comparison).print(&mut out)?;
    let rounds = comparison.rounds;
    writeln!(
        out,
        "medians of {rounds} rounds; the speed is PostgreSQL's relative to SQLite's"
    )?;
    out.flush()?;
    out.done()
}
