//! Files, profiles and variables against the options of the real command line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command, CommandFactory as _};

use super::file::{Problem, parse};
use super::keys::Section;
use super::layers::{Config, Origin, Places, Variables};
use super::{apply, reject_password};
use crate::{Cli, help};

fn problems(text: &str) -> Vec<String> {
    let found = parse(Path::new("b.toml"), text, &Cli::command());
    let told = |problem: &Problem| problem.to_string();
    found.map_or_else(|found| found.iter().map(told).collect(), |_| Vec::new())
}

/// Files in a directory, and an environment.
struct Rig {
    dir: tempfile::TempDir,
    places: Places,
    variables: BTreeMap<&'static str, &'static str>,
}

impl Rig {
    fn new(files: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |(index, text): (usize, &&str)| {
            let path = dir.path().join(format!("{index}.toml"));
            std::fs::write(&path, text).expect("written");
            path
        };
        let files = files.iter().enumerate().map(write).collect();
        let context = Some(dir.path().join("context"));
        Self {
            places: Places { files, context },
            dir,
            variables: BTreeMap::new(),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(|value| (*value).to_owned())
    }

    fn config(&self, profile: Option<&str>) -> Result<Config, Vec<Problem>> {
        let profile = profile.map(str::to_owned);
        let get: Variables<'_> = &|name| self.variable(name);
        Config::read(&self.places, profile, get, &Cli::command())
    }

    /// The matches of a command line.
    fn parse(&self, line: &str) -> ArgMatches {
        let get: Variables<'_> = &|name| self.variable(name);
        let words: Vec<_> = line.split(' ').map(Into::into).collect();
        let profile = line.contains("--profile lab").then_some("lab");
        let config = self.config(profile).expect("valid");
        let command = line.split(' ').nth(1).expect("a command");
        let cli = apply::apply(&config, Cli::command(), command, get).expect("valid");
        help::parse(cli, words).expect("a command line")
    }

    fn value(&self, line: &str, id: &str) -> Vec<String> {
        let matches = self.parse(line);
        let (_, command) = matches.subcommand().expect("a command");
        let raw = command.get_raw(id).into_iter().flatten();
        raw.map(|value| value.to_string_lossy().into_owned())
            .collect()
    }
}

#[test]
fn a_mistake_is_named_with_its_line_and_a_hint() {
    for (text, wanted) in [
        (
            "[worker]\nslot = 3",
            "b.toml:2: unknown key `slot` in [worker]; did you mean `slots`?",
        ),
        (
            "[workers]",
            "b.toml:1: unknown table [workers]; did you mean `worker`?",
        ),
        (
            "[worker]\n\nslots = 0",
            "b.toml:3: `slots` in [worker]: invalid value '0' for '--slots <SLOTS>'",
        ),
        (
            "[scheduler]\nrequire-tokens = 1",
            "b.toml:2: `require-tokens` in [scheduler]: expected true or false",
        ),
        (
            "[worker]\nname = { a = [1] }",
            "b.toml:2: `name` in [worker]: expected text or a number",
        ),
        (
            "scheduler = 1",
            "b.toml:1: `scheduler` is no table; write it as [scheduler]",
        ),
        (
            "[profiles]\nlab = 1",
            "b.toml:2: `lab` is no profile; write it as [profiles.lab]",
        ),
        (
            "[worker]\nlog_limit = \"1GiB\"\nlog-limit = \"2GiB\"",
            "b.toml:2: `log-limit` is in [worker] twice, with - and with _",
        ),
    ] {
        let found = problems(text);
        assert!(
            found.iter().any(|it| it.starts_with(wanted)),
            "{text}: {found:?}"
        );
    }
    assert!(problems("[worker\n")[0].starts_with("b.toml:1:"));
    assert_eq!(
        problems("[worker]\nslots = 3\n[client]\nurl = \"http://a\""),
        [""; 0]
    );
}

#[test]
fn later_layers_count_more() {
    let mut rig = Rig::new(&[
        "[worker]\nslots = 1\nkeep = \"1h\"\nscheduler = \"a:1\"",
        "[worker]\nslots = 2",
    ]);
    assert_eq!(rig.value("baton worker", "slots"), ["2"]);
    assert_eq!(rig.value("baton worker", "keep"), ["1h"]);
    assert_eq!(rig.value("baton worker", "scheduler"), ["a:1"]);
    assert_eq!(rig.value("baton worker --slots 9", "slots"), ["9"]);
    rig.variables.insert("BATON_WORKER_SLOTS", "3");
    rig.variables.insert("BATON_SCHEDULER", "b:2");
    assert_eq!(rig.value("baton worker", "slots"), ["3"]);
    assert_eq!(rig.value("baton worker", "scheduler"), ["b:2"]);
    assert_eq!(rig.value("baton worker --slots 9", "slots"), ["9"]);
    let get: Variables<'_> = &|name| rig.variable(name);
    let config = rig.config(None).expect("valid");
    let resolved = config.resolve(Section::Worker, get, &Cli::command());
    let resolved = resolved.expect("valid");
    assert_eq!(
        resolved["slots"].origin,
        Origin::Variable("BATON_WORKER_SLOTS".to_owned())
    );
    assert_eq!(
        resolved["keep"].origin,
        Origin::File(rig.dir.path().join("0.toml"), 3)
    );
}

#[test]
fn a_variable_with_a_wrong_value_is_named() {
    let mut rig = Rig::new(&[]);
    rig.variables.insert("BATON_WORKER_SLOTS", "many");
    rig.variables.insert("BATON_SCHEDULER_REQUIRE_TOKENS", "1");
    let get: Variables<'_> = &|name| rig.variable(name);
    let config = rig.config(None).expect("valid");
    for (section, name) in [
        (Section::Worker, "$BATON_WORKER_SLOTS: "),
        (
            Section::Scheduler,
            "$BATON_SCHEDULER_REQUIRE_TOKENS: expected true or false",
        ),
    ] {
        let found = config.resolve(section, get, &Cli::command());
        let found = found
            .expect_err("wrong")
            .into_iter()
            .map(|it| it.to_string());
        let found: Vec<_> = found.collect();
        assert!(found.iter().any(|it| it.starts_with(name)), "{found:?}");
    }
}

#[test]
fn lists_tables_and_flags_are_values_of_options() {
    let rig = Rig::new(&[
        "[scheduler]\nlimit = { \"db/orders\" = 4, gpu = 2 }\nrequire-tokens = true\n\
         [worker]\nlabel = [\"zone=eu\", \"rack=7\"]\nresources = { cpu = 2, memory = \"1GiB\" }\nslots = 7",
    ]);
    let mut limits = rig.value("baton scheduler", "limits");
    limits.sort();
    assert_eq!(limits, ["db/orders=4", "gpu=2"]);
    assert_eq!(rig.value("baton worker", "labels"), ["zone=eu", "rack=7"]);
    assert_eq!(
        rig.value("baton worker", "resources"),
        ["cpu=2,memory=1GiB"]
    );
    assert_eq!(rig.value("baton worker --label a=b", "labels"), ["a=b"]);
    assert_eq!(rig.value("baton up", "resources"), ["cpu=2,memory=1GiB"]);
    let up = rig.parse("baton up");
    assert!(up.subcommand().expect("up").1.get_flag("require_tokens"));
    let get: Variables<'_> = &|name| rig.variable(name);
    let config = rig.config(None).expect("valid");
    let rest = apply::worker_arguments(&config, &Cli::command(), get).expect("valid");
    assert_eq!(rest, ["--slots=7"]);
}

#[test]
fn a_profile_counts_for_clients_alone_and_must_exist() {
    let rig = Rig::new(&["[client]\nurl = \"http://a:1\"\nutc = true\n\
         [profiles.lab]\nurl = \"http://lab:1\"\n[worker]\ntoken-file = \"w\""]);
    let url = |line: &str| rig.parse(line).get_one::<String>("url").cloned();
    assert_eq!(url("baton status").as_deref(), Some("http://a:1"));
    assert_eq!(
        url("baton status --profile lab").as_deref(),
        Some("http://lab:1")
    );
    assert_eq!(
        url("baton status --url http://b").as_deref(),
        Some("http://b")
    );
    assert_eq!(url("baton worker"), None);
    let token = rig.parse("baton worker");
    let token = token.get_one::<PathBuf>("token_file");
    assert_eq!(token, Some(&PathBuf::from("w")));
    std::fs::write(rig.places.context.as_ref().expect("a place"), "lab\n").expect("written");
    assert_eq!(url("baton status").as_deref(), Some("http://lab:1"));
    let unknown = rig.config(Some("home")).expect_err("there is none");
    let unknown = unknown[0].to_string();
    assert_eq!(
        unknown,
        "--profile: there is no profile `home`; there are lab"
    );
}

#[test]
fn options_that_need_each_other_do_so_in_a_file() {
    let rig = Rig::new(&["[scheduler]\ntls-cert = \"c.pem\""]);
    let found = rig.config(None).expect_err("the key is missing");
    let found = found[0].to_string();
    assert!(
        found.contains("[scheduler]") && found.contains("--tls-key"),
        "{found}"
    );
}

#[test]
fn a_password_is_refused_on_the_command_line_alone() {
    let matches = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let cli: Command = help::arrange(Cli::command());
        cli.try_get_matches_from(words).expect("a command line")
    };
    for line in [
        "baton scheduler --store postgres://me:secret@db/x",
        "baton up --store postgres:///x?host=/run&user=me&password=secret",
    ] {
        assert!(reject_password(&matches(line)).is_err(), "{line}");
    }
    for line in [
        "baton scheduler --store postgres://me@db/x",
        "baton scheduler",
        "baton submit -- psql postgres://me:secret@db/x",
    ] {
        assert!(reject_password(&matches(line)).is_ok(), "{line}");
    }
    let rig = Rig::new(&["[scheduler]\nstore = \"postgres://me:secret@db/x\""]);
    assert!(reject_password(&rig.parse("baton scheduler")).is_ok());
}
