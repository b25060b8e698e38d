//! Fetched files by checksum.
//!
//! One directory for each user on a worker, which only that user can enter: a file of a private
//! address is not visible to others. An entry is named by its SHA-256 and verified with every use, so
//! a damaged one costs a download and nothing else. Entries appear by renaming; the least recently
//! used are removed beyond a limit.

use std::fs::{self, File, FileTimes};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::remove;
use crate::sink::Sink;

/// A temporary file this old was left by a process that has died.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 3_600);
const TEMPORARY: &str = ".adding-";

/// The cache of one user.
pub(super) struct Cache {
    dir: PathBuf,
    bytes_max: u64,
}

impl Cache {
    pub(super) fn new(dir: &Path, bytes_max: u64) -> Self {
        Self {
            dir: dir.to_owned(),
            bytes_max,
        }
    }

    /// Copies an entry to `to`; false if there is none, or none that can be used.
    pub(super) fn copy(&self, sum: &str, size_max: u64, to: &Path) -> Result<bool, String> {
        let path = self.entry(sum);
        let Ok(mut entry) = File::open(&path) else {
            return Ok(false);
        };
        let file = File::create_new(to).map_err(|error| error.to_string())?;
        let mut sink = Sink::new(file, size_max);
        let mut buffer = vec![0; 64 << 10];
        loop {
            match entry.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => sink.take(&buffer[..read])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.discard(&path, to),
            }
        }
        if sink.sum() != sum.to_ascii_lowercase() {
            return self.discard(&path, to);
        }
        // Without it the entry only looks older than it is.
        let used = FileTimes::new().set_modified(SystemTime::now());
        let _ = entry.set_times(used);
        Ok(true)
    }

    /// Removes a damaged entry, and what was copied of it.
    fn discard(&self, path: &Path, to: &Path) -> Result<bool, String> {
        let removed = remove(path).and_then(|()| remove(to));
        removed.map_err(|error| error.to_string())?;
        Ok(false)
    }

    /// Adds a verified file, and makes room for it.
    pub(super) fn add(&self, sum: &str, from: &Path) -> io::Result<()> {
        let size = fs::metadata(from)?.len();
        if size > self.bytes_max {
            return Ok(());
        }
        self.make_room(size)?;
        let name = format!("{TEMPORARY}{}", std::process::id());
        let temporary = self.dir.join(name);
        remove(&temporary)?;
        let added =
            fs::copy(from, &temporary).and_then(|_| fs::rename(&temporary, self.entry(sum)));
        if added.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        added
    }

    /// Removes the least recently used entries until a file of this size fits.
    fn make_room(&self, size: u64) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            // It may be removed by another process meanwhile.
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let used = metadata.modified()?;
            let is_temporary = entry.file_name().to_string_lossy().starts_with(TEMPORARY);
            let age = SystemTime::now().duration_since(used).unwrap_or_default();
            if is_temporary && age > ABANDONED_AFTER {
                remove(&entry.path())?;
            } else if !is_temporary {
                entries.push((used, metadata.len(), entry.path()));
            }
        }
        entries.sort_unstable();
        let mut total: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in entries {
            if total.saturating_add(size) <= self.bytes_max {
                break;
            }
            remove(&path)?;
            total -= bytes;
        }
        Ok(())
    }

    fn entry(&self, sum: &str) -> PathBuf {
        self.dir.join(sum.to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use baton_model::hex::hex;
    use sha2::{Digest as _, Sha256};

    use super::*;

    fn sum(text: &str) -> String {
        hex(Sha256::digest(text))
    }

    struct Place(tempfile::TempDir, Cache);

    impl Place {
        fn new(bytes_max: u64) -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            let entries = dir.path().join("cache");
            fs::create_dir(&entries).expect("made");
            let cache = Cache::new(&entries, bytes_max);
            Self(dir, cache)
        }

        fn add(&self, text: &str, age: u64) {
            let from = self.0.path().join("from");
            fs::write(&from, text).expect("written");
            self.1.add(&sum(text), &from).expect("added");
            if let Ok(entry) = File::open(self.1.entry(&sum(text))) {
                let used = SystemTime::now() - Duration::from_secs(age);
                let times = FileTimes::new().set_modified(used);
                entry.set_times(times).expect("ours");
            }
        }

        fn copy(&self, text: &str) -> Option<String> {
            let to = self.0.path().join("to");
            remove(&to).expect("removed");
            let is_there = self.1.copy(&sum(text), 1 << 20, &to).expect("copied");
            assert_eq!(is_there, to.exists());
            is_there.then(|| fs::read_to_string(&to).expect("read"))
        }
    }

    #[test]
    fn an_entry_is_found_by_its_checksum_and_a_damaged_one_is_removed() {
        let place = Place::new(100);
        assert_eq!(place.copy("one"), None);
        place.add("one", 0);
        assert_eq!(place.copy("one").as_deref(), Some("one"));
        fs::write(place.1.entry(&sum("one")), "two").expect("written");
        assert_eq!(place.copy("one"), None);
        assert!(!place.1.entry(&sum("one")).exists());
    }

    #[test]
    fn the_least_recently_used_make_room() {
        let place = Place::new(8);
        place.add("1111", 30);
        place.add("2222", 20);
        assert!(place.copy("1111").is_some(), "and thereby used");
        place.add("3333", 10);
        assert!(place.copy("2222").is_none());
        assert!(place.copy("1111").is_some() && place.copy("3333").is_some());
        place.add("larger than all", 0);
        assert!(place.copy("larger than all").is_none());
        assert!(place.copy("3333").is_some(), "for nothing");
    }
}
