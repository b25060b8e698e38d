//! Values that are kept elsewhere: in files, in the scheduler's environment, or by a program.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use baton_model::limits::SECRET_BYTES_MAX;
use baton_model::secret::{CommandSource, SecretValue};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::timeout;

/// Bytes of the standard error of a program that are kept.
const SAID_BYTES_MAX: usize = 4 << 10;
/// Characters of what a failed program has written that an error repeats.
const REASON_CHARS_MAX: usize = 300;

/// Reads a file.
pub(super) fn read_file(path: &Path) -> Result<SecretValue, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| {
        // One byte more than may be, to tell.
        file.take(SECRET_BYTES_MAX as u64 + 1)
            .read_to_end(&mut bytes)
    });
    read.map_err(|error| format!("{}: {error}", path.display()))?;
    SecretValue::new(bytes)
}

/// Reads a variable of this process.
pub(super) fn read_variable(name: &str) -> Result<SecretValue, String> {
    let value = std::env::var_os(name);
    let value = value.ok_or_else(|| format!("the scheduler has no variable {name}"))?;
    SecretValue::new(value.into_encoded_bytes())
}

/// Runs a program, and takes what it prints, without the end of its last line.
pub(super) async fn run_command(source: &CommandSource) -> Result<SecretValue, String> {
    let limit = Duration::from_millis(source.timeout.0);
    match timeout(limit, output_of(&source.argv)).await {
        Ok(done) => done,
        Err(_) => Err(format!("it took more than {}", source.timeout)),
    }
}

async fn output_of(argv: &[String]) -> Result<SecretValue, String> {
    let (program, args) = argv.split_first().ok_or("it names no program")?;
    let failed = |error: io::Error| format!("{program}: {error}");
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let (mut printed, mut said) = (Vec::new(), Vec::new());
    let limit = SECRET_BYTES_MAX as u64 + 2;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let read_out = async {
        match out {
            Some(out) => out.take(limit).read_to_end(&mut printed).await,
            None => Ok(0),
        }
    };
    let read_err = async {
        match err {
            Some(mut err) => {
                let kept = SAID_BYTES_MAX as u64;
                (&mut err).take(kept).read_to_end(&mut said).await?;
                // A program that has more to say must not die of that.
                tokio::io::copy(&mut err, &mut tokio::io::sink()).await
            }
            None => Ok(0),
        }
    };
    let (out, err, status) = tokio::join!(read_out, read_err, child.wait());
    out.map_err(failed)?;
    err.map_err(failed)?;
    let status = status.map_err(failed)?;
    if printed.len() > SECRET_BYTES_MAX + 1 {
        // It may have died of not being read to its end.
        return SecretValue::new(printed);
    }
    if !status.success() {
        // Its standard error only: its output may be the secret.
        let said = String::from_utf8_lossy(&said);
        let said: String = said.trim().chars().take(REASON_CHARS_MAX).collect();
        return Err(format!("{program} has failed ({status}): {said}"));
    }
    if printed.last() == Some(&b'\n') {
        printed.pop();
    }
    if printed.last() == Some(&b'\r') {
        printed.pop();
    }
    SecretValue::new(printed)
}
