//! `cargo xtask circles`: no circle of files across module folders.
//!
//! A file depends on another if its product code names something that is defined there. Files that
//! depend on each other in a circle can only be read together. Inside one folder that is allowed: a
//! module and its children are one concern. A circle that spans folders is a finding.
//!
//! `paths` reads what a file names. A method that another file adds to a type leaves no path, so
//! this check does not see it.

mod paths;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::Findings;
use crate::repo::Repo;
use paths::{Module, Names};

/// Dependencies that are allowed although they close a circle, with the reason: the file, the file
/// it depends on, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "crates/core/src/plan/turn/mod.rs",
        "crates/core/src/plan/mod.rs",
        "a turn is the body of `Plan::handle`, on the private fields of the plan",
    ),
    (
        "crates/core/src/scheduler/command.rs",
        "crates/core/src/scheduler/runs/commands.rs",
        "a command is one line of the list and one arm that calls what carries it out, in one file; \
         replies are in that list and are effects of every step",
    ),
    (
        "crates/core/src/scheduler/command.rs",
        "crates/core/src/scheduler/runs/deadlines.rs",
        "the same arm passes the deadlines on",
    ),
];

/// More exceptions would be a habit.
const EXCEPTIONS_MAX: usize = 3;

/// The files that each file depends on.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Checks every crate.
pub(crate) fn run(repo: &Repo) -> Result<Findings, String> {
    let all = repo.files()?;
    let mut findings = Findings::new();
    let mut unused: BTreeSet<_> = EXCEPTIONS.iter().collect();
    let crates: BTreeSet<&str> = all
        .iter()
        .filter_map(|path| path.strip_prefix("crates/")?.split_once("/src/"))
        .map(|(name, _)| name)
        .collect();
    for name in crates {
        let source = format!("crates/{name}/src/");
        let mut files = BTreeMap::new();
        for path in all.iter().filter(|path| path.ends_with(".rs")) {
            if path.starts_with(&source)
                && let Some(text) = repo.text(path)?
            {
                files.insert(path.clone(), text);
            }
        }
        let mut graph = dependencies(&source, &files)?;
        unused.retain(|(from, to, _)| {
            let targets = graph.get_mut(*from);
            !targets.is_some_and(|targets| targets.remove(*to))
        });
        findings.extend(circles(&graph));
    }
    if EXCEPTIONS.len() > EXCEPTIONS_MAX {
        findings.push(format!(
            "{} exceptions, of {EXCEPTIONS_MAX} allowed; open a circle in xtask/src/circles.rs",
            EXCEPTIONS.len()
        ));
    }
    findings.extend(unused.into_iter().map(|(from, to, _)| {
        format!("{from} no longer depends on {to}; remove the exception in xtask/src/circles.rs")
    }));
    Ok(findings)
}

/// The circles across folders, one finding each.
fn circles(graph: &Graph) -> Findings {
    let groups = groups(graph);
    let across = groups.iter().filter(|group| {
        let folders: BTreeSet<_> = group.iter().map(|path| folder(path)).collect();
        folders.len() > 1
    });
    across
        .map(|group| {
            let shown = shortest(group, graph).join(" -> ");
            format!(
                "{shown}: a circle across folders, one of {} files; move what is shared into a file \
                 that depends on none of them",
                group.len()
            )
        })
        .collect()
}

/// The folder that a file belongs to; `a/mod.rs` is the root of the folder `a`.
fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The files that each file of a crate depends on.
fn dependencies(source: &str, files: &BTreeMap<String, String>) -> Result<Graph, String> {
    let modules: BTreeMap<Module, &String> = files
        .keys()
        .map(|path| (module_of(path.strip_prefix(source).unwrap_or(path)), path))
        .collect();
    let known = modules.keys().cloned().collect();
    let mut names = BTreeMap::new();
    for (module, path) in &modules {
        let read = Names::read(&files[*path], module, &known);
        let read = read.map_err(|error| format!("{path}: cannot read its tokens: {error}"))?;
        names.insert(module.clone(), read);
    }
    let tests: BTreeSet<Module> = names.values().flat_map(|it| it.tests.clone()).collect();
    let is_test = |module: &Module| (1..=module.len()).any(|end| tests.contains(&module[..end]));
    names.retain(|module, _| !is_test(module));
    let mut graph = Graph::new();
    for (module, its) in &names {
        let targets = its.paths.iter().filter_map(|path| definer(path, &names));
        let targets = targets.filter(|target| *target != module);
        let targets = targets.map(|target| modules[target].clone()).collect();
        graph.insert(modules[module].clone(), targets);
    }
    Ok(graph)
}

/// The module of a file, by its path below the source folder.
fn module_of(path: &str) -> Module {
    let mut parts: Module = path
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    let root = parts.len() == 1 && matches!(parts[0].as_str(), "lib" | "main");
    if root || parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// The module that defines what a path names, through imports and re-exports.
fn definer<'a>(path: &[String], names: &'a BTreeMap<Module, Names>) -> Option<&'a Module> {
    let mut path = path.to_vec();
    // Imports cannot be longer chains than there are modules.
    for _ in 0..=names.len() {
        let mut lengths = (0..=path.len()).rev();
        let (module, its) = lengths.find_map(|end| names.get_key_value(&path[..end]))?;
        let rest = &path[module.len()..];
        match rest.first().and_then(|name| its.imports.get(name)) {
            Some(Some(import)) => path = [import.as_slice(), &rest[1..]].concat(),
            Some(None) => return None,
            None => return Some(module),
        }
    }
    None
}

/// The files that reach each other, in groups of at least two.
fn groups(graph: &Graph) -> Vec<BTreeSet<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = graph
        .keys()
        .map(|from| (from.as_str(), reach(from, graph)))
        .collect();
    let mut groups = BTreeSet::new();
    for (from, targets) in &reached {
        let mutual = targets.iter().filter(|to| reached[**to].contains(from));
        let group: BTreeSet<&str> = mutual.copied().collect();
        if group.len() > 1 {
            groups.insert(group);
        }
    }
    groups.into_iter().collect()
}

/// The files that a file depends on, directly or not.
fn reach<'a>(from: &'a str, graph: &'a Graph) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(next) = open.pop() {
        let targets = graph[next].iter().map(String::as_str);
        open.extend(targets.filter(|to| reached.insert(*to)));
    }
    reached
}

/// A shortest circle of a group that spans folders.
fn shortest<'a>(group: &BTreeSet<&'a str>, graph: &'a Graph) -> Vec<&'a str> {
    let crossings = group.iter().flat_map(|from| {
        let targets = graph[*from].iter().map(String::as_str);
        let targets = targets.filter(|to| group.contains(to));
        let targets = targets.filter(|to| folder(from) != folder(to));
        targets.map(move |to| (*from, to))
    });
    let circles = crossings.map(|(from, to)| {
        let mut circle = way(to, from, graph);
        circle.insert(0, from);
        circle
    });
    circles.min_by_key(Vec::len).unwrap_or_default()
}

/// A shortest way between two files that reach each other.
fn way<'a>(from: &'a str, to: &str, graph: &'a Graph) -> Vec<&'a str> {
    let mut seen = BTreeSet::from([from]);
    let mut ways = VecDeque::from([vec![from]]);
    while let Some(way) = ways.pop_front() {
        let end = way[way.len() - 1];
        if end == to {
            return way;
        }
        let targets = graph[end].iter().map(String::as_str);
        for next in targets.filter(|next| seen.insert(next)) {
            ways.push_back([way.as_slice(), &[next]].concat());
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Graph {
        let files = files.iter();
        let files = files.map(|(path, text)| (format!("src/{path}"), (*text).to_owned()));
        dependencies("src/", &files.collect()).expect("tokens")
    }

    fn found(files: &[(&str, &str)]) -> Findings {
        circles(&graph(files))
    }

    #[test]
    fn a_circle_across_folders_is_found_with_a_shortest_way() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod x; mod y;"),
            ("a/x.rs", "use crate::b::z::Z;"),
            ("a/y.rs", "use super::x;"),
            ("b/mod.rs", "mod z;"),
            ("b/z.rs", "use crate::a::{x::X, y};"),
        ];
        let findings = found(&files);
        assert_eq!(findings.len(), 1, "{findings:?}");
        let way =
            "src/a/x.rs -> src/b/z.rs -> src/a/x.rs: a circle across folders, one of 3 files;";
        assert!(findings[0].starts_with(way), "{findings:?}");
    }

    #[test]
    fn a_circle_inside_one_folder_is_allowed() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod x; mod y; use x::X; pub struct A;"),
            ("a/x.rs", "use super::{A, y};"),
            ("a/y.rs", "fn f() { super::x::g() }"),
        ];
        assert_eq!(found(&files), Findings::new());
        assert_eq!(groups(&graph(&files)).len(), 1);
    }

    #[test]
    fn a_path_in_an_expression_or_a_macro_counts_like_an_import() {
        for text in [
            "fn f() { crate::b::g() }",
            "table! { GET (crate::b::g) }",
            "fn f(it: super::super::b::B) {}",
            "use crate::b as c;",
            "mod inner { use super::super::super::b::B; }",
        ] {
            let files = [
                ("lib.rs", "mod a; mod b; mod c;"),
                ("a/mod.rs", "mod x;"),
                ("a/x.rs", text),
                ("b.rs", "use crate::a::x::X;"),
            ];
            assert_eq!(found(&files).len(), 1, "{text}");
        }
    }

    #[test]
    fn comments_texts_visibilities_and_other_crates_are_no_dependencies() {
        for text in [
            "//! [`crate::b::B`]",
            "const B: &str = \"crate::b::B\";",
            "pub(in crate::b) struct X;",
            "use other::b::B;",
            "fn f() { it.b::<X>() }",
            "use crate::Shared;",
        ] {
            let files = [
                ("lib.rs", "mod a; mod b; pub use other::Shared; use b::B;"),
                ("a/mod.rs", "mod x;"),
                ("a/x.rs", text),
                ("b.rs", "use crate::a::x::X;"),
            ];
            assert_eq!(found(&files), Findings::new(), "{text}");
        }
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_defines_the_name() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            (
                "a/mod.rs",
                "mod x; mod y; pub use x::X; pub(crate) use y::{Y as Z, self as w};",
            ),
            ("a/x.rs", "pub struct X;"),
            ("a/y.rs", "use crate::b::B; pub struct Y;"),
            ("b.rs", "use crate::a::X;"),
        ];
        assert_eq!(found(&files), Findings::new());
        let mut files = files;
        for text in ["use crate::a::Z;", "fn f() { crate::a::w::g() }"] {
            files[4].1 = text;
            assert_eq!(found(&files).len(), 1, "{text}");
        }
    }

    #[test]
    fn tests_and_seeded_bugs_may_depend_on_everything() {
        let files = [
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod rig;"),
            (
                "a/mod.rs",
                "mod x; fn f() { #[cfg(feature = \"seeded-bugs\")] crate::b::bugs::g(); }",
            ),
            (
                "a/x.rs",
                "#[cfg(test)] mod tests { use crate::b::B; } pub struct X;",
            ),
            (
                "b.rs",
                "#[cfg(feature = \"seeded-bugs\")] mod bugs; use crate::a::x::X;",
            ),
            ("b/bugs.rs", "use crate::a::x::X;"),
            ("rig.rs", "use crate::b::B; use crate::a::x::X;"),
        ];
        assert_eq!(found(&files), Findings::new());
        assert!(!graph(&files).contains_key("src/rig.rs"));
    }

    #[test]
    fn exceptions_are_few_and_have_reasons() {
        assert!(EXCEPTIONS.len() <= EXCEPTIONS_MAX);
        assert!(EXCEPTIONS.iter().all(|(.., reason)| !reason.is_empty()));
    }
}
