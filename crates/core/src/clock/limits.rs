//! Limits of schedules and of the work they may cause.

use baton_model::time::Millis;

/// Bytes of an expression. The longest sensible one lists sixty numbers.
pub(super) const TEXT_BYTES_MAX: usize = 512;

/// Nothing is due after the end of this year. The calendar library ends with 9999, and offsets
/// need some room.
pub(super) const YEAR_MAX: i16 = 9_998;

/// The first second after [`YEAR_MAX`], as UTC.
pub(super) const END_SECONDS: i64 = 253_370_764_800;

/// Years after which the calendar, and the rules of every zone, repeat: an expression that is not
/// due within them never is.
pub(super) const CYCLE_YEARS: i16 = 400;

/// [`CYCLE_YEARS`] in seconds, with a year to spare.
pub(super) const CYCLE_SECONDS: i64 = 401 * 366 * 86_400;

/// Seconds of a period. Longer ones must be written as dates.
pub(super) const PERIOD_SECONDS_MAX: u64 = 10 * 366 * 86_400;

/// Days of `every N days`: a year.
pub(super) const EVERY_DAYS_MAX: u32 = 366;

/// Times of a day in an English schedule.
pub(super) const TIMES_MAX: usize = 96;

/// Ticks that one call yields. The next call yields the rest, so that the caller commits in batches
/// of limited size.
pub(super) const TICKS_PER_CALL: usize = 1_000;

/// Consecutive ticks of one schedule, so that a long backlog of one does not delay the others.
pub(super) const TICKS_PER_TURN: usize = 100;

/// A tick that is yielded within this time is on time: drivers sleep, and wake up slightly late.
pub(super) const PUNCTUAL: Millis = Millis(1_000);

/// Shift of a nominal time in a text: ten years, so that the result stays in the calendar.
pub(super) const NOMINAL_SHIFT_SECONDS_MAX: i64 = 10 * 366 * 86_400;

/// Bytes of the format of a nominal time. The longest sensible one is a path.
pub(super) const NOMINAL_FORMAT_BYTES_MAX: usize = 256;
