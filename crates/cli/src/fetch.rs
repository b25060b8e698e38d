//! `baton __fetch FILE -- ARGV…`: fetches files into the current directory, then becomes the
//! command.
//!
//! A file has its name only when all of it is there and is what it should be. Names are
//! plain: nothing is written anywhere else than here.

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

/// The most bytes of one file, and of all of them.
const BYTES_MAX: u64 = 1 << 30;
/// The exit status if something cannot be fetched: an error of input or output, by an old
/// convention of mail programs.
const NOT_FETCHED: i32 = 74;
/// The exit status of shells for a command that cannot be run.
const NOT_RUN: i32 = 127;
/// A server that says nothing for so long has gone.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Fetches, and does not come back if all goes well.
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
    eprintln!("this command is started by baton itself, not by hand");
    2
}

fn fetch_all(list: &str) -> Result<(), String> {
    let uris: Vec<Uri> = fs::read(list)
        .and_then(|bytes| Ok(serde_json::from_slice(&bytes)?))
        .map_err(|error| format!("cannot read what is to be fetched from {list}: {error}"))?;
    let mut left = BYTES_MAX;
    for uri in &uris {
        fetch(uri, &mut left).map_err(|why| format!("cannot fetch {}: {why}", uri.from))?;
    }
    Ok(())
}

fn fetch(uri: &Uri, left: &mut u64) -> Result<(), String> {
    let name = &*uri.name;
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return Err(format!("`{name}` is no plain name for a file"));
    }
    let url = reqwest::Url::parse(&uri.from).map_err(|error| error.to_string())?;
    let beside = format!(".baton-fetching-{name}");
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.to_string()),
        _ => {}
    }
    let file = File::create_new(&beside).map_err(|error| error.to_string())?;
    let mut sink = Sink {
        file,
        hash: Sha256::new(),
        left,
    };
    match url.scheme() {
        "file" => from_file(&url, &mut sink)?,
        "http" => from_http(url, &mut sink)?,
        other => return Err(format!("`{other}:` is not known; use file: or http:")),
    }
    let Sink { file, hash, .. } = sink;
    let found = hex(&hash.finalize());
    if let Some(wanted) = &uri.sha256
        && !wanted.eq_ignore_ascii_case(&found)
    {
        // Whatever it is, nobody shall take it for what was wanted.
        let _ = fs::remove_file(&beside);
        return Err(format!("its SHA-256 is {found}, and should be {wanted}"));
    }
    let mode = if uri.executable { 0o755 } else { 0o644 };
    file.set_permissions(Permissions::from_mode(mode))
        .and_then(|()| fs::rename(&beside, name))
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
        *self.left = left.ok_or_else(|| format!("more than {BYTES_MAX} bytes in all"))?;
        self.hash.update(bytes);
        self.file
            .write_all(bytes)
            .map_err(|error| error.to_string())
    }
}

fn from_file(url: &reqwest::Url, sink: &mut Sink<'_>) -> Result<(), String> {
    let path = url
        .to_file_path()
        .map_err(|()| "write file:///PATH, on this machine".to_owned())?;
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
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        // Only http is spoken here, so nobody need be trusted.
        let tls = ClientFiles::none().load();
        let tls = tls.map_err(|error| error.to_string())?;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(Arc::unwrap_or_clone(tls))
            .connect_timeout(SILENCE_MAX)
            .read_timeout(SILENCE_MAX)
            .build();
        let sent = client.map_err(words)?.get(url).send().await;
        let mut response = sent
            .and_then(reqwest::Response::error_for_status)
            .map_err(words)?;
        while let Some(chunk) = response.chunk().await.map_err(words)? {
            sink.take(&chunk)?;
        }
        Ok(())
    })
}

/// An error with its reasons, the last of which is mostly the one that helps.
fn words(error: reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(reason) = source {
        text.push_str(": ");
        text.push_str(&reason.to_string());
        source = reason.source();
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
