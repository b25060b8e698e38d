//! A page as lines of the encoding.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::codes::{
    BREAK, CODE, CODE_BLOCK, EMPHASIS, END, FIELD, HEADING, ITEM, LINK, PARAGRAPH, ROW, SEE,
    STRONG, TABLE, VERBATIM,
};
use crate::summary::Chapter;

/// Columns that a level of a list is indented by.
const INDENT: usize = 2;

/// Encodes a page.
///
/// # Panics
///
/// On Markdown that a terminal has no rendering for: the build fails, and no page is garbled.
pub(crate) fn page(markdown: &str, chapter: &Chapter, chapters: &[Chapter]) -> String {
    let mut encoder = Encoder {
        chapter,
        chapters,
        lines: String::new(),
        text: String::new(),
        lists: Vec::new(),
        marker: None,
        code: false,
        cells: Vec::new(),
        link: None,
        see: Vec::new(),
    };
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        encoder.event(event);
    }
    if !encoder.see.is_empty() {
        let see = encoder.see.join(&FIELD.to_string());
        encoder.line(SEE, &see);
    }
    encoder.lines
}

struct Encoder<'a> {
    chapter: &'a Chapter,
    chapters: &'a [Chapter],
    lines: String,
    /// Of the block that is open.
    text: String,
    /// The number of the next item of each open list; none in a list of bullets.
    lists: Vec<Option<u64>>,
    /// Of the item whose first paragraph is to come.
    marker: Option<String>,
    code: bool,
    cells: Vec<String>,
    /// The address of the open link.
    link: Option<String>,
    /// Chapters that have been linked to.
    see: Vec<String>,
}

impl Encoder<'_> {
    fn line(&mut self, kind: char, text: &str) {
        assert!(!text.contains('\n'), "{}: {text:?}", self.chapter.path);
        self.lines.push(kind);
        self.lines += text;
        self.lines.push('\n');
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.code => {
                for line in text.lines() {
                    // A terminal's tabs depend on the column.
                    self.line(CODE, &line.replace('\t', "    "));
                }
            }
            Event::Text(text) => self.text += &text,
            Event::Code(code) => self.text += &format!("{VERBATIM}{code}{END}"),
            Event::SoftBreak => self.text.push(' '),
            Event::HardBreak => self.text.push(BREAK),
            // Tabs and anchors of the book; the text between them remains.
            Event::Html(_) | Event::InlineHtml(_) => {}
            other => panic!("{}: no rendering for {other:?}", self.chapter.path),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph
            | Tag::Heading { .. }
            | Tag::Table(_)
            | Tag::TableHead
            | Tag::TableRow
            | Tag::TableCell
            | Tag::HtmlBlock => {}
            Tag::List(first) => {
                // A nested list ends the paragraph of a tight item.
                self.paragraph();
                self.lists.push(first);
            }
            Tag::Item => {
                let number = self.lists.last_mut().and_then(Option::as_mut);
                self.marker = Some(match number {
                    Some(number) => {
                        *number += 1;
                        format!("{}.", *number - 1)
                    }
                    None => "•".to_owned(),
                });
            }
            Tag::CodeBlock(kind) => {
                self.paragraph();
                self.code = true;
                let kind = match &kind {
                    CodeBlockKind::Fenced(kind) => kind,
                    CodeBlockKind::Indented => "",
                };
                let indent = self.lists.len() * INDENT;
                self.line(CODE_BLOCK, &format!("{indent}{kind}"));
            }
            Tag::Strong => self.text.push(STRONG),
            Tag::Emphasis => self.text.push(EMPHASIS),
            Tag::Link { dest_url, .. } => {
                self.text.push(LINK);
                self.link = Some(dest_url.into_string());
            }
            Tag::Image { .. } => self.text += "Picture: ",
            other => panic!("{}: no rendering for {other:?}", self.chapter.path),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => self.heading(level),
            TagEnd::Paragraph => self.paragraph(),
            TagEnd::Item => {
                self.paragraph();
                self.marker = None;
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::CodeBlock => self.code = false,
            TagEnd::TableCell => self.cells.push(std::mem::take(&mut self.text)),
            TagEnd::TableHead => self.row(TABLE),
            TagEnd::TableRow => self.row(ROW),
            TagEnd::Strong | TagEnd::Emphasis => self.text.push(END),
            TagEnd::Link => self.end_link(),
            _ => {}
        }
    }

    fn row(&mut self, kind: char) {
        let cells = std::mem::take(&mut self.cells);
        self.line(kind, &cells.join(&FIELD.to_string()));
    }

    fn heading(&mut self, level: HeadingLevel) {
        let text = std::mem::take(&mut self.text);
        self.line(HEADING, &format!("{}{text}", level as usize));
    }

    /// Ends a paragraph, which is the first one of an item or not.
    fn paragraph(&mut self) {
        let text = std::mem::take(&mut self.text);
        if text.is_empty() {
            return;
        }
        match self.marker.take() {
            Some(marker) => {
                let indent = (self.lists.len() - 1) * INDENT;
                self.line(ITEM, &format!("{indent}{marker}{FIELD}{text}"));
            }
            None => {
                let indent = self.lists.len() * INDENT;
                self.line(PARAGRAPH, &format!("{indent}{text}"));
            }
        }
    }

    /// Ends a link: an address of the web follows its text, a chapter goes to the end of the page.
    fn end_link(&mut self) {
        let link = self.link.take().expect("a link was open");
        let from = self.text.rfind(LINK).expect("a link was open") + LINK.len_utf8();
        let is_shown = self.text[from..] == link;
        self.text.push(END);
        if link.contains("://") {
            if !is_shown {
                self.text += &format!(" <{link}>");
            }
            return;
        }
        let page = link.split('#').next().unwrap_or_default();
        let found = resolve(&self.chapter.path, page);
        let found = self.chapters.iter().find(|it| it.path == found);
        let Some(found) = found.filter(|it| it.path != self.chapter.path) else {
            return;
        };
        if !self.see.contains(&found.topic) {
            self.see.push(found.topic.clone());
        }
        // The name of a file means nothing where there is none.
        if self.text[from..].trim_end_matches(END).ends_with(".md") {
            self.text.truncate(from);
            self.text += &format!("{VERBATIM}baton help {}{END}{END}", found.topic);
        }
    }
}

/// The path from `docs/` of a link on a page.
fn resolve(page: &str, link: &str) -> String {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(link.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    // From a page outside of docs/, such as `../python/README.md`.
    path.strip_prefix("../docs/")
        .map_or(path.clone(), str::to_owned)
}
