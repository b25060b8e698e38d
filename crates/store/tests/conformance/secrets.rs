//! Secrets: rows with encrypted values, beside the history.

use baton_model::secret::{SecretName, StoredSecret};
use baton_model::time::Wall;
use baton_store::secret::{Change, SecretChange};

use crate::Open;

fn name(text: &str) -> SecretName {
    text.parse().expect("a name")
}

fn of(owner: &str, secret: &str, change: Change) -> SecretChange {
    SecretChange {
        owner: owner.to_owned(),
        name: name(secret),
        change,
    }
}

fn set(owner: &str, secret: &str, sealed: &[u8], at: u64) -> SecretChange {
    let change = Change::Set {
        sealed: sealed.to_vec(),
        key: "k1".to_owned(),
        at: Wall(at),
        by: Some("t1 (ci)".to_owned()),
    };
    of(owner, secret, change)
}

fn stored(owner: &str, secret: &str, version: u64, at: u64) -> StoredSecret {
    StoredSecret {
        owner: owner.to_owned(),
        name: name(secret),
        version,
        set_at: Wall(at),
        set_by: Some("t1 (ci)".to_owned()),
        used_at: None,
        key: "k1".to_owned(),
    }
}

pub(crate) fn a_secret_is_set_replaced_used_and_removed(open: Open<'_>) {
    let store = open();
    assert_eq!(store.secrets(), Ok(Vec::new()));
    let first = store.change_secret(set("lab", "db", &[0, 1, 255], 5));
    assert_eq!(first, Ok(Some(stored("lab", "db", 1, 5))));
    let second = store.change_secret(set("lab", "db", &[7], 6));
    assert_eq!(second, Ok(Some(stored("lab", "db", 2, 6))));
    store
        .change_secret(set("billing", "db", &[9; 100_000], 7))
        .expect("another owner's");
    let sealed = store.sealed_secret("lab", &name("db")).expect("readable");
    assert_eq!(sealed.expect("there").sealed, [7]);
    let used = store.change_secret(of("lab", "db", Change::Used { at: Wall(9) }));
    assert_eq!(
        used.expect("written").expect("there").used_at,
        Some(Wall(9))
    );
    drop(store);
    let store = open();
    let all = store.sealed_secrets().expect("readable");
    let sizes: Vec<_> = all
        .iter()
        .map(|it| (&*it.secret.owner, it.sealed.len()))
        .collect();
    assert_eq!(sizes, [("billing", 100_000), ("lab", 1)]);
    let removed = store.change_secret(of("lab", "db", Change::Removed));
    assert_eq!(removed.expect("written").expect("it was there").version, 2);
    let again = store.change_secret(of("lab", "db", Change::Removed));
    assert_eq!(again, Ok(None));
    assert_eq!(store.secrets().expect("readable").len(), 1);
}

pub(crate) fn only_the_version_that_was_read_is_sealed_again(open: Open<'_>) {
    let store = open();
    store.change_secret(set("lab", "db", &[1], 5)).expect("set");
    store.change_secret(set("lab", "db", &[2], 6)).expect("set");
    let resealed = |version, sealed: u8| {
        let change = Change::Resealed {
            version,
            sealed: vec![sealed],
            key: "k2".to_owned(),
        };
        store
            .change_secret(of("lab", "db", change))
            .expect("written");
        let sealed = store.sealed_secret("lab", &name("db")).expect("readable");
        let sealed = sealed.expect("there");
        (sealed.sealed[0], sealed.secret.key, sealed.secret.version)
    };
    assert_eq!(
        resealed(1, 8),
        (2, "k1".to_owned(), 2),
        "it was replaced meanwhile"
    );
    assert_eq!(resealed(2, 9), (9, "k2".to_owned(), 2));
}
