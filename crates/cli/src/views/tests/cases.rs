//! Runs to draw.

use baton_client::RunItem;
use baton_model::api::RunProblem;
use baton_model::state::UniversalState;
use baton_model::workflow::{Condition, HaltMode};

use super::build::{Case, counts, error, item, reason, task};

/// All cases, by the names of their files.
pub(super) fn all() -> Vec<(&'static str, Case)> {
    vec![
        ("fork_join", fork_join()),
        ("diamond", diamond()),
        ("chain_10", chain()),
        ("tasks_60", sixty()),
        ("weave", weave()),
        ("for_each", for_each()),
        ("failures", failures()),
        ("zero_items", zero_items()),
        ("unicode", unicode()),
        ("done", done()),
        ("draining", draining()),
        ("halted", halted()),
        ("out_of_time", out_of_time()),
        ("blocked", blocked()),
    ]
}

fn fork_join() -> Case {
    let waits = "after load-customers, load-orders and 2 more";
    let mut case = Case::new(
        "nightly",
        vec![
            task("prepare", counts("1d"), &[]),
            task("load-customers", counts("1d"), &["prepare"]),
            task("load-orders", counts("1r"), &["prepare"]),
            task("load-products", counts("1r"), &["prepare"]),
            task("load-stock", counts("1q"), &["prepare"]),
            reason(
                task(
                    "merge",
                    counts("1w"),
                    &[
                        "load-customers",
                        "load-orders",
                        "load-products",
                        "load-stock",
                    ],
                ),
                waits,
            ),
            task("report", counts("1w"), &["merge"]),
        ],
    );
    case.items = vec![
        item("prepare", 0, 200, Some(10_000), UniversalState::Done),
        item(
            "load-customers",
            0,
            10_300,
            Some(41_000),
            UniversalState::Done,
        ),
        item("load-orders", 0, 10_400, None, UniversalState::Running),
        item("load-products", 0, 12_000, None, UniversalState::Running),
        RunItem {
            started_at: None,
            ..item("load-stock", 0, 0, None, UniversalState::Queued)
        },
    ];
    case.totals()
}

fn diamond() -> Case {
    let mut tasks = vec![
        task("fetch", counts("1d"), &[]),
        task("left", counts("1d"), &["fetch"]),
        task("right", counts("1r"), &["fetch"]),
        task("join", counts("1w"), &["left", "right"]),
    ];
    for task in &mut tasks {
        task.mean_seconds = Some(40.0);
    }
    let mut case = Case::new("diamond", tasks);
    case.items = vec![
        item("fetch", 0, 0, Some(900), UniversalState::Done),
        item("left", 0, 1_000, Some(30_000), UniversalState::Done),
        item("right", 0, 1_000, None, UniversalState::Running),
    ];
    case
}

fn chain() -> Case {
    let names: Vec<String> = (1..=10).map(|number| format!("step-{number:02}")).collect();
    let of = |place: usize| match place {
        0..4 => counts("1d"),
        4 => counts("1r"),
        _ => counts("1w"),
    };
    let tasks = (0..10).map(|place| {
        let before: Vec<&str> = names[..place]
            .last()
            .map(String::as_str)
            .into_iter()
            .collect();
        let mut task = task(&names[place], of(place), &before);
        task.mean_seconds = Some(30.0);
        task
    });
    let mut case = Case::new("chain", tasks.collect());
    case.items = (0..5)
        .map(|place: u32| {
            let from = u64::from(place) * 13_000;
            let (to, state) = match place {
                4 => (None, UniversalState::Running),
                _ => (Some(from + 12_400), UniversalState::Done),
            };
            item(&names[place as usize], 0, from, to, state)
        })
        .collect();
    case.totals()
}

fn sixty() -> Case {
    let mut tasks = vec![task("split", counts("1d"), &[])];
    let mut names = Vec::new();
    for number in 0..58 {
        let items = match number {
            0..20 => counts("10d"),
            20..23 => counts("4d 3r 3q"),
            23 => counts("8d 2f"),
            24..30 => counts("10h"),
            _ => counts("10w"),
        };
        let name = format!("part-{number:02}");
        tasks.push(task(&name, items, &["split"]));
        names.push(name);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    tasks.push(task("collect", counts("1w"), &names));
    let mut case = Case::new("sixty", tasks);
    case.errors = vec![
        error("part-23", "exit code 1", 2, "i240"),
        error("part-03", "killed by signal 9 (out of memory)", 1, "i31"),
        error("part-04", "timed out after 1h", 1, "i41"),
        error("part-05", "exit code 2", 1, "i51"),
        error("part-06", "exit code 3", 1, "i61"),
    ];
    for part in 0..58_u32 {
        for number in 0..10 {
            let from = u64::from(part) * 900 + u64::from(number) * 1_300;
            let state = match (part, number) {
                (23, 4 | 7) => UniversalState::Failed,
                _ => UniversalState::Done,
            };
            let name = format!("part-{part:02}");
            case.items
                .push(item(&name, number, from, Some(from + 1_000), state));
        }
    }
    case.totals()
}

/// Edges that cross, skip layers, and have conditions.
fn weave() -> Case {
    let mut tasks = vec![
        task("a", counts("1d"), &[]),
        task("b", counts("1d"), &[]),
        task("x", counts("1d"), &["a", "b"]),
        task("y", counts("1f"), &["a", "b"]),
        task("z", counts("1r"), &["b"]),
        task("late", counts("1w"), &["a", "x", "z"]),
        task("rescue", counts("1r"), &["y"]),
        task("notify", counts("1w"), &["late", "rescue"]),
    ];
    tasks[6].after[0].condition = Condition::Failure;
    tasks[7].after[0].condition = Condition::End;
    tasks[7].when = Some("params.notify == 'yes'".to_owned());
    Case::new("weave", tasks).totals()
}

fn for_each() -> Case {
    let mut tasks = vec![
        task("list", counts("1d"), &[]),
        reason(
            task("extract", counts("1150h 50q 40r 8760d"), &["list"]),
            "limit db/orders: 40 of 40 in use",
        ),
        task("transform", counts("9995w 5r"), &["extract"]),
        reason(task("publish", counts(""), &["transform"]), "transform"),
    ];
    tasks[2].after[0].by_item = true;
    tasks[3].unmapped = true;
    let mut case = Case::new("regions", tasks);
    let regions = [
        "\"eu\"",
        "\"us\"",
        "\"apac\"",
        "{\"zone\":\"af-south\",\"day\":\"2026-11-14\"}",
    ];
    case.items = vec![item("list", 0, 0, Some(400), UniversalState::Done)];
    for (number, region) in (0_u32..).zip(regions) {
        let from = 500 + u64::from(number) * 2_000;
        let one = item(
            "extract",
            number,
            from,
            Some(from + 20_000),
            UniversalState::Done,
        );
        case.items.push(RunItem {
            value: Some(region.into()),
            ..one
        });
    }
    case.totals()
}

pub(super) fn failures() -> Case {
    let tasks = vec![
        task("extract", counts("3d"), &[]),
        task("transform", counts("38d 2f"), &["extract"]),
        task("check", counts("1f"), &["extract"]),
        task("publish", counts("1b"), &["transform", "check"]),
        task("mail", counts("1s"), &["publish"]),
    ];
    let mut case = Case::new("etl", tasks).ended(UniversalState::Failed);
    case.run.generation = 2;
    case.errors = vec![
        error("transform", "exit code 1", 2, "i5"),
        error("check", "killed by signal 9 (out of memory)", 1, "i44"),
    ];
    case.run.problems = vec![RunProblem {
        task: "publish".to_owned(),
        item: 0,
        text: "`{{ tasks.check.outputs.rows }}` cannot be filled in: there is no output `rows`"
            .to_owned(),
    }];
    case.items = vec![
        RunItem {
            generation: 1,
            ..item("extract", 0, 0, Some(10), UniversalState::Done)
        },
        item("transform", 7, 100, Some(42_000), UniversalState::Failed),
        item("transform", 9, 30_000, Some(61_000), UniversalState::Done),
        item(
            "transform",
            11,
            90_000,
            Some(124_000),
            UniversalState::Failed,
        ),
        item("check", 0, 2_000, Some(2_100), UniversalState::Failed),
    ];
    for one in case.items.iter_mut().skip(1) {
        one.generation = 2;
    }
    case.totals()
}

fn zero_items() -> Case {
    let mut tasks = vec![
        task("list", counts("1d"), &[]),
        task("each", counts(""), &["list"]),
        task("collect", counts("1d"), &["each"]),
    ];
    tasks[1].mean_seconds = None;
    Case::new("nothing-to-do", tasks)
        .ended(UniversalState::Done)
        .totals()
}

fn unicode() -> Case {
    let mut case = Case::new(
        "größe \u{1b}[2J & <b>\"数据\"</b>",
        vec![
            task("取得データ", counts("2d 1r"), &[]),
            task("prüfen \"schnell\\n\"", counts("1d 1f"), &["取得データ"]),
            task(
                "🚀 deploy & <go>",
                counts("1w"),
                &["取得データ", "prüfen \"schnell\\n\""],
            ),
            task(
                "a-name-that-is-much-longer-than-any-column-would-like-it-to-be-清洗清洗清洗",
                counts("1w"),
                &["🚀 deploy & <go>"],
            ),
        ],
    );
    case.errors = vec![error(
        "prüfen \"schnell\\n\"",
        "exit\u{7} code 1 ]]> &amp;",
        1,
        "i2",
    )];
    case.items = vec![
        item("取得データ", 0, 0, Some(20_000), UniversalState::Done),
        RunItem {
            value: Some("\"東京\u{202e}\"".into()),
            ..item("取得データ", 1, 5_000, Some(30_000), UniversalState::Done)
        },
        item(
            "prüfen \"schnell\\n\"",
            0,
            31_000,
            Some(50_000),
            UniversalState::Failed,
        ),
    ];
    case.totals()
}

fn done() -> Case {
    let tasks = vec![
        task("one", counts("1d"), &[]),
        task("many", counts("1200d"), &["one"]),
    ];
    Case::new("plain", tasks)
        .ended(UniversalState::Done)
        .totals()
}

pub(super) fn draining() -> Case {
    let tasks = vec![
        task("extract", counts("2d 2r 6w"), &[]),
        reason(
            task("load", counts("1w"), &["extract"]),
            "comes after extract",
        ),
    ];
    let mut case = Case::new("etl", tasks);
    case.run.halting = Some(HaltMode::Drain);
    case.totals()
}

/// Nothing went wrong: what comes after what was stopped is not blocked.
fn halted() -> Case {
    let tasks = vec![
        task("extract", counts("2d 2x 6w"), &[]),
        task("load", counts("1b"), &["extract"]),
    ];
    Case::new("etl", tasks)
        .ended(UniversalState::Halted)
        .totals()
}

fn out_of_time() -> Case {
    let tasks = vec![
        task("extract", counts("2d 2x 6w"), &[]),
        task("load", counts("1b"), &["extract"]),
    ];
    let mut case = Case::new("etl", tasks).ended(UniversalState::Failed);
    case.run.timed_out = true;
    case.totals()
}

/// What failed first, and what that keeps from beginning, also over others.
fn blocked() -> Case {
    let tasks = vec![
        task("extract", counts("38d 2f"), &[]),
        task("check", counts("1f"), &[]),
        task("clean", counts("38d 2b"), &["extract"]),
        task("load", counts("1b"), &["clean", "check"]),
        task("mail", counts("1s"), &[]),
    ];
    let mut case = Case::new("etl", tasks).ended(UniversalState::Failed);
    case.errors = vec![
        error("extract", "exit 1", 1, "i5"),
        error("extract", "exit 7", 1, "i3"),
        error("check", "killed by signal 9 (out of memory)", 1, "i44"),
    ];
    let failed = |number, to, end: &str| RunItem {
        end_text: Some(end.to_owned()),
        ..item("extract", number, 0, Some(to), UniversalState::Failed)
    };
    case.failures = vec![failed(3, 9_000, "exit 7"), failed(5, 2_000, "exit 1")];
    case.totals()
}
