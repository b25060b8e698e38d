//! `cargo xtask tidy`: rules for every text file of the repository.
//!
//! Each rule replaces a recurring review comment. The needles are composed from
//! parts, so that this file, which must name what it forbids, keeps its own rules.

use std::collections::{BTreeMap, BTreeSet};

use crate::Findings;
use crate::commands::{self, Commands};
use crate::language;
use crate::links;
use crate::names::Names;
use crate::repo::Repo;
use crate::summary;

/// The maximum length of a Rust file; the aim is 600. Split a longer one into a folder.
const RUST_LINES_MAX: usize = 800;

/// Forbidden in Rust code, with the hint.
const FORBIDDEN: &[(&str, &str)] = &[
    (
        concat!("todo", "!("),
        "finish it, or return an error that names what is missing",
    ),
    (
        concat!("unimplemented", "!("),
        "finish it, or return an error that names what is missing",
    ),
    (
        concat!("#[", "ignore"),
        "make the test fast and steady, or delete it",
    ),
];

/// Words that promise work; allowed with a reason beside them.
const PROMISES: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME")];

/// Top directories of one person's machine; a path below them works nowhere else.
const PRIVATE_DIRS: &[&str] = &["work", "root", "home"];

/// Checks every text file of the repository.
pub(crate) fn run(repo: &Repo) -> Result<Findings, String> {
    let files = repo.files()?;
    let known: BTreeSet<&str> = files.iter().map(String::as_str).collect();
    let mut anchors = BTreeMap::new();
    let mut names = Names::default();
    for path in files.iter().filter(|path| path.ends_with(".md")) {
        if let Some(text) = repo.text(path)? {
            anchors.insert(path.as_str(), links::anchors(&text));
            names.read_page(path, &text, &known);
        }
    }
    let commands = Commands::read(&repo.text(commands::PAGE)?.unwrap_or_default());
    let mut findings = Findings::new();
    for path in &files {
        let Some(text) = repo.text(path)? else {
            continue;
        };
        findings.extend(untidy(path, &text));
        names.read_source(path, &text);
        if language::is_checked(path) {
            findings.extend(language::check(path, &text));
        }
        if links::is_checked(path) {
            findings.extend(links::dead_links(path, &text, &known));
            findings.extend(links::dead_anchors(path, &text, &anchors));
            // The changelog names options of earlier versions, too.
            if path != "CHANGELOG.md" {
                findings.extend(commands.check(path, &text));
            }
        }
    }
    findings.extend(names.missing(&known));
    findings.extend(split_modules(&known));
    let contents = repo.text(summary::PAGE)?.unwrap_or_default();
    findings.extend(summary::check(&contents, &known));
    Ok(findings)
}

/// All findings of one text file.
fn untidy(path: &str, text: &str) -> Findings {
    let mut findings = Findings::new();
    let rust = path.ends_with(".rs");
    if rust {
        findings.extend(untidy_rust_file(path, text));
    }
    // Not `lines()`, which would hide the carriage return of a CRLF.
    for (index, line) in text.split('\n').enumerate() {
        let mut found = |what: String| findings.push(format!("{path}:{}: {what}", index + 1));
        if line.ends_with([' ', '\t', '\r']) {
            found("trailing whitespace; remove it".to_owned());
        }
        if let Some(private) = private_path(line) {
            found(format!(
                "{private} exists on one machine only; write a relative path"
            ));
        }
        // Prose may speak of such a word; code with one is unfinished.
        if !path.ends_with(".md")
            && let Some(promise) = bare_promise(line)
        {
            found(format!(
                "{promise} without a reason; do it now, or give the reason: {promise}(reason)"
            ));
        }
        if rust {
            for (needle, hint) in FORBIDDEN {
                if line.contains(needle) {
                    found(format!("{needle} is not allowed; {hint}"));
                }
            }
        }
    }
    findings
}

fn untidy_rust_file(path: &str, text: &str) -> Findings {
    let mut findings = Findings::new();
    if !text.starts_with("//!") {
        findings.push(format!(
            "{path}:1: does not begin with a module doc; describe its purpose in //!"
        ));
    }
    let lines = text.lines().count();
    if lines > RUST_LINES_MAX {
        findings.push(format!(
            "{path}: {lines} lines, of {RUST_LINES_MAX} allowed; make it a folder with a file per concern"
        ));
    }
    findings
}

/// Modules that are split into `x.rs` and a folder `x/`: one with submodules is `x/mod.rs`.
fn split_modules(files: &BTreeSet<&str>) -> Findings {
    let has_rust_files = |folder: &str| {
        let mut below = files
            .range(folder..)
            .take_while(|file| file.starts_with(folder));
        below.any(|file| file.ends_with(".rs"))
    };
    let modules = files.iter().filter_map(|file| file.strip_suffix(".rs"));
    let split = modules.filter(|module| has_rust_files(&format!("{module}/")));
    split
        .map(|module| {
            format!(
                "{module}.rs: stands beside a folder of its submodules; move it to {module}/mod.rs"
            )
        })
        .collect()
}

/// An absolute path below one of [`PRIVATE_DIRS`], if the line has one.
fn private_path(line: &str) -> Option<&str> {
    let bytes = line.as_bytes();
    for (at, _) in line.match_indices('/') {
        // Something before the slash makes it a relative path or an address.
        let inside_a_path = at > 0 && is_path_byte(bytes[at - 1]);
        let Some((top, below)) = line[at + 1..].split_once('/') else {
            continue;
        };
        let goes_on = below.bytes().next().is_some_and(is_path_byte);
        if !inside_a_path && goes_on && PRIVATE_DIRS.contains(&top) {
            let length = line[at..].bytes().take_while(|&b| is_path_byte(b)).count();
            return Some(&line[at..at + length]);
        }
    }
    None
}

fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/._-~$}".contains(&byte)
}

/// A word of [`PROMISES`] that stands without a reason, if the line has one: a
/// reason is ` because ` on the line, or words in parentheses after it.
fn bare_promise(line: &str) -> Option<&'static str> {
    if line.contains(" because ") {
        return None;
    }
    PROMISES.iter().copied().find(|promise| {
        line.match_indices(promise).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = &line[at + promise.len()..];
            let part_of_a_word = |c: char| c.is_alphanumeric() || c == '_';
            !before.is_some_and(part_of_a_word)
                && !after.starts_with(part_of_a_word)
                && !has_reason(after)
        })
    })
}

fn has_reason(after: &str) -> bool {
    after
        .strip_prefix('(')
        .and_then(|rest| rest.split_once(')'))
        .is_some_and(|(reason, _)| !reason.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOC: &str = "//! Purpose.\n";

    fn rust(line: &str) -> Findings {
        untidy("crates/x/src/a.rs", &format!("{DOC}{line}\n"))
    }

    #[test]
    fn an_ordinary_file_is_in_order() {
        assert_eq!(rust("fn f() {} // see docs/home/page"), Findings::new());
        assert_eq!(untidy("LICENSE", "Plain text.\n"), Findings::new());
    }

    #[test]
    fn a_rust_file_begins_with_its_purpose() {
        let findings = untidy("a.rs", "use std::fmt;\n");
        assert_eq!(
            findings,
            ["a.rs:1: does not begin with a module doc; describe its purpose in //!"]
        );
        assert_eq!(untidy("a.py", "import os\n"), Findings::new());
    }

    #[test]
    fn a_rust_file_has_a_greatest_length() {
        let longest = format!("{DOC}{}", "\n".repeat(RUST_LINES_MAX - 1));
        assert_eq!(untidy("a.rs", &longest), Findings::new());
        let findings = untidy("a.rs", &format!("{longest}\n"));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("a.rs: 801 lines, of 800 allowed;"));
    }

    #[test]
    fn a_module_with_submodules_is_a_folder() {
        let files = BTreeSet::from([
            "crates/x/src/a.rs",
            "crates/x/src/a/deep/b.rs",
            "crates/x/src/ab.rs",
            "crates/x/src/c/mod.rs",
            "crates/x/src/c/d.rs",
            "crates/x/src/e.rs",
            "crates/x/src/e/notes.md",
        ]);
        assert_eq!(
            split_modules(&files),
            [
                "crates/x/src/a.rs: stands beside a folder of its submodules; move it to crates/x/src/a/mod.rs"
            ]
        );
    }

    #[test]
    fn unfinished_code_and_switched_off_tests_are_found() {
        for (needle, _) in FORBIDDEN {
            let findings = rust(&format!("    {needle}"));
            assert_eq!(findings.len(), 1, "{needle}");
            assert!(findings[0].starts_with("crates/x/src/a.rs:2: "));
        }
    }

    #[test]
    fn a_promise_needs_a_reason() {
        for promise in PROMISES {
            assert_eq!(rust(&format!("// {promise}: later")).len(), 1);
            assert_eq!(rust(&format!("// {promise}() later")).len(), 1);
            assert_eq!(
                rust(&format!("// {promise}(upstream bug): later")),
                Findings::new()
            );
            assert_eq!(
                rust(&format!("// {promise} because it waits")),
                Findings::new()
            );
            assert_eq!(
                rust(&format!("const MAS{promise}: u8 = 1;")),
                Findings::new()
            );
            assert_eq!(untidy("Makefile", &format!("# {promise}\n")).len(), 1);
            assert_eq!(
                untidy("a.md", &format!("a bare {promise} is refused\n")),
                Findings::new()
            );
        }
    }

    #[test]
    fn trailing_whitespace_is_found_in_every_text_file() {
        assert_eq!(
            untidy("a.md", "a \n"),
            ["a.md:1: trailing whitespace; remove it"]
        );
        assert_eq!(untidy("Makefile", "a\n\t\n").len(), 1);
        assert_eq!(untidy("a.txt", "a\r\n").len(), 1);
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        for top in PRIVATE_DIRS {
            assert_eq!(
                private_path(&format!("see /{top}/a/b.txt.")),
                Some(&*format!("/{top}/a/b.txt."))
            );
            assert_eq!(untidy("a.toml", &format!("x = \"/{top}/me\"\n")).len(), 1);
            assert_eq!(
                private_path(&format!("https://example.org/{top}/page")),
                None
            );
            assert_eq!(
                private_path(&format!("docs/{top}/page and ../{top}/x")),
                None
            );
            assert_eq!(private_path(&format!("the directory /{top}/ itself")), None);
            assert_eq!(private_path(&format!("/{top}bench/x")), None);
        }
    }
}
