//! What each view looks like, as files in `golden/`: a change of the looks shows in review.
//! `BATON_REWRITE=1` writes them anew; read the diff.

pub(crate) mod build;
mod cases;
pub(crate) mod random;
mod wellformed;

use std::fmt::Write as _;
use std::path::Path;

use baton_client::RunItem;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::workflow::HaltMode;
use baton_web::gantt::{self, Timeline};
use baton_web::graph::document as picture;

use self::build::{BEGUN, Case, counts, task};
use super::explain::{self, Explanation};
use super::live::{self, Frame, Plain};
use super::summary::{self, Summary};
use super::timeline;
use super::{dot, graph};
use crate::text::display_width;

const WIDTHS: [usize; 3] = [40, 80, 200];

impl Case {
    fn frame(&self) -> Frame<'_> {
        Frame {
            run: &self.run,
            tasks: &self.tasks,
            errors: &self.errors,
            now: self.now,
        }
    }

    fn live(&self, width: usize, height: usize, colour: bool) -> Vec<String> {
        let lines = live::render(&self.frame(), width, height);
        lines.iter().map(|line| line.paint(width, colour)).collect()
    }

    fn summary(&self) -> Summary<'_> {
        Summary {
            run: &self.run,
            tasks: &self.tasks,
            errors: &self.errors,
            local: None,
            whole: false,
            now: self.now,
        }
    }

    fn explanation(&self) -> Explanation<'_> {
        Explanation {
            run: &self.run,
            tasks: &self.tasks,
            errors: &self.errors,
            failures: &self.failures,
        }
    }

    fn timeline(&self) -> Timeline<'_> {
        Timeline {
            run: &self.run,
            items: &self.items,
            more: self.more,
            now: self.now,
        }
    }
}

/// Compares a file with what was drawn, or writes it. Returns what is wrong.
fn compare(file: &str, text: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/views/tests/golden")
        .join(file);
    if std::env::var_os("BATON_REWRITE").is_some() {
        std::fs::write(&path, text).expect("written");
        return None;
    }
    let present = std::fs::read_to_string(&path).unwrap_or_default();
    (present != text).then(|| format!("{} is drawn otherwise:\n{text}", path.display()))
}

fn check(views: impl IntoIterator<Item = (String, String)>) {
    let wrong = views
        .into_iter()
        .filter_map(|(file, text)| compare(&file, &text));
    let wrong: Vec<String> = wrong.collect();
    let all = wrong.join("\n");
    assert!(wrong.is_empty(), "{all}\nBATON_REWRITE=1 accepts this");
}

fn section(text: &mut String, head: &str, lines: &[String]) {
    let gap = if text.is_empty() { "" } else { "\n" };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{gap}== {head}\n{}", lines.join("\n"));
}

#[test]
fn every_case_looks_as_it_should_at_every_width() {
    check(cases::all().into_iter().map(|(name, case)| {
        let mut text = String::new();
        for width in WIDTHS {
            let live = case.live(width, 16, false);
            section(&mut text, &format!("live, {width} columns"), &live);
            let summary = summary::render(&case.summary(), width, false);
            section(&mut text, &format!("summary, {width} columns"), &summary);
            let explained = explain::render(&case.explanation(), width, false);
            section(&mut text, &format!("explain, {width} columns"), &explained);
            let graph = graph::render(&case.run, &case.tasks, width, false);
            section(&mut text, &format!("graph, {width} columns"), &graph);
            let timeline = timeline::render(&case.timeline(), width, 16, false);
            section(&mut text, &format!("timeline, {width} columns"), &timeline);
        }
        (format!("{name}.txt"), text)
    }));
}

#[test]
fn every_case_has_its_pictures() {
    check(cases::all().into_iter().flat_map(|(name, case)| {
        [
            (format!("{name}.dot"), dot::render(&case.run, &case.tasks)),
            (format!("{name}.svg"), picture(&case.run, &case.tasks)),
            (
                format!("{name}.timeline.svg"),
                gantt::document(&case.timeline()),
            ),
        ]
    }));
}

#[test]
fn colours_are_added_and_nothing_else() {
    let case = cases::failures();
    let painted = case.live(80, 16, true);
    let plain = case.live(80, 16, false);
    assert!(painted.iter().all(|line| line.contains("\x1b[")));
    assert_eq!(
        painted.iter().map(|line| bare(line)).collect::<Vec<_>>(),
        plain
    );
    check([(
        "failures.colours.txt".to_owned(),
        painted.join("\n").replace('\x1b', "␛") + "\n",
    )]);
}

/// Without colours.
fn bare(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        text += before;
        rest = after.split_once('m').expect("a colour").1;
    }
    text + rest
}

#[test]
fn no_line_is_wider_and_no_picture_higher_than_it_may_be() {
    for seed in 0..60 {
        let case = random::case(seed);
        for width in [0, 1, 2, 7, 20, 39, 40, 63, 80, 120, 200] {
            for height in [0, 1, 2, 3, 5, 9, 24] {
                let live = case.live(width, height, true);
                let time = timeline::render(&case.timeline(), width, height, true);
                assert!(live.len() <= height && time.len() <= height, "seed {seed}");
                no_wider(seed, width, live.into_iter().chain(time));
            }
            no_wider(
                seed,
                width,
                graph::render(&case.run, &case.tasks, width, true),
            );
            let summary = summary::render(&case.summary(), width, true);
            let commands = |line: &String| !line.contains("baton ");
            no_wider(seed, width, summary.into_iter().filter(commands));
            let explained = explain::render(&case.explanation(), width, true);
            no_wider(seed, width, explained.into_iter().filter(commands));
        }
    }
}

fn no_wider(seed: u64, width: usize, lines: impl IntoIterator<Item = String>) {
    for line in lines {
        let bare = bare(&line);
        assert!(
            display_width(&bare) <= width,
            "seed {seed}: over {width}: {bare}"
        );
        assert!(!bare.contains(char::is_control), "seed {seed}: {bare:?}");
    }
}

#[test]
fn pictures_are_well_formed_whatever_the_names() {
    let cases = cases::all().into_iter().map(|(_, case)| case);
    for case in cases.chain((0..60).map(random::case)) {
        let svg = picture(&case.run, &case.tasks);
        wellformed::check(&svg).expect("the graph is well-formed");
        let svg = gantt::document(&case.timeline());
        wellformed::check(&svg).expect("the timeline is well-formed");
    }
}

#[test]
fn a_task_of_thousands_is_drawn_in_a_few_bars() {
    let mut case = cases::failures();
    let one = case.items[1].clone();
    case.items = (0..5_000)
        .map(|number| RunItem {
            item: number,
            started_at: Some(BEGUN + u64::from(number) * 20),
            ended_at: Some(BEGUN + u64::from(number) * 20 + 3_000),
            ..one.clone()
        })
        .collect();
    let svg = gantt::document(&case.timeline());
    assert!(svg.contains("transform ×5,000"), "{svg}");
    assert!(svg.matches("<rect").count() <= 5, "{svg}");
}

#[test]
fn items_that_were_not_asked_for_are_counted() {
    let mut case = cases::failures();
    case.more = 12_345;
    let notice = "12,345 more items are not shown";
    let lines = timeline::render(&case.timeline(), 80, 16, false);
    assert_eq!(lines.last().map(|line| line.trim()), Some(notice));
    assert!(gantt::document(&case.timeline()).contains(notice));
}

#[test]
fn many_items_are_put_together_also_where_there_is_room_for_all() {
    let mut case = cases::failures();
    let one = case.items[1].clone();
    case.items = (0..501)
        .map(|number| RunItem {
            item: number,
            ..one.clone()
        })
        .collect();
    let rows = |case: &Case| {
        let lines = timeline::render(&case.timeline(), 120, usize::MAX, false);
        lines.iter().filter(|it| it.contains("transform")).count()
    };
    assert_eq!(rows(&case), 1);
    case.items.pop();
    assert_eq!(rows(&case), 500);
}

#[test]
fn of_a_run_that_did_not_end_well_every_task_counts() {
    let tasks = (0..30).map(|number| task(&format!("t{number}"), counts("1b"), &[]));
    let mut case = Case::new("large", tasks.collect()).ended(UniversalState::Failed);
    let more = |case: &Case| {
        let lines = summary::render(&case.summary(), 80, false);
        lines.into_iter().find(|line| line.contains('…'))
    };
    assert_eq!(more(&case).as_deref(), Some("  … 10 more tasks"));
    case.run.tasks = Some(1_500);
    assert_eq!(more(&case).as_deref(), Some("  … 1,480 more tasks"));
}

#[test]
fn a_run_that_is_being_defined_or_was_not_says_so() {
    let mut case = Case::new("parts", vec![task("a", counts("1w"), &[])]);
    let explained = |case: &Case| explain::render(&case.explanation(), 120, false);
    case.run.state = UniversalState::Registering;
    assert_eq!(
        explained(&case)[0],
        "r1 REGISTERING: it is being defined; after 10 minutes without a request it is ABORTED"
    );
    let case = case.ended(UniversalState::Aborted);
    assert!(explained(&case)[0].starts_with("r1 ABORTED: it never started"));
}

#[test]
fn tasks_that_were_not_asked_for_are_counted() {
    let mut case = Case::new("large", vec![task("a", counts("1r"), &[])]);
    case.run.tasks = Some(1_500);
    let lines = case.live(80, 10, false);
    assert_eq!(
        lines.last().map(String::as_str),
        Some("  … 1,499 more tasks")
    );
}

#[test]
fn a_graph_with_too_many_lanes_is_a_list() {
    let fork = |size: u64| {
        let mut tasks = vec![task("root", counts("1d"), &[])];
        tasks.extend((0..size).map(|n| task(&format!("t{n}"), counts("1w"), &["root"])));
        let case = Case::new("fork", tasks);
        graph::render(&case.run, &case.tasks, 120, false)
    };
    assert!(fork(16)[1].starts_with("├─┬─┬"));
    assert_eq!(fork(17)[0], "layer 1 · 1 task");
}

#[test]
fn names_cannot_leave_their_quotes_in_dot() {
    for case in (0..60).map(random::case) {
        let dot = dot::render(&case.run, &case.tasks);
        for line in dot.lines() {
            let mut rest = line.replace("\\\\", "").replace("\\\"", "");
            while let Some((before, after)) = rest.split_once('"') {
                assert!(
                    before.chars().all(|c| c.is_ascii() && !"<&\\".contains(c)),
                    "{line}"
                );
                rest = after
                    .split_once('"')
                    .expect("a quote ends on its line")
                    .1
                    .to_owned();
            }
        }
    }
}

#[test]
fn a_pipe_gets_a_line_for_each_change() {
    let mut case = Case::new(
        "etl",
        vec![
            task("extract", counts("2r 1q"), &[]),
            task("publish", counts("1w"), &["extract"]),
        ],
    );
    let mut plain = Plain::default();
    let mut all = plain.lines(&case.frame());
    assert_eq!(plain.lines(&case.frame()), Vec::<String>::new());
    case.now = Wall(BEGUN + 70_000);
    case.tasks[0].items = counts("3d");
    all.extend(plain.lines(&case.frame()));
    case.tasks[1].items = counts("1f");
    case.run.state = UniversalState::Failed;
    all.extend(plain.lines(&case.frame()));
    assert_eq!(
        all,
        [
            "12:01:05 r1 RUNNING",
            "12:01:05 extract 0/3 done, 2 running, 1 queued",
            "12:01:10 extract 3/3 done",
            "12:01:10 publish 0/1 done, 1 failed",
            "12:01:10 r1 FAILED",
        ]
    );
}

#[test]
fn a_pipe_is_told_why_a_run_does_not_start() {
    let mut case = Case::new("etl", vec![task("load", counts("2q"), &[])]);
    case.tasks[0].reason = Some("it requests 100 cores, more than any worker has".to_owned());
    case.now = Wall(BEGUN + 65_000);
    let mut plain = Plain::default();
    plain.lines(&case.frame());
    case.now = Wall(BEGUN + 67_900);
    assert_eq!(plain.lines(&case.frame()), Vec::<String>::new());
    case.now = Wall(BEGUN + 68_000);
    let told = "12:01:08 load waits: it requests 100 cores, more than any worker has";
    assert_eq!(plain.lines(&case.frame()), [told]);
    case.now = Wall(BEGUN + 90_000);
    assert_eq!(plain.lines(&case.frame()), Vec::<String>::new(), "once");
    case.tasks[0].items = counts("1r 1q");
    let running = "12:01:30 load 0/2 done, 1 running, 1 queued";
    assert_eq!(plain.lines(&case.frame()), [running]);
}

#[test]
fn a_pipe_is_told_that_a_run_is_being_halted() {
    let mut case = cases::draining();
    let mut plain = Plain::default();
    assert_eq!(
        plain.lines(&case.frame())[0],
        "12:01:05 r1 RUNNING, draining"
    );
    case.run.halting = Some(HaltMode::Kill);
    assert_eq!(plain.lines(&case.frame()), ["12:01:05 r1 RUNNING, killing"]);
}

#[test]
fn tasks_that_wait_in_a_circle_are_drawn_all_the_same() {
    let case = Case::new(
        "circle",
        vec![
            task("a", counts("1w"), &["b", "missing"]),
            task("b", counts("1w"), &["a"]),
        ],
    );
    assert_eq!(graph::render(&case.run, &case.tasks, 80, false).len(), 2);
    assert!(picture(&case.run, &case.tasks).contains(">b after a<"));
}
