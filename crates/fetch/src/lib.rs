//! `baton __fetch FILE -- ARGV…`: hidden command that fetches files into the current directory,
//! then executes the command.
//!
//! It is the first process of an attempt and runs as its user, so an error is the attempt's, with
//! its cause on standard error. A file gets its final name only when it is complete, its checksum
//! matches and it is unpacked. Names have no path: nothing is written outside the current directory
//! and the user's cache.
//!
//! | module | holds |
//! |---|---|
//! | `sink` | a file that is being written, with its checksum and its limit |
//! | `source` | `file:`, `http:` and `https:` |
//! | `cache` | files by checksum, shared by the attempts of one user on one worker |
//! | `unpack` | archives and compressed files |

mod cache;
mod sink;
mod source;
mod unpack;

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use baton_agent::FetchList;
use baton_model::json;
use baton_model::spec::Uri;

use cache::Cache;
use sink::Sink;
use source::Source;

/// Exit status if a file cannot be fetched: EX_IOERR of sysexits.h.
const NOT_FETCHED: i32 = 74;
/// Exit status if the command cannot be executed, as shells use it.
const NOT_RUN: i32 = 127;

/// Fetches the files and executes the command; returns only on failure.
#[must_use]
pub fn main(args: &[String]) -> i32 {
    let [list, dashes, argv @ ..] = args else {
        return usage();
    };
    let Some((program, rest)) = argv.split_first().filter(|_| dashes == "--") else {
        return usage();
    };
    let cwd = match fetch_all(list) {
        Ok(cwd) => cwd,
        Err(text) => {
            eprintln!("baton: {text}");
            return NOT_FETCHED;
        }
    };
    let mut command = Command::new(program);
    if let Some(cwd) = &cwd
        && let Err(error) = std::env::set_current_dir(cwd)
    {
        eprintln!("baton: cannot enter `{}`: {error}", cwd.display());
        return NOT_RUN;
    }
    let error = command.args(rest).exec();
    eprintln!("baton: cannot run {program}: {error}");
    NOT_RUN
}

fn usage() -> i32 {
    eprintln!("baton: internal command, started by a worker only");
    2
}

/// Fetches all files; returns the directory of the command, if it has one of its own.
fn fetch_all(path: &str) -> Result<Option<PathBuf>, String> {
    let list: FetchList = fs::read(path)
        .and_then(|bytes| Ok(json::from_slice(&bytes)?))
        .map_err(|error| format!("cannot read the list of files to fetch, {path}: {error}"))?;
    let source = Source::new(list.ca.as_deref());
    let cache = list
        .cache
        .map(|cache| Cache::new(&cache.dir, cache.bytes_max));
    for uri in &list.uris {
        fetch(uri, &source, cache.as_ref())
            .map_err(|reason| format!("cannot fetch {}: {reason}", uri.from))?;
    }
    Ok(list.cwd)
}

fn fetch(uri: &Uri, source: &Source, cache: Option<&Cache>) -> Result<(), String> {
    let name = &*uri.name;
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return Err(format!("`{name}` is not a plain file name"));
    }
    let temporary = format!(".baton-fetching-{name}");
    let temporary = Path::new(&temporary);
    remove(temporary).map_err(|error| error.to_string())?;
    let cached = match (cache, &uri.sha256) {
        (Some(cache), Some(sum)) => cache.copy(sum, uri.size_max(), temporary)?,
        _ => false,
    };
    if !cached {
        download(uri, source, temporary)?;
        if let (Some(cache), Some(sum)) = (cache, &uri.sha256) {
            // The attempt has its file; the cache only saves the next one some time.
            if let Err(error) = cache.add(sum, temporary) {
                eprintln!("baton: {} is not cached: {error}", uri.from);
            }
        }
    }
    if uri.unpack {
        let unpacked = unpack::unpack(temporary, Path::new(name), uri.size_max());
        let removed = fs::remove_file(temporary).map_err(|error| error.to_string());
        let made = unpacked.map_err(|reason| format!("it cannot be unpacked: {reason}"))?;
        removed?;
        if !made.is_file() {
            return Ok(());
        }
    } else {
        fs::rename(temporary, name).map_err(|error| error.to_string())?;
    }
    let mode = if uri.executable { 0o755 } else { 0o644 };
    fs::set_permissions(name, Permissions::from_mode(mode)).map_err(|error| error.to_string())
}

/// Downloads a file, and verifies its checksum.
fn download(uri: &Uri, source: &Source, to: &Path) -> Result<(), String> {
    let file = File::create_new(to).map_err(|error| error.to_string())?;
    let mut sink = Sink::new(file, uri.size_max());
    source.read(&uri.from, &mut sink)?;
    let found = sink.sum();
    if let Some(wanted) = &uri.sha256
        && !wanted.eq_ignore_ascii_case(&found)
    {
        // It must not be taken for the expected file.
        let _ = fs::remove_file(to);
        return Err(format!("its SHA-256 is {found}, expected {wanted}"));
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
