//! The book in the terminal: the chapters of `docs/SUMMARY.md` that users read, inside of the binary.
//!
//! | module | holds |
//! |---|---|
//! | [`page`] | blocks and texts of a chapter, decoded |
//! | [`render`](mod@render) | a chapter as lines of a width |
//! | `table` | tables within that width |
//! | `codes` | the encoding, shared with the build script |
//!
//! The build script (`build/`) parses the Markdown, so a page that cannot be rendered fails the build,
//! and no parser is in the binary. Chapters for contributors and the list of commands are left out:
//! `build/summary.rs` names them.

mod codes;
pub mod page;
pub mod render;
mod table;

use std::io::Read as _;

use flate2::read::DeflateDecoder;

use crate::page::Page;

/// A chapter of the book.
#[derive(Debug)]
pub struct Chapter {
    /// Its name for `baton help`.
    pub topic: &'static str,
    pub title: &'static str,
    /// The part of the book that it is in.
    pub part: &'static str,
    start: usize,
    end: usize,
}

/// Every chapter, in the order of the book.
pub const CHAPTERS: &[Chapter] = include!(concat!(env!("OUT_DIR"), "/chapters.rs"));

const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pages.deflate"));

/// How many headings are suggested for a word that is no topic.
const HEADINGS_MAX: usize = 5;

/// The chapter of a name.
pub fn find(topic: &str) -> Option<&'static Chapter> {
    let topic = topic.trim_end_matches(".md").to_lowercase();
    CHAPTERS.iter().find(|chapter| chapter.topic == topic)
}

/// The topic whose spelling is nearest to a word.
pub fn nearest(word: &str) -> Option<&'static str> {
    const LIKE: f64 = 0.8;
    let word = word.to_lowercase();
    let scored = CHAPTERS.iter().map(|chapter| {
        let topic = chapter.topic.trim_start_matches("from-");
        let score = strsim::jaro_winkler(&word, topic);
        (score, chapter.topic)
    });
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= LIKE).then_some(best.1)
}

/// Chapters with a word in a heading, each with the first such heading.
pub fn headings(word: &str) -> Vec<(&'static str, String)> {
    let word = word.to_lowercase();
    let all = pages();
    let found = CHAPTERS.iter().filter_map(|chapter| {
        let page = Page::decode(&all[chapter.start..chapter.end]);
        let heading = page.headings().find(|it| it.to_lowercase().contains(&word));
        heading.map(|heading| (chapter.topic, heading))
    });
    found.take(HEADINGS_MAX).collect()
}

impl Chapter {
    /// Its contents.
    pub fn page(&self) -> Page {
        Page::decode(&pages()[self.start..self.end])
    }
}

/// The encoded pages, one after the other.
fn pages() -> String {
    let mut pages = String::new();
    DeflateDecoder::new(PACKED)
        .read_to_string(&mut pages)
        .expect("the build script has packed UTF-8");
    pages
}
