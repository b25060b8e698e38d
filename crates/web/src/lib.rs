//! Baton's web pages: HTML from representations of the API.
//!
//! Pure: a page is a function of what the API answers, of the viewer, and of the time. The server
//! asks its own API on behalf of the viewer and passes the answers; so a page shows what the viewer
//! may read, and nothing else.
//!
//! | module | holds |
//! |---|---|
//! | [`frame`] | what all pages share: title, navigation, viewer, forms |
//! | [`pages`] | one module for each page |
//! | [`graph`] | the task graph of a run: layout, states of tasks, and as SVG |
//! | [`gantt`] | the items of a run over time: rows and axis, and as SVG |
//! | `document` | these two pictures as files of their own, for `baton show --svg` |
//! | [`attempts`], [`chart`] | other timelines and charts as SVG |
//! | [`ansi`] | output of tasks, with its colours, as HTML |
//! | [`json`], [`yaml`] | any representation as HTML; definitions as YAML |
//! | [`report`] | a run as one HTML file, for `baton report` |
//! | [`progress`] | progress that tasks report of themselves |
//! | `diff` | changes from one definition to the next |
//! | [`time`], [`text`] | times, durations, sizes; text from other sources, made harmless and cut |
//! | [`assets`] | style sheet, scripts and icons, part of the binary |
//! | [`headers`] | headers of pages, of assets, and of every response |
//! | [`address`] | paths that a redirect may name |
//!
//! Everything from elsewhere is text: askama escapes what a template prints. The modules that build
//! markup themselves mark it with [`markup::Markup`], and escape with [`markup::escape`].

pub mod address;
pub mod ansi;
pub mod assets;
pub mod attempts;
pub mod chart;
mod diff;
mod document;
pub mod frame;
pub mod gantt;
pub mod graph;
pub mod headers;
pub mod json;
pub mod markup;
pub mod pages;
pub mod progress;
pub mod report;
pub mod text;
pub mod time;
pub mod yaml;
