//! Checks of the dates of certificates: those of files, and those that a server presents.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use baton_model::time::{Millis, Wall};
use baton_tls::subject::{self, Subject};

use super::Finding;
use super::network::Dialled;
use crate::time::{between, now, span};

const CHECK: &str = "certificates";

/// A certificate that ends sooner is named.
const SOON: Millis = Millis::from_secs(14 * 24 * 3_600);

/// Examines the certificates of these files, each file once.
pub(super) fn examine_files(files: impl IntoIterator<Item = PathBuf>) -> Vec<Finding> {
    let files: BTreeSet<PathBuf> = files.into_iter().collect();
    files.iter().flat_map(|file| examine_file(file)).collect()
}

fn examine_file(file: &Path) -> Vec<Finding> {
    match subject::of_file(file) {
        Ok(certificates) => examine(&file.display().to_string(), &certificates, now()),
        Err(error) => {
            let remedy =
                "name another file, or mend this one; a running server keeps what it has read";
            vec![Finding::problem(CHECK, error.to_string(), remedy)]
        }
    }
}

/// Examines what the server of an address presents.
pub(super) fn examine_server(dialled: &Dialled) -> Vec<Finding> {
    let address = &dialled.address;
    match dialled.certificates() {
        Ok(certificates) => examine(&format!("the server at {address}"), &certificates, now()),
        Err(error) => {
            let message = format!("the server at {address} presents none: {error}");
            let remedy = "it may not have TLS: then its URL begins with http://";
            vec![Finding::problem(CHECK, message, remedy)]
        }
    }
}

/// The findings of a place with several certificates: the bad ones, or the one that ends first.
fn examine(place: &str, certificates: &[Subject], now: Wall) -> Vec<Finding> {
    let bad: Vec<Finding> = certificates
        .iter()
        .filter_map(|it| trouble(place, it, now))
        .collect();
    let first = certificates.iter().min_by_key(|it| it.not_after);
    match first.filter(|_| bad.is_empty()) {
        Some(first) => {
            let left = span(between(now, wall(first.not_after)));
            let message = format!("{place}: {} is valid for {left}", name(first));
            vec![Finding::good(CHECK, message)]
        }
        None => bad,
    }
}

fn trouble(place: &str, certificate: &Subject, now: Wall) -> Option<Finding> {
    const REMEDY: &str = "issue another, and replace the file: a running server reads it again";
    let name = name(certificate);
    let (begins, ends) = (wall(certificate.not_before), wall(certificate.not_after));
    if ends < now {
        let ago = span(between(ends, now));
        let message = format!("{place}: {name} has expired {ago} ago");
        return Some(Finding::problem(CHECK, message, REMEDY));
    }
    if begins > now {
        let left = span(between(now, begins));
        let message = format!("{place}: {name} is not valid yet, but in {left}");
        let remedy = "compare the clocks of this host and of the one that issued it";
        return Some(Finding::problem(CHECK, message, remedy));
    }
    if ends.0 < now.0.saturating_add(SOON.0) {
        let left = span(between(now, ends));
        let message = format!("{place}: {name} expires in {left}");
        return Some(Finding::warning(CHECK, message, REMEDY));
    }
    None
}

fn name(certificate: &Subject) -> String {
    let name = certificate.common_name.as_deref();
    name.map_or_else(|| "a certificate".to_owned(), |name| format!("`{name}`"))
}

const fn wall(seconds: u64) -> Wall {
    Wall(seconds.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_judged_by_their_dates() {
        const DAY: u64 = 24 * 3_600;
        let now = wall(1_000 * DAY);
        let valid = |from: u64, to: u64| Subject {
            common_name: Some(format!("{from}-{to}")),
            not_before: from * DAY,
            not_after: to * DAY,
            ..Subject::default()
        };
        let all = [
            valid(900, 2_000),
            valid(900, 999),
            valid(900, 1_013),
            valid(1_001, 2_000),
        ];
        let found = examine("x.pem", &all, now);
        let messages: Vec<&str> = found.iter().map(|it| &*it.message).collect();
        let expected = [
            "x.pem: `900-999` has expired 1d00h ago",
            "x.pem: `900-1013` expires in 13d00h",
            "x.pem: `1001-2000` is not valid yet, but in 1d00h",
        ];
        assert_eq!(messages, expected);
        let found = examine("x.pem", &all[..1], now);
        assert_eq!(found[0].message, "x.pem: `900-2000` is valid for 1000d00h");
    }
}
