//! The encoding of pages, which the build script writes and [`page`](crate::page) reads: one block a
//! line, whose first character is its kind, then fields between [`FIELD`].
//! Indentations and levels are one digit.

/// `hLEVEL text`
pub(crate) const HEADING: char = 'h';
/// `pINDENT text`
pub(crate) const PARAGRAPH: char = 'p';
/// `lINDENT marker FIELD text`
pub(crate) const ITEM: char = 'l';
/// `kINDENT language`: a block of code begins
pub(crate) const CODE_BLOCK: char = 'k';
/// `c text`: a line of it
pub(crate) const CODE: char = 'c';
/// `t cell FIELD cell …`: the first row of a table, its heading
pub(crate) const TABLE: char = 't';
/// `r cell FIELD cell …`: a further row
pub(crate) const ROW: char = 'r';
/// `s topic FIELD topic …`: chapters that the page links to
pub(crate) const SEE: char = 's';

/// Between fields.
pub(crate) const FIELD: char = '\u{1f}';
/// Begins a style in a text; [`END`] ends it.
pub(crate) const STRONG: char = '\u{1}';
pub(crate) const EMPHASIS: char = '\u{2}';
pub(crate) const VERBATIM: char = '\u{3}';
pub(crate) const LINK: char = '\u{4}';
pub(crate) const END: char = '\u{5}';
/// A line break within a paragraph.
pub(crate) const BREAK: char = '\u{6}';
