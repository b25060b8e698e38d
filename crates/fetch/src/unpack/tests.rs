//! Archives that are fine, and archives that are not.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use lzma_rust2::{XzOptions, XzWriter};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tar::{Builder, EntryType, Header};

use super::*;

/// An entry of an archive: its path, its kind, and its content or target.
type Entry<'a> = (&'a str, EntryType, &'a str);

fn tarball(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, kind, text) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o4755);
        let old = header.as_old_mut();
        // Written as it is: the library refuses what these tests are about.
        old.name[..path.len()].copy_from_slice(path.as_bytes());
        let is_link = kind.is_symlink() || kind.is_hard_link();
        let content = if is_link {
            old.linkname[..text.len()].copy_from_slice(text.as_bytes());
            ""
        } else {
            text
        };
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder
            .append(&header, content.as_bytes())
            .expect("written");
    }
    builder.into_inner().expect("whole")
}

fn zipped(entries: &[(&str, &str, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut archive = rawzip::ZipArchiveWriter::new(&mut bytes);
    for (path, text, mode) in entries {
        let path = rawzip::path::EntryPath::verbatim(path.as_bytes().to_vec());
        let (mut entry, config) = archive
            .new_file(path)
            .compression_method(CompressionMethod::DEFLATE)
            .unix_permissions(*mode)
            .start()
            .expect("begun");
        let encoder = flate2::write::DeflateEncoder::new(&mut entry, Compression::fast());
        let mut writer = config.wrap(encoder);
        writer.write_all(text.as_bytes()).expect("written");
        let (encoder, descriptor) = writer.finish().expect("finished");
        encoder.finish().expect("finished");
        entry.finish(descriptor).expect("finished");
    }
    archive.finish().expect("whole");
    bytes
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Unpacks bytes as `out`. Temporary names are relative to the working directory, as the files
    /// of a sandbox are, so each test has its own names.
    fn unpack(&self, bytes: &[u8], bytes_max: u64) -> Result<Unpacked, String> {
        fs::write(self.path("in"), bytes).expect("written");
        let dir = self.path("out");
        fs::create_dir(&dir).expect("made");
        let unpacked = unpack_below(&self.path("in"), &dir, bytes_max);
        if unpacked.is_err() {
            fs::remove_dir_all(&dir).expect("removed");
        }
        unpacked
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path("out").join(name)).expect(name)
    }
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("written");
    encoder.finish().expect("whole")
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(1)).expect("begun");
    writer.write_all(bytes).expect("written");
    writer.finish().expect("whole")
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    // Two frames, as tools write them in parallel.
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let compress = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
    [compress(first), compress(second)].concat()
}

const MAX: u64 = 1 << 20;

#[test]
fn every_format_of_an_archive_becomes_a_directory() {
    let entries = [
        ("bin/", EntryType::Directory, ""),
        ("./bin/run", EntryType::Regular, "#!"),
        ("deep/er/file", EntryType::Regular, "text"),
        ("deep/link", EntryType::Symlink, "../bin/run"),
        ("copy", EntryType::Link, "deep/er/file"),
    ];
    let tar = tarball(&entries);
    let forms: [(&str, Vec<u8>); 4] = [
        ("tar", tar.clone()),
        ("tar.gz", gz(&tar)),
        ("tar.xz", xz(&tar)),
        ("tar.zst", zst(&tar)),
    ];
    for (form, bytes) in forms {
        let place = Place::new();
        assert_eq!(place.unpack(&bytes, MAX), Ok(Unpacked::Directory), "{form}");
        assert_eq!(place.text("deep/er/file"), "text");
        assert_eq!(place.text("deep/link"), "#!");
        assert_eq!(place.text("copy"), "text");
        let mode = fs::metadata(place.path("out/bin/run")).expect("there");
        let mode = mode.permissions().mode() & 0o7777;
        assert_eq!(mode & 0o7111, 0o111, "executable, and not set-user-id");
    }
    let place = Place::new();
    let zip = zipped(&[
        ("bin/run", "#!", 0o755),
        ("a/b", "text", 0o644),
        ("a/l", "../bin/run", 0o120_777),
    ]);
    assert_eq!(place.unpack(&zip, MAX), Ok(Unpacked::Directory));
    assert_eq!(
        (place.text("a/b"), place.text("a/l")),
        ("text".into(), "#!".into())
    );
}

#[test]
fn a_compressed_file_that_is_no_archive_becomes_a_file() {
    let text = b"a,b\n1,2\n".repeat(1_000);
    for bytes in [gz(&text), xz(&text), zst(&text)] {
        let place = Place::new();
        assert_eq!(place.unpack(&bytes, MAX), Ok(Unpacked::File));
        assert_eq!(place.text(CONTENT).as_bytes(), text);
    }
}

#[test]
fn what_leads_out_of_the_archive_is_refused() {
    let file = EntryType::Regular;
    let cases: [(&[Entry<'_>], &str); 8] = [
        (&[("../out-of-it", file, "x")], "leads out"),
        (&[("a/../../out-of-it", file, "x")], "leads out"),
        (&[("/tmp/absolute", file, "x")], "leads out"),
        (&[("l", EntryType::Symlink, "/etc")], "leads out"),
        (&[("a/l", EntryType::Symlink, "../../x")], "leads out"),
        (
            &[("d", EntryType::Symlink, "."), ("d/x", file, "x")],
            "leads through a file or a link",
        ),
        (&[("h", EntryType::Link, "../in")], "leads out"),
        (&[("f", EntryType::Fifo, "")], "special file"),
    ];
    for (entries, reason) in cases {
        let place = Place::new();
        let error = place.unpack(&tarball(entries), MAX).expect_err(reason);
        assert!(error.contains(reason), "{entries:?}: {error}");
        let left = fs::read_dir(place.0.path()).expect("listed").count();
        assert_eq!(left, 1, "only the archive is there");
    }
    for (path, text, mode) in [
        ("../x", "x", 0o644),
        ("/x", "x", 0o644),
        ("l", "/etc", 0o120_777),
    ] {
        let error = Place::new().unpack(&zipped(&[(path, text, mode)]), MAX);
        assert!(error.expect_err(path).contains("leads out"), "{path}");
    }
}

#[test]
fn a_hard_link_to_a_link_is_refused() {
    let place = Place::new();
    let archive = tarball(&[
        ("a/b/c", EntryType::Symlink, "../../x"),
        ("top", EntryType::Link, "a/b/c"),
    ]);
    let error = place.unpack(&archive, MAX).expect_err("refused");
    assert!(error.contains("is not a file"), "{error}");
}

#[test]
fn an_archive_that_is_larger_than_allowed_is_refused() {
    let zeros = "\0".repeat(200_000);
    let tar = tarball(&[("zeros", EntryType::Regular, &zeros)]);
    let zip = zipped(&[("a", &zeros, 0o644)]);
    for bytes in [gz(&tar), xz(&tar), zst(&tar), gz(zeros.as_bytes()), zip] {
        let error = Place::new().unpack(&bytes, 100_000).expect_err("too large");
        assert!(error.contains("more than 100000 bytes"), "{error}");
    }
}

#[test]
fn what_is_no_archive_or_is_damaged_is_an_error() {
    let error = Place::new().unpack(b"plain text", MAX).expect_err("none");
    assert_eq!(error, FORMATS);
    let mut bytes = gz(&tarball(&[("a", EntryType::Regular, "x")]));
    bytes.truncate(bytes.len() / 2);
    Place::new().unpack(&bytes, MAX).expect_err("damaged");
}

#[test]
fn the_last_entry_of_a_name_counts() {
    let file = EntryType::Regular;
    let place = Place::new();
    let archive = tarball(&[
        ("l", EntryType::Symlink, "other"),
        ("l", file, "second"),
        ("other", file, "x"),
    ]);
    assert_eq!(place.unpack(&archive, MAX), Ok(Unpacked::Directory));
    assert_eq!(
        (place.text("l"), place.text("other")),
        ("second".into(), "x".into())
    );
}
