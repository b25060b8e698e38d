//! `baton help`: commands and chapters, for people and for pipes.

use std::process::Command;

use baton_testing::command::{baton_path, run};

#[test]
fn help_lists_commands_and_chapters() {
    let dir = tempfile::tempdir().expect("a directory");
    let listed = run(dir.path(), &["help"]).good();
    for line in ["Run work:", "  submit ", "Guides:", "  schedules "] {
        assert!(listed.contains(&format!("\n{line}")), "{line}: {listed}");
    }
    assert!(listed.contains("baton help --book library"), "{listed}");
    let book = run(dir.path(), &["help", "--book"]).good();
    assert!(
        !book.contains("Run work:") && book.contains("Guides:"),
        "{book}"
    );
}

#[test]
fn help_of_a_command_is_that_of_its_option() {
    let dir = tempfile::tempdir().expect("a directory");
    for words in [&["submit"][..], &["library", "put"], &["ps"], &["help"]] {
        let by_option = run(dir.path(), &[words, &["--help"]].concat()).good();
        let by_command = run(dir.path(), &[&["help"], words].concat()).good();
        assert_eq!(by_command, by_option, "{words:?}");
    }
    // Below a command the parser's own subcommand goes on.
    let nested = run(dir.path(), &["library", "help", "put"]).good();
    assert!(nested.contains("Usage: baton library put"), "{nested}");
    let both = run(dir.path(), &["help", "library"]).good();
    assert!(both.contains("Usage: baton library"), "{both}");
    assert!(both.contains("`baton help --book library`"), "{both}");
}

#[test]
fn a_chapter_is_plain_text_in_a_pipe() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = run(dir.path(), &["help", "schedules"]).good();
    assert!(text.starts_with("Schedules\n"), "{text}");
    assert!(!text.contains('\x1b') && !text.contains("]("), "{text}");
    assert!(text.contains("See also: baton help tasks"), "{text}");
    let library = run(dir.path(), &["help", "--book", "library"]).good();
    assert!(library.starts_with("The library"), "{library}");
    let unknown = run(dir.path(), &["help", "shedules"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(
        unknown.err.contains("`baton help schedules`"),
        "{unknown:?}"
    );
}

/// Runs `baton help ARGS` on a terminal of 60 columns.
fn on_a_terminal(args: &str, variables: &[(&str, &str)]) -> String {
    let command = format!(
        "stty cols 60 rows 24; {} help {args}",
        baton_path().display()
    );
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-c", &command, "/dev/null"]);
    script.env("BATON_CONFIG", "").env("TERM", "xterm");
    script.env_remove("NO_COLOR").env_remove("PAGER");
    script.envs(variables.iter().copied());
    let shown = script.output().expect("script of util-linux");
    assert!(shown.status.success(), "{shown:?}");
    String::from_utf8_lossy(&shown.stdout).replace("\r\n", "\n")
}

#[test]
fn a_terminal_gets_its_width_styles_and_pager() {
    let shown = on_a_terminal("backups", &[]);
    assert!(shown.contains("\x1b[1mBackups\x1b[0m"), "{shown}");
    let plain = on_a_terminal("--plain backups", &[("PAGER", "false")]);
    assert!(!plain.contains('\x1b'), "{plain}");
    let widest = |text: &str| {
        let prose = text.lines().filter(|line| !line.starts_with("    "));
        prose.map(|line| line.chars().count()).max()
    };
    assert!(
        widest(&plain) > Some(60) && widest(&plain) <= Some(80),
        "{plain}"
    );
    let uncoloured = on_a_terminal("backups", &[("NO_COLOR", "1")]);
    assert!(widest(&uncoloured) <= Some(60), "{uncoloured}");
    let paged = on_a_terminal("backups", &[("PAGER", "sed 's/^/paged: /'")]);
    assert!(paged.contains("paged: "), "{paged}");
    let missing = on_a_terminal("backups", &[("PAGER", "no-such-pager 2>&-")]);
    assert!(missing.contains("Backups"), "{missing}");
}
