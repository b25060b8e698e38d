//! `cargo xtask licences`: every dependency may be used under a permissive licence.
//!
//! It reads the manifests that cargo has already fetched, so it works without a network. Advisories
//! need one: see SECURITY.md.

use serde_json::Value;

use crate::Findings;
use crate::repo::Repo;

/// The licences that Baton may be combined with, as SPDX identifiers.
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

pub(crate) fn run(repo: &Repo) -> Result<Findings, String> {
    let metadata = repo.output(
        "cargo",
        &["metadata", "--format-version", "1", "--locked", "--offline"],
    );
    // A fresh machine has not fetched what only other platforms need.
    let metadata = match metadata {
        Ok(text) => text,
        Err(_) => repo.output("cargo", &["metadata", "--format-version", "1", "--locked"])?,
    };
    let metadata: Value =
        serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array();
    let packages = packages.ok_or("cargo metadata lists no packages")?;
    Ok(packages.iter().filter_map(finding).collect())
}

/// The finding about one package, if its licence is not permissive.
fn finding(package: &Value) -> Option<String> {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let (name, version, licence) = (text("name"), text("version"), text("license"));
    let problem = match permits(licence) {
        Some(true) => return None,
        Some(false) => format!("its licence `{licence}` is not in the list of permissive ones"),
        None => format!("its licence `{licence}` is not an SPDX expression"),
    };
    Some(format!(
        "{name} {version}: {problem}; use another crate, or add the licence to xtask/src/licences.rs with a reason"
    ))
}

/// True if an SPDX expression allows use under permissive licences alone; `None` if it cannot be
/// parsed. `AND` binds stronger than `OR`; a slash is an old spelling of `OR`.
fn permits(expression: &str) -> Option<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ");
    let spaced = spaced
        .replace('/', " OR ")
        .replace(" WITH ", "\u{a0}WITH\u{a0}");
    let tokens: Vec<&str> = spaced
        .split(' ')
        .filter(|token| !token.is_empty())
        .collect();
    let mut rest = &tokens[..];
    let permitted = any_of(&mut rest)?;
    rest.is_empty().then_some(permitted)
}

fn any_of(rest: &mut &[&str]) -> Option<bool> {
    let mut permitted = all_of(rest)?;
    while let ["OR", tail @ ..] = *rest {
        *rest = tail;
        permitted |= all_of(rest)?;
    }
    Some(permitted)
}

fn all_of(rest: &mut &[&str]) -> Option<bool> {
    let mut permitted = single(rest)?;
    while let ["AND", tail @ ..] = *rest {
        *rest = tail;
        permitted &= single(rest)?;
    }
    Some(permitted)
}

fn single(rest: &mut &[&str]) -> Option<bool> {
    let (first, tail) = rest.split_first()?;
    *rest = tail;
    if *first == "(" {
        let permitted = any_of(rest)?;
        let (close, tail) = rest.split_first()?;
        *rest = tail;
        return (*close == ")").then_some(permitted);
    }
    let licence = first.replace('\u{a0}', " ");
    let is_operator = matches!(licence.as_str(), "AND" | "OR" | ")");
    (!is_operator).then(|| PERMISSIVE.contains(&licence.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_expression_permits_if_one_choice_is_permissive_as_a_whole() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "MIT/Apache-2.0",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
            "GPL-3.0 OR MIT AND ISC",
        ] {
            assert_eq!(permits(good), Some(true), "{good}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND MPL-2.0"] {
            assert_eq!(permits(bad), Some(false), "{bad}");
        }
        for broken in ["", "MIT OR", "(MIT", "MIT ISC", "AND MIT"] {
            assert_eq!(permits(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_finding_names_the_package_its_licence_and_the_remedy() {
        let package = json!({ "name": "x", "version": "1.2.3", "license": "GPL-3.0-only" });
        let finding = finding(&package).expect("refused");
        assert!(
            finding.starts_with("x 1.2.3: its licence `GPL-3.0-only`"),
            "{finding}"
        );
        let package = json!({ "name": "x", "version": "1.2.3", "license": "ISC" });
        assert_eq!(super::finding(&package), None);
        let package = json!({ "name": "x", "version": "1.2.3", "license": null });
        assert!(super::finding(&package).is_some(), "no licence at all");
    }
}
