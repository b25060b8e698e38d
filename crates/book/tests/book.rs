//! The chapters of the binary, and how a terminal shows them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use baton_book::CHAPTERS;
use baton_book::render::render;
use baton_terminal::text::display_width;

/// Pages of the book that are in no binary, and why.
const LEFT_OUT: &[&str] = &[
    // The picture and the tour; `baton --help` begins.
    "../README.md",
    // `--help` says it.
    "commands.md",
    // For contributors.
    "ARCHITECTURE.md",
    "PROTOCOL.md",
    "../CHANGELOG.md",
    "../CONTRIBUTING.md",
    "releasing.md",
    "../SECURITY.md",
];

fn docs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Title and page of every chapter in the contents.
fn contents() -> Vec<(String, String)> {
    let summary = fs::read_to_string(docs().join("SUMMARY.md")).expect("contents");
    let links = summary.lines().filter_map(|line| {
        let (_, rest) = line.split_once('[')?;
        let (title, rest) = rest.split_once("](")?;
        Some((title.to_owned(), rest.trim_end_matches(')').to_owned()))
    });
    links.collect()
}

/// A styled line without code, whose style is cyan.
fn prose(line: &str) -> String {
    let mut parts = line.split("\x1b[36m");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.filter_map(|part| part.split_once("\x1b[0m"));
    first + &rest.map(|(_, after)| after).collect::<String>()
}

#[test]
fn the_chapters_are_those_of_the_contents() {
    let expected: Vec<String> = contents()
        .into_iter()
        .filter(|(_, page)| !LEFT_OUT.contains(&page.as_str()) && !page.starts_with("design/"))
        .map(|(title, _)| title)
        .collect();
    let found: Vec<&str> = CHAPTERS.iter().map(|chapter| chapter.title).collect();
    assert_eq!(found, expected);
    let topics: BTreeSet<&str> = CHAPTERS.iter().map(|chapter| chapter.topic).collect();
    assert_eq!(topics.len(), CHAPTERS.len(), "each has a name of its own");
    for topic in [
        "schedules",
        "tutorial",
        "python",
        "which-command",
        "from-cron",
        "glossary",
    ] {
        assert!(baton_book::find(topic).is_some(), "{topic}");
    }
    assert!(baton_book::find("releasing").is_none());
}

#[test]
fn every_chapter_is_rendered_without_markdown() {
    for chapter in CHAPTERS {
        let text = render(&chapter.page(), 80, false);
        assert!(text.len() > 300, "{}: {text}", chapter.topic);
        let has_control = text.chars().any(|it| it < ' ' && it != '\n');
        assert!(!has_control, "{}: {text}", chapter.topic);
        let styled = render(&chapter.page(), 80, true);
        for line in styled.lines().filter(|line| !line.starts_with("    ")) {
            let line = prose(line);
            for raw in ["](", "**", "`", "|", "&nbsp;", "<d", "<!--"] {
                assert!(!line.contains(raw), "{}: {raw} in {line}", chapter.topic);
            }
            assert!(!line.starts_with('#'), "{}: {line}", chapter.topic);
        }
    }
}

#[test]
fn no_line_but_code_and_addresses_exceeds_the_width() {
    for chapter in CHAPTERS {
        for width in [40, 80, 132] {
            let text = render(&chapter.page(), width, false);
            for line in text.lines().filter(|line| !line.starts_with("    ")) {
                let is_word = line
                    .trim_start_matches(['•', ' '])
                    .split_whitespace()
                    .count()
                    <= 1;
                assert!(
                    display_width(line) <= width || is_word,
                    "{} at {width}: {line}",
                    chapter.topic
                );
            }
        }
    }
}

#[test]
fn styles_are_shown_on_a_terminal_only() {
    let page = baton_book::find("schedules").expect("a chapter").page();
    let plain = render(&page, 80, false);
    let styled = render(&page, 80, true);
    assert!(plain.starts_with("Schedules\n═══"), "{plain}");
    assert!(styled.starts_with("\x1b[1mSchedules\x1b[0m\n"), "{styled}");
    assert!(
        plain.contains("\n    baton schedule preview every monday"),
        "{plain}"
    );
}

#[test]
fn links_lead_to_other_chapters_and_addresses_are_shown() {
    let shown = |topic| {
        let chapter = baton_book::find(topic).expect("a chapter");
        render(&chapter.page(), 100, false)
    };
    let tutorial = shown("tutorial");
    let (_, see) = tutorial.rsplit_once("See also: ").expect("at the end");
    assert!(see.contains("baton help pages"), "{see}");
    assert!(see.contains("baton help second-machine"), "{see}");
    assert!(tutorial.contains("http://127.0.0.1:8080"), "{tutorial}");
}

#[test]
fn a_table_is_readable_at_every_width() {
    let page = baton_book::find("schedules").expect("a chapter").page();
    let wide = render(&page, 120, false);
    let row = wide.lines().find(|line| line.starts_with("minute "));
    assert!(row.is_some_and(|row| row.contains("  0-59")), "{wide}");
    let narrow = render(&page, 30, false);
    assert!(narrow.contains("\n  values: 0-59\n"), "{narrow}");
}

#[test]
fn a_misspelled_topic_has_the_nearest_one() {
    assert_eq!(baton_book::nearest("shedules"), Some("schedules"));
    assert_eq!(baton_book::nearest("air-flow"), Some("from-airflow"));
    assert_eq!(baton_book::nearest("qqqq"), None);
    let found = baton_book::headings("jitter");
    let all = baton_book::headings("the");
    assert!(all.len() <= 5 && !all.is_empty(), "{all:?}");
    assert!(
        found
            .iter()
            .all(|(_, it)| it.to_lowercase().contains("jitter"))
    );
}
