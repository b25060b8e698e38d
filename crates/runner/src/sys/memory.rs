//! Returning memory that only the start of the process needed.

#![allow(unsafe_code)]

use std::io;

/// Returns the pages of program code that only the start needed. Pages that are needed again are
/// mapped again, from memory, in microseconds. A small long-lived process, one of many, then costs
/// what it uses, not the size of its binary.
///
/// # Errors
/// If `/proc/self/maps` cannot be read.
pub fn release_startup_pages() -> io::Result<()> {
    for (start, end) in code(&std::fs::read_to_string("/proc/self/maps")?) {
        // SAFETY: the range is a mapping of ours that is readable, executable, not
        // writable, private, and backed by a file. Nothing of it can differ from the file,
        // so dropping its pages loses nothing. A refusal changes nothing either.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
    }
    Ok(())
}

/// The mappings of program code: private, executable, not writable, of a file.
fn code(maps: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    maps.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (range, rights) = (words.next()?, words.next()?);
        let path = words.nth(3)?;
        let (start, end) = range.split_once('-')?;
        let bounds = (
            usize::from_str_radix(start, 16).ok()?,
            usize::from_str_radix(end, 16).ok()?,
        );
        (rights == "r-xp" && path.starts_with('/') && bounds.0 < bounds.1).then_some(bounds)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_files_is_meant() {
        let maps = "\
1000-3000 r-xp 00000000 08:01 12 /bin/x
3000-4000 r--p 00000000 08:01 12 /bin/x
4000-5000 rwxp 00000000 08:01 12 /bin/x
5000-6000 r-xp 00000000 00:00 0
6000-7000 r-xp 00000000 00:00 0 [vdso]
";
        assert_eq!(code(maps).collect::<Vec<_>>(), [(0x1000, 0x3000)]);
    }

    #[test]
    fn a_process_continues_after_releasing_pages() {
        release_startup_pages().expect("/proc is there");
        assert_eq!("a b".split(' ').count(), 2);
    }
}
