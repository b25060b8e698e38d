//! `cargo xtask sbom TARGET`: the bill of materials of the binary, as CycloneDX 1.5 in JSON.
//!
//! From `cargo metadata` and the checksums of `Cargo.lock`: every package that the binary is built
//! from on a target, and which depends on which. Packages that only run while it is built (build
//! scripts, macros, and what they need) have the scope `excluded`. C sources inside of packages, such
//! as SQLite in `libsqlite3-sys`, have no entries of their own.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::repo::Repo;

/// The package of the binary.
const ROOT: &str = "baton-cli";

/// Writes the bill of the binary for a target to standard output.
pub(crate) fn run(repo: &Repo, target: &str) -> Result<(), String> {
    let metadata = repo.cargo(&[
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--filter-platform",
        target,
    ])?;
    let metadata: Value = serde_json::from_str(&metadata)
        .map_err(|error| format!("cargo metadata printed bad JSON: {error}"))?;
    let lock = repo.text("Cargo.lock")?.ok_or("there is no Cargo.lock")?;
    let bill = bill(&metadata, &checksums(&lock))?;
    println!("{bill:#}");
    Ok(())
}

/// SHA-256 of the source of each package from a registry, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let mut lines = package.lines();
            let line = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
            Some(line.trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(sum)) =
            (value("name"), value("version"), value("checksum"))
        {
            found.insert((name, version), sum);
        }
    }
    found
}

fn bill(metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> Result<Value, String> {
    let by_id = |list: &Value| -> BTreeMap<String, Value> {
        let items = list.as_array().into_iter().flatten();
        items.map(|it| (text(it, "id"), it.clone())).collect()
    };
    let packages = by_id(&metadata["packages"]);
    let nodes = by_id(&metadata["resolve"]["nodes"]);
    let root = packages.values().find(|it| it["name"] == ROOT);
    let root = root.ok_or_else(|| format!("cargo metadata has no package {ROOT}"))?;
    let root_id = text(root, "id");
    let shipped = reached(&nodes, &root_id, |id, kind| {
        kind.is_null() && !is_macro(&packages[id])
    });
    let used = reached(&nodes, &root_id, |_, kind| {
        kind.is_null() || kind == "build"
    });

    let components = used.iter().filter(|id| **id != root_id).map(|id| {
        let package = &packages[id];
        let (name, version) = (text(package, "name"), text(package, "version"));
        let scope = if shipped.contains(id) {
            "required"
        } else {
            "excluded"
        };
        let mut component = json!({
            "type": "library",
            "bom-ref": reference(package),
            "name": name,
            "version": version,
            "purl": reference(package),
            "scope": scope,
            // A slash is an old spelling of `OR`.
            "licenses": [{ "expression": text(package, "license").replace('/', " OR ") }],
        });
        if let Some(sum) = checksums.get(&(name, version)) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        component
    });
    let components: Vec<Value> = components.collect();
    let dependencies = used.iter().map(|id| {
        let below = next(&nodes[id], |_, kind| kind.is_null() || kind == "build");
        let below: BTreeSet<String> = below.iter().map(|it| reference(&packages[it])).collect();
        json!({ "ref": reference(&packages[id]), "dependsOn": below })
    });
    let dependencies: Vec<Value> = dependencies.collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application",
            "bom-ref": reference(root),
            "name": "baton",
            "version": text(root, "version"),
            "licenses": [{ "expression": text(root, "license") }],
        }},
        "components": components,
        "dependencies": dependencies,
    }))
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn reference(package: &Value) -> String {
    format!(
        "pkg:cargo/{}@{}",
        text(package, "name"),
        text(package, "version")
    )
}

fn is_macro(package: &Value) -> bool {
    let targets = package["targets"].as_array().into_iter().flatten();
    let mut kinds = targets.filter_map(|target| target["kind"].as_array());
    kinds.any(|kinds| kinds.iter().any(|kind| kind == "proc-macro"))
}

/// The packages on which one depends directly, by edges that are accepted.
fn next(node: &Value, accepts: impl Fn(&str, &Value) -> bool) -> Vec<String> {
    let edges = node["deps"].as_array().into_iter().flatten();
    let edges = edges.map(|edge| (text(edge, "pkg"), &edge["dep_kinds"]));
    let accepted = edges.filter(|(id, kinds)| {
        let mut kinds = kinds.as_array().into_iter().flatten();
        kinds.any(|it| accepts(id, &it["kind"]))
    });
    accepted.map(|(id, _)| id).collect()
}

/// A package and all that it reaches.
fn reached(
    nodes: &BTreeMap<String, Value>,
    root: &str,
    accepts: impl Fn(&str, &Value) -> bool,
) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![root.to_owned()];
    while let Some(id) = open.pop() {
        if reached.insert(id.clone()) {
            open.extend(next(&nodes[&id], &accepts));
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, kind: &str) -> Value {
        json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0",
                "targets": [{ "kind": [kind] }] })
    }

    fn edge(to: &str, kind: Option<&str>) -> Value {
        json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] })
    }

    #[test]
    fn a_bill_separates_what_ships_from_what_builds() {
        let metadata = json!({
            "packages": [package(ROOT, "bin"), package("lib", "lib"), package("derive", "proc-macro"),
                         package("quote", "lib"), package("cc", "lib"), package("tests", "lib")],
            "resolve": { "nodes": [
                { "id": ROOT, "deps": [edge("lib", None), edge("derive", None), edge("tests", Some("dev"))] },
                { "id": "lib", "deps": [edge("cc", Some("build"))] },
                { "id": "derive", "deps": [edge("quote", None)] },
                { "id": "quote", "deps": [] }, { "id": "cc", "deps": [] }, { "id": "tests", "deps": [] },
            ]},
        });
        let lock = "[[package]]\nname = \"lib\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";
        let bill = bill(&metadata, &checksums(lock)).expect("a bill");
        let scopes: BTreeMap<_, _> = bill["components"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|it| (text(it, "name"), text(it, "scope")))
            .collect();
        let expected = [
            ("cc", "excluded"),
            ("derive", "excluded"),
            ("lib", "required"),
            ("quote", "excluded"),
        ];
        let expected = expected.map(|(name, scope)| (name.to_owned(), scope.to_owned()));
        assert_eq!(scopes, BTreeMap::from(expected));
        let lib = bill["components"].as_array().expect("a list").iter();
        let lib = lib.clone().find(|it| it["name"] == "lib").expect("lib");
        assert_eq!(lib["hashes"][0]["content"], "abc");
        assert_eq!(lib["licenses"][0]["expression"], "MIT OR Apache-2.0");
    }

    #[test]
    fn a_bill_without_the_binary_is_an_error() {
        let metadata = json!({ "packages": [], "resolve": { "nodes": [] } });
        assert!(bill(&metadata, &BTreeMap::new()).is_err());
    }
}
