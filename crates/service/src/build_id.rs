//! The build id of this binary: a hash of its content, which the linker has put into it.

use std::fs::File;
use std::io::Read as _;
use std::sync::OnceLock;

/// The notes of a binary are near its beginning.
const HEAD_BYTES: u64 = 64 << 10;
const NOTES: u32 = 4;
const BUILD_ID: u32 = 3;
const OWNER: &[u8] = b"GNU\0";

/// The build id of the running binary, in hexadecimal digits; none if its linker has put none into it.
#[must_use]
pub fn build_id() -> Option<&'static str> {
    static ID: OnceLock<Option<String>> = OnceLock::new();
    ID.get_or_init(read).as_deref()
}

fn read() -> Option<String> {
    let mut head = Vec::new();
    let file = File::open("/proc/self/exe").ok()?;
    file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    let id = find(&head)?;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Finds the note in an ELF file of 64 bits, the least significant byte first.
fn find(elf: &[u8]) -> Option<&[u8]> {
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = usize::try_from(u64_at(elf, 32)?).ok()?;
    let (size, count) = (u16_at(elf, 54)?, u16_at(elf, 56)?);
    (0..count).find_map(|number| {
        let header = elf.get(table + number * size..)?;
        if u32_at(header, 0)? != NOTES {
            return None;
        }
        let begin = usize::try_from(u64_at(header, 8)?).ok()?;
        let length = usize::try_from(u64_at(header, 32)?).ok()?;
        build_id_of(elf.get(begin..begin.checked_add(length)?)?)
    })
}

fn build_id_of(mut notes: &[u8]) -> Option<&[u8]> {
    loop {
        let [name, content] = [u32_at(notes, 0)?, u32_at(notes, 4)?].map(|it| it as usize);
        let kind = u32_at(notes, 8)?;
        let rest = notes.get(12..)?;
        let after_name = rest.get(padded(name)?..)?;
        if kind == BUILD_ID && rest.get(..name)? == OWNER {
            return after_name.get(..content);
        }
        notes = after_name.get(padded(content)?..)?;
    }
}

/// Names and contents of notes begin at multiples of four.
fn padded(length: usize) -> Option<usize> {
    length.checked_next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_le_bytes(field).into())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_le_bytes(field))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at + 8)?.try_into().ok()?;
    Some(u64::from_le_bytes(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one note before that of the build.
    fn elf() -> Vec<u8> {
        let note = |kind: u32, name: &[u8], content: &[u8]| {
            let sizes = [name.len() as u32, content.len() as u32, kind];
            let mut note: Vec<u8> = sizes.iter().flat_map(|it| it.to_le_bytes()).collect();
            for part in [name, content] {
                note.extend(part);
                note.resize(note.len().next_multiple_of(4), 0);
            }
            note
        };
        let notes = [
            note(1, b"ABI", b"12345"),
            note(BUILD_ID, OWNER, &[0xab; 20]),
        ]
        .concat();
        let mut elf = b"\x7fELF\x02\x01".to_vec();
        elf.resize(64, 0);
        elf[32..40].copy_from_slice(&64_u64.to_le_bytes());
        elf[54..56].copy_from_slice(&56_u16.to_le_bytes());
        elf[56..58].copy_from_slice(&2_u16.to_le_bytes());
        let mut headers = vec![0; 112];
        headers[56..60].copy_from_slice(&NOTES.to_le_bytes());
        headers[64..72].copy_from_slice(&176_u64.to_le_bytes());
        headers[88..96].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        [elf, headers, notes].concat()
    }

    #[test]
    fn the_id_is_found_among_other_notes_and_a_cut_file_has_none() {
        let elf = elf();
        assert_eq!(find(&elf), Some(&[0xab; 20][..]));
        for end in 0..elf.len() {
            assert_eq!(find(&elf[..end]), None, "{end}");
        }
        let mut endless = elf;
        endless[176] = 0xff;
        assert_eq!(find(&endless), None, "a name that is longer than the file");
    }

    #[test]
    fn this_binary_has_an_id_or_says_that_it_has_none() {
        let id = build_id();
        assert!(id.is_none_or(|id| id.len() >= 16 && id.bytes().all(|it| it.is_ascii_hexdigit())));
    }
}
