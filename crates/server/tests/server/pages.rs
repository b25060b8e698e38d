//! What the server says of itself, as files beside the docs: so a change of the API or of the
//! metrics shows in review. They are never edited by hand; `make golden` writes them.

use std::path::Path;

/// Compares a page with what the server says, or writes it.
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
        "{}:{}: differs from what the server says; run `make golden`, and read the diff",
        path.display(),
        same.count() + 1
    );
}

#[test]
fn the_list_of_metrics_is_what_the_server_says() {
    check("metrics.md", &baton_server::metrics_page());
}
