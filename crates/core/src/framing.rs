//! Length-prefixed frames in a stream of bytes.
//!
//! A frame is a length of four bytes, little endian, and a body of that many bytes. Two protocols
//! use it: scheduler and worker ([`protocol::frame`](crate::protocol::frame)), and runner and
//! coordinator (`runner::wire`). Each has its own encoding of bodies and its own maximum.

use std::io;

/// Bytes before a body.
pub const PREFIX_BYTES: usize = 4;

/// A frame that is longer than its reader or writer allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame has {bytes} bytes; the maximum is {bytes_max}")]
pub struct FrameTooLong {
    pub bytes: usize,
    pub bytes_max: usize,
}

impl From<FrameTooLong> for io::Error {
    fn from(error: FrameTooLong) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

/// Appends a frame, whose body `write` appends. After an error nothing was appended.
///
/// # Errors
/// If the body cannot be written or is too long.
pub fn append<E: From<FrameTooLong>>(
    out: &mut Vec<u8>,
    bytes_max: usize,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX_BYTES]);
    let body = start + PREFIX_BYTES;
    let appended = write(out).and_then(|()| {
        let bytes = out.len() - body;
        match u32::try_from(bytes) {
            Ok(length) if bytes <= bytes_max => Ok(length),
            _ => Err(FrameTooLong { bytes, bytes_max }.into()),
        }
    });
    match appended {
        Ok(length) => out[start..body].copy_from_slice(&length.to_le_bytes()),
        Err(_) => out.truncate(start),
    }
    appended.map(|_| ())
}

/// The length of the first body, as announced; `None` if its prefix has not arrived yet.
///
/// # Errors
/// If it is too long.
pub fn announced(read: &[u8], bytes_max: usize) -> Result<Option<usize>, FrameTooLong> {
    let Some(prefix) = read.first_chunk::<PREFIX_BYTES>() else {
        return Ok(None);
    };
    let bytes = u32::from_le_bytes(*prefix) as usize;
    if bytes > bytes_max {
        return Err(FrameTooLong { bytes, bytes_max });
    }
    Ok(Some(bytes))
}

/// The first body, and the number of bytes of its frame; `None` if it has not arrived completely.
///
/// # Errors
/// If it is too long, before the rest of it has arrived.
pub fn first(read: &[u8], bytes_max: usize) -> Result<Option<(&[u8], usize)>, FrameTooLong> {
    let Some(bytes) = announced(read, bytes_max)? else {
        return Ok(None);
    };
    let end = PREFIX_BYTES + bytes;
    Ok(read.get(PREFIX_BYTES..end).map(|body| (body, end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(body: &[u8], out: &mut Vec<u8>) -> Result<(), FrameTooLong> {
        append(out, 3, |out| {
            out.extend_from_slice(body);
            Ok(())
        })
    }

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let bodies: [&[u8]; 3] = [b"abc", b"", b"d"];
        let mut bytes = Vec::new();
        for body in bodies {
            put(body, &mut bytes).expect("short enough");
        }
        for cut in 0..=bytes.len() {
            let (mut left, mut count) = (&bytes[..cut], 0);
            while let Some((body, taken)) = first(left, 3).expect("short enough") {
                assert_eq!(body, bodies[count]);
                left = &left[taken..];
                count += 1;
            }
            assert!(cut < bytes.len() || count == 3);
        }
    }

    #[test]
    fn a_long_frame_is_neither_written_nor_waited_for() {
        let mut bytes = Vec::new();
        put(b"abc", &mut bytes).expect("short enough");
        let (before, too_long) = (
            bytes.clone(),
            FrameTooLong {
                bytes: 4,
                bytes_max: 3,
            },
        );
        assert_eq!(put(b"abcd", &mut bytes), Err(too_long));
        assert_eq!(bytes, before);
        assert_eq!(first(&4_u32.to_le_bytes(), 3), Err(too_long));
        assert_eq!(
            too_long.to_string(),
            "a frame has 4 bytes; the maximum is 3"
        );
    }

    #[test]
    fn a_body_that_cannot_be_written_leaves_nothing_behind() {
        let mut bytes = b"before".to_vec();
        let failed: Result<(), Box<dyn std::error::Error>> = append(&mut bytes, 3, |out| {
            out.push(0);
            Err("no".into())
        });
        assert!(failed.is_err());
        assert_eq!(bytes, b"before");
    }
}
