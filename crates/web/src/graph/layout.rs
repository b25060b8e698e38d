//! Layout of a task graph for SVG (layered graph drawing).
//!
//! Layers are assigned by longest path. An edge that spans several layers gets a bend in each layer
//! between, so that it runs around boxes. Within a layer, points are ordered by the barycenter of
//! their neighbours in forward and backward sweeps; the order with the fewest crossings wins. Then
//! each point moves as close to its neighbours as order and distances allow. The result is
//! deterministic.

use super::dag::Dag;

/// Number of sweeps, alternately forward and backward.
const SWEEPS: usize = 12;
/// With more bends, edges are drawn straight: the layout would take too long.
const BENDS_MAX: usize = 4_000;
/// Height of a bend, in boxes.
const BEND_SPACE: f64 = 0.45;

/// Positions by layer (to the right) and by height in boxes (down). The centre of a box at the very
/// top has height 0.
#[derive(Debug)]
pub struct Layout {
    /// By task.
    pub places: Vec<Position>,
    /// By task: the source of each incoming edge, and the edge's route including both ends.
    pub routes: Vec<Vec<(usize, Vec<Position>)>>,
    pub layers: usize,
    /// Total height, in boxes.
    pub height: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    pub layer: usize,
    pub y: f64,
}

pub fn layout(dag: &Dag<'_>) -> Layout {
    let mut points = Points::new(dag);
    points.sort();
    points.settle();
    let ends = |point: usize| {
        let half = points.half(point);
        (points.y[point] - half, points.y[point] + half)
    };
    let all = (0..points.y.len())
        .map(ends)
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let (top, bottom) = all.unwrap_or_default();
    let place = |point: usize| Position {
        layer: points.layer[point],
        y: points.y[point] - top - 0.5,
    };
    let route =
        |(from, route): &(usize, Vec<usize>)| (*from, route.iter().copied().map(place).collect());
    let routes = points
        .routes
        .iter()
        .map(|routes| routes.iter().map(route).collect());
    Layout {
        places: (0..dag.tasks.len()).map(place).collect(),
        routes: routes.collect(),
        layers: points.rows.len(),
        height: bottom - top,
    }
}

/// The points of the layout: tasks first, then bends.
struct Points {
    tasks: usize,
    layer: Vec<usize>,
    left: Vec<Vec<usize>>,
    right: Vec<Vec<usize>>,
    /// By layer: its points, from top to bottom.
    rows: Vec<Vec<usize>>,
    y: Vec<f64>,
    /// As in [`Layout`], by point.
    routes: Vec<Vec<(usize, Vec<usize>)>>,
}

impl Points {
    fn new(dag: &Dag<'_>) -> Self {
        let count = dag.tasks.len();
        let mut points = Self {
            tasks: count,
            layer: dag.layer.clone(),
            left: vec![Vec::new(); count],
            right: vec![Vec::new(); count],
            rows: dag.layers(),
            y: Vec::new(),
            routes: vec![Vec::new(); count],
        };
        let pairs =
            || (0..count).flat_map(|to| dag.upstream[to].iter().map(move |from| (*from, to)));
        let bends: usize = pairs()
            .map(|(from, to)| dag.layer[to] - dag.layer[from] - 1)
            .sum();
        for (from, to) in pairs() {
            let mut route = vec![from];
            if bends <= BENDS_MAX {
                route.extend((dag.layer[from] + 1..dag.layer[to]).map(|layer| points.bend(layer)));
            }
            route.push(to);
            for pair in route.windows(2) {
                points.right[pair[0]].push(pair[1]);
                points.left[pair[1]].push(pair[0]);
            }
            points.routes[to].push((from, route));
        }
        points.y = vec![0.0; points.layer.len()];
        points
    }

    fn bend(&mut self, layer: usize) -> usize {
        let point = self.layer.len();
        self.layer.push(layer);
        self.left.push(Vec::new());
        self.right.push(Vec::new());
        self.rows[layer].push(point);
        point
    }

    fn sort(&mut self) {
        let mut best = (self.crossings(), self.rows.clone());
        let mut ranks = vec![0.0; self.layer.len()];
        for row in &self.rows {
            rank(&mut ranks, row);
        }
        for sweep in 0..SWEEPS {
            let forth = sweep % 2 == 0;
            for step in 0..self.rows.len() {
                let row = if forth {
                    step
                } else {
                    self.rows.len() - 1 - step
                };
                let neighbours = if forth { &self.left } else { &self.right };
                let mean = |point: &usize| {
                    let around = neighbours[*point].iter().map(|other| ranks[*other]);
                    mean(around).unwrap_or(ranks[*point])
                };
                let mut sorted: Vec<(f64, usize)> = self.rows[row]
                    .iter()
                    .map(|point| (mean(point), *point))
                    .collect();
                sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
                self.rows[row] = sorted.into_iter().map(|(_, point)| point).collect();
                rank(&mut ranks, &self.rows[row]);
            }
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.rows.clone());
            }
        }
        self.rows = best.1;
    }

    /// Counts the crossings of edges between adjacent layers: for edges in the order of their left
    /// ends, the number of earlier right ends that are lower, with a Fenwick tree.
    fn crossings(&self) -> u64 {
        let mut place = vec![0; self.layer.len()];
        for row in &self.rows {
            for (at, point) in row.iter().enumerate() {
                place[*point] = at;
            }
        }
        let mut crossings = 0;
        for row in &self.rows {
            let ends = |point: &usize| self.right[*point].iter().map(|to| place[*to]);
            // Sized per row: there may be as many rows as points.
            let places = row.iter().flat_map(ends).max().map_or(0, |last| last + 1);
            let mut seen = vec![0; places + 1];
            let mut all = 0_u64;
            for point in row {
                let mut ends: Vec<usize> = ends(point).collect();
                ends.sort_unstable();
                for end in &ends {
                    crossings += all - until(&seen, *end);
                }
                for end in ends {
                    all += 1;
                    enter(&mut seen, end);
                }
            }
        }
        crossings
    }

    /// Assigns heights: first packed, then moved towards the neighbours.
    fn settle(&mut self) {
        for row in self.rows.clone() {
            let targets = vec![0.0; row.len()];
            self.place_row(&row, &targets);
        }
        for sweep in 0..SWEEPS {
            // The last sweeps use both sides, so that forks and joins are centred.
            let sides = (sweep % 2 == 0, sweep % 2 == 1 || sweep + 2 >= SWEEPS);
            for step in 0..self.rows.len() {
                let at = if sides.0 {
                    step
                } else {
                    self.rows.len() - 1 - step
                };
                let row = self.rows[at].clone();
                let targets: Vec<f64> = row
                    .iter()
                    .map(|point| self.target_height(*point, sides))
                    .collect();
                self.place_row(&row, &targets);
            }
        }
    }

    fn target_height(&self, point: usize, sides: (bool, bool)) -> f64 {
        let left = self.left[point].iter().filter(|_| sides.0);
        let right = self.right[point].iter().filter(|_| sides.1);
        mean(left.chain(right).map(|other| self.y[*other])).unwrap_or(self.y[point])
    }

    /// Places a row as close to the targets heights as its order and distances allow: points that
    /// would overlap move as a block, to the mean of their targets heights.
    fn place_row(&mut self, row: &[usize], targets: &[f64]) {
        let mut offsets = vec![0.0; row.len()];
        for at in 1..row.len() {
            offsets[at] = offsets[at - 1] + self.distance(row[at - 1], row[at]);
        }
        // Sum of targets heights, and number of points.
        let mut blocks: Vec<(f64, usize)> = Vec::new();
        for (targets, offset) in targets.iter().zip(&offsets) {
            let mut block = (targets - offset, 1);
            while let Some(last) = blocks.last().copied() {
                if last.0 / last.1 as f64 <= block.0 / block.1 as f64 {
                    break;
                }
                block = (last.0 + block.0, last.1 + block.1);
                blocks.pop();
            }
            blocks.push(block);
        }
        let heights = blocks
            .iter()
            .flat_map(|(sum, size)| std::iter::repeat_n(sum / *size as f64, *size));
        for ((point, offset), height) in row.iter().zip(&offsets).zip(heights) {
            self.y[*point] = height + offset;
        }
    }

    fn distance(&self, a: usize, b: usize) -> f64 {
        self.half(a) + self.half(b)
    }

    /// Half of a point's height.
    fn half(&self, point: usize) -> f64 {
        if point < self.tasks {
            0.5
        } else {
            BEND_SPACE / 2.0
        }
    }
}

/// Stores the relative position of each point in its row, from 0 to 1, so that rows of different
/// length are comparable.
fn rank(ranks: &mut [f64], row: &[usize]) {
    for (place, point) in row.iter().enumerate() {
        ranks[*point] = (place as f64 + 0.5) / row.len() as f64;
    }
}

fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = numbers.fold((0.0, 0_u32), |(sum, count), number| {
        (sum + number, count + 1)
    });
    (count > 0).then(|| sum / f64::from(count))
}

/// Fenwick tree: number of entries at or before an index.
fn until(tree: &[u64], place: usize) -> u64 {
    let mut at = place + 1;
    let mut sum = 0;
    while at > 0 {
        sum += tree.get(at).copied().unwrap_or(0);
        at &= at - 1;
    }
    sum
}

fn enter(tree: &mut [u64], place: usize) {
    let mut at = place + 1;
    while at < tree.len() {
        tree[at] += 1;
        at += at & at.wrapping_neg();
    }
}
