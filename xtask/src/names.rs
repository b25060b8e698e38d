//! Names in the design chapters: each path and each symbol that a page puts into a code span exists
//! in this repository; part of `cargo xtask tidy`.
//!
//! A page that names what the code has renamed is worse than none, and no compiler notices. Three
//! kinds of spans are read as names:
//!
//! | span | must exist as |
//! |---|---|
//! | a path below a directory of the root or below a crate, or a file of code | a file or directory; `crates/` may be left out, and leading directories of a file |
//! | `path::to::symbol` | neighbours in one file, where the parts of its path count as names |
//! | `Type`, `SCREAMING_CONST`, `snake_case` | a word of the sources |
//!
//! Comments are no sources: a symbol that only a comment remembers is gone. Words of other systems
//! are in [`OTHER_SYSTEMS`].

use std::collections::{BTreeSet, HashMap};

use crate::Findings;
use crate::markdown::spans;

/// The pages that are checked: these, and the chapters in [`CHAPTERS`].
const PAGES: &[&str] = &[
    "docs/ARCHITECTURE.md",
    "docs/PROTOCOL.md",
    "docs/promises.md",
];

/// The directory of the design chapters.
const CHAPTERS: &str = "docs/design/";

/// This file: its list and its tests would make every name exist.
const THIS_FILE: &str = "xtask/src/names.rs";

/// The endings of files in which symbols are looked for.
const SOURCES: &[&str] = &[".rs", ".py", ".sh", ".sql", ".js", "Cargo.toml", "Makefile"];

/// The endings by which a span without a known directory is read as a file of this repository.
const CODE_FILES: &[&str] = &[".rs", ".py", ".sh", ".sql", ".toml"];

/// Words that look like names and belong to other systems, which the code may call by other means.
const OTHER_SYSTEMS: &[&str] = &[
    // The kernel.
    "CLOCK_BOOTTIME",
    "TCP_USER_TIMEOUT",
    // Libraries that were not chosen.
    "EnvFilter",
    "object_store",
    // PostgreSQL.
    "synchronous_commit",
];

/// A code span that is read as a name, and its place.
#[derive(Debug)]
struct Mention {
    page: String,
    line: usize,
    span: String,
    name: Name,
}

#[derive(Debug, PartialEq, Eq)]
enum Name {
    /// One path for each alternative in braces.
    Paths(Vec<String>),
    /// The parts of a symbol's path; one for a plain symbol.
    Symbol(Vec<String>),
}

/// The names of the checked pages, and where the sources have them.
#[derive(Debug, Default)]
pub(crate) struct Names {
    mentions: Vec<Mention>,
    /// The words of all symbols, each with the numbers of the sources that have it.
    words: HashMap<String, BTreeSet<usize>>,
    sources: usize,
}

impl Names {
    /// Collects the names of a page, if it is one that is checked. `files` are all files of the
    /// repository. All pages come before the first source.
    pub(crate) fn read_page(&mut self, path: &str, text: &str, files: &BTreeSet<&str>) {
        if !is_checked(path) {
            return;
        }
        for (line, span) in spans(text) {
            let Some(name) = parse(span, files) else {
                continue;
            };
            if let Name::Symbol(parts) = &name {
                for part in parts {
                    self.words.entry(part.clone()).or_default();
                }
            }
            self.mentions.push(Mention {
                page: path.to_owned(),
                line,
                span: span.to_owned(),
                name,
            });
        }
    }

    /// Notes which of the collected words a source has.
    pub(crate) fn read_source(&mut self, path: &str, text: &str) {
        let is_source = SOURCES.iter().any(|ending| path.ends_with(ending));
        if !is_source || path == THIS_FILE {
            return;
        }
        let number = self.sources;
        self.sources += 1;
        let rust = path.ends_with(".rs");
        let lines = text
            .lines()
            .map(|line| if rust { code(line) } else { line });
        let own = path
            .strip_prefix("crates/")
            .and_then(|it| it.split('/').next());
        let own = own.map(|name| format!("baton_{name}"));
        for word in lines.chain([path]).chain(own.as_deref()).flat_map(words) {
            if let Some(found) = self.words.get_mut(word) {
                found.insert(number);
            }
        }
    }

    /// The names that do not exist.
    pub(crate) fn missing(&self, files: &BTreeSet<&str>) -> Findings {
        let mut findings = Findings::new();
        for Mention {
            page,
            line,
            span,
            name,
        } in &self.mentions
        {
            let problem = match name {
                Name::Paths(paths) => paths.iter().find_map(|path| dead_path(path, files)),
                Name::Symbol(parts) => self.dead_symbol(parts),
            };
            if let Some(problem) = problem {
                findings.push(format!("{page}:{line}: `{span}`: {problem}"));
            }
        }
        findings
    }

    fn dead_symbol(&self, parts: &[String]) -> Option<String> {
        let none = BTreeSet::new();
        let sources = |part: &String| self.words.get(part).unwrap_or(&none);
        let hint = "read the code and correct the page; a word of another system belongs into \
                    OTHER_SYSTEMS of xtask/src/names.rs";
        if let Some(part) = parts.iter().find(|part| sources(part).is_empty()) {
            return Some(format!("no source has the name {part}; {hint}"));
        }
        let pair = parts
            .windows(2)
            .find(|pair| sources(&pair[0]).is_disjoint(sources(&pair[1])))?;
        Some(format!(
            "no source has {} together with {}; {hint}",
            pair[0], pair[1]
        ))
    }
}

fn is_checked(path: &str) -> bool {
    PAGES.contains(&path) || path.starts_with(CHAPTERS) && path.ends_with(".md")
}

/// Reads a code span as a name; `None` if it is something else, such as a command or an address.
fn parse(span: &str, files: &BTreeSet<&str>) -> Option<Name> {
    if OTHER_SYSTEMS.contains(&span) {
        return None;
    }
    if is_path(span, files) {
        return Some(Name::Paths(alternatives(span)));
    }
    let symbol = span.strip_suffix("()").unwrap_or(span);
    let symbol = symbol.split('<').next().unwrap_or(symbol);
    let parts: Vec<String> = symbol.split("::").map(str::to_owned).collect();
    let is_symbol = match parts.as_slice() {
        [name] => is_plain_symbol(name),
        parts => parts.iter().all(|part| is_identifier(part)),
    };
    is_symbol.then_some(Name::Symbol(parts))
}

/// True for a path below a directory of the root or below a crate, and for a file of code.
fn is_path(span: &str, files: &BTreeSet<&str>) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-{},".contains(c);
    if span.starts_with('/') || !span.chars().all(is_plain) {
        return false;
    }
    let is_code = CODE_FILES.iter().any(|ending| span.ends_with(ending));
    let below_known = || {
        let (top, _) = span.split_once('/')?;
        Some(is_directory(top, files) || is_directory(&format!("crates/{top}"), files))
    };
    is_code && !span.starts_with('.') || below_known() == Some(true)
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn alternatives(span: &str) -> Vec<String> {
    let braces = span
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    let Some((before, (inside, after))) = braces else {
        return vec![span.to_owned()];
    };
    let each = inside.split(',');
    each.map(|one| format!("{before}{one}{after}")).collect()
}

fn dead_path(path: &str, files: &BTreeSet<&str>) -> Option<String> {
    let path = path.trim_end_matches('/');
    let full = format!("crates/{path}");
    let exists = |path: &str| files.contains(path) || is_directory(path, files);
    let tail = format!("/{path}");
    if exists(path) || exists(&full) || files.iter().any(|file| file.ends_with(&tail)) {
        return None;
    }
    let (_, name) = tail.rsplit_once('/')?;
    let name = format!("/{name}");
    let hint = match files.iter().find(|file| file.ends_with(&name)) {
        Some(file) => format!("there is {file}"),
        None => "name a file or directory of this repository".to_owned(),
    };
    Some(format!("there is no {path}; {hint}"))
}

fn is_directory(path: &str, files: &BTreeSet<&str>) -> bool {
    let below = format!("{path}/");
    let next = files.range(below.as_str()..).next();
    next.is_some_and(|file| file.starts_with(&below))
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// True for `Type`, `SCREAMING_CONST` and `snake_case`. A single word in one case may be anything.
fn is_plain_symbol(text: &str) -> bool {
    let has = |test: fn(&char) -> bool| text.chars().any(|c| test(&c));
    let is_camel = text.starts_with(|c: char| c.is_ascii_uppercase())
        && has(char::is_ascii_lowercase)
        && !text.contains('_');
    let is_joined = text.contains('_') && !text.starts_with('_') && !text.ends_with('_');
    is_identifier(text) && (is_camel || is_joined)
}

/// A line of Rust without its comment.
fn code(line: &str) -> &str {
    if line.trim_start().starts_with("//") {
        return "";
    }
    line.split(" //").next().unwrap_or(line)
}

/// The identifiers of a line, those inside of strings included.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let bytes = line.as_bytes();
    let parts = bytes.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    let words = parts.filter(|word| !word.is_empty());
    words.filter_map(|word| std::str::from_utf8(word).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "docs/design/core.md";
    const FILES: &[&str] = &[
        "crates/core/src/plan/mod.rs",
        "crates/core/src/step/mod.rs",
        "crates/core/tests/golden/a.txt",
        "docs/design/core.md",
        "python/baton/call.py",
    ];
    const SOURCE: &str = "//! Gone: `OldName`.\npub struct Plan; // OldName\nimpl Plan { fn handle() {} }\n\
                          pub const WAIT_MAX: u64 = 1;\n";

    fn missing(text: &str) -> Findings {
        let files: BTreeSet<&str> = FILES.iter().copied().collect();
        let mut names = Names::default();
        names.read_page(PAGE, text, &files);
        names.read_source("crates/core/src/plan/mod.rs", SOURCE);
        names.read_source("crates/core/src/step/mod.rs", "pub struct Step;\n");
        names.missing(&files)
    }

    #[test]
    fn names_that_exist_are_in_order() {
        let text = "`core/src/plan` `crates/core/src/plan/mod.rs` `plan/mod.rs` `call.py` `python/baton/` \
                    `core/src/{plan,step}/mod.rs` `Plan` `Plan::handle` `Plan::handle()` `core::plan` \
                    `baton_core::step::Step` `WAIT_MAX`";
        assert_eq!(missing(text), Findings::new());
    }

    #[test]
    fn other_spans_are_no_names() {
        let text = "`baton run` `/runs/r1` `--limit` `work/LEASE` `lease` `DONE` `a b::c` `logs/LEASE.out` \
                    `{{ params.day }}` `.rs` `synchronous_commit`";
        assert_eq!(missing(text), Findings::new());
        assert_eq!(
            missing("```text\n`Missing` core/src/gone.rs\n```\n"),
            Findings::new()
        );
    }

    #[test]
    fn a_path_that_does_not_exist_is_found() {
        assert_eq!(
            missing("x\n\nsee `core/src/gone/mod.rs`"),
            [
                "docs/design/core.md:3: `core/src/gone/mod.rs`: there is no core/src/gone/mod.rs; \
              there is crates/core/src/plan/mod.rs"
            ]
        );
        assert_eq!(missing("`core/src/gone`").len(), 1);
        assert_eq!(missing("`gone.rs`").len(), 1);
        assert_eq!(missing("`core/src/{plan,gone}/mod.rs`").len(), 1);
    }

    #[test]
    fn a_symbol_that_does_not_exist_is_found() {
        let findings = missing("`MissingType`");
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with(
            "docs/design/core.md:1: `MissingType`: no source has the name MissingType; read the code"
        ));
        for name in [
            "`Plan::poll`",
            "`GONE_MAX`",
            "`gone_after`",
            "`core::gone::Plan`",
        ] {
            assert_eq!(missing(name).len(), 1, "{name}");
        }
    }

    #[test]
    fn neighbours_must_be_in_one_source() {
        let findings = missing("`Step::handle`");
        assert_eq!(findings.len(), 1);
        assert!(findings[0].contains("no source has Step together with handle"));
    }

    #[test]
    fn a_name_that_only_comments_have_is_gone() {
        assert_eq!(missing("`OldName`").len(), 1);
    }

    #[test]
    fn only_chapters_and_the_two_pages_are_checked() {
        assert!(is_checked("docs/design/store.md"));
        assert!(is_checked("docs/ARCHITECTURE.md"));
        assert!(!is_checked("docs/cluster.md"));
        assert!(!is_checked("docs/design/picture.svg"));
    }
}
