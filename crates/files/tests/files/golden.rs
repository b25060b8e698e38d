//! Comparison of errors with golden files.

use std::fs;
use std::path::{Path, PathBuf};

use baton_files::Errors;

/// Compares the errors of each file with its `.txt` file; with `BATON_REWRITE`, rewrites it.
pub(crate) fn compare(cases: impl IntoIterator<Item = PathBuf>, errors: impl Fn(&Path) -> Errors) {
    let rewrite = std::env::var_os("BATON_REWRITE").is_some();
    let mut wrong = Vec::new();
    for path in cases {
        let found = format!("{}\n", errors(&path));
        let golden = PathBuf::from(format!("{}.txt", path.display()));
        if rewrite {
            fs::write(&golden, found).expect("it is writable");
            continue;
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
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
