//! The configuration file, with real servers.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use baton_testing::command::{Ended, baton, end, ready};
use baton_testing::until;
use rustix::process::Signal;
use serde_json::{Value, json};

/// Runs a command with the file `baton.toml` of a directory.
fn run(dir: &Path, args: &[&str]) -> Ended {
    let mut command = baton(dir, args);
    command.env("BATON_CONFIG", dir.join("baton.toml"));
    command.output().expect("it ends").into()
}

#[test]
fn one_file_configures_scheduler_worker_and_client() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("baton.toml");
    let text = "[scheduler]\ndata = \"store\"\nlisten = \"127.0.0.1:0\"\n\
                worker-listen = \"127.0.0.1:0\"\nlimit = { licence = 3 }\n\
                [worker]\nlabel = { zone = \"eu\" }\nslots = 5\nscheduler = \"192.0.2.1:9\"\n";
    fs::write(&file, text).expect("written");
    let mut up = baton(dir.path(), &["up", "--json"])
        .env("BATON_CONFIG", &file)
        .spawn()
        .expect("it starts");
    let addresses = ready(&mut up).expect("it is ready");
    let with_client = format!(
        "{text}[client]\nurl = \"http://192.0.2.1:9\"\n[profiles.here]\nurl = \"{}\"\n",
        addresses.url
    );
    fs::write(&file, with_client).expect("written");

    let workers = || run(dir.path(), &["workers", "--profile", "here", "--json"]).json();
    until("the worker is there", || {
        workers().as_array().is_some_and(|all| !all.is_empty())
    });
    let worker = &workers()[0];
    assert_eq!(worker["name"], "local", "{worker}");
    assert_eq!(worker["labels"]["zone"], "eu", "{worker}");
    let limits = run(dir.path(), &["limits", "--profile", "here", "--json"]).json();
    assert!(limits.to_string().contains("\"licence\""), "{limits}");
    assert!(dir.path().join("store").is_dir(), "the data directory");
    let hello = run(
        dir.path(),
        &["--profile", "here", "submit", "--wait", "--", "true"],
    );
    hello.good();
    let mut variable = baton(dir.path(), &["status"]);
    variable.env("BATON_CONFIG", &file);
    let by_variable = variable.env("BATON_URL", &addresses.url).output();
    let by_variable: Ended = by_variable.expect("it ends").into();
    by_variable.good();

    let shown = run(dir.path(), &["config", "show", "--json"]).json();
    let slots = &shown["values"]["worker"]["slots"];
    assert_eq!(slots["value"], "5", "{shown}");
    assert_eq!(slots["origin"], format!("{}:8", file.display()), "{shown}");
    let keep = &shown["values"]["worker"]["keep"];
    assert_eq!(
        (&keep["value"], &keep["origin"]),
        (&"24h".into(), &"default".into())
    );
    end(&mut up, Signal::INT);
}

#[test]
fn a_wrong_file_stops_commands_that_read_it() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("baton.toml"), "[worker]\nslot = 1\n").expect("written");
    for args in [
        &["status"][..],
        &["worker"],
        &["config", "check"],
        &["config", "show"],
    ] {
        let ended = run(dir.path(), args);
        assert_eq!(ended.code, Some(2), "{args:?} {ended:?}");
        let hint = "baton.toml:2: unknown key `slot` in [worker]; did you mean `slots`?";
        assert!(ended.err.contains(hint), "{args:?} {}", ended.err);
    }
    let checked = run(dir.path(), &["config", "check", "--json"]);
    assert_eq!(checked.code, Some(2), "{checked:?}");
    let checked: Value = serde_json::from_str(&checked.out).expect("it is JSON");
    assert_eq!(checked["problems"][0]["line"], 2, "{checked}");
    for args in [&["version"][..], &["config", "init", "-"]] {
        run(dir.path(), args).good();
    }
}

#[test]
fn a_password_that_others_can_read_is_a_warning() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("with password.toml");
    let text = "[scheduler]\nstore = \"postgres://ann:secret@db/baton\"\n";
    fs::write(&file, text).expect("written");
    let check = || {
        run(
            dir.path(),
            &["config", "check", "with password.toml", "--json"],
        )
        .json()
    };
    fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("ours");
    let warning = &check()["warnings"][0];
    assert_eq!(warning["line"], 2, "{warning}");
    let message = warning["message"].as_str().expect("a text");
    assert!(
        message.contains("chmod 600 'with password.toml'"),
        "{message}"
    );
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("ours");
    assert_eq!(check()["warnings"], json!([]));
}

#[test]
fn a_new_file_is_written_once_and_a_profile_is_selected() {
    let dir = tempfile::tempdir().expect("a directory");
    let home = |args: &[&str]| -> Ended {
        let mut command = baton(dir.path(), args);
        command
            .env_remove("BATON_CONFIG")
            .env("XDG_CONFIG_HOME", dir.path());
        command.output().expect("it ends").into()
    };
    let file = dir.path().join("baton/baton.toml");
    assert_eq!(
        home(&["config", "init"]).good().trim(),
        file.display().to_string()
    );
    let again = home(&["config", "init"]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.err.contains("exists"), "{again:?}");
    assert!(home(&["config", "check"]).good().contains("valid"));

    let unknown = home(&["context", "use", "lab"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    let mut text = fs::read_to_string(&file).expect("readable");
    text.push_str("[profiles.lab]\nurl = \"http://127.0.0.1:9\"\n");
    fs::write(&file, text).expect("written");
    home(&["context", "use", "lab"]).good();
    let listed = home(&["context", "ls", "--json"]).json();
    assert_eq!(listed["selected"], "lab", "{listed}");
    let shown = home(&["config", "show", "client", "--json"]).json();
    let url = &shown["values"]["client"]["url"]["value"];
    assert_eq!(*url, "http://127.0.0.1:9", "{shown}");
    home(&["context", "clear"]).good();
    let shown = home(&["config", "show", "client", "--profile", "lab", "--json"]).json();
    assert_eq!(shown["profile"], "lab", "{shown}");
    let listed = home(&["context", "ls", "--json"]).json();
    assert!(listed["selected"].is_null(), "{listed}");
}

#[test]
fn a_version_tells_what_it_speaks_and_stores() {
    let dir = tempfile::tempdir().expect("a directory");
    let version = run(dir.path(), &["version", "--json"]).json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    for number in ["schema", "protocol"] {
        assert!(version[number].as_u64() > Some(0), "{version}");
    }
    let target = version["target"].as_str().unwrap_or_default();
    assert!(target.starts_with(std::env::consts::ARCH), "{version}");
    assert!(version.get("commit").is_some(), "{version}");
    let words = run(dir.path(), &["version"]).good();
    assert!(words.contains(&version["schema"].to_string()), "{words}");
}
