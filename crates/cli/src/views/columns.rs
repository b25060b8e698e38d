//! The edges of a graph as columns of box characters, with a row for each task.
//!
//! A column leads to one task. A task with several downstream tasks forks into several columns;
//! columns that lead to the same task join above it, or where a fork reaches a column that already
//! leads there. Rows that join contain an end (`┴ ╯ ╰`); rows that fork contain none, and stand
//! right below their task: so a reader can distinguish them. Tasks right above each other are a
//! chain. A line that crosses a column does not interrupt it (`─│─`).

use super::dag::Dag;

/// One line of the drawing, and the task on it with its column.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) cells: String,
    pub(super) task: Option<(usize, usize)>,
}

/// Draws every task in its own row, with the edges between them.
pub(super) fn draw(dag: &Dag<'_>) -> Vec<Row> {
    ColumnLayout::new(dag).draw()
}

/// The drawing in progress: which task each column leads to.
struct ColumnLayout<'a> {
    dag: &'a Dag<'a>,
    leads_to: Vec<Option<usize>>,
    /// By task: upstream tasks that are not drawn yet.
    missing: Vec<usize>,
    drawn: Vec<bool>,
    rows: Vec<Row>,
}

/// Where a line ends or forks: whether that column is occupied above and below it.
#[derive(Clone, Copy)]
struct Joint {
    column: usize,
    above: bool,
    below: bool,
}

impl<'a> ColumnLayout<'a> {
    fn new(dag: &'a Dag<'a>) -> Self {
        Self {
            dag,
            leads_to: Vec::new(),
            missing: dag.upstream.iter().map(Vec::len).collect(),
            drawn: vec![false; dag.tasks.len()],
            rows: Vec::new(),
        }
    }

    fn draw(mut self) -> Vec<Row> {
        while let Some(task) = self.next() {
            self.drawn[task] = true;
            let column = self.join(task);
            let cells = self.cells(&[]);
            let task_at = Some((task, column));
            self.rows.push(Row {
                cells,
                task: task_at,
            });
            self.fork(task, column);
            for to in &self.dag.downstream[task] {
                self.missing[*to] -= 1;
            }
        }
        self.rows
    }

    /// The task of the leftmost column that can be drawn, so that a chain stays together; or the
    /// first ready task without a column.
    fn next(&self) -> Option<usize> {
        let ready = |task: &usize| self.missing[*task] == 0 && !self.drawn[*task];
        let led = self.leads_to.iter().flatten().copied().find(ready);
        led.or_else(|| self.dag.order.iter().copied().find(ready))
    }

    /// Joins the columns that lead to a task. Returns its column.
    fn join(&mut self, task: usize) -> usize {
        let columns = self.leads_to.iter().enumerate();
        let columns: Vec<usize> = columns
            .filter(|(_, to)| **to == Some(task))
            .map(|(column, _)| column)
            .collect();
        let Some((first, others)) = columns.split_first() else {
            return self.begin(task);
        };
        if !others.is_empty() {
            let joints: Vec<Joint> = columns
                .iter()
                .map(|column| Joint {
                    column: *column,
                    above: true,
                    below: column == first,
                })
                .collect();
            self.draw_joints(&joints);
        }
        for column in others {
            self.leads_to[*column] = None;
        }
        *first
    }

    /// Draws the edges from a task to its downstream tasks.
    fn fork(&mut self, task: usize, column: usize) {
        let dag = self.dag;
        self.leads_to[column] = None;
        let is_new = |layout: &Self, to: &usize| !layout.leads_to.contains(&Some(*to));
        let targets = &dag.downstream[task];
        let new = targets.iter().find(|to| is_new(self, to));
        let Some(straight) = new.or(targets.first()).copied() else {
            return;
        };
        self.leads_to[column] = Some(straight);
        let mut joints = vec![Joint {
            column,
            above: true,
            below: true,
        }];
        for to in targets.iter().filter(|to| **to != straight) {
            let known = self.leads_to.iter().position(|target| *target == Some(*to));
            let above = known.is_some();
            let column = known.unwrap_or_else(|| self.open(column, *to));
            joints.push(Joint {
                column,
                above,
                below: true,
            });
        }
        if joints.len() > 1 {
            self.draw_joints(&joints);
        }
    }

    /// Starts a column for a task without upstream tasks. It does not stand right below the end of
    /// another column: that would look like a chain.
    fn begin(&mut self, task: usize) -> usize {
        let column = self.free(0);
        let above = self.rows.last().and_then(|row| row.task);
        if above.is_some_and(|(_, last)| last == column) {
            self.draw_joints(&[]);
        }
        self.lead(column, task);
        column
    }

    /// Starts a column to a task, at or after the column `from`.
    fn open(&mut self, from: usize, task: usize) -> usize {
        let column = self.free(from);
        self.lead(column, task);
        column
    }

    /// Returns a free column at or after `from`, or else a new one.
    fn free(&self, from: usize) -> usize {
        let count = self.leads_to.len();
        let free = (from..count).find(|column| self.leads_to[*column].is_none());
        free.unwrap_or(count)
    }

    fn lead(&mut self, column: usize, task: usize) {
        let count = self.leads_to.len().max(column + 1);
        self.leads_to.resize(count, None);
        self.leads_to[column] = Some(task);
    }

    fn draw_joints(&mut self, joints: &[Joint]) {
        let cells = self.cells(joints);
        self.rows.push(Row { cells, task: None });
    }

    /// Renders the columns, with a line from the first joint to the last.
    fn cells(&self, joints: &[Joint]) -> String {
        let joined = || joints.iter().map(|joint| joint.column);
        let from = joined().min().unwrap_or(usize::MAX);
        let to = joined().max().unwrap_or(0);
        let mut cells = String::new();
        for (column, target) in self.leads_to.iter().enumerate() {
            let (left, right) = (from < column && column <= to, from <= column && column < to);
            let joint = joints.iter().find(|joint| joint.column == column);
            cells.push(match (joint, target) {
                (Some(joint), _) => glyph(joint.above, joint.below, left, right),
                (None, Some(_)) => '│',
                (None, None) if left && right => '─',
                (None, None) => ' ',
            });
            cells.push(if right { '─' } else { ' ' });
        }
        cells.truncate(cells.trim_end().len());
        cells
    }
}

const fn glyph(above: bool, below: bool, left: bool, right: bool) -> char {
    match (above, below, left, right) {
        (true, true, false, false) => '│',
        (true, true, false, true) => '├',
        (true, true, true, false) => '┤',
        (true, true, true, true) => '┼',
        (true, false, true, true) => '┴',
        (false, true, true, true) => '┬',
        (true, false, true, false) => '╯',
        (true, false, false, true) => '╰',
        (false, true, true, false) => '╮',
        (false, true, false, true) => '╭',
        _ => '─',
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::tests::random;
    use super::*;

    /// Follows the columns from top to bottom, as a reader does.
    fn read(rows: &[Row]) -> BTreeSet<(usize, usize)> {
        let mut carried: Vec<BTreeSet<usize>> = Vec::new();
        let mut edges = BTreeSet::new();
        let mut last = None;
        for row in rows {
            let cells: Vec<char> = row.cells.chars().step_by(2).collect();
            carried.resize(carried.len().max(cells.len()), BTreeSet::new());
            for (column, carried) in carried.iter_mut().enumerate() {
                if cells.get(column).is_none_or(|cell| " ─".contains(*cell)) {
                    carried.clear();
                }
            }
            let joints: Vec<usize> = (0..cells.len())
                .filter(|column| "├┤┼┴┬╯╰╮╭".contains(cells[*column]))
                .collect();
            let ends = |column: &usize| "┴╯╰".contains(cells[*column]);
            match (row.task, last) {
                (Some((task, column)), _) => {
                    let from = std::mem::take(&mut carried[column]);
                    edges.extend(from.into_iter().map(|from| (from, task)));
                    carried[column].insert(task);
                    last = row.task;
                }
                // Columns meet.
                (None, _) if joints.iter().any(ends) => {
                    let mut all = BTreeSet::new();
                    for column in &joints {
                        all.append(&mut carried[*column]);
                    }
                    let on = joints.iter().find(|column| !ends(column));
                    carried[*on.expect("one of them goes on")] = all;
                }
                (None, _) if joints.is_empty() => {}
                // The task above forks.
                (None, Some((task, column))) => {
                    assert!(joints.contains(&column), "{}", row.cells);
                    for column in joints {
                        let new = "┬╮╭".contains(cells[column]);
                        if new {
                            carried[column].clear();
                        }
                        carried[column].insert(task);
                    }
                }
                (None, None) => panic!("a line before the first task: {}", row.cells),
            }
        }
        edges
    }

    #[test]
    fn following_the_columns_finds_every_edge_and_no_other() {
        for seed in 0..200 {
            let case = random::case(seed);
            let dag = Dag::new(&case.tasks);
            let rows = draw(&dag);
            let shown = read(&rows);
            let upstream = dag.upstream.iter().enumerate();
            let there = upstream.flat_map(|(to, from)| from.iter().map(move |from| (*from, to)));
            let text: Vec<&str> = rows.iter().map(|row| row.cells.as_str()).collect();
            assert_eq!(shown, there.collect(), "seed {seed}\n{}", text.join("\n"));
            let tasks = rows.iter().filter(|row| row.task.is_some()).count();
            assert_eq!(tasks, case.tasks.len());
        }
    }
}
