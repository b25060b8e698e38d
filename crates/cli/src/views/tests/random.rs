//! Any run, by a seed.

use baton_model::api::ItemCounts;
use baton_model::state::UniversalState;
use baton_testing::Rng;

use super::build::{Case, error, item, task};

/// Any run, with odd names, by its seed.
pub(crate) fn case(seed: u64) -> Case {
    let mut rng = Rng::new(seed);
    let size = rng.below(if seed.is_multiple_of(4) { 60 } else { 14 }) as usize;
    let sparse = 2 + rng.below(6);
    let letters = [
        "a",
        "ß",
        "数",
        "🚀",
        "e\u{301}",
        "\u{1b}[1m",
        "\"",
        "\\",
        "<",
        "&",
        " ",
        "]]>",
        "-",
    ];
    let mut names: Vec<String> = Vec::new();
    let mut tasks = Vec::new();
    for place in 0..size {
        let length = rng.below(12);
        let mut name = format!("t{place}");
        for _ in 0..length {
            name += rng.pick(&letters);
        }
        let mut items = ItemCounts::default();
        for number in [
            &mut items.waiting,
            &mut items.queued,
            &mut items.running,
            &mut items.done,
            &mut items.failed,
            &mut items.skipped,
        ] {
            *number = rng.below(4).saturating_sub(1) * rng.below(2_000);
        }
        let before: Vec<&str> = names
            .iter()
            .filter(|_| rng.below(sparse) == 0)
            .map(String::as_str)
            .take(4)
            .collect();
        let mut one = task(&name, items, &before);
        one.unmapped = rng.below(9) == 0;
        tasks.push(one);
        names.push(name);
    }
    let mut case = Case::new("random <&> 清洗", tasks);
    for (number, name) in (0_u32..).zip(&names) {
        let from = rng.below(90_000);
        let to = (rng.below(3) > 0).then(|| from + rng.below(50_000));
        let state = UniversalState::ALL[rng.below(UniversalState::ALL.len() as u64) as usize];
        case.items.push(item(name, number, from, to, state));
        if rng.below(5) == 0 {
            case.errors
                .push(error(name, "exit\ncode 1 数数数数", rng.below(9_999), "i7"));
        }
    }
    case
}
