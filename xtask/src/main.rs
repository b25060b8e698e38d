//! Checks and generators of this repository, run as `cargo xtask COMMAND`: pages
//! generated from the code, and rules that no compiler checks.
//!
//! | module | command |
//! |---|---|
//! | [`states`] | `states [--check]`: the pages of the state machines |
//! | [`api`] | `api [--check]`: the page of the HTTP API |
//! | [`arrows`] | `arrows`: crates depend on lower layers only, and the core on nothing with IO |
//! | [`circles`] | `circles`: no circle of files across module folders |
//! | [`licences`] | `licences`: every dependency has a permissive licence |
//! | [`sbom`] | `sbom TARGET`: the bill of materials of the binary |
//! | [`tidy`], [`links`], [`summary`], [`commands`], [`language`], [`names`] | `tidy`: rules for every text file, dead links, the contents of the book, commands that do not exist, the terms of the field, names in the design chapters |
//! | [`protocol_doc`] | `protocol-doc`: every test that the protocol page names exists |
//! | [`repo`], [`markdown`] | shared by the commands |
//!
//! Each check is a pure function from text to findings, so that its failing cases
//! are unit tests; only `run` in each module touches files and processes.
//!
//! Exit status: 0 nothing found, 1 findings or a failure, 2 wrong usage.

mod api;
mod arrows;
mod circles;
mod commands;
mod language;
mod licences;
mod links;
mod markdown;
mod names;
mod protocol_doc;
mod repo;
mod sbom;
mod states;
mod summary;
mod tidy;

use std::process::ExitCode;

use repo::Repo;

const USAGE: &str = "\
usage: cargo xtask COMMAND

commands:
  states           write docs/states/ from the tables of the state machines
  states --check   fail if docs/states/ differs from the tables
  api              write docs/api.md from the description of the HTTP API
  api --check      fail if docs/api.md differs from it
  arrows           fail if a crate depends on one that is not in a lower layer
  circles          fail if files of several module folders depend on each other
  licences         fail if a dependency has no permissive licence
  sbom TARGET      print the bill of materials of the binary for a target, such as x86_64-unknown-linux-gnu
  tidy             fail if a text file breaks a rule of this repository
  protocol-doc     fail if docs/PROTOCOL.md names a test that does not exist
  --help           print this
";

#[derive(Clone, Debug, PartialEq, Eq)]
enum Command {
    WriteStates,
    CheckStates,
    WriteApi,
    CheckApi,
    Arrows,
    Circles,
    Licences,
    Sbom(String),
    Tidy,
    ProtocolDoc,
    Help,
}

/// The findings of a check, one line each.
type Findings = Vec<String>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let Some(command) = parse(&words) else {
        eprintln!("xtask: unknown command: {}\n\n{USAGE}", words.join(" "));
        return ExitCode::from(2);
    };
    if command == Command::Help {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match Repo::find().and_then(|repo| run(command, &repo)) {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for finding in &findings {
                eprintln!("{finding}");
            }
            eprintln!("xtask {}: {} to fix", words.join(" "), findings.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("xtask {}: {error}", words.join(" "));
            ExitCode::FAILURE
        }
    }
}

fn parse(words: &[&str]) -> Option<Command> {
    match words {
        ["states"] => Some(Command::WriteStates),
        ["states", "--check"] => Some(Command::CheckStates),
        ["api"] => Some(Command::WriteApi),
        ["api", "--check"] => Some(Command::CheckApi),
        ["arrows"] => Some(Command::Arrows),
        ["circles"] => Some(Command::Circles),
        ["licences"] => Some(Command::Licences),
        ["sbom", target] => Some(Command::Sbom((*target).to_owned())),
        ["tidy"] => Some(Command::Tidy),
        ["protocol-doc"] => Some(Command::ProtocolDoc),
        ["--help" | "-h" | "help"] => Some(Command::Help),
        _ => None,
    }
}

fn run(command: Command, repo: &Repo) -> Result<Findings, String> {
    match command {
        Command::WriteStates => states::write(repo).map(|()| Findings::new()),
        Command::CheckStates => states::check(repo),
        Command::WriteApi => api::write(repo).map(|()| Findings::new()),
        Command::CheckApi => api::check(repo),
        Command::Arrows => arrows::run(repo),
        Command::Circles => circles::run(repo),
        Command::Licences => licences::run(repo),
        Command::Sbom(target) => sbom::run(repo, &target).map(|()| Findings::new()),
        Command::Tidy => tidy::run(repo),
        Command::ProtocolDoc => protocol_doc::run(repo),
        Command::Help => Ok(Findings::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_the_usage_is_understood() {
        let commands = USAGE
            .lines()
            .filter_map(|line| line.strip_prefix("  "))
            .filter_map(|line| line.split_once("  "));
        let mut understood = 0;
        for (command, _) in commands {
            let words: Vec<&str> = command.split(' ').collect();
            assert!(parse(&words).is_some(), "{command}");
            understood += 1;
        }
        assert_eq!(understood, 11);
    }

    #[test]
    fn an_unknown_command_or_a_stray_word_is_wrong_usage() {
        assert_eq!(parse(&[]), None);
        assert_eq!(parse(&["stats"]), None);
        assert_eq!(parse(&["tidy", "--check"]), None);
        assert_eq!(parse(&["states", "--chekc"]), None);
    }
}
