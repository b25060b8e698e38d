//! Draws a machine for people: a Mermaid diagram and Markdown tables, from the
//! same constants that decide. `cargo xtask states` writes the pages.
//!
//! The output depends on nothing but the machine, so that a check can compare
//! it byte by byte.

use std::fmt::Write as _;

use super::{Event, Machine, Word, words};

/// The machine as a Mermaid `stateDiagram-v2`, without a code fence.
#[must_use]
pub fn mermaid<M: Machine>() -> String {
    let mut out = String::from("stateDiagram-v2\n");
    for state in M::INITIAL {
        line(&mut out, format_args!("    [*] --> {}", state.word()));
    }
    for (from, to, events) in arrows::<M>() {
        line(
            &mut out,
            format_args!("    {} --> {}: {events}", from.word(), to.word()),
        );
    }
    for state in M::TERMINAL {
        line(&mut out, format_args!("    {} --> [*]", state.word()));
    }
    out
}

/// The machine as a Markdown page: what it is, the diagram, its moves, its late
/// events, and what each event means.
#[must_use]
pub fn page<M: Machine>() -> String {
    let mut out = String::new();
    line(&mut out, format_args!("# The {} machine\n", M::NAME));
    line(&mut out, format_args!("{}\n", M::ABOUT));
    line(
        &mut out,
        format_args!("```mermaid\n{}```\n", mermaid::<M>()),
    );
    line(&mut out, format_args!("{}\n", ends::<M>()));
    moves_table::<M>(&mut out);
    late_table::<M>(&mut out);
    events_table::<M>(&mut out);
    out
}

/// Each pair of states that is joined, with the words of all events that join
/// it, in the order of the table.
fn arrows<M: Machine>() -> Vec<(M::State, M::State, String)> {
    let mut arrows: Vec<(M::State, M::State, String)> = Vec::new();
    for row in M::TABLE {
        let joined = arrows
            .iter_mut()
            .find(|(from, to, _)| *from == row.from && *to == row.to);
        match joined {
            Some((_, _, events)) => {
                events.push_str(", ");
                events.push_str(row.event.word());
            }
            None => arrows.push((row.from, row.to, row.event.word().to_owned())),
        }
    }
    arrows
}

/// Describes the initial and terminal states, and the events of people.
fn ends<M: Machine>() -> String {
    let begins = words(M::INITIAL.iter().map(|state| state.word()));
    let ends = words(M::TERMINAL.iter().map(|state| state.word()));
    let mut text = format!("Begins in {begins}. Terminal: {ends}");
    if M::BY_HAND.is_empty() {
        text.push_str("; nothing leads out.");
    } else {
        let by_hand = words(M::BY_HAND.iter().map(|event| event.word()));
        text.push_str("; only a person leads out, by ");
        text.push_str(&by_hand);
        text.push('.');
    }
    text
}

fn moves_table<M: Machine>(out: &mut String) {
    line(out, format_args!("## Moves\n"));
    line(out, format_args!("| from | event | to |\n|---|---|---|"));
    for row in M::TABLE {
        line(
            out,
            format_args!(
                "| {} | {} | {} |",
                row.from.word(),
                row.event.word(),
                row.to.word()
            ),
        );
    }
}

fn late_table<M: Machine>(out: &mut String) {
    line(out, format_args!("\n## Late events\n"));
    line(
        out,
        format_args!(
            "An event that lost a race moves nothing and is counted under the name of the race.\n\
             A pair of state and event that stands in neither table is an illegal transition.\n"
        ),
    );
    line(out, format_args!("| in | event | race |\n|---|---|---|"));
    for row in M::LATE {
        line(
            out,
            format_args!(
                "| {} | {} | {} |",
                row.state.word(),
                row.event.word(),
                row.name
            ),
        );
    }
}

fn events_table<M: Machine>(out: &mut String) {
    line(out, format_args!("\n## Events\n"));
    line(out, format_args!("| event | meaning |\n|---|---|"));
    for event in M::Event::ALL {
        line(
            out,
            format_args!("| {} | {} |", event.word(), event.about()),
        );
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::super::{Attempt, Leader, Universal};
    use super::*;

    #[test]
    fn a_diagram_begins_and_ends_where_the_machine_does() {
        assert_eq!(
            mermaid::<Leader>(),
            "stateDiagram-v2\n\
             \x20   [*] --> FOLLOWER\n\
             \x20   FOLLOWER --> CANDIDATE: lease-lapsed\n\
             \x20   CANDIDATE --> LEADER: elected\n\
             \x20   CANDIDATE --> FOLLOWER: out-run\n\
             \x20   LEADER --> DEPOSED: overtaken\n\
             \x20   DEPOSED --> [*]\n"
        );
    }

    #[test]
    fn events_that_join_the_same_states_share_an_arrow() {
        assert!(mermaid::<Attempt>().contains("ACTIVE --> CLEANING: plan-ended, kill-requested\n"));
    }

    #[test]
    fn a_page_shows_every_move_every_race_and_every_event() {
        let page = page::<Universal>();
        for row in Universal::TABLE {
            let cells = format!("| {} | {} | {} |", row.from, row.event, row.to);
            assert!(page.contains(&cells), "{cells}");
        }
        for row in Universal::LATE {
            let cells = format!("| {} | {} | {} |", row.state, row.event, row.name);
            assert!(page.contains(&cells), "{cells}");
        }
        assert!(
            page.contains("| claimed | The distributer has taken it up in order to place it. |")
        );
        assert!(page.contains("only a person leads out, by resumed, retried-by-hand, reopened."));
        assert!(!page.lines().any(|line| line.ends_with(' ')));
    }
}
