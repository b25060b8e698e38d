//! Packs the chapters of `docs/SUMMARY.md` for `baton help TOPIC`: parsed, encoded line by line, and
//! compressed. `src/page.rs` has the encoding and reads it.

#[path = "../src/codes.rs"]
mod codes;
mod encode;
mod summary;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::DeflateEncoder;

fn main() {
    let docs = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../../docs");
    let out = PathBuf::from(variable("OUT_DIR"));
    let contents = docs.join("SUMMARY.md");
    let chapters = summary::chapters(&read(&contents));
    assert!(
        !chapters.is_empty(),
        "{} has no chapters",
        contents.display()
    );

    let mut pages = String::new();
    let mut index = "&[\n".to_owned();
    for chapter in &chapters {
        let start = pages.len();
        pages += &encode::page(&read(&docs.join(&chapter.path)), chapter, &chapters);
        let (topic, title, part) = (&chapter.topic, &chapter.title, &chapter.part);
        writeln!(
            index,
            "    Chapter {{ topic: {topic:?}, title: {title:?}, part: {part:?}, start: {start}, end: {} }},",
            pages.len()
        )
        .expect("a string takes everything");
    }
    index.push(']');

    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(pages.as_bytes()).expect("compressed");
    let packed = encoder.finish().expect("compressed");
    fs::write(out.join("pages.deflate"), packed).expect("written");
    fs::write(out.join("chapters.rs"), index).expect("written");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=src/codes.rs");
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// Reads a page, and has this script run again when it changes.
fn read(path: &Path) -> String {
    println!("cargo::rerun-if-changed={}", path.display());
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
