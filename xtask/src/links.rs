//! Relative links of the Markdown pages: each must lead to a file or directory
//! of this repository, and one with an anchor to a heading of its page. Addresses
//! of other hosts are not checked, because a check that needs the network fails
//! for reasons outside the change.

use std::collections::{BTreeMap, BTreeSet};

use crate::Findings;
use crate::markdown::prose;

/// True for the pages whose links are checked: those in the root and in `docs/`.
pub(crate) fn is_checked(path: &str) -> bool {
    path.ends_with(".md") && (!path.contains('/') || path.starts_with("docs/"))
}

/// The links of `page` that lead nowhere. `files` are all files of the repository.
pub(crate) fn dead_links(page: &str, text: &str, files: &BTreeSet<&str>) -> Findings {
    let mut findings = Findings::new();
    for (number, line) in prose(text) {
        for target in targets(&line) {
            let path = target.split(['#', '?']).next().unwrap_or_default();
            if path.is_empty() || has_scheme(target) {
                continue;
            }
            let exists = resolve(page, path).is_some_and(|found| exists(&found, files));
            if !exists {
                findings.push(format!(
                    "{page}:{number}: the link {target} leads nowhere; fix the path or remove the link"
                ));
            }
        }
    }
    findings
}

/// The anchors of a page: its headings, as code hosts name them.
pub(crate) fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if is_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let heading = heading.trim().to_lowercase();
        let kept = heading.chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            letter => letter.is_alphanumeric().then_some(letter),
        });
        anchors.insert(kept.collect());
    }
    anchors
}

/// The links of `page` to a heading that its target lacks. `anchors` are those of all pages.
pub(crate) fn dead_anchors(
    page: &str,
    text: &str,
    anchors: &BTreeMap<&str, BTreeSet<String>>,
) -> Findings {
    let mut findings = Findings::new();
    for (number, line) in prose(text) {
        for target in targets(&line) {
            let Some((path, anchor)) = target.split_once('#').filter(|_| !has_scheme(target))
            else {
                continue;
            };
            let found = match path {
                "" => Some(page.to_owned()),
                path => resolve(page, path),
            };
            let known = found.and_then(|found| anchors.get(found.as_str()));
            if known.is_some_and(|known| !known.contains(anchor)) {
                findings.push(format!(
                    "{page}:{number}: the link {target} leads to no heading; name one of its page"
                ));
            }
        }
    }
    findings
}

/// The targets of `[text](target)`, `![alt](target)` and `[name]: target`.
pub(crate) fn targets(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find("](") {
        rest = &rest[at + 2..];
        let end = rest.find(')').unwrap_or(rest.len());
        targets.extend(rest[..end].split_whitespace().next());
        rest = &rest[end..];
    }
    if let Some((name, target)) = line.split_once("]: ")
        && name.starts_with('[')
        && !name.starts_with("[^")
        && !name.contains(']')
    {
        targets.extend(target.split_whitespace().next());
    }
    targets
        .into_iter()
        .map(|target| target.trim_start_matches('<').trim_end_matches('>'))
        .collect()
}

fn has_scheme(target: &str) -> bool {
    let scheme = target.split(':').next().unwrap_or_default();
    target.starts_with("//")
        || scheme.len() < target.len() && scheme.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// The path that a link on `page` means, from the root; `None` if it leads out of
/// the repository. A leading `/` means the root, as the code hosts show it.
pub(crate) fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    if !target.starts_with('/') {
        parts.extend(page.split('/'));
        parts.pop();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn exists(path: &str, files: &BTreeSet<&str>) -> bool {
    let directory = format!("{path}/");
    path.is_empty()
        || files.contains(path)
        || files
            .range(directory.as_str()..)
            .next()
            .is_some_and(|file| file.starts_with(&directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(page: &str, text: &str) -> Findings {
        let files = BTreeSet::from([
            "README.md",
            "docs/a.md",
            "docs/states/README.md",
            "web/x.svg",
        ]);
        dead_links(page, text, &files)
    }

    #[test]
    fn links_to_files_directories_anchors_and_other_hosts_are_in_order() {
        let text = "[a](a.md#part) [s](states/) [r](../README.md \"title\") [top](#top)\n\
                    [w](https://example.org/x) [m](mailto:a@example.org) ![i](/web/x.svg)\n\
                    [root](..)\n[ref]: states\n`[quoted](nowhere.md)`\n";
        assert_eq!(dead("docs/a.md", text), Findings::new());
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found_at_its_line() {
        assert_eq!(
            dead("docs/a.md", "fine\n[b](b.md)\n"),
            ["docs/a.md:2: the link b.md leads nowhere; fix the path or remove the link"]
        );
        assert_eq!(dead("README.md", "[x]: docs/b.md\n").len(), 1);
        assert_eq!(dead("README.md", "[a](docs/a.md) and [b](b.md)").len(), 1);
    }

    #[test]
    fn an_anchor_is_a_heading_of_its_page() {
        let a = "# Tasks: `baton run`\n```sh\n# no heading\n```\n## From Python\n";
        let pages = BTreeMap::from([("docs/a.md", anchors(a)), ("README.md", anchors("# B\n"))]);
        let dead = |text| dead_anchors("README.md", text, &pages);
        let fine = "[t](docs/a.md#tasks-baton-run) [p](docs/a.md#from-python) [b](#b) [c](x.rs#L9)";
        assert_eq!(dead(fine), Findings::new());
        assert_eq!(
            dead("\n[n](docs/a.md#no-heading)"),
            [
                "README.md:2: the link docs/a.md#no-heading leads to no heading; name one of its page"
            ]
        );
        assert_eq!(
            dead("[h](https://example.org/docs/a.md#x) [t](#top)").len(),
            1
        );
    }

    #[test]
    fn a_link_out_of_the_repository_is_found() {
        assert_eq!(dead("docs/a.md", "[x](../../elsewhere.md)").len(), 1);
    }

    #[test]
    fn a_directory_needs_its_whole_name() {
        assert_eq!(dead("docs/a.md", "[s](stat)").len(), 1);
    }

    #[test]
    fn pages_of_the_root_and_the_docs_are_checked() {
        assert!(is_checked("README.md"));
        assert!(is_checked("docs/design/core.md"));
        assert!(!is_checked("crates/core/NOTES.md"));
        assert!(!is_checked("docs/x.svg"));
    }
}
