//! Reading a log over the holes that [`super::cut`] has left in it.

use std::fs::File;
use std::io;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::read_at;

/// Reads data from the offset on, over holes, as much as there is and fits. The offset moves behind
/// what was read.
pub(super) fn read_data(file: &File, bytes: &mut [u8], offset: &mut u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        let Some((start, end)) = next_data(file, *offset)? else {
            break;
        };
        let room = (bytes.len() - filled) as u64;
        let wanted = usize::try_from(room.min(end - start)).unwrap_or(usize::MAX);
        let read = read_at(file, &mut bytes[filled..][..wanted], start)?;
        if read == 0 {
            break;
        }
        filled += read;
        *offset = start + read as u64;
    }
    Ok(filled)
}

/// Start and end of the first data at the offset or behind it.
fn next_data(file: &File, offset: u64) -> io::Result<Option<(u64, u64)>> {
    let start = match seek(file, SeekFrom::Data(offset)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        // Without support for holes there are none.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some((offset, u64::MAX))),
        Err(error) => return Err(error.into()),
    };
    match seek(file, SeekFrom::Hole(start)) {
        Ok(end) if end > start => Ok(Some((start, end))),
        Ok(_) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
