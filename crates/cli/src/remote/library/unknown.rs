//! Failures for an entry that the library does not have, with the names that may be meant.

use baton_client::{Client, ClientError};
use baton_model::library::TaskName;

use crate::connection::refused;
use crate::output::{Failure, clean};

/// Suggestions in one message.
const SUGGESTIONS_MAX: usize = 3;

/// The failure of a request about an entry.
pub(in super::super) async fn refused_entry(
    client: &Client,
    name: &TaskName,
    error: ClientError,
) -> Failure {
    if error.is_not_found() {
        unknown(client, name).await
    } else {
        refused(error)
    }
}

/// The failure if there is no such entry.
pub(in super::super) async fn unknown(client: &Client, name: &TaskName) -> Failure {
    let hint = suggestion(client, name).await;
    let hint = hint.unwrap_or_else(|| "list it with `baton library ls`".to_owned());
    let name = clean(&name.to_string());
    Failure::failed(format!("the library has no {name}; {hint}"))
}

/// A question that names what may be meant. A library that cannot be read has no suggestions: the failure that is
/// reported comes first.
pub(in super::super) async fn suggestion(client: &Client, name: &TaskName) -> Option<String> {
    let entries = client.library(None).await.map(|page| page.items);
    let entries = entries.unwrap_or_default().into_iter();
    let names: Vec<String> = entries
        .map(|it| format!("{}/{}", it.owner, it.name))
        .collect();
    match suggestions(name, &names).as_slice() {
        [] => None,
        [one] => Some(format!("did you mean {}?", clean(one))),
        [others @ .., last] => {
            let others = clean(&others.join(", "));
            Some(format!("did you mean {others} or {}?", clean(last)))
        }
    }
}

/// Entries of the same name and another owner; or else the one with the most similar name, or those
/// whose name without the owner is most similar.
fn suggestions<'a>(name: &TaskName, names: &'a [String]) -> Vec<&'a str> {
    let names = names.iter().map(String::as_str);
    let last = |it: &'a str| it.rsplit_once('/').map_or(it, |(_, last)| last);
    let named = |wanted: &str| -> Vec<&'a str> {
        let same = names.clone().filter(|it| last(it) == wanted);
        same.take(SUGGESTIONS_MAX).collect()
    };
    let same = named(&name.name);
    if !same.is_empty() {
        return same;
    }
    match baton_files::nearest(&name.to_string(), names.clone()) {
        Some(nearest) => vec![nearest],
        // Any two names of one or two letters are similar.
        None if name.name.len() < 3 => Vec::new(),
        None => baton_files::nearest(&name.name, names.clone().map(last))
            .map(named)
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_name_of_another_owner_comes_before_a_similar_one() {
        let names = ["data/etl", "default/elt", "lab/etl", "lab/report"].map(str::to_owned);
        let suggested =
            |text: &str| suggestions(&super::super::task_name(text).expect("one"), &names);
        assert_eq!(suggested("etl"), ["data/etl", "lab/etl"]);
        assert_eq!(suggested("lab/reprot"), ["lab/report"]);
        assert_eq!(suggested("reprot"), ["lab/report"]);
        assert_eq!(suggested("other"), [""; 0]);
    }
}
