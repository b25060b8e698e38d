//! How the helpers are called.

use baton_model::time::Millis;

/// This very binary, also after its file was replaced: whoever starts a helper forks from
/// it.
const SELF: &str = "/proc/self/exe";

const ROTATE: &str = "__rotate";
const PROBE: &str = "__probe";

/// Rotates one stream of output.
pub(crate) fn rotate_command(name: &str, size: u64, backups: u32) -> Vec<String> {
    words(&[ROTATE, name, &size.to_string(), &backups.to_string()])
}

/// Asks a page.
pub(crate) fn http_command(port: u16, path: &str, timeout: Millis) -> Vec<String> {
    let (port, timeout) = (port.to_string(), timeout.0.to_string());
    words(&[PROBE, "http", &port, path, &timeout])
}

/// Tries a port.
pub(crate) fn tcp_command(port: u16, timeout: Millis) -> Vec<String> {
    let (port, timeout) = (port.to_string(), timeout.0.to_string());
    words(&[PROBE, "tcp", &port, &timeout])
}

/// True if this process was started by [`rotate_command`]. Anybody could call itself so;
/// it is a reason to wait a moment, and no more.
pub(crate) fn is_rotator(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0);
    words.next() == Some(SELF.as_bytes()) && words.next() == Some(ROTATE.as_bytes())
}

fn words(words: &[&str]) -> Vec<String> {
    let all = std::iter::once(&SELF).chain(words);
    all.map(|word| (*word).to_owned()).collect()
}
