//! What is wrong with a file, beside the file.

use std::fs;
use std::path::{Path, PathBuf};

use baton_files::Errors;

/// Holds what is said of each file against the text beside it; with `BATON_REWRITE` that is
/// written anew.
pub(crate) fn explained(
    cases: impl IntoIterator<Item = PathBuf>,
    errors: impl Fn(&Path) -> Errors,
) {
    let rewrite = std::env::var_os("BATON_REWRITE").is_some();
    let mut wrong = Vec::new();
    for path in cases {
        let found = format!("{}\n", errors(&path));
        let beside = PathBuf::from(format!("{}.txt", path.display()));
        if rewrite {
            fs::write(&beside, found).expect("it is writable");
            continue;
        }
        let expected = fs::read_to_string(&beside).unwrap_or_default();
        if found != expected {
            wrong.push(format!(
                "{}\n--- expected\n{expected}--- found\n{found}",
                path.display()
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\nBATON_REWRITE=1 accepts this",
        wrong.join("\n")
    );
}
