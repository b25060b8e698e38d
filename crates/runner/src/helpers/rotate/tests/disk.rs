//! Rotation on a full disk. Needs the right to mount a small one; skipped without.

use super::*;

/// A mounted file system of this many KiB; `None` where mounting is not allowed.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount(kib: u32) -> Option<Self> {
        let dir = temporary();
        let size = format!("size={kib}k");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(dir.path());
        match mount.output() {
            Ok(done) if done.status.success() => Some(Self(dir)),
            other => {
                println!("skipped: no tmpfs can be mounted here: {other:?}");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let done = Command::new("umount").arg(self.0.path()).status();
        // A panic in here would hide the one that the test ends with.
        if !done.is_ok_and(|status| status.success()) {
            println!("{} is still mounted", self.0.path().display());
        }
    }
}

#[test]
fn a_full_disk_costs_only_what_did_not_fit() {
    let Some(disk) = SmallDisk::mount(64) else {
        return;
    };
    let logs = disk.0.path().join("logs");
    let filler = disk.0.path().join("filler");
    fs::create_dir(&logs).expect("makes");
    fs::write(&filler, vec![0; 32 * 1024]).expect("fills");
    let data = numbered(120_000);
    let free = || fs::remove_file(&filler).expect("removes");
    let full = data.chunks(10_000).fold(Pieces::default(), Pieces::then);
    let pieces = full.after(free, b"after");
    copy(pieces, files_in(&logs, 1 << 20, 3), None).expect("copies");

    let log = contents(&logs).concat();
    let note = log
        .windows(8)
        .position(|at| at == b"\n[baton:")
        .expect("a note");
    let (kept, rest) = log.split_at(note);
    let missing = data.len() - kept.len();
    assert!(!kept.is_empty() && missing > 0);
    assert_eq!(kept, &data[..kept.len()]);
    let rest = std::str::from_utf8(rest).expect("text");
    let expected = format!("\n[baton: {missing} bytes are missing here: No space left");
    assert!(rest.starts_with(&expected), "{rest}");
    assert!(rest.ends_with("]\nafter"), "{rest}");
}

#[test]
fn a_line_about_missing_bytes_that_did_not_fit_is_removed() {
    let Some(disk) = SmallDisk::mount(64) else {
        return;
    };
    let logs = disk.0.path().join("logs");
    let log = logs.join("stdout");
    let filler = disk.0.path().join("filler");
    fs::create_dir_all(&log).expect("makes an obstacle");
    let mut files = files_in(&logs, 1 << 20, 3);
    files.append(b"lost");
    fs::remove_dir(&log).expect("removes");
    // Ten bytes are left in its page, and no other page.
    let before = numbered(4096 - 10);
    fs::write(&log, &before).expect("writes");
    fs::write(&filler, vec![0; 1 << 20]).expect_err("fills the disk");
    files.append(b"too");
    assert_eq!(fs::read(&log).expect("reads"), before);
    fs::remove_file(&filler).expect("removes");
    files.append(b"after");
    files.finish().expect("has expected everything");
    let text = fs::read(&log).expect("reads").split_off(before.len());
    let text = String::from_utf8(text).expect("text");
    let expected = "\n[baton: 7 bytes are missing here: No space left";
    assert!(
        text.starts_with(expected) && text.ends_with("]\nafter"),
        "{text}"
    );
}

#[test]
fn a_full_disk_makes_room_for_itself_by_rotation() {
    let Some(disk) = SmallDisk::mount(64) else {
        return;
    };
    let data = numbered(500_000);
    copy(&data[..], files_in(disk.0.path(), 12 * 1024, 3), None).expect("copies");
    let log = contents(disk.0.path()).concat();
    assert_eq!(log, data[data.len() - log.len()..]);
}
