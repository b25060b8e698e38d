//! The subset of Markdown that the checks need: prose without code, code spans, sections.

/// The lines of a page with their numbers from 1, where everything inside code
/// fences and code spans is replaced by spaces: quotations are not checked.
pub(crate) fn prose(text: &str) -> Vec<(usize, String)> {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let marker = ["```", "~~~"].into_iter().find(|m| start.starts_with(m));
        let shown = match (fence, marker) {
            (None, None) => without_spans(line),
            (None, Some(opening)) => {
                fence = Some(opening);
                String::new()
            }
            (Some(open), Some(closing)) if open == closing => {
                fence = None;
                String::new()
            }
            (Some(_), _) => String::new(),
        };
        lines.push((index + 1, shown));
    }
    lines
}

/// The lines of the section whose heading is `title`, up to the next heading of
/// the same or a higher level; `None` if there is no such heading.
pub(crate) fn section<'a>(
    lines: &'a [(usize, String)],
    title: &str,
) -> Option<&'a [(usize, String)]> {
    let (start, level) = lines.iter().enumerate().find_map(|(index, (_, line))| {
        let (level, heading) = heading(line)?;
        heading.contains(title).then_some((index + 1, level))
    })?;
    let length = lines[start..]
        .iter()
        .position(|(_, line)| heading(line).is_some_and(|(next, _)| next <= level))
        .unwrap_or(lines.len() - start);
    Some(&lines[start..start + length])
}

/// The level and the text of a heading.
fn heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    (1..=6).contains(&level).then_some(())?;
    text.strip_prefix(' ').map(|text| (level, text.trim()))
}

/// The code spans of a page with the numbers of their lines from 1; none of code fences.
pub(crate) fn spans(text: &str) -> Vec<(usize, &str)> {
    let mut fence: Option<&str> = None;
    let mut spans = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let marker = ["```", "~~~"].into_iter().find(|m| start.starts_with(m));
        match (fence, marker) {
            (None, None) => {
                let found = pieces(line).into_iter().filter(|piece| piece.is_code);
                spans.extend(found.map(|piece| (index + 1, piece.inside)));
            }
            (None, opening) => fence = opening,
            (Some(open), Some(closing)) if open == closing => fence = None,
            (Some(_), _) => {}
        }
    }
    spans
}

/// A part of a line: plain text, or a code span.
struct Piece<'a> {
    is_code: bool,
    whole: &'a str,
    /// The text of a code span.
    inside: &'a str,
}

/// Divides a line. A run of backticks is closed by a run of the same length; one that is never
/// closed is plain text.
fn pieces(line: &str) -> Vec<Piece<'_>> {
    let plain = |whole| Piece {
        is_code: false,
        whole,
        inside: "",
    };
    let mut pieces = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let ticks = run_length(&rest[start..]);
        let inside = start + ticks;
        let Some(end) = closing_run(&rest[inside..], ticks) else {
            pieces.push(plain(&rest[..inside]));
            rest = &rest[inside..];
            continue;
        };
        pieces.push(plain(&rest[..start]));
        pieces.push(Piece {
            is_code: true,
            whole: &rest[start..inside + end + ticks],
            inside: rest[inside..inside + end].trim(),
        });
        rest = &rest[inside + end + ticks..];
    }
    pieces.push(plain(rest));
    pieces
}

/// Blanks the code spans of one line.
fn without_spans(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for piece in pieces(line) {
        if piece.is_code {
            let width = piece.whole.chars().count();
            out.extend(std::iter::repeat_n(' ', width));
        } else {
            out.push_str(piece.whole);
        }
    }
    out
}

fn run_length(text: &str) -> usize {
    text.bytes().take_while(|&b| b == b'`').count()
}

/// Where the run of exactly `ticks` backticks begins.
fn closing_run(text: &str, ticks: usize) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text[from..].find('`') {
        let start = from + at;
        let length = run_length(&text[start..]);
        if length == ticks {
            return Some(start);
        }
        from = start + length;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        prose(text).into_iter().map(|(_, line)| line).collect()
    }

    #[test]
    fn code_is_not_prose() {
        assert_eq!(shown("a `b` c"), ["a     c"]);
        assert_eq!(shown("a ``b`c`` d"), ["a         d"]);
        assert_eq!(shown("a ` b"), ["a ` b"]);
        assert_eq!(
            shown("a\n```sh\nb\n~~~\n```\nc"),
            ["a", "", "", "", "", "c"]
        );
    }

    #[test]
    fn spans_are_found_outside_of_fences() {
        let text = "a `b` ``c`d``\n```sh\n`e`\n```\n`f";
        assert_eq!(spans(text), [(1, "b"), (1, "c`d")]);
        assert_eq!(spans("x\n` y `"), [(2, "y")]);
    }

    #[test]
    fn lines_keep_their_numbers() {
        assert_eq!(prose("a\n\nb")[2], (3, "b".to_owned()));
    }

    #[test]
    fn a_section_ends_at_the_next_heading_that_is_not_below_it() {
        let lines = prose("# T\nx\n## S one\na\n### deeper\nb\n## Next\nc");
        let numbers = |title| {
            section(&lines, title).map(|lines| lines.iter().map(|(n, _)| *n).collect::<Vec<_>>())
        };
        assert_eq!(numbers("S one"), Some(vec![4, 5, 6]));
        assert_eq!(numbers("Next"), Some(vec![8]));
        assert_eq!(numbers("Missing"), None);
    }
}
