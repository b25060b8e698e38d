//! Task and workflow files: the three formats, templates, error messages, and hostile input.

mod binding;
mod definition;
mod errors;
mod formats;
mod golden;
mod hostile;
mod instance;
mod wfcommons;
mod workflows;
