//! Whether items of a task would write their output to one file.

use baton_model::paths::{self, Collision, PathValues};
use baton_model::workflow::{Edges, PlanTask};
use serde_json::Value;

use super::items;
use super::template::{self, Piece, Reference, plain};

/// The first two items of a task that would write to the same file; `path` is the template of its
/// `stdout` or `stderr`.
///
/// Of items that are known only at run time, it is enough that the path refers to them.
#[must_use]
pub fn collision(task: &PlanTask, path: &str) -> Option<Collision> {
    let is_output = |piece| matches!(piece, Piece::Reference(Reference::Output { .. }));
    let per_item = task.after.iter().any(|it| it.edges == Edges::Same);
    if paths::differs_by_index(path) || per_item && template::pieces(path).any(is_output) {
        return None;
    }
    let rendered: Vec<String> = match items::count(&task.items) {
        Some(count) if refers_to_item(path) => (0..u32::try_from(count).unwrap_or(u32::MAX))
            .map(|item| rendered(task, item, path))
            .collect(),
        None if refers_to_item(path) => return None,
        // Two items stand for all of them.
        count => vec![path.to_owned(); count.map_or(2, |count| count.min(2) as usize)],
    };
    Collision::find((0..).zip(rendered.iter().map(String::as_str)))
}

/// True if the path depends on the value of the item, by a template or by its name.
fn refers_to_item(path: &str) -> bool {
    let is_item = |piece| {
        matches!(
            piece,
            Piece::Reference(Reference::Item | Reference::ItemKey(_))
        )
    };
    paths::has_placeholder(path, 'n') || template::pieces(path).any(is_item)
}

/// The path of one item, as far as it is known before the run.
fn rendered(task: &PlanTask, item: u32, path: &str) -> String {
    let value = items::value(&task.items, item);
    let known = |reference: &Reference| match reference {
        Reference::Item => value.as_ref().map(plain),
        Reference::ItemKey(key) => value.as_ref().and_then(|it: &Value| it.get(key)).map(plain),
        Reference::Output { .. } | Reference::Param(_) => None,
    };
    let path = template::substitute(path, known);
    let name = items::label(task, item, value.as_ref());
    let values = PathValues {
        name: &name,
        ..PathValues::SAMPLE
    };
    // The worker refuses an unknown placeholder, which may come from the value of an item.
    paths::expand(&path, &values).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use baton_model::workflow::{Axis, Items, Upstream};

    use super::*;

    fn found(items: Items, path: &str) -> Option<(u64, u64)> {
        let task = PlanTask {
            name: "t".to_owned(),
            items,
            ..PlanTask::default()
        };
        collision(&task, path).map(|found| (found.first, found.second))
    }

    fn values(values: &[&str]) -> Items {
        Items::Values(values.iter().map(|it| (*it).to_owned()).collect())
    }

    #[test]
    fn items_need_paths_that_differ() {
        let items = || values(&[r#""a""#, r#""b""#, r#""a""#]);
        assert_eq!(found(items(), "x"), Some((0, 1)));
        assert_eq!(found(items(), "x.{{ params.day }}.%t"), Some((0, 1)));
        assert_eq!(found(items(), "x.{{ item }}"), Some((0, 2)));
        assert_eq!(found(items(), "x.%n"), Some((0, 2)));
        assert_eq!(found(items(), "x.%a"), None);
        assert_eq!(found(items(), "{{ item }}.%i"), None);
        assert_eq!(found(values(&["1", "2"]), "x.{{ item }}"), None);
        assert_eq!(found(values(&["1", "2"]), "x.%n"), None);
        assert_eq!(found(values(&["1"]), "x"), None);
        assert_eq!(found(Items::One, "x"), None);
    }

    #[test]
    fn a_matrix_needs_all_its_axes_in_the_path() {
        let axis = |name: &str| Axis {
            name: name.to_owned(),
            values: vec!["1".to_owned(), "2".to_owned()],
        };
        let items = || Items::Product(vec![axis("os"), axis("py")]);
        assert_eq!(found(items(), "{{ matrix.os }}"), Some((0, 1)));
        assert_eq!(found(items(), "{{ item.py }}"), Some((0, 2)));
        assert_eq!(found(items(), "{{ item.os }}-{{ item.py }}"), None);
        assert_eq!(found(items(), "{{ item }}"), None);
    }

    #[test]
    fn items_known_at_run_time_must_be_referred_to() {
        let items = || Items::Output {
            task: 0,
            key: "files".to_owned(),
        };
        assert_eq!(found(items(), "x"), Some((0, 1)));
        assert_eq!(found(items(), "{{ item }}"), None);
        assert_eq!(found(items(), "%n"), None);
    }

    #[test]
    fn the_output_of_the_same_item_differs() {
        let task = |edges| PlanTask {
            items: values(&["1", "2"]),
            after: vec![Upstream {
                task: 0,
                condition: baton_model::workflow::Condition::Success,
                edges,
            }],
            ..PlanTask::default()
        };
        let path = "{{ tasks.a.outputs.file }}";
        assert_eq!(collision(&task(Edges::Same), path), None);
        assert!(collision(&task(Edges::All), path).is_some());
    }
}
