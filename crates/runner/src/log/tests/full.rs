//! A disk that is really full.

use std::process::{Command, Stdio};

use super::*;

/// A file system of 64 KiB, gone with the test.
struct SmallDisk(TempDir);

impl SmallDisk {
    /// Needs the right to mount; prints why it cannot.
    fn mount() -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "baton-test"])
            .arg(directory.path())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("no mount command: {error}"))?;
        if output.status.success() {
            Ok(Self(directory))
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let status = Command::new("umount").arg(self.0.path()).status();
        if !status.is_ok_and(|status| status.success()) {
            eprintln!("{} is still mounted", self.0.path().display());
        }
    }
}

#[test]
fn a_really_full_disk_stops_the_log_and_loses_nothing_appended_before() {
    let disk = match SmallDisk::mount() {
        Ok(disk) => disk,
        Err(reason) => {
            eprintln!("skipped: cannot mount a small disk here: {reason}");
            return;
        }
    };
    let path = disk.0.path().join("runner");
    let mut log = Log::create(&path, Kind::Runner, &["first".to_owned()]).expect("a new log");
    let mut kept = vec!["first".to_owned()];
    let error = loop {
        let note = format!("{}: {}", kept.len(), "x".repeat(700));
        match log.append(std::slice::from_ref(&note)) {
            Ok(_) => kept.push(note),
            Err(error) => break error,
        }
        assert!(kept.len() < 1_000, "64 KiB do not hold this");
    };
    assert!(error.is_full(), "{error}");
    assert!(kept.len() > 10, "the disk was full too early");
    assert!(error_of(log.append(&["more".to_owned()])).is_full());
    drop(log);

    // The log still opens on the full disk: truncating a torn tail needs no space.
    let (log, recovered) = Log::open::<String>(&path, Kind::Runner).expect("the log opens");
    assert_eq!(recovered.records, kept);
    assert_eq!(log.records(), kept.len() as u64);
    drop(log);

    // With space again it continues.
    let (mut log, _) = Log::open::<String>(&path, Kind::Runner).expect("the log opens");
    let status = Command::new("mount")
        .args(["-o", "remount,size=256k"])
        .arg(disk.0.path())
        .status()
        .expect("the mount command was there before");
    assert!(status.success());
    log.append(&["more".to_owned()]).expect("there is room");
    kept.push("more".to_owned());
    assert_eq!(must_read(&path).records, kept);
}
