//! `baton __fetch FILE -- ARGV…`: hidden command that fetches files into the current directory,
//! then executes the command.
//!
//! A file gets its final name only when it is complete and its checksum matches. Names have no
//! path: nothing is written outside the current directory.

use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use baton_model::spec::Uri;
use baton_tls::ClientFiles;
use sha2::{Digest as _, Sha256};

use crate::runtime;

/// Limit of the total size of all files, in bytes.
const BYTES_MAX: u64 = 1 << 30;
/// Exit status if a file cannot be fetched: EX_IOERR of sysexits.h.
const NOT_FETCHED: i32 = 74;
/// Exit status if the command cannot be executed, as shells use it.
const NOT_RUN: i32 = 127;
/// Timeout of a connection attempt, and of each read.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Fetches the files and executes the command; returns only on failure.
pub(crate) fn main(args: &[String]) -> i32 {
    let [list, dashes, argv @ ..] = args else {
        return usage();
    };
    let Some((program, rest)) = argv.split_first().filter(|_| dashes == "--") else {
        return usage();
    };
    if let Err(text) = fetch_all(list) {
        eprintln!("baton: {text}");
        return NOT_FETCHED;
    }
    let error = Command::new(program).args(rest).exec();
    eprintln!("baton: cannot run {program}: {error}");
    NOT_RUN
}

fn usage() -> i32 {
    eprintln!("baton: internal command, started by a worker only");
    2
}

fn fetch_all(list: &str) -> Result<(), String> {
    let uris: Vec<Uri> = fs::read(list)
        .and_then(|bytes| Ok(serde_json::from_slice(&bytes)?))
        .map_err(|error| format!("cannot read the list of files to fetch, {list}: {error}"))?;
    let mut left = BYTES_MAX;
    for uri in &uris {
        fetch(uri, &mut left).map_err(|why| format!("cannot fetch {}: {why}", uri.from))?;
    }
    Ok(())
}

fn fetch(uri: &Uri, left: &mut u64) -> Result<(), String> {
    let name = &*uri.name;
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return Err(format!("`{name}` is not a plain file name"));
    }
    let url = reqwest::Url::parse(&uri.from).map_err(|error| error.to_string())?;
    let temporary = format!(".baton-fetching-{name}");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.to_string()),
        _ => {}
    }
    let file = File::create_new(&temporary).map_err(|error| error.to_string())?;
    let mut sink = Sink {
        file,
        hash: Sha256::new(),
        left,
    };
    match url.scheme() {
        "file" => from_file(&url, &mut sink)?,
        "http" => from_http(url, &mut sink)?,
        other => {
            return Err(format!(
                "the scheme `{other}:` is not supported; use file: or http:"
            ));
        }
    }
    let Sink { file, hash, .. } = sink;
    let found = format!("{:x}", hash.finalize());
    if let Some(wanted) = &uri.sha256
        && !wanted.eq_ignore_ascii_case(&found)
    {
        // It must not be taken for the expected file.
        let _ = fs::remove_file(&temporary);
        return Err(format!("its SHA-256 is {found}, expected {wanted}"));
    }
    let mode = if uri.executable { 0o755 } else { 0o644 };
    file.set_permissions(Permissions::from_mode(mode))
        .and_then(|()| fs::rename(&temporary, name))
        .map_err(|error| error.to_string())
}

struct Sink<'a> {
    file: File,
    hash: Sha256,
    left: &'a mut u64,
}

impl Sink<'_> {
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let left = self.left.checked_sub(bytes.len() as u64);
        *self.left = left.ok_or_else(|| format!("the files exceed {BYTES_MAX} bytes in total"))?;
        self.hash.update(bytes);
        self.file
            .write_all(bytes)
            .map_err(|error| error.to_string())
    }
}

fn from_file(url: &reqwest::Url, sink: &mut Sink<'_>) -> Result<(), String> {
    let path = url
        .to_file_path()
        .map_err(|()| "not a local path; write file:///PATH".to_owned())?;
    let mut file = File::open(path).map_err(|error| error.to_string())?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => sink.take(&buffer[..read])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn from_http(url: reqwest::Url, sink: &mut Sink<'_>) -> Result<(), String> {
    let fetch = async {
        // Only http is supported here, so no CA is needed.
        let tls = ClientFiles::none().load();
        let tls = tls.map_err(|error| error.to_string())?;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(Arc::unwrap_or_clone(tls))
            .connect_timeout(SILENCE_MAX)
            .read_timeout(SILENCE_MAX)
            .build();
        let sent = client.map_err(error_chain)?.get(url).send().await;
        let mut response = sent
            .and_then(reqwest::Response::error_for_status)
            .map_err(error_chain)?;
        while let Some(chunk) = response.chunk().await.map_err(error_chain)? {
            sink.take(&chunk)?;
        }
        Ok(())
    };
    runtime::on_this_thread(fetch).map_err(|error| error.to_string())?
}

/// Formats an error with its sources; the last one is usually the most specific.
fn error_chain(error: reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(reason) = source {
        text.push_str(": ");
        text.push_str(&reason.to_string());
        source = reason.source();
    }
    text
}
