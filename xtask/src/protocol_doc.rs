//! `cargo xtask protocol-doc`: the protocol page and the tests agree.
//!
//! The page names a test as `[test: golden/NAME]`, a golden conversation in the
//! simulator's tests, or as `[test: file::name]`, a Rust test function anywhere
//! in the crates. Every named test must exist, every golden conversation must be
//! named, and the page has at least [`PAIRS_MIN`] pairwise interactions. Code spans
//! are quotations and not checked. Of the further pages that name tests so, only the names are checked.

use std::collections::BTreeSet;

use crate::Findings;
use crate::markdown::{prose, section};
use crate::repo::Repo;

const PAGE: &str = "docs/PROTOCOL.md";
const FURTHER: &[&str] = &["docs/design/fleets.md"];
const GOLDEN_DIR: &str = "crates/sim/tests/golden/";
const GOLDEN_SUFFIX: &str = ".txt";
const PAIRS_TITLE: &str = "Pairwise interactions";
const PAIRS_MIN: usize = 20;

/// The existing tests.
#[derive(Debug, Default)]
struct Tests {
    golden: BTreeSet<String>,
    functions: BTreeSet<String>,
}

/// Compares the page with the tests of the repository.
pub(crate) fn run(repo: &Repo) -> Result<Findings, String> {
    let page = repo.text(PAGE)?.ok_or_else(|| {
        format!("{PAGE} is missing; it describes the calls and names their tests")
    })?;
    let mut tests = Tests::default();
    for path in repo.files()? {
        if let Some(name) = golden_name(&path) {
            tests.golden.insert(name.to_owned());
        } else if path.starts_with("crates/")
            && path.ends_with(".rs")
            && let Some(text) = repo.text(&path)?
        {
            tests.functions.extend(test_functions(&text));
        }
    }
    let mut findings = check(&page, &tests);
    for path in FURTHER {
        let page = repo
            .text(path)?
            .ok_or_else(|| format!("{path} is missing"))?;
        findings.extend(check_names(path, &prose(&page), &tests));
    }
    Ok(findings)
}

fn golden_name(path: &str) -> Option<&str> {
    path.strip_prefix(GOLDEN_DIR)?.strip_suffix(GOLDEN_SUFFIX)
}

fn check(page: &str, tests: &Tests) -> Findings {
    let lines = prose(page);
    let mut findings = check_names(PAGE, &lines, tests);
    findings.extend(too_few_pairs(&lines));
    for name in &tests.golden {
        if !mentions(page, &format!("golden/{name}")) {
            findings.push(format!(
                "{GOLDEN_DIR}{name}{GOLDEN_SUFFIX}: {PAGE} does not mention it; \
                 add [test: golden/{name}] beside the behaviour it shows"
            ));
        }
    }
    findings
}

/// Finds names of tests that do not exist.
fn check_names(path: &str, lines: &[(usize, String)], tests: &Tests) -> Findings {
    let mut findings = Findings::new();
    for (number, line) in lines {
        for name in named_tests(line) {
            if let Some(problem) = problem_of(name, tests) {
                findings.push(format!("{path}:{number}: {problem}"));
            }
        }
    }
    findings
}

/// The names in `[test: NAME]` on one line.
fn named_tests(line: &str) -> Vec<&str> {
    line.split("[test:")
        .skip(1)
        .map(|rest| rest.split(']').next().unwrap_or_default().trim())
        .collect()
}

/// The problem with a named test, if any.
fn problem_of(name: &str, tests: &Tests) -> Option<String> {
    if let Some(golden) = name.strip_prefix("golden/") {
        return (!tests.golden.contains(golden)).then(|| {
            format!("names golden/{golden}, but there is no {GOLDEN_DIR}{golden}{GOLDEN_SUFFIX}")
        });
    }
    match name.rsplit_once("::") {
        Some((_, function)) if tests.functions.contains(function) => None,
        Some((_, function)) => Some(format!(
            "names {name}, but no #[test] fn {function}() is in the crates"
        )),
        None => Some(format!(
            "\"{name}\" names no test; write golden/NAME or file::name, without backticks"
        )),
    }
}

fn too_few_pairs(lines: &[(usize, String)]) -> Option<String> {
    let Some(section) = section(lines, PAIRS_TITLE) else {
        return Some(format!("{PAGE}: has no section titled {PAIRS_TITLE}"));
    };
    let rows = section
        .iter()
        .filter(|(_, line)| line.trim_start().starts_with('|') && !named_tests(line).is_empty())
        .count();
    (rows < PAIRS_MIN).then(|| {
        format!(
            "{PAGE}: {rows} rows of {PAIRS_TITLE} name a test, of {PAIRS_MIN} needed; \
             give each interaction its [test: ...]"
        )
    })
}

/// True if `page` has `name` and not merely a longer name that begins with it.
fn mentions(page: &str, name: &str) -> bool {
    page.match_indices(name).any(|(at, _)| {
        let after = page[at + name.len()..].chars().next();
        !after.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-')
    })
}

/// The names of the functions that carry `#[test]`, or the same of the async runtime.
fn test_functions(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut marked = false;
    for line in text.lines().map(str::trim_start) {
        marked |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        if line.starts_with("//") {
            continue;
        }
        if marked && let Some(name) = function_name(line) {
            names.push(name.to_owned());
            marked = false;
        }
    }
    names
}

/// The name in a line such as `pub fn name() {`.
fn function_name(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let own_word = before.is_empty() || before.ends_with(' ');
    let (name, _) = rest.split_once('(')?;
    own_word.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests() -> Tests {
        Tests {
            golden: BTreeSet::from(["lost-reply".to_owned()]),
            functions: BTreeSet::from(["a_reply_is_lost".to_owned()]),
        }
    }

    /// A page in order, with `rows` rows of interactions.
    fn page(rows: usize) -> String {
        let row = "| a | b | [test: worker::a_reply_is_lost] [test: golden/lost-reply] |\n";
        format!(
            "# P\n\n## {PAIRS_TITLE}\n\n| x | y | test |\n|---|---|---|\n{}\n## Next\n",
            row.repeat(rows)
        )
    }

    #[test]
    fn a_page_whose_tests_exist_is_in_order() {
        assert_eq!(check(&page(PAIRS_MIN), &tests()), Findings::new());
    }

    #[test]
    fn a_missing_function_is_found_at_its_line() {
        let text = format!("{}[test: worker::gone]\n", page(PAIRS_MIN));
        let line = text.lines().count();
        assert_eq!(
            check(&text, &tests()),
            [format!(
                "docs/PROTOCOL.md:{line}: names worker::gone, but no #[test] fn gone() is in the crates"
            )]
        );
    }

    #[test]
    fn a_missing_golden_conversation_is_found() {
        let findings = check(
            &format!("{}[test: golden/gone]\n", page(PAIRS_MIN)),
            &tests(),
        );
        assert_eq!(findings.len(), 1);
        assert!(findings[0].ends_with("there is no crates/sim/tests/golden/gone.txt"));
    }

    #[test]
    fn a_name_in_neither_form_is_found_and_a_quoted_one_is_not() {
        let findings = check(
            &format!(
                "{}[test: a_reply_is_lost] [test: `x::y`]\n",
                page(PAIRS_MIN)
            ),
            &tests(),
        );
        assert_eq!(findings.len(), 2);
        let quoted = format!("{}named as `[test: NAME]`\n", page(PAIRS_MIN));
        assert_eq!(check(&quoted, &tests()), Findings::new());
    }

    #[test]
    fn too_few_interactions_are_found_wherever_else_tests_are_named() {
        let text = format!("{}| [test: golden/lost-reply] |\n", page(PAIRS_MIN - 1));
        let findings = check(&text, &tests());
        assert_eq!(findings.len(), 1);
        assert!(findings[0].contains("19 rows of Pairwise interactions"));
    }

    #[test]
    fn a_page_without_the_section_is_found() {
        let findings = check("# P\ngolden/lost-reply\n", &tests());
        assert_eq!(
            findings,
            ["docs/PROTOCOL.md: has no section titled Pairwise interactions"]
        );
    }

    #[test]
    fn a_golden_conversation_that_is_not_mentioned_is_found() {
        let mut tests = tests();
        tests.golden.insert("lost".to_owned());
        let findings = check(&page(PAIRS_MIN), &tests);
        assert_eq!(findings.len(), 1);
        assert!(
            findings[0].starts_with("crates/sim/tests/golden/lost.txt: docs/PROTOCOL.md does not")
        );
    }

    #[test]
    fn only_functions_that_are_tests_count() {
        let text = "#[test]\nfn one() {}\nfn helper() {}\n#[test]\n#[should_panic(expected = \"fn\")]\n\
                    // about fn nothing(\nfn two() {\n    #[test] fn three() {}\n//#[test]\nfn four() {}\n\
                    #[tokio::test(start_paused = true)]\nasync fn five() {}\n";
        assert_eq!(test_functions(text), ["one", "two", "three", "five"]);
    }

    #[test]
    fn golden_names_come_from_their_files() {
        assert_eq!(golden_name("crates/sim/tests/golden/a-b.txt"), Some("a-b"));
        assert_eq!(golden_name("crates/sim/tests/golden/a-b.md"), None);
        assert_eq!(golden_name("crates/core/tests/golden/a.txt"), None);
    }
}
