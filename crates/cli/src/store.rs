//! `baton store`: check, back up, restore and copy the store of a scheduler.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_server::{Backend, DataLock, STORE_FILE};
use baton_store::check::check;
use baton_store::postgres::{PostgresStore, StoreUrl};
use baton_store::sharing::Sharing;
use baton_store::transfer::{TableDigest, Transferable, copy, digests};
use baton_store::{FactLog as _, SqliteStore, data_dir};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::output::{CommandResult, FAILED, Failure, Output, note};
use crate::text::count;

/// Check, back up, restore and copy the store of a scheduler
#[derive(Debug, Args)]
pub(crate) struct Store {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    Check(Check),
    Backup(Backup),
    Restore(Restore),
    Copy(Copy),
}

/// The store that a command is about.
#[derive(Debug, Args)]
struct StoreArgs {
    /// Data directory of the scheduler
    #[arg(long, value_name = "DIR", default_value = ".baton")]
    data: PathBuf,
    /// PostgreSQL database of the schedulers, postgres://USER@HOST/DATABASE, instead of a directory
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    store: Option<String>,
}

impl StoreArgs {
    fn place(&self) -> Result<Place, Failure> {
        match &self.store {
            Some(url) => Place::parse(url),
            None => Ok(Place::Directory(self.data.clone())),
        }
    }
}

/// Check a store: its rows against each other, and against its history
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  baton store check --data /var/lib/baton

The scheduler must not run. Exits with 1 if the store contradicts itself.")]
struct Check {
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Back up a store into a new file, also while schedulers use it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton store backup /backup/baton-monday.db --data /var/lib/baton
  baton store backup /backup/baton-monday.db --store postgres://baton@db/baton

The file is a SQLite store of one instant. It holds commands and environments: keep it private.")]
struct Backup {
    /// File to create
    file: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Restore a store from a backup
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  baton store restore /backup/baton-monday.db --data /var/lib/baton --replace

The scheduler must not run. After the restore it recognises that the store is older than what workers
have seen: it places nothing for one lease, disowns what the backup does not know, and tells what it was
(docs/operation.md).")]
struct Restore {
    /// Backup, as `baton store backup` has written it
    file: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
    /// Replace a store that exists in the data directory; it is kept under another name
    #[arg(long)]
    replace: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Copy a store to another place, between SQLite and PostgreSQL in either direction
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton store copy /var/lib/baton postgres://baton@db/baton
  baton store copy postgres://baton@db/baton /var/lib/baton

No scheduler may use either of them. The copy is compared with the original, row by row.")]
struct Copy {
    /// Data directory, or URL of a PostgreSQL database
    from: String,
    /// Data directory without a store, or URL of an empty database
    to: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &Store) -> CommandResult {
    match &command.command {
        StoreCommand::Check(command) => check_store(command),
        StoreCommand::Backup(command) => backup(command),
        StoreCommand::Restore(command) => restore(command),
        StoreCommand::Copy(command) => copy_store(command),
    }
}

/// A place for a store.
#[derive(Debug)]
enum Place {
    Directory(PathBuf),
    Database(StoreUrl),
}

impl Place {
    fn parse(text: &str) -> Result<Self, Failure> {
        if !StoreUrl::is_one(text) {
            return Ok(Self::Directory(PathBuf::from(text)));
        }
        match text
            .parse()
            .map_err(|error: String| Failure::usage(error))?
        {
            Backend::Postgres(url) => Ok(Self::Database(url)),
            _ => Ok(Self::Directory(PathBuf::from(text))),
        }
    }

    /// Opens a store that exists.
    fn open(&self) -> Result<OpenStore, Failure> {
        match self {
            Self::Directory(data) => {
                let path = data.join(STORE_FILE);
                if !path.exists() {
                    let none = format!("{} has no store; check the directory", data.display());
                    return Err(Failure::failed(none));
                }
                data_dir::check(data).map_err(Failure::failed)?;
                OpenStore::file(&path)
            }
            Self::Database(url) => OpenStore::database(url),
        }
    }
}

/// An open store.
enum OpenStore {
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
}

impl OpenStore {
    fn file(path: &Path) -> Result<Self, Failure> {
        let store = SqliteStore::open(path).map_err(Failure::failed)?;
        Ok(Self::Sqlite(store))
    }

    fn database(url: &StoreUrl) -> Result<Self, Failure> {
        let store = PostgresStore::connect(url).map_err(Failure::failed)?;
        Ok(Self::Postgres(store))
    }

    fn sharing(&self) -> Option<&dyn Sharing> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(store) => store.sharing(),
        }
    }

    fn transferable(&self) -> &dyn Transferable {
        match self {
            Self::Sqlite(store) => store,
            Self::Postgres(store) => store,
        }
    }
}

/// Keeps schedulers away from a store while it is open.
enum Exclusive {
    Directory(#[expect(dead_code, reason = "released on drop")] DataLock),
    /// The session of the store that is open leads.
    Session,
}

/// Opens a store that no scheduler uses.
fn open_exclusively(place: &Place) -> Result<(OpenStore, Exclusive), Failure> {
    match place {
        Place::Directory(data) => {
            if !data.join(STORE_FILE).exists() {
                let none = format!("{} has no store; check the directory", data.display());
                return Err(Failure::failed(none));
            }
            let lock = DataLock::take(data).map_err(Failure::failed)?;
            Ok((place.open()?, Exclusive::Directory(lock)))
        }
        Place::Database(_) => {
            let opened = place.open()?;
            hold_session(&opened)?;
            Ok((opened, Exclusive::Session))
        }
    }
}

fn hold_session(opened: &OpenStore) -> Result<(), Failure> {
    let OpenStore::Postgres(store) = opened else {
        return Ok(());
    };
    let sharing = store.sharing();
    let vacant = sharing.map_or(Ok(true), |it| it.await_vacancy(Duration::from_millis(1)));
    if vacant.map_err(Failure::failed)? {
        Ok(())
    } else {
        let place = store.place();
        let used = format!("a scheduler uses {place}; stop all schedulers first");
        Err(Failure::failed(used))
    }
}

fn check_store(command: &Check) -> CommandResult {
    let (opened, _exclusive) = open_exclusively(&command.store.place()?)?;
    if let OpenStore::Sqlite(store) = &opened {
        store.check().map_err(Failure::failed)?;
    }
    let report = match &opened {
        OpenStore::Sqlite(store) => check(store),
        OpenStore::Postgres(store) => check(store),
    };
    let report = report.map_err(Failure::failed)?;
    let mut out = Output::new();
    if command.json {
        out.json(&json!({
            "instances": report.instances,
            "facts": report.facts,
            "replayed": report.replayed,
            "contradictions": report.contradictions,
        }))?;
    } else {
        for sentence in &report.contradictions {
            writeln!(out, "{sentence}")?;
        }
        let result = if report.replayed {
            "its rows are what its history adds up to"
        } else {
            "a part of its history was removed, so its rows were compared with each other only"
        };
        let instances = count(report.instances, "instance", "instances");
        let facts = count(report.facts, "fact", "facts");
        writeln!(out, "{instances}, {facts}; {result}")?;
    }
    out.done()?;
    if report.contradictions.is_empty() {
        return Ok(());
    }
    let place = opened.transferable().place();
    let hint = format!("{place} contradicts itself; keep it, and restore a backup");
    Err(Failure::Message(FAILED, hint))
}

fn backup(command: &Backup) -> CommandResult {
    let opened = command.store.place()?.open()?;
    let file = &command.file;
    let failed = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::AlreadyExists => "; a backup replaces no file: name a new one",
            _ => "",
        };
        Failure::failed(format!("{}: {error}{hint}", file.display()))
    };
    // Private from the beginning, and never over a file that exists.
    let mut options = OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o600).open(file);
    drop(made.map_err(failed)?);
    let copied = OpenStore::file(file).and_then(|target| {
        let copied = copy_all(opened.transferable(), target.transferable())?;
        drop(target);
        let synced = File::open(file).and_then(|file| file.sync_all());
        synced.map_err(failed)?;
        Ok(copied)
    });
    let copied = copied.inspect_err(|_| remove_store(file))?;
    report(&copied, &file.display().to_string(), command.json)
}

/// Removes a file that is no complete store, and what SQLite keeps beside it.
fn remove_store(file: &Path) {
    for end in ["", "-wal", "-shm"] {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        // What cannot be removed is not a backup either; the error says so.
        let _ = fs::remove_file(name);
    }
}

fn restore(command: &Restore) -> CommandResult {
    if !command.file.exists() {
        let none = format!("{} does not exist", command.file.display());
        return Err(Failure::failed(none));
    }
    match command.store.place()? {
        Place::Database(url) => {
            let source = OpenStore::file(&command.file)?;
            let target = OpenStore::database(&url)?;
            hold_session(&target)?;
            let copied = copy_all(source.transferable(), target.transferable())?;
            if let Some(sharing) = target.sharing() {
                sharing.mark_restored().map_err(Failure::failed)?;
            }
            note_wait();
            report(&copied, target.transferable().place(), command.json)
        }
        Place::Directory(data) => {
            let _lock = DataLock::take(&data).map_err(Failure::failed)?;
            let path = data.join(STORE_FILE);
            if path.exists() {
                set_aside(&path, command.replace)?;
            }
            let restored = restore_file(&command.file, &path);
            let restored = restored.inspect_err(|_| remove_store(&path))?;
            note_wait();
            report(&restored, &path.display().to_string(), command.json)
        }
    }
}

/// Copies a backup, which may be older than the schema of this Baton, and opens the copy: the backup
/// itself stays as it is.
fn restore_file(backup: &Path, path: &Path) -> Result<Vec<TableDigest>, Failure> {
    let failed = |error: io::Error| Failure::failed(format!("{}: {error}", path.display()));
    let mut options = OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o600).open(path);
    let mut target = made.map_err(failed)?;
    let source = File::open(backup);
    let mut source =
        source.map_err(|error| Failure::failed(format!("{}: {error}", backup.display())))?;
    io::copy(&mut source, &mut target).map_err(failed)?;
    target.sync_all().map_err(failed)?;
    drop(target);
    let store = SqliteStore::open(path).map_err(Failure::failed)?;
    store.check().map_err(Failure::failed)?;
    digests(&store).map_err(Failure::failed)
}

/// Renames a store that is about to be replaced.
fn set_aside(path: &Path, replace: bool) -> CommandResult {
    let place = path.display();
    if !replace {
        let exists = format!("{place} exists; add --replace to keep it under another name");
        return Err(Failure::failed(exists));
    }
    // Closing it moves everything from the WAL into the file.
    drop(OpenStore::file(path)?);
    let free = (1..).find_map(|number| {
        let aside = path.with_extension(format!("db.replaced-{number}"));
        (!aside.exists()).then_some(aside)
    });
    let aside = free.ok_or_else(|| Failure::failed("no name is free"))?;
    fs::rename(path, &aside).map_err(|error| Failure::failed(format!("{place}: {error}")))?;
    remove_store(path);
    note(&format!("the store that was there is {}", aside.display()));
    Ok(())
}

fn copy_store(command: &Copy) -> CommandResult {
    let (from, to) = (Place::parse(&command.from)?, Place::parse(&command.to)?);
    let (source, _from) = open_exclusively(&from)?;
    let (target, _to) = match &to {
        Place::Directory(data) => {
            let lock = DataLock::take(data).map_err(Failure::failed)?;
            let target = OpenStore::file(&data.join(STORE_FILE))?;
            (target, Exclusive::Directory(lock))
        }
        Place::Database(url) => {
            let target = OpenStore::database(url)?;
            hold_session(&target)?;
            (target, Exclusive::Session)
        }
    };
    let copied = copy_all(source.transferable(), target.transferable())?;
    // Only a directory has a mark that tells a copy; the other store is not known to be one.
    if let Place::Directory(_) = to {
        note_wait();
    }
    report(&copied, target.transferable().place(), command.json)
}

/// Tells that a scheduler recognises the copy.
fn note_wait() {
    note(
        "a scheduler that starts with this copy places nothing for a lease time (its --lost-after), \
         because attempts that the copy does not know may be running",
    );
}

fn copy_all(from: &dyn Transferable, to: &dyn Transferable) -> Result<Vec<TableDigest>, Failure> {
    copy(from, to, &mut |_, _| {}).map_err(Failure::failed)
}

fn report(copied: &[TableDigest], to: &str, is_json: bool) -> CommandResult {
    let mut out = Output::new();
    if is_json {
        let tables: Vec<_> = copied
            .iter()
            .map(|it| json!({"table": it.table, "rows": it.rows, "sha256": it.digest}))
            .collect();
        out.json(&json!({"to": to, "tables": tables}))?;
    } else {
        let rows: u64 = copied.iter().map(|it| it.rows).sum();
        let tables = copied.len();
        writeln!(out, "{to}: {rows} rows in {tables} tables")?;
    }
    out.done()
}
