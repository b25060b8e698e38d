//! The text format: blocks of commands, `----`, and the transcript up to a blank line. Lines
//! that begin with `#` and blank lines between blocks are copied verbatim.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::commands;
use super::world::World;

const DASHES: &str = "----";

/// The transcript of a block without visible events.
const NOTHING: &str = "ok";

/// The result of playing a script to its end.
#[derive(Debug)]
pub(crate) struct Playback {
    /// The script with the transcript of what happened.
    pub(crate) text: String,
    /// The blocks whose transcript differs.
    pub(crate) differences: Vec<Failure>,
}

/// A problem of a script, with its line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    script: String,
    line: usize,
    command: String,
    what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:{}: {}", self.script, self.line, self.command)?;
        f.write_str(&self.what)
    }
}

/// One block of commands, with the number of its first line.
struct Block<'a> {
    line: usize,
    commands: Vec<&'a str>,
    expected: Vec<&'a str>,
}

/// A line to copy, or a block to play.
enum Part<'a> {
    Verbatim(&'a str),
    Block(Block<'a>),
}

/// Plays a script from its first line to its last.
///
/// # Errors
/// If a command is unknown or finds nothing to act on, or if a state machine panics: such a
/// script cannot be rewritten, only fixed.
pub(crate) fn play(name: &str, text: &str) -> Result<Playback, Failure> {
    let mut world = World::default();
    let mut rewritten = String::new();
    let mut differences = Vec::new();
    for part in parse(name, text)? {
        match part {
            Part::Verbatim(line) => push_line(&mut rewritten, line),
            Part::Block(block) => {
                let got = play_block(name, &mut world, &block)?;
                if got != block.expected {
                    let what = difference(&block.expected, &got);
                    differences.push(failure(name, block.line, block.commands[0], what));
                }
                block
                    .commands
                    .iter()
                    .for_each(|it| push_line(&mut rewritten, it));
                push_line(&mut rewritten, DASHES);
                got.iter().for_each(|it| push_line(&mut rewritten, it));
            }
        }
    }
    Ok(Playback {
        text: rewritten,
        differences,
    })
}

fn play_block(name: &str, world: &mut World, block: &Block<'_>) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for (index, command) in block.commands.iter().enumerate() {
        let line = block.line + index;
        // A panic of a state machine is a finding; report its command.
        let done = catch_unwind(AssertUnwindSafe(|| commands::run(world, command)));
        match done {
            Ok(Ok(())) => lines.extend(world.take_lines()),
            Ok(Err(reason)) => return Err(failure(name, line, command, reason)),
            Err(panic) => return Err(failure(name, line, command, panic_message(&*panic))),
        }
    }
    if lines.is_empty() {
        lines.push(NOTHING.to_owned());
    }
    Ok(lines)
}

fn parse<'a>(name: &str, text: &'a str) -> Result<Vec<Part<'a>>, Failure> {
    let mut parts = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            parts.push(Part::Verbatim(line));
            continue;
        }
        let mut block = Block {
            line: index + 1,
            commands: vec![line],
            expected: Vec::new(),
        };
        let mut closed = false;
        for (_, line) in lines.by_ref() {
            if line == DASHES {
                closed = true;
                break;
            }
            block.commands.push(line);
        }
        if !closed {
            let what = format!("no {DASHES} line follows");
            return Err(failure(name, block.line, block.commands[0], what));
        }
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.is_empty()) {
            block.expected.push(line);
        }
        parts.push(Part::Block(block));
    }
    Ok(parts)
}

/// Compares both transcripts line by line: common, missing and new lines.
fn difference(expected: &[&str], got: &[String]) -> String {
    let common = |from_end: bool| {
        let same = |(a, b): &(&&str, &String)| **a == b.as_str();
        if from_end {
            expected
                .iter()
                .rev()
                .zip(got.iter().rev())
                .take_while(same)
                .count()
        } else {
            expected.iter().zip(got).take_while(same).count()
        }
    };
    let head = common(false);
    let shorter = expected.len().min(got.len());
    let tail = common(true).min(shorter - head);
    let mut shown = String::new();
    let mut add = |mark: &str, line: &str| push_line(&mut shown, &format!("{mark} {line}"));
    expected[..head].iter().for_each(|line| add(" ", line));
    let missing = &expected[head..expected.len() - tail];
    missing.iter().for_each(|line| add("-", line));
    let new = &got[head..got.len() - tail];
    new.iter().for_each(|line| add("+", line));
    let rest = &expected[expected.len() - tail..];
    rest.iter().for_each(|line| add(" ", line));
    shown
}

fn failure(script: &str, line: usize, command: &str, what: String) -> Failure {
    Failure {
        script: script.to_owned(),
        line,
        command: command.to_owned(),
        what,
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panicked: {}\n", message.unwrap_or("without a message"))
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}
