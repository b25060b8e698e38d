//! `baton completions`: what a shell needs to complete commands and options.

use std::io::Write as _;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::output::{CommandResult, Output};

/// Print a script that teaches a shell to complete baton's commands and options
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(baton completions bash)                 in this shell; in ~/.bashrc, in every one
  baton completions zsh > ~/.zfunc/_baton          with ~/.zfunc in fpath, before compinit
  baton completions fish > ~/.config/fish/completions/baton.fish")]
pub(crate) struct Completions {
    /// Which shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn run(command: &Completions, mut cli: Command) -> CommandResult {
    let mut out = Output::new();
    out.write_all(&script(command.shell, &mut cli))?;
    out.done()
}

/// The script. Into memory first: whoever makes it panics where it cannot write.
fn script(shell: Shell, cli: &mut Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, cli, "baton", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use std::process::{Command as Process, Stdio};

    use baton_agent::{ATTEMPT_COMMAND, FETCH_COMMAND};
    use baton_runner::coordinator;
    use clap::{CommandFactory as _, ValueEnum as _};

    use super::*;
    use crate::Cli;
    use crate::run::TETHER;

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
            for hidden in [coordinator::COMMAND, ATTEMPT_COMMAND, FETCH_COMMAND, TETHER] {
                assert!(!script.contains(hidden), "{shell}: {hidden}");
            }
        }
    }

    #[test]
    fn bash_accepts_its_script() {
        let bash = Process::new("bash").arg("-n").stdin(Stdio::piped()).spawn();
        // Not everybody has one.
        let Ok(mut bash) = bash else { return };
        let mut stdin = bash.stdin.take().expect("a pipe");
        stdin.write_all(text(Shell::Bash).as_bytes()).expect("read");
        drop(stdin);
        assert!(bash.wait().expect("it ends").success());
    }
}
