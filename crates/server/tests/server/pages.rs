//! The generated page of the metrics, so that a change shows in review. It is never edited by hand;
//! `make golden` writes it.

use std::path::Path;

/// Compares a page with the generated text, or rewrites it.
fn check(path: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(path);
    if std::env::var_os("BATON_REWRITE").is_some() {
        std::fs::write(&path, text).expect("written");
        return;
    }
    let present = std::fs::read_to_string(&path).unwrap_or_default();
    let same = present
        .lines()
        .zip(text.lines())
        .take_while(|(a, b)| a == b);
    assert!(
        present == text,
        "{}:{}: differs from the generated text; run `make golden`, and read the diff",
        path.display(),
        same.count() + 1
    );
}

#[test]
fn the_list_of_metrics_is_up_to_date() {
    check("metrics.md", &baton_server::metrics_page());
}
