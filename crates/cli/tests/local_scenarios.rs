//! What a person may expect of `baton local`, each as one task that really runs.

mod scenarios;
mod support;
