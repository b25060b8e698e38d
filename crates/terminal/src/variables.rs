//! Environment variables that a command clears for the processes it starts.

/// Names another configuration file instead of the system's and the user's; empty for none.
pub const CONFIG: &str = "BATON_CONFIG";
/// The token of clients and workers.
pub const TOKEN: &str = "BATON_TOKEN";
