//! Values in the store are encrypted, and found again.

use std::fs;
use std::path::Path;

use baton_store::SqliteStore;

use super::*;

fn name(text: &str) -> SecretName {
    text.parse().expect("a name")
}

fn value(text: &str) -> SecretValue {
    SecretValue::new(text.as_bytes().to_vec()).expect("a value")
}

fn open_at(store: &Arc<dyn Store>, key: &Path) -> Secrets {
    let own = Some(key.to_owned());
    Secrets::open(Arc::clone(store), &SecretSettings::default(), own).expect("opens")
}

fn memory() -> Arc<dyn Store> {
    Arc::new(SqliteStore::in_memory().expect("opens"))
}

#[test]
fn a_value_is_found_again_and_the_store_has_it_encrypted_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let key = dir.path().join("secret.key");
    let store = memory();
    let secrets = open_at(&store, &key);
    assert!(!key.exists(), "it is made with the first secret");
    let set = secrets.set("lab", &name("db"), &value("hunter2"), Wall(5), None);
    assert_eq!(set.expect("set").version, 1);
    let found = open_at(&store, &key).stored_value("lab", &name("db"));
    assert_eq!(found, Ok(value("hunter2")));
    let sealed = store.sealed_secrets().expect("readable").remove(0).sealed;
    let has = |part: &[u8]| sealed.windows(part.len()).any(|it| it == part);
    assert!(!has(b"hunter2") && sealed.len() > 7 + 12);
    // Another secret with the same value looks different.
    secrets
        .set("lab", &name("other"), &value("hunter2"), Wall(5), None)
        .expect("set");
    let other = store.sealed_secret("lab", &name("other"));
    assert_ne!(other.expect("readable").expect("there").sealed, sealed);
    let missing = secrets
        .stored_value("lab", &name("none"))
        .expect_err("none");
    assert!(missing.to_string().contains("baton secret set lab/none"));
    secrets.remove("lab", &name("db")).expect("removed");
    assert!(secrets.stored_value("lab", &name("db")).is_err());
    assert!(secrets.remove("lab", &name("db")).is_err());
}

#[test]
fn a_value_under_another_name_or_with_another_key_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = memory();
    let secrets = open_at(&store, &dir.path().join("a.key"));
    secrets
        .set("lab", &name("db"), &value("hunter2"), Wall(5), None)
        .expect("set");
    let sealed = store.sealed_secrets().expect("readable").remove(0);
    let moved = Change::Set {
        sealed: sealed.sealed,
        key: sealed.secret.key,
        at: Wall(6),
        by: None,
    };
    secrets
        .change("mallory", &name("db"), moved)
        .expect("written");
    let error = secrets.stored_value("mallory", &name("db"));
    assert!(
        matches!(error, Err(SecretError::Damaged { .. })),
        "{error:?}"
    );
    let other = dir.path().join("b.key");
    fs::write(&other, new_key().expect("random")).expect("written");
    let error = open_at(&store, &other).stored_value("lab", &name("db"));
    assert!(matches!(
        error,
        Err(SecretError::Key(KeyError::Unknown { .. }))
    ));
}

#[test]
fn a_new_key_encrypts_again_and_then_the_old_one_is_not_needed() {
    let dir = tempfile::tempdir().expect("a directory");
    let key = dir.path().join("secret.key");
    let store = memory();
    let secrets = open_at(&store, &key);
    for secret in ["a", "b"] {
        secrets
            .set("lab", &name(secret), &value("hunter2"), Wall(5), None)
            .expect("set");
    }
    let old = fs::read_to_string(&key).expect("there");
    let new = new_key().expect("random");
    fs::write(&key, format!("# the new one\n{new}\n\n{old}")).expect("written");
    let done = secrets.rekey().expect("encrypted again");
    assert_eq!((done.changed, done.unchanged), (2, 0));
    assert_eq!(secrets.rekey().expect("done").changed, 0);
    fs::write(&key, &new).expect("written");
    let found = open_at(&store, &key).stored_value("lab", &name("b"));
    assert_eq!(found, Ok(value("hunter2")));
    // Another scheduler of the store has read the file before the new key was in it.
    fs::write(&key, &old).expect("written");
    let late = open_at(&store, &key);
    fs::write(&key, &new).expect("written");
    assert_eq!(late.stored_value("lab", &name("b")), Ok(value("hunter2")));
}

#[test]
fn files_without_a_key_are_refused_and_never_repeated() {
    let dir = tempfile::tempdir().expect("a directory");
    let key = dir.path().join("key");
    for (text, reason) in [
        ("", "no key"),
        ("# nothing\n", "no key"),
        ("abc\n", "line 1 is not a key"),
        (&"g".repeat(64), "line 1 is not a key"),
        (&"ä".repeat(32), "line 1 is not a key"),
    ] {
        fs::write(&key, text).expect("written");
        let settings = SecretSettings {
            key_file: Some(key.clone()),
            ..SecretSettings::default()
        };
        let error = Secrets::open(memory(), &settings, None).err();
        let error = error.expect("refused").to_string();
        assert!(error.contains(reason), "{text:?}: {error}");
        assert!(!error.contains("abc") && !error.contains("ggg"), "{error}");
    }
    let settings = SecretSettings {
        key_file: Some(dir.path().join("none")),
        ..SecretSettings::default()
    };
    assert!(Secrets::open(memory(), &settings, None).is_err());
    let shared = Secrets::for_tests(memory());
    let error = shared.set("lab", &name("db"), &value("x"), Wall(1), None);
    let error = error.expect_err("no key").to_string();
    assert!(error.contains("--secret-key"), "{error}");
}

#[test]
fn what_is_kept_elsewhere_cannot_be_set() {
    let settings = SecretSettings {
        sources: vec![SecretSource {
            owner: None,
            name: name("api"),
            from: baton_model::secret::SourceKind::Environment("PATH".to_owned()),
        }],
        ..SecretSettings::default()
    };
    let secrets = Secrets::open(memory(), &settings, None).expect("opens");
    let error = secrets.set("lab", &name("api"), &value("x"), Wall(1), None);
    let error = error.expect_err("kept elsewhere").to_string();
    assert!(error.contains("environment"), "{error}");
    assert!(sources::read_variable("PATH").is_ok());
    assert!(sources::read_variable("BATON_NO_SUCH_VARIABLE").is_err());
}

#[tokio::test]
async fn a_program_prints_a_value_or_says_why_not() {
    use baton_model::secret::CommandSource;
    use baton_model::time::Millis;
    let run = async |script: &str, timeout: u64| {
        let source = CommandSource {
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            timeout: Millis(timeout),
            cache: Millis(0),
        };
        sources::run_command(&source).await
    };
    assert_eq!(run("echo hunter2", 30_000).await, Ok(value("hunter2")));
    let error = run("echo hunter2; echo denied >&2; exit 3", 30_000).await;
    let error = error.expect_err("it has failed");
    assert!(
        error.contains("denied") && !error.contains("hunter2"),
        "{error}"
    );
    let error = run("exec sleep 60", 50).await.expect_err("too slow");
    assert!(error.contains("more than"), "{error}");
    assert!(run("true", 30_000).await.is_err(), "nothing is no value");
    let long = run("head -c 100000 /dev/zero", 30_000).await;
    assert!(long.expect_err("too long").contains("64 KiB"));
}
