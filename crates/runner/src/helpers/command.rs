//! The command lines of the helpers.

use baton_model::time::Millis;

/// This very binary, also after its file was replaced: the helper is started by a process that runs
/// it.
const SELF: &str = "/proc/self/exe";

const ROTATE: &str = "__rotate";
const MASK: &str = "__mask";
/// The last word of a rotator that masks what it writes.
pub(super) const MASKED: &str = "masked";
const PROBE: &str = "__probe";

/// Rotates one stream of output, and masks it if it is to be.
pub(crate) fn rotate_command(name: &str, size: u64, backups: u32, is_masked: bool) -> Vec<String> {
    let (size, backups) = (size.to_string(), backups.to_string());
    let words = [ROTATE, name, &size, &backups, MASKED];
    self_command(&words[..if is_masked { 5 } else { 4 }])
}

/// Masks one stream of output.
pub(crate) fn mask_command() -> Vec<String> {
    self_command(&[MASK])
}

/// Probes an HTTP path.
pub(crate) fn http_command(port: u16, path: &str, timeout: Millis) -> Vec<String> {
    let (port, timeout) = (port.to_string(), timeout.0.to_string());
    self_command(&[PROBE, "http", &port, path, &timeout])
}

/// Probes a TCP port.
pub(crate) fn tcp_command(port: u16, timeout: Millis) -> Vec<String> {
    let (port, timeout) = (port.to_string(), timeout.0.to_string());
    self_command(&[PROBE, "tcp", &port, &timeout])
}

/// True if this process was started by [`rotate_command`] or [`mask_command`]. Any process can imitate that; it only
/// makes the coordinator wait a moment.
pub(crate) fn is_rotator(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0);
    words.next() == Some(SELF.as_bytes())
        && matches!(words.next(), Some(word) if [ROTATE.as_bytes(), MASK.as_bytes()].contains(&word))
}

fn self_command(words: &[&str]) -> Vec<String> {
    let all = std::iter::once(&SELF).chain(words);
    all.map(|word| (*word).to_owned()).collect()
}
