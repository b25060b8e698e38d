//! Golden error messages: each invalid file of `tests/errors` has a `.txt` file with its
//! messages, and optionally a `.params` file with its arguments. `BATON_REWRITE=1` rewrites the
//! messages; read the diff before committing it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use baton_files::{Binding, Errors, Format, Kind, load, parse_any, parse_bytes, parse_fleets};

use crate::golden;

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors");
    let mut cases: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder is part of the crate")
        .map(|entry| entry.expect("it is readable").path())
        .filter(|path| Format::of(path).is_some())
        .collect();
    cases.sort();
    cases
}

/// The arguments of a case: lines of NAME=VALUE in its `.params` file, if it exists.
fn arguments(path: &Path) -> Binding {
    let text = fs::read_to_string(format!("{}.params", path.display())).unwrap_or_default();
    let pairs = text.lines().map(|line| {
        let (name, value) = line.split_once('=').expect("NAME=VALUE");
        (name.to_owned(), value.to_owned())
    });
    Binding {
        params: pairs.collect(),
        ..Binding::default()
    }
}

/// The errors of parsing, binding, or adding the file to a library.
fn errors(path: &Path) -> Errors {
    let name = path.file_name().expect("a file").to_string_lossy();
    let bytes = fs::read(path).expect("it is readable");
    let format = Format::of(path).expect("only such files are cases");
    parse_bytes(&bytes, format, &name)
        .and_then(|file| file.bind(&arguments(path)).map(|_| file))
        .and_then(|file| file.definition(None))
        .map(|_| panic!("{name}: nothing is wrong with it"))
        .unwrap_or_else(|errors| errors)
}

#[test]
fn every_invalid_file_has_its_golden_errors() {
    golden::compare(cases(), errors);
}

#[test]
fn every_invalid_file_of_fleets_has_its_golden_errors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet-errors");
    let entries = fs::read_dir(folder).expect("the folder is part of the crate");
    let paths = entries.map(|entry| entry.expect("it is readable").path());
    let mut cases: Vec<PathBuf> = paths.filter(|it| Format::of(it).is_some()).collect();
    cases.sort();
    assert!(!cases.is_empty());
    golden::compare(cases, |path| {
        let name = path.file_name().expect("a file").to_string_lossy();
        let bytes = fs::read(path).expect("it is readable");
        let format = Format::of(path).expect("only such files are cases");
        let errors = parse_fleets(&bytes, format, &name).expect_err("it has errors");
        for problem in &errors.problems {
            assert!(problem.position.is_some(), "{problem:?}");
            assert!(!problem.message.is_empty() && !problem.hint.is_empty());
        }
        errors
    });
}

#[test]
fn a_file_of_fleets_is_no_work() {
    let text = b"fleets: {}\n";
    let errors = parse_any(text, Format::Yaml, "f.yaml").expect_err("it defines no work");
    assert!(
        errors.to_string().contains("baton fleet add -f"),
        "{errors}"
    );
    assert!(
        matches!(parse_fleets(text, Format::Yaml, "f.yaml"), Ok(file) if file.fleets.is_empty())
    );
}

#[test]
fn every_problem_has_a_hint_and_a_position_if_it_is_in_the_file() {
    for path in cases() {
        for problem in errors(&path).problems {
            let is_argument = problem.kind == Kind::Unbound || !arguments(&path).params.is_empty();
            let outside = problem.path.starts_with("params.") && is_argument;
            assert!(
                problem.position.is_some() || outside,
                "{}: {problem:?}",
                path.display()
            );
            assert!(!problem.message.is_empty() && !problem.hint.is_empty());
            assert!(!problem.message.contains('\n') && !problem.hint.contains('\n'));
        }
    }
}

#[test]
fn every_kind_of_problem_has_a_case() {
    let met: BTreeSet<Kind> = cases()
        .iter()
        .flat_map(|path| errors(path).problems)
        .map(|problem| problem.kind)
        .collect();
    for kind in [
        Kind::TooLarge,
        Kind::NotUtf8,
        Kind::Syntax,
        Kind::TooDeep,
        Kind::DuplicateKey,
        Kind::UnknownField,
        Kind::MissingField,
        Kind::Conflict,
        Kind::WrongType,
        Kind::BadValue,
        Kind::OutOfRange,
        Kind::BadName,
        Kind::DuplicateName,
        Kind::NoProcesses,
        Kind::UnknownProcess,
        Kind::Cycle,
        Kind::DaemonDependency,
        Kind::EphemeralDependency,
        Kind::FinalDependency,
        Kind::Template,
        Kind::UnknownReference,
        Kind::Unbound,
        Kind::UnknownParam,
    ] {
        assert!(met.contains(&kind), "{kind:?}");
    }
}

#[test]
fn a_missing_file_and_an_unknown_extension_are_reported() {
    let kind = |path: &str| load(path).expect_err("it cannot be read").problems[0].kind;
    assert_eq!(kind("no-such-directory/task.yaml"), Kind::Unreadable);
    assert_eq!(kind("task.txt"), Kind::UnknownFormat);
    assert_eq!(kind("task"), Kind::UnknownFormat);
}

#[test]
fn an_oversized_file_is_rejected_unparsed() {
    let large = vec![b'#'; baton_files::limits::FILE_BYTES_MAX + 1];
    for format in [Format::Yaml, Format::Toml, Format::Json] {
        let errors = parse_bytes(&large, format, "large").expect_err("too large");
        assert_eq!(errors.problems[0].kind, Kind::TooLarge);
    }
    let cut = "ä".repeat(baton_files::limits::FILE_BYTES_MAX);
    let errors = parse_bytes(cut.as_bytes(), Format::Yaml, "large").expect_err("too large");
    assert_eq!(errors.problems[0].kind, Kind::TooLarge);
}
