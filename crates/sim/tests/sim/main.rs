//! The simulator: seeds that must stay clean, golden conversations, and its command line.

mod chronos;
mod cli;
mod fleets;
mod golden;
mod seeds;
