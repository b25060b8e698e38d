//! The pages. Each is a struct with what its template prints, made from representations of the API;
//! those of [`host`] are made from the files of a host.

pub mod alarms;
pub mod attention;
pub mod compare;
pub mod components;
pub mod edit;
pub mod entry;
pub mod filters;
pub mod fleet;
pub mod fleets;
pub mod grid;
pub mod host;
pub mod instance;
pub mod instances;
pub mod items;
pub mod launch;
pub mod library;
pub mod limit_form;
pub mod limits;
pub mod notifications;
pub mod overview;
pub mod plain;
pub mod range;
pub mod run;
pub mod runs;
pub mod schedulers;
pub mod secrets;
pub mod suggestion;
pub mod usage;

pub use askama::Template;

use baton_model::api::Links;

use crate::frame::Action;

/// A relation, and the action for its target.
type Offer = (&'static str, fn(&str) -> Action);

/// The operations of a representation that pages offer: those whose relation is in its links.
fn actions(links: &Links, offered: &[Offer]) -> Vec<Action> {
    let found = offered
        .iter()
        .filter_map(|(relation, action)| Some(action(links.get(*relation)?)));
    found.collect()
}

/// The query of the next page, if there is one.
fn next(links: &Links) -> Option<String> {
    links.get("next").cloned()
}
