//! The table of contents of the book, `docs/SUMMARY.md`; part of `cargo xtask tidy`.
//!
//! Every page under `docs/` is in it, once: a page that is missing there is missing in the book that
//! `make book` builds. That each of its links leads to a file is checked as for any page, by
//! [`links`].

use std::collections::{BTreeMap, BTreeSet};

use crate::Findings;
use crate::links;
use crate::markdown::prose;

/// The table of contents.
pub(crate) const PAGE: &str = "docs/SUMMARY.md";

/// Pages under `docs/` that the summary lacks, links of it to no page, and pages that it has twice.
pub(crate) fn check(summary: &str, files: &BTreeSet<&str>) -> Findings {
    let mut findings = Findings::new();
    let mut listed = BTreeMap::new();
    for (number, line) in prose(summary) {
        for target in links::targets(&line) {
            let page = links::resolve(PAGE, target).unwrap_or_default();
            if !page.ends_with(".md") {
                findings.push(format!(
                    "{PAGE}:{number}: the link {target} leads to no page; name a .md file"
                ));
            } else if let Some(first) = listed.insert(page, number) {
                findings.push(format!(
                    "{PAGE}:{number}: {target} is in line {first}, too; a page has one place"
                ));
            }
        }
    }
    let pages = files
        .iter()
        .filter(|path| path.starts_with("docs/") && path.ends_with(".md") && **path != PAGE);
    for page in pages.filter(|page| !listed.contains_key(**page)) {
        findings.push(format!("{PAGE}: lacks {page}; add it to its part"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(summary: &str) -> Findings {
        let files = [
            "README.md",
            "docs/SUMMARY.md",
            "docs/a.md",
            "docs/design/b.md",
            "docs/x.png",
        ];
        check(summary, &BTreeSet::from(files))
    }

    #[test]
    fn a_summary_of_all_pages_is_in_order() {
        let summary = "# S\n\n[R](../README.md)\n\n- [A](a.md)\n  - [B](design/b.md)\n";
        assert_eq!(findings(summary), Findings::new());
    }

    #[test]
    fn a_page_that_the_summary_lacks_is_found() {
        assert_eq!(
            findings("- [A](a.md)\n"),
            ["docs/SUMMARY.md: lacks docs/design/b.md; add it to its part"]
        );
    }

    #[test]
    fn a_page_is_listed_once() {
        assert_eq!(
            findings("- [A](a.md)\n- [B](design/b.md)\n- [again](./a.md)\n"),
            ["docs/SUMMARY.md:3: ./a.md is in line 1, too; a page has one place"]
        );
    }

    #[test]
    fn a_link_to_no_page_is_found() {
        let findings = findings("- [A](a.md)\n- [B](design/b.md)\n- [X](x.png)\n");
        assert_eq!(
            findings,
            ["docs/SUMMARY.md:3: the link x.png leads to no page; name a .md file"]
        );
    }
}
