//! Position of the last lines of a stream, possibly in a rotated file.

use std::fs::File;
use std::io;

use super::read_at;

/// Size of a read, from the end backwards.
const BLOCK: u64 = 64 * 1_024;

/// Returns the index in `files` (oldest first) and the offset at which the last `lines` lines
/// start. An incomplete last line counts as a line.
pub(super) fn start_of_last_lines(
    files: &[&File],
    lines: usize,
) -> io::Result<Option<(usize, u64)>> {
    let Some(newest) = files.len().checked_sub(1) else {
        return Ok(None);
    };
    if lines == 0 {
        return Ok(Some((newest, files[newest].metadata()?.len())));
    }
    let mut ends = 0;
    let mut at_the_end = true;
    let mut block = vec![0; usize::try_from(BLOCK).unwrap_or(usize::MAX)];
    for (index, file) in files.iter().enumerate().rev() {
        let mut until = file.metadata()?.len();
        while until > 0 {
            let from = until.saturating_sub(BLOCK);
            let part = &mut block[..usize::try_from(until - from).unwrap_or(usize::MAX)];
            let read = read_at(file, part, from)?;
            for (offset, byte) in part[..read].iter().enumerate().rev() {
                // The newline at the very end does not start another line.
                if *byte == b'\n' && !at_the_end {
                    ends += 1;
                    if ends == lines {
                        return Ok(Some((index, from + offset as u64 + 1)));
                    }
                }
                at_the_end = false;
            }
            until = from;
        }
    }
    Ok(Some((0, 0)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn files(texts: &[&str]) -> Vec<File> {
        let file = |text: &&str| {
            let mut file = tempfile::tempfile().expect("a temporary file");
            file.write_all(text.as_bytes()).expect("written");
            file
        };
        texts.iter().map(file).collect()
    }

    fn found(texts: &[&str], lines: usize) -> Option<(usize, u64)> {
        let files = files(texts);
        let files: Vec<&File> = files.iter().collect();
        start_of_last_lines(&files, lines).expect("readable")
    }

    #[test]
    fn the_last_lines_are_counted_back_from_the_end() {
        assert_eq!(found(&["a\nb\nc\n"], 1), Some((0, 4)));
        assert_eq!(found(&["a\nb\nc\n"], 2), Some((0, 2)));
        assert_eq!(found(&["a\nb\nc"], 1), Some((0, 4)));
        assert_eq!(found(&["a\nb\n"], 9), Some((0, 0)));
        assert_eq!(found(&["a\n\n\n"], 2), Some((0, 2)));
        assert_eq!(found(&["a\nb\n"], 0), Some((0, 4)));
        assert_eq!(found(&[""], 3), Some((0, 0)));
        assert_eq!(found(&[], 3), None);
    }

    #[test]
    fn older_files_are_read_where_the_newest_is_too_short() {
        assert_eq!(found(&["a\nb\n", "c\n"], 2), Some((0, 2)));
        assert_eq!(found(&["a\nb\n", ""], 1), Some((0, 2)));
        // A line that was cut by the rotation is one line.
        assert_eq!(found(&["a\nbeg", "end\n"], 1), Some((0, 2)));
    }

    #[test]
    fn lines_longer_than_a_block_are_found() {
        let long = "x".repeat(usize::try_from(BLOCK).expect("small") * 2 + 7);
        let text = format!("a\n{long}\n");
        assert_eq!(found(&[&text], 1), Some((0, 2)));
    }
}
