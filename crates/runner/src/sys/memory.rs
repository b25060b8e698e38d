//! Returning memory that only the start of the process needed, and locking the rest.

#![allow(unsafe_code)]

use std::io;

/// Returns the pages of program code and constants that only the start needed. Pages that are needed
/// again are mapped again, from memory, in microseconds. A small long-lived process, one of many,
/// then costs what it uses, not the size of its binary.
///
/// # Errors
/// If `/proc/self/smaps` cannot be read.
pub fn release_startup_pages() -> io::Result<()> {
    for (start, end) in unmodified(&std::fs::read_to_string("/proc/self/smaps")?) {
        // SAFETY: the range is a mapping of ours that is not writable, private, backed by a
        // file, and has no page that differs from the file, so dropping its pages loses
        // nothing. A refusal changes nothing either.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
    }
    Ok(())
}

/// Returns freed memory of the heap to the system. The allocator of glibc keeps it for the next
/// allocation; others return it by themselves.
pub fn release_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes the locks of the allocator, and moves nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The kernel's count of processes that were killed because memory ran out, anywhere on the host.
#[derive(Debug)]
pub struct OomKills {
    seen: u64,
}

impl OomKills {
    /// The count until now.
    #[must_use]
    pub fn new() -> Self {
        Self { seen: count() }
    }

    /// True if there were kills since the last call. Not every kernel counts them.
    pub fn has_grown(&mut self) -> bool {
        let now = count();
        std::mem::replace(&mut self.seen, now) < now
    }
}

impl Default for OomKills {
    fn default() -> Self {
        Self::new()
    }
}

fn count() -> u64 {
    let all = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let kills = all.lines().find_map(|line| line.strip_prefix("oom_kill "));
    kills
        .and_then(|kills| kills.trim().parse().ok())
        .unwrap_or(0)
}

/// Keeps what this process touches from now on in memory, so that it runs on a host without any
/// left. Where that is not permitted, it may be swapped out.
pub fn lock() {
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: takes a number only. A refusal changes nothing.
    unsafe { libc::mlockall(flags) };
}

/// The private mappings of files that are not writable, and never were: the loader writes to some
/// before it protects them.
fn unmodified(smaps: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut last = None;
    for line in smaps.lines() {
        if let Some(size) = line.strip_prefix("Anonymous:") {
            found.extend(last.take().filter(|_| size.trim() == "0 kB"));
        } else if !line.ends_with(" kB") && !line.starts_with("VmFlags:") {
            last = mapping(line);
        }
    }
    found
}

/// The range of a private mapping of a file that is not writable.
fn mapping(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_whitespace();
    let (range, rights) = (words.next()?, words.next()?);
    let path = words.nth(3)?;
    let (start, end) = range.split_once('-')?;
    let bounds = (
        usize::from_str_radix(start, 16).ok()?,
        usize::from_str_radix(end, 16).ok()?,
    );
    let is_fixed = matches!(rights, "r-xp" | "r--p");
    (is_fixed && path.starts_with('/') && bounds.0 < bounds.1).then_some(bounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unmodified_mappings_of_files_are_meant() {
        let one = |range: &str, rights: &str, rest: &str, anonymous: u32| {
            format!(
                "{range} {rights} 00000000 {rest}\nRss: 8 kB\nAnonymous: {anonymous} kB\n\
                 THPeligible:    0\nVmFlags: rd ex mr\n"
            )
        };
        let smaps = [
            one("1000-3000", "r-xp", "08:01 12 /bin/x", 0),
            one("3000-4000", "r--p", "08:01 12 /bin/x", 0),
            one("4000-5000", "r--p", "08:01 12 /bin/x", 4),
            one("5000-6000", "rw-p", "08:01 12 /bin/x", 0),
            one("6000-7000", "r-xp", "00:00 0", 0),
            one("7000-8000", "r-xp", "00:00 0 [vdso]", 0),
        ];
        let found = unmodified(&smaps.concat());
        assert_eq!(found, [(0x1000, 0x3000), (0x3000, 0x4000)]);
    }

    #[test]
    fn a_process_continues_after_releasing_pages() {
        release_startup_pages().expect("/proc is there");
        assert_eq!("a b".split(' ').count(), 2);
    }
}
