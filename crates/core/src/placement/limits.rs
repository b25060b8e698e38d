//! The bounds of placement, each with its reason and what happens beyond it.

use baton_model::limits::TASKS_MEASURED_MAX;
use baton_model::time::Millis;

/// Entries that wait at once: single instances and ranges, a range being one. At
/// about 90 bytes each this is 1.5 GiB. Beyond it [`super::Placement::enqueue`]
/// refuses; what waits stays.
pub const ENTRIES_MAX: usize = 16_000_000;

/// Elements of one range, as its length is kept in 32 bits. A longer one is
/// refused; it can be given as several ranges of the same sequence.
pub const RANGE_LEN_MAX: u64 = u32::MAX as u64;

/// Classes that are known at once. A change of a worker costs a few nanoseconds
/// for each class with something waiting, so this many still allow some thousand
/// decisions a second. Beyond it the class that has been idle for longest is
/// forgotten, with its estimate; if none is idle, a new class is refused. What
/// already runs is adopted even beyond it, since not counting it would be worse.
pub const CLASSES_MAX: usize = 16_384;

/// Tasks of which something waits, and whose histories decide about ties: as many as the histories that are kept.
/// Instances of further ones wait as those of a task without a history.
pub const TASKS_WAITING_MAX: usize = TASKS_MEASURED_MAX;

/// Class queues that wait equally long and are compared for one decision. Each is looked at for a
/// worker; beyond it the shortest of these goes first.
pub const TIED_MAX: usize = 32;

/// Owners whose turn is remembered. Beyond it the idle owner that was served
/// longest ago is forgotten, and comes back as one never served; if none is idle,
/// the owners beyond share one turn between them.
pub const OWNERS_MAX: usize = 10_000;

/// Workers, present or not, that still hold something. Beyond it a new one is
/// refused.
pub const WORKERS_MAX: usize = 100_000;

/// Cluster-wide limits. Beyond it a new one is refused.
pub const LIMITS_MAX: usize = 10_000;

/// How often a class that waits for room may see others, behind it in the order
/// of service, take what it waits for, before it reserves. High enough that a
/// gap is filled while it lasts, low enough that a person does not notice.
pub const PASSED_OVER_MAX: u32 = 64;

/// Reservations at once, since each leaves a worker idle in part, and each is
/// looked at for every class that finds no room. Beyond it a class goes on being
/// passed over until one of them is served.
pub const RESERVATIONS_MAX: usize = 16;

/// For how long what is placed ahead may be expected to wait on its worker: several
/// round trips and commits, and less than a person notices.
pub const AHEAD_SPAN: Millis = Millis(50);

/// Instances that are placed ahead on one worker. A worker that finishes more than this
/// in [`AHEAD_SPAN`] is limited by its own kernel first.
pub const AHEAD_MAX: usize = 1_024;

/// Workers in one block of the shelf: what is scanned is this many and the
/// number of blocks.
pub(super) const BLOCK_LEN: usize = 64;
