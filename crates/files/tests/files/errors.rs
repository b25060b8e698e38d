//! What people are told about a bad file: each file of `tests/errors` beside the
//! text that it must produce; a file `.given` says what it is bound with. `BATON_REWRITE=1` writes the texts anew; read the
//! difference before committing it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use baton_files::{Binding, Errors, Format, Kind, load, parse_bytes};

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

/// What is given to a case: lines of NAME=VALUE in a file beside it, if there is one.
fn given(path: &Path) -> Binding {
    let text = fs::read_to_string(format!("{}.given", path.display())).unwrap_or_default();
    let pairs = text.lines().map(|line| {
        let (name, value) = line.split_once('=').expect("NAME=VALUE");
        (name.to_owned(), value.to_owned())
    });
    Binding {
        params: pairs.collect(),
        ..Binding::default()
    }
}

/// What reading it, or else binding it, or else putting it into a library complains about.
fn errors(path: &Path) -> Errors {
    let name = path.file_name().expect("a file").to_string_lossy();
    let bytes = fs::read(path).expect("it is readable");
    let format = Format::of(path).expect("only such files are cases");
    parse_bytes(&bytes, format, &name)
        .and_then(|file| file.bind(&given(path)).map(|_| file))
        .and_then(|file| file.definition(None))
        .map(|_| panic!("{name}: nothing is wrong with it"))
        .unwrap_or_else(|errors| errors)
}

#[test]
fn every_bad_file_is_explained_as_it_was_agreed() {
    golden::explained(cases(), errors);
}

#[test]
fn every_problem_has_a_place_or_says_why_not_and_a_hint() {
    for path in cases() {
        for problem in errors(&path).problems {
            let stands_nowhere = problem.kind == Kind::Unbound || !given(&path).params.is_empty();
            let outside = problem.path.starts_with("params.") && stands_nowhere;
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
fn a_file_that_is_not_there_or_has_no_format_is_explained() {
    let kind = |path: &str| load(path).expect_err("it cannot be read").problems[0].kind;
    assert_eq!(kind("no-such-directory/task.yaml"), Kind::Unreadable);
    assert_eq!(kind("task.txt"), Kind::UnknownFormat);
    assert_eq!(kind("task"), Kind::UnknownFormat);
}

#[test]
fn a_file_that_is_too_large_is_refused_unread() {
    let large = vec![b'#'; baton_files::limits::FILE_BYTES_MAX + 1];
    for format in [Format::Yaml, Format::Toml, Format::Json] {
        let errors = parse_bytes(&large, format, "large").expect_err("too large");
        assert_eq!(errors.problems[0].kind, Kind::TooLarge);
    }
    let cut = "ä".repeat(baton_files::limits::FILE_BYTES_MAX);
    let errors = parse_bytes(cut.as_bytes(), Format::Yaml, "large").expect_err("too large");
    assert_eq!(errors.problems[0].kind, Kind::TooLarge);
}
