//! The commands in the documents work as written.
//!
//! The `sh` blocks of a page run one after the other, in one shell, in an empty directory that has
//! the examples, and in a network of their own: they use the default ports. No process outlives them. A block `output` behind
//! them has lines that they must have printed, in this order; `…` stands for any text of a line. A
//! block `sh,no-run` is not run: it builds Baton, follows a stream without an end, or needs programs or
//! hosts of the reader.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// Defines a test for each page with commands.
macro_rules! pages {
    ($($test:ident: $page:literal,)*) => {
        const PAGES: &[&str] = &[$($page),*];
        $(
            #[test]
            fn $test() {
                run(&blocks(&read($page)));
            }
        )*
    };
}

pages! {
    the_readme: "README.md",
    the_overview: "docs/README.md",
    installing: "docs/install.md",
    the_cluster: "docs/cluster.md",
    the_library: "docs/library.md",
    local_tasks: "docs/local.md",
    schedules: "docs/schedules.md",
    submissions: "docs/submissions.md",
    the_fields_of_tasks: "docs/tasks.md",
    workflows: "docs/workflows.md",
    notifications: "docs/notifications.md",
    alarms: "docs/alarms.md",
    secrets: "docs/secrets.md",
    traces: "docs/traces.md",
    the_tutorial: "docs/guides/tutorial.md",
    cron_jobs: "docs/guides/cron-jobs.md",
    arrays: "docs/guides/arrays.md",
    a_second_machine: "docs/guides/second-machine.md",
    backups: "docs/guides/backups.md",
    upgrades: "docs/guides/upgrades.md",
    coming_from_cron: "docs/coming-from/cron.md",
    coming_from_parallel: "docs/coming-from/parallel.md",
    coming_from_slurm_arrays: "docs/coming-from/slurm-arrays.md",
    coming_from_hyperqueue: "docs/coming-from/hyperqueue.md",
    coming_from_airflow: "docs/coming-from/airflow.md",
    coming_from_jobmon: "docs/coming-from/jobmon.md",
    coming_from_nomad: "docs/coming-from/nomad.md",
    coming_from_make: "docs/coming-from/make.md",
}

#[test]
fn the_commands_of_every_page_are_run() {
    let root = root();
    let mut pages = Vec::new();
    for folder in ["", "docs", "docs/guides", "docs/coming-from", "docs/design"] {
        for entry in fs::read_dir(root.join(folder)).expect("a folder of pages") {
            let name = entry.expect("readable").file_name();
            pages.push(Path::new(folder).join(name).display().to_string());
        }
    }
    pages.retain(|page| page.ends_with(".md") && !blocks(&read(page)).is_empty());
    pages.sort();
    let mut run = PAGES.to_vec();
    run.sort_unstable();
    assert_eq!(pages, run, "each page with a block `sh` has a test");
}

#[test]
fn the_first_workflow_of_the_documentation_runs() {
    let text = read("docs/workflows.md");
    let (_, rest) = text.split_once("```yaml\n").expect("an example");
    let (file, _) = rest.split_once("```").expect("that ends");
    let commands = format!(
        "cat > etl.yaml <<'END'\n{file}END\nbaton check etl.yaml\nbaton submit etl.yaml --wait\n"
    );
    let printed = run(&[Block::new(commands)]);
    if !printed.is_empty() {
        let checked = "ok etl.yaml: workflow";
        assert!(
            printed.contains(checked) && printed.contains("r1"),
            "{printed}"
        );
    }
}

#[test]
fn a_missing_line_of_an_output_is_found() {
    let text = "```sh\na\n```\n\ntext\n\n```output\ni… DONE\nx\n```\n```sh,no-run\nb\n```\n";
    let blocks = blocks(text);
    assert_eq!(blocks.len(), 1);
    assert_eq!(blocks[0].commands, "a\n");
    assert_eq!(blocks[0].missing("noise\ni12 DONE\nmore\nx  \n"), None);
    assert_eq!(blocks[0].missing("x\ni12 DONE\n"), Some("x"));
    assert_eq!(blocks[0].missing("i12 DONE at last\nx\n"), Some("i… DONE"));
}

/// Commands, and the lines that they must have printed.
struct Block {
    commands: String,
    output: Vec<String>,
}

impl Block {
    fn new(commands: String) -> Self {
        let output = Vec::new();
        Self { commands, output }
    }

    /// The first line that was not printed after the ones before it.
    fn missing(&self, printed: &str) -> Option<&str> {
        let mut printed = printed.lines();
        let mut expected = self.output.iter();
        expected
            .find(|line| !printed.any(|found| matches(line, found.trim_end())))
            .map(String::as_str)
    }
}

/// Whether a line is the expected one, where `…` stands for any text.
fn matches(expected: &str, line: &str) -> bool {
    let Some((start, rest)) = expected.split_once('…') else {
        return expected == line;
    };
    let Some(line) = line.strip_prefix(start) else {
        return false;
    };
    let ends = line.char_indices().map(|(at, _)| at).chain([line.len()]);
    ends.into_iter().any(|at| matches(rest, &line[at..]))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// The `sh` blocks of a page, each with the `output` that follows it.
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else {
            continue;
        };
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match kind {
            "sh" => blocks.push(Block::new(format!("{}\n", body.join("\n")))),
            "output" => {
                let block = blocks.last_mut().expect("an output follows commands");
                block.output.extend(body.into_iter().map(str::to_owned));
            }
            _ => {}
        }
    }
    blocks
}

/// Runs commands one after the other, until one fails, and returns what they have printed.
///
/// A server in the background is waited for, as a reader would do. Commands that start none get one.
fn run(blocks: &[Block]) -> String {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root, for a network of its own");
        return String::new();
    }
    let mut script = "set -e\nip link set lo up\n\
         trap 'kill -INT $(jobs -p) 2>/dev/null || true; wait' EXIT\n\
         ready() { while jobs -r | grep -q baton; do \
         baton workers 2>/dev/null | grep -q HEALTHY && return; sleep 0.05; done; \
         echo no server; exit 9; }\n"
        .to_owned();
    let starts =
        |block: &Block| ["baton up", "baton scheduler"].map(|it| block.commands.contains(it));
    if !blocks.iter().flat_map(starts).any(|starts| starts) {
        script.push_str("baton up &\nready\n");
    }
    for (number, block) in blocks.iter().enumerate() {
        for line in block.commands.lines() {
            script.push_str(line);
            script.push('\n');
            let command = line.split(" #").next().unwrap_or_default();
            if command.starts_with("baton up") && command.trim_end().ends_with('&') {
                script.push_str("ready\n");
            }
        }
        script.push_str(&format!("printf '\\n{}\\n'\n", end_of(number)));
    }
    let printed = paste(&script);
    let mut rest = printed.as_str();
    for (number, block) in blocks.iter().enumerate() {
        let end = format!("\n{}\n", end_of(number));
        let (part, after) = rest.split_once(&end).expect("each block has ended");
        if let Some(line) = block.missing(part) {
            panic!(
                "{line:?} is not in the output of\n{}\n{part}",
                block.commands
            );
        }
        rest = after;
    }
    printed
}

fn end_of(block: usize) -> String {
    format!("-- end of block {block}")
}

fn paste(script: &str) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let work = dir.path().join("work");
    fs::create_dir(&work).expect("created");
    std::os::unix::fs::symlink(root().join("examples"), work.join("examples")).expect("linked");
    let bin = Path::new(BATON).parent().expect("it is in a directory");
    let path = std::env::var("PATH").expect("there is one");
    let output = dir.path().join("output");
    let file = File::create(&output).expect("created");
    // The shell is the first process of its namespace: it reaps, and all others end with it.
    let status = Command::new("timeout")
        .args(["300", "unshare", "--net", "--pid", "--fork", "--kill-child"])
        .args(["--mount-proc", "--", "bash", "-c", script])
        .current_dir(work)
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("PYTHONPATH", root().join("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("XDG_CONFIG_HOME", dir.path().join("config"))
        .env("XDG_STATE_HOME", dir.path().join("state"))
        .env("USER", "you")
        .env_remove("BATON_URL")
        .stdin(Stdio::null())
        .stdout(file.try_clone().expect("cloned"))
        .stderr(file)
        .process_group(0)
        .status()
        .expect("it runs");
    let printed = String::from_utf8_lossy(&fs::read(&output).expect("readable")).into_owned();
    assert!(status.success(), "{status}\n{script}\n{printed}");
    printed
}
