//! The identity of this host, file system view and user.
//!
//! `baton up` publishes that of its worker, and `baton submit` compares it with its own: only with
//! equal ones does a path mean the same directory to both, with the same permissions.

use std::path::Path;

use baton_model::hex::hex;
use baton_runner::sys::users;
use sha2::{Digest as _, Sha256};

/// A digest of the boot, the mount namespace and the user of this process; `None` if the system
/// does not tell them.
pub(crate) fn host_key() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let mounts = std::fs::read_link("/proc/self/ns/mnt").ok()?;
    let root = std::fs::read_link("/proc/self/root").ok()?;
    let uid = users::effective_uid();
    let text = format!("{} {} {} {uid}", boot.trim(), shown(&mounts), shown(&root));
    let digest = Sha256::digest(text.as_bytes());
    Some(hex(&digest[..16]))
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_of_one_user_on_one_host_have_the_same_key() {
        assert_eq!(host_key(), host_key());
        assert!(host_key().is_some_and(|key| key.len() == 32));
    }
}
