//! The commands in the documents work as written.
//!
//! The blocks are run by a shell in an empty directory, in a network of their own: they use the
//! default ports.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// The first `sh` block after a line.
fn block(document: &str, behind: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(document)).expect("it is there");
    let (_, rest) = text.split_once(behind).expect("it has that part");
    let (_, rest) = rest.split_once("```sh\n").expect("with a block");
    let (block, _) = rest.split_once("```").expect("that ends");
    block.to_owned()
}

/// Runs commands with a server in the background, one after the other, until one fails.
fn paste(block: &str) -> String {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: needs root, for a network of its own");
        return String::new();
    }
    let dir = tempfile::tempdir().expect("a directory");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    std::os::unix::fs::symlink(examples, dir.path().join("examples")).expect("linked");
    let bin = Path::new(BATON).parent().expect("it is in a directory");
    let path = std::env::var("PATH").expect("there is one");
    let script = format!(
        "set -e\nip link set lo up\ntrap 'kill -INT $(jobs -p) 2>/dev/null; wait' EXIT\n\
         ready() {{ for i in $(seq 1200); do baton workers 2>/dev/null | grep -q HEALTHY && return; \
         sleep 0.05; done; echo no server; exit 9; }}\n{block}\n"
    );
    let mut command = Command::new("unshare");
    command
        .args(["--net", "--", "bash", "-c", &script])
        .current_dir(dir.path())
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("USER", "you")
        .env_remove("BATON_URL")
        .stdin(Stdio::null())
        .process_group(0);
    let output = command.output().expect("it runs");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}\n{printed}\n{errors}",
        output.status
    );
    printed
}

#[test]
fn the_first_commands_of_the_readme_work_one_after_the_other() {
    let block = block("README.md", "## A server, a minute later");
    let lines = block
        .lines()
        .filter(|line| !line.starts_with("cargo build"));
    let lines = lines.map(|line| {
        if line.starts_with("baton up &") {
            format!("{line}\nready")
        } else {
            line.to_owned()
        }
    });
    let printed = paste(&lines.collect::<Vec<_>>().join("\n"));
    if !printed.is_empty() {
        assert!(printed.contains("hello, you"), "{printed}");
    }
}

#[test]
fn the_first_commands_of_the_library_work_one_after_the_other() {
    let block = block("docs/library.md", "# The library");
    let printed = paste(&format!("baton up &\nready\n{block}"));
    if !printed.is_empty() {
        assert!(printed.contains("created, revision 1"), "{printed}");
    }
}

#[test]
fn the_commands_for_a_scheduled_workflow_work_one_after_the_other() {
    let block = block("docs/workflows.md", "## On a schedule");
    let printed = paste(&format!("baton up &\nready\n{block}"));
    if !printed.is_empty() {
        assert!(
            printed.contains("demo/sales: created, revision 1"),
            "{printed}"
        );
        assert!(printed.contains("r1"), "{printed}");
    }
}

#[test]
fn the_commands_of_the_documentation_work_one_after_the_other() {
    let block = block("docs/README.md", "## Which command, when");
    let block = block.replacen('\n', "\nready\n", 1);
    let printed = paste(&block);
    if !printed.is_empty() {
        assert!(printed.contains("1 queued again, 2 skipped"), "{printed}");
        assert!(
            printed.contains("ok examples/etl.yaml: workflow"),
            "{printed}"
        );
    }
}

#[test]
fn the_first_workflow_of_the_documentation_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("docs/workflows.md")).expect("it is there");
    let (_, rest) = text.split_once("```yaml\n").expect("an example");
    let (file, _) = rest.split_once("```").expect("that ends");
    let printed = paste(&format!(
        "cat > etl.yaml <<'END'\n{file}END\nbaton check etl.yaml\nbaton up &\nready\n\
         baton submit etl.yaml --wait"
    ));
    if !printed.is_empty() {
        assert!(
            printed.contains("ok etl.yaml: workflow") && printed.contains("r1"),
            "{printed}"
        );
    }
}
