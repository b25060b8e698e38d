//! The fourteen ways in which an older runner of tasks went wrong, each as a task that
//! really runs, and ours does not; and everything that tries to get away.

mod dragons;
mod support;
