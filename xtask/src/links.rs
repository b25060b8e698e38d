//! Relative links of the Markdown pages: each must lead to a file or directory
//! of this repository. Addresses of other hosts are not checked, because a check
//! that needs the network fails for reasons outside the change.

use std::collections::BTreeSet;

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

/// The targets of `[text](target)`, `![alt](target)` and `[name]: target`.
fn targets(line: &str) -> Vec<&str> {
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
fn resolve(page: &str, target: &str) -> Option<String> {
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
        assert!(is_checked("docs/decisions/0001-x.md"));
        assert!(!is_checked("crates/core/NOTES.md"));
        assert!(!is_checked("docs/x.svg"));
    }
}
