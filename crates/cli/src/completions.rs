//! `baton completions`: shell completion scripts.

use std::io::Write as _;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::output::{CommandResult, Output};

/// Print a shell completion script
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(baton completions bash)                 this shell; for all shells, add it to ~/.bashrc
  baton completions zsh > ~/.zfunc/_baton          with ~/.zfunc in fpath, before compinit
  baton completions fish > ~/.config/fish/completions/baton.fish")]
pub(crate) struct Completions {
    /// Shell to generate the script for
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn run(command: &Completions, mut cli: Command) -> CommandResult {
    let mut out = Output::new();
    out.write_all(&script(command.shell, &mut cli))?;
    out.done()
}

/// Generates the script into memory: the generator panics if a write fails.
fn script(shell: Shell, cli: &mut Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, cli, "baton", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use std::process::{Command as Process, Stdio};

    use baton_agent::{ATTEMPT_COMMAND, FETCH_COMMAND};
    use baton_runner::{coordinator, reaper};
    use clap::{CommandFactory as _, ValueEnum as _};

    use super::*;
    use crate::Cli;
    use baton_embedded::TETHER;

    fn text(shell: Shell) -> String {
        String::from_utf8(script(shell, &mut Cli::command())).expect("UTF-8")
    }

    #[test]
    fn every_shell_is_told_every_command_and_nothing_that_is_hidden() {
        let cli = Cli::command();
        let names: Vec<&str> = cli.get_subcommands().map(Command::get_name).collect();
        assert!(names.contains(&"submit") && names.contains(&"completions"));
        for shell in Shell::value_variants() {
            let script = text(*shell);
            for name in &names {
                assert!(script.contains(name), "{shell}: {name}");
            }
            for hidden in [
                coordinator::COMMAND,
                reaper::COMMAND,
                ATTEMPT_COMMAND,
                FETCH_COMMAND,
                TETHER,
            ] {
                assert!(!script.contains(hidden), "{shell}: {hidden}");
            }
        }
    }

    #[test]
    fn bash_accepts_its_script() {
        let bash = Process::new("bash").arg("-n").stdin(Stdio::piped()).spawn();
        // bash may not be installed.
        let Ok(mut bash) = bash else { return };
        let mut stdin = bash.stdin.take().expect("a pipe");
        stdin.write_all(text(Shell::Bash).as_bytes()).expect("read");
        drop(stdin);
        assert!(bash.wait().expect("it ends").success());
    }
}
