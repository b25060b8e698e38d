//! Archives (tar and zip) and compressed files (gz, xz, zst).
//!
//! The format follows from the first bytes, not from a name that the other side has chosen. An
//! archive becomes a directory, a compressed file that is no archive becomes a file. Either appears
//! only when it is complete.

mod tree;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;

use flate2::read::{DeflateDecoder, MultiGzDecoder};
use lzma_rust2::XzReader;
use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ZipArchive};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use tree::Tree;

/// Memory that a decompressor may use: more than `xz -9` and `zstd --ultra -22` need.
const MEMORY_BYTES_MAX: u64 = 256 << 20;
/// The magic word of a tar archive, and its place.
const USTAR: (usize, &[u8]) = (257, b"ustar");
/// The size of a tar header.
const BLOCK: usize = 512;
/// Bytes of a tar stream beside the content of its files, for each file.
const OVERHEAD_BYTES: u64 = 4 * BLOCK as u64;
/// Bytes of the target of a link, as Linux limits them.
const LINK_BYTES_MAX: u64 = 4_096;

const FORMATS: &str = "it is neither tar, gz, xz, zst nor zip";

/// What an archive or a compressed file became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unpacked {
    File,
    Directory,
}

impl Unpacked {
    pub(super) const fn is_file(self) -> bool {
        matches!(self, Self::File)
    }
}

/// Unpacks `from` to `to`, with at most so many bytes.
pub(super) fn unpack(from: &Path, to: &Path, bytes_max: u64) -> Result<Unpacked, String> {
    let name = to.to_string_lossy();
    let temporary = format!(".baton-unpacking-{name}");
    let temporary = Path::new(&temporary);
    if let Err(error) = fs::remove_dir_all(temporary)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error.to_string());
    }
    fs::create_dir(temporary).map_err(|error| error.to_string())?;
    let unpacked = unpack_below(from, temporary, bytes_max);
    let renamed = unpacked.and_then(|unpacked| {
        let made = match unpacked {
            Unpacked::File => temporary.join(CONTENT),
            Unpacked::Directory => temporary.to_owned(),
        };
        fs::rename(made, to).map_err(|error| error.to_string())?;
        Ok(unpacked)
    });
    // It is gone already if it was renamed.
    let _ = fs::remove_dir_all(temporary);
    renamed
}

/// The name of a single file, until it has its own.
const CONTENT: &str = "content";

fn unpack_below(from: &Path, dir: &Path, bytes_max: u64) -> Result<Unpacked, String> {
    let mut file = File::open(from).map_err(|error| error.to_string())?;
    let mut magic = [0; 6];
    let read = read_full(&mut file, &mut magic).map_err(|error| error.to_string())?;
    file.seek(SeekFrom::Start(0))
        .map_err(|error| error.to_string())?;
    let mut tree = Tree::new(dir, bytes_max)?;
    match &magic[..read] {
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => {
            unzip(file, &mut tree)?;
            Ok(Unpacked::Directory)
        }
        [0x1f, 0x8b, ..] => stream(MultiGzDecoder::new(BufReader::new(file)), &mut tree),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            let memory = u32::try_from(MEMORY_BYTES_MAX >> 10).unwrap_or(u32::MAX);
            let reader = XzReader::new_mem_limit(BufReader::new(file), true, memory);
            stream(reader, &mut tree)
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => stream(ZstdFrames::new(BufReader::new(file)), &mut tree),
        _ => {
            let mut file = BufReader::new(file);
            let (head, is_tar) = head(&mut file).map_err(|error| error.to_string())?;
            if !is_tar {
                return Err(FORMATS.to_owned());
            }
            untar(head.chain(file), &mut tree)?;
            Ok(Unpacked::Directory)
        }
    }
}

/// Unpacks a decompressed stream: a tar archive, or a single file.
fn stream(mut reader: impl Read, tree: &mut Tree) -> Result<Unpacked, String> {
    let (head, is_tar) = head(&mut reader).map_err(|error| error.to_string())?;
    let mut reader = head.chain(reader);
    if is_tar {
        untar(reader, tree)?;
        return Ok(Unpacked::Directory);
    }
    tree.file(CONTENT.as_bytes(), false, &mut reader)?;
    Ok(Unpacked::File)
}

/// The first block of a stream, and whether a tar archive begins with it.
fn head(reader: &mut impl Read) -> io::Result<(io::Cursor<Vec<u8>>, bool)> {
    let mut block = vec![0; BLOCK];
    let read = read_full(reader, &mut block)?;
    block.truncate(read);
    let (at, magic) = USTAR;
    let is_tar = block.get(at..at + magic.len()) == Some(magic);
    Ok((io::Cursor::new(block), is_tar))
}

fn read_full(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn untar(reader: impl Read, tree: &mut Tree) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    // Names and other metadata count as well, or a small archive could fill the memory.
    let limit = tree
        .bytes_max()
        .saturating_add(u64::from(tree::ENTRIES_MAX) * OVERHEAD_BYTES);
    let mut archive = tar::Archive::new(reader.take(limit));
    for entry in archive.entries().map_err(text)? {
        let mut entry = entry.map_err(text)?;
        let path = entry.path_bytes().into_owned();
        let link = entry.link_name_bytes().map(std::borrow::Cow::into_owned);
        let link = || {
            link.as_deref()
                .ok_or_else(|| "a link without a target".to_owned())
        };
        let is_executable = entry.header().mode().unwrap_or(0) & 0o111 != 0;
        let kind = entry.header().entry_type();
        if kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() {
            tree.file(&path, is_executable, &mut entry)?;
        } else if kind.is_dir() {
            tree.directory(&path)?;
        } else if kind.is_symlink() {
            tree.symlink(&path, link()?)?;
        } else if kind.is_hard_link() {
            tree.hard_link(&path, link()?)?;
        } else if !kind.is_pax_global_extensions() {
            return Err(format!(
                "{} is a device or another special file",
                String::from_utf8_lossy(&path)
            ));
        }
    }
    Ok(())
}

fn unzip(file: File, tree: &mut Tree) -> Result<(), String> {
    let text = |error: rawzip::Error| error.to_string();
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let archive = ZipArchive::from_file(file, &mut buffer).map_err(text)?;
    let mut entries = archive.entries(&mut buffer);
    while let Some(record) = entries.next_entry().map_err(text)? {
        let path = record.file_path().as_bytes().to_vec();
        let mode = record.mode();
        if record.is_dir() {
            tree.directory(&path)?;
            continue;
        }
        let entry = archive.get_entry(record.wayfinder()).map_err(text)?;
        let content: Box<dyn Read> = match record.compression_method() {
            CompressionMethod::STORE => Box::new(entry.reader()),
            CompressionMethod::DEFLATE => Box::new(DeflateDecoder::new(entry.reader())),
            other => {
                let path = String::from_utf8_lossy(&path);
                return Err(format!("{path} has an unsupported compression, {other:?}"));
            }
        };
        let mut content = entry.verifying_reader(content);
        if mode.is_symlink() {
            let mut target = Vec::new();
            let read = content.take(LINK_BYTES_MAX).read_to_end(&mut target);
            read.map_err(|error| error.to_string())?;
            tree.symlink(&path, &target)?;
        } else {
            tree.file(&path, mode.permissions() & 0o111 != 0, &mut content)?;
        }
    }
    Ok(())
}

/// Decompresses all frames of a Zstandard file; a decoder decompresses one.
struct ZstdFrames<R: BufRead> {
    source: Option<R>,
    frame: Option<StreamingDecoder<R, FrameDecoder>>,
}

impl<R: BufRead> ZstdFrames<R> {
    const fn new(source: R) -> Self {
        Self {
            source: Some(source),
            frame: None,
        }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                let read = frame.read(buffer)?;
                if read > 0 || buffer.is_empty() {
                    return Ok(read);
                }
                self.source = self.frame.take().map(StreamingDecoder::into_inner);
            }
            let Some(mut source) = self.source.take() else {
                return Ok(0);
            };
            if source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            let frame = StreamingDecoder::new_with_max_window_size(source, MEMORY_BYTES_MAX);
            self.frame = Some(frame.map_err(io::Error::other)?);
        }
    }
}

#[cfg(test)]
mod tests;
