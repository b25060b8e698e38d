//! `baton up --detach`: the same command as a process in the background.
//!
//! It writes to the terminal until it is ready, so that the one who started it reads every error. Then
//! its log goes to a file in its data directory.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Command, Stdio};

use baton_fs::private;

use crate::output::{CommandResult, FAILED, Failure, Output, note};
use crate::scheduler::ServerArgs;

/// The log of a server in the background, in its data directory.
const LOG: &str = "baton.log";
/// The log of the one before.
const LAST_LOG: &str = "baton.log.1";

/// Starts this command in the background, and waits until it is ready.
pub(super) fn start(server: &ServerArgs) -> CommandResult {
    let failed = |error| Failure::failed(format!("cannot start a process: {error}"));
    let arguments = std::env::args_os().skip(1);
    let arguments: Vec<OsString> = arguments.filter(|it| it != "--detach").collect();
    let mut child = Command::new("/proc/self/exe")
        .args(arguments)
        .arg("--background")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        // Its status tells what is wrong if it says nothing.
        let _ = BufReader::new(stdout).read_line(&mut line);
    }
    if line.is_empty() {
        let status = child.wait().map_err(failed)?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        // It has written why.
        return Err(Failure::Silent(
            code.filter(|code| *code > 0).unwrap_or(FAILED),
        ));
    }
    let mut out = Output::new();
    write!(out, "{line}")?;
    out.done()?;
    note(&format!(
        "it runs in the background as process {}, and logs to {}; {} ends it",
        child.id(),
        server.data.join(LOG).display(),
        down(&server.data)
    ));
    Ok(())
}

/// The command that ends the server of a data directory.
fn down(data: &Path) -> String {
    if data == Path::new(".baton") {
        return "`baton down`".to_owned();
    }
    format!("`baton down --data {}`", data.display())
}

/// Leaves the session of the terminal, whose end would end this process, too.
pub(super) fn leave_terminal() -> CommandResult {
    let left = rustix::process::setsid();
    left.map_err(|error| Failure::failed(format!("cannot begin a session: {error}")))?;
    Ok(())
}

/// From now on, this process and its children write their logs and errors to a file. That of the
/// server before is kept. Returns the terminal of the one who started it.
pub(super) fn begin_log(data: &Path) -> Option<File> {
    let terminal = io::stderr().as_fd().try_clone_to_owned();
    let path = data.join(LOG);
    if let Err(error) = log_to(&path, &data.join(LAST_LOG)) {
        tracing::warn!("cannot log to {}: {error}", path.display());
    }
    terminal.ok().map(File::from)
}

/// Writes what was logged since [`begin_log`] to the terminal: it says why there is no server.
pub(super) fn show_log(data: &Path, terminal: Option<File>) {
    let log = fs::read(data.join(LOG)).unwrap_or_default();
    // Its end was seen: there is no one else to tell.
    let _ = terminal.map(|mut terminal| terminal.write_all(&log));
}

fn log_to(path: &Path, last: &Path) -> io::Result<()> {
    match fs::rename(path, last) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = private::file_options();
    let file = options.append(true).create(true).open(path)?;
    Ok(rustix::stdio::dup2_stderr(&file)?)
}
