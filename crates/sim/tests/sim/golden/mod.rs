//! Golden conversations: text scripts that drive the real scheduler and worker state machines
//! over a scripted network, and the transcript of their messages and decisions.
//!
//! The scripts are in `tests/golden/`, one per file, each with its purpose in the first lines. To accept a change of behaviour, rewrite the transcripts and read the
//! difference:
//!
//! ```text
//! BATON_REWRITE=1 cargo test -p baton-sim --features seeded-bugs --test sim golden
//! ```
//!
//! | file | concern |
//! |---|---|
//! | [`script`] | the text format, the comparison and the rewriting |
//! | [`commands`] | the commands of a script |
//! | [`world`] | all parties, and the passing of time |
//! | [`leader`] | a scheduler with its outbox and its store |
//! | [`worker`] | an agent with its coordinator |
//! | [`network`] | messages in flight, by number and by pattern |
//! | [`render`] | how messages and times are written |
//! | [`transcript`] | the lines of one block |

mod commands;
mod leader;
mod network;
mod render;
mod script;
mod transcript;
mod worker;
mod world;

use std::fs;
use std::path::{Path, PathBuf};

use script::Failure;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join("golden")
}

/// Every script, in a stable order.
fn scripts() -> Vec<PathBuf> {
    let listing = fs::read_dir(directory()).expect("the directory of the scripts is readable");
    let mut paths: Vec<PathBuf> = listing
        .map(|entry| entry.expect("its entries are readable").path())
        .filter(|path| path.extension().is_some_and(|it| it == "txt"))
        .collect();
    paths.sort();
    paths
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    format!("golden/{}", name.to_string_lossy())
}

#[test]
fn every_conversation_goes_as_written() {
    let rewrite = std::env::var_os("BATON_REWRITE").is_some();
    let paths = scripts();
    assert!(!paths.is_empty(), "there are no scripts");
    let mut failures = Vec::new();
    for path in paths {
        let name = name_of(&path);
        let text = fs::read_to_string(&path).expect("a script is readable text");
        let playback = match script::play(&name, &text) {
            Ok(playback) => playback,
            Err(failure) => {
                failures.push(failure.to_string());
                continue;
            }
        };
        if rewrite && playback.text != text {
            fs::write(&path, &playback.text).expect("a script is writable");
        } else if !rewrite {
            failures.extend(playback.differences.iter().map(Failure::to_string));
        }
    }
    assert!(
        failures.is_empty(),
        "{} differ; BATON_REWRITE=1 accepts the new transcripts:\n\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// A script whose transcript is right, for the tests of the harness itself.
const GOOD: &str = "\
# A worker asks for a seat.

scheduler s
worker w1
----
s: leads e1, 0 open leases

tick w1
----
1: w1 -> s  processHeartbeat stamp=0.001s state=NEW assoc=-
";

#[test]
fn a_right_transcript_passes_and_is_rewritten_to_itself() {
    let playback = script::play("good", GOOD).expect("the script is well formed");
    assert_eq!(playback.differences, []);
    assert_eq!(playback.text, GOOD);
}

#[test]
fn a_wrong_transcript_is_found_with_its_file_and_line_and_fixed_by_a_rewrite() {
    let wrong = GOOD.replace("state=NEW", "state=HEALTHY");
    let playback = script::play("bad.txt", &wrong).expect("the script is well formed");
    assert_eq!(playback.differences.len(), 1);
    let shown = playback.differences[0].to_string();
    assert!(shown.starts_with("bad.txt:8: tick w1\n"), "{shown}");
    assert!(shown.contains("\n- 1: w1 -> s  processHeartbeat stamp=0.001s state=HEALTHY"));
    assert!(shown.contains("\n+ 1: w1 -> s  processHeartbeat stamp=0.001s state=NEW"));
    assert_eq!(playback.text, GOOD);
}

#[test]
fn a_missing_transcript_is_found() {
    let cut = GOOD.replace(
        "1: w1 -> s  processHeartbeat stamp=0.001s state=NEW assoc=-\n",
        "",
    );
    let playback = script::play("cut", &cut).expect("the script is well formed");
    assert_eq!(playback.differences.len(), 1);
}

#[test]
fn an_unknown_command_fails_and_names_itself_and_its_line() {
    let text = GOOD.replace("tick w1", "tock w1");
    let failure = script::play("bad.txt", &text).expect_err("there is no such command");
    let shown = failure.to_string();
    assert!(shown.starts_with("bad.txt:8: tock w1\n"), "{shown}");
    assert!(shown.contains("unknown command"), "{shown}");
}

#[test]
fn a_command_that_finds_nothing_to_act_on_fails() {
    for command in ["deliver runTask", "tick w9", "end w1 i1 exit 0"] {
        let text = GOOD.replace("tick w1", command);
        assert!(script::play("bad", &text).is_err(), "{command}");
    }
}

#[test]
fn commands_without_the_dashes_under_them_fail() {
    let failure = script::play("bad", "scheduler s\n").expect_err("it has no transcript");
    assert!(failure.to_string().contains("----"));
}
