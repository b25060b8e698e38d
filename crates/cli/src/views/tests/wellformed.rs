//! Whether a text is well-formed XML, as far as our pictures go: elements, attributes, text
//! and references; no comments, no sections, no declarations.

/// Says what is wrong, and where.
pub(super) fn check(text: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text.trim_end();
    let mut roots = 0;
    if let Some(c) = text
        .chars()
        .find(|c| (c.is_control() && *c != '\n') || *c >= '\u{fffe}' && *c <= '\u{ffff}')
    {
        return Err(format!("{c:?} cannot stand in XML"));
    }
    while !rest.is_empty() {
        let (before, tag) = rest.split_once('<').unwrap_or((rest, ""));
        characters(before)?;
        if open.is_empty() && !before.trim().is_empty() {
            return Err(format!("text outside: {before}"));
        }
        if tag.is_empty() {
            break;
        }
        let (tag, after) = tag
            .split_once('>')
            .ok_or_else(|| format!("no end of <{tag}"))?;
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> ends something else"));
            }
            continue;
        }
        let (body, closed) = tag
            .strip_suffix('/')
            .map_or((tag, false), |body| (body, true));
        let (name, attributes) = body.split_once(' ').unwrap_or((body, ""));
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(format!("no name: <{tag}>"));
        }
        self::attributes(attributes)?;
        roots += usize::from(open.is_empty());
        if !closed {
            open.push(name);
        }
    }
    match (open.last(), roots) {
        (Some(name), _) => Err(format!("<{name}> does not end")),
        (None, 1) => Ok(()),
        (None, roots) => Err(format!("{roots} roots")),
    }
}

fn attributes(text: &str) -> Result<(), String> {
    let mut rest = text.trim();
    let mut seen = Vec::new();
    while !rest.is_empty() {
        let wrong = || format!("not an attribute: {rest}");
        let (name, value) = rest.split_once("=\"").ok_or_else(wrong)?;
        let (value, after) = value.split_once('"').ok_or_else(wrong)?;
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') || seen.contains(&name) {
            return Err(wrong());
        }
        characters(value)?;
        seen.push(name);
        rest = after.trim_start();
    }
    Ok(())
}

fn characters(text: &str) -> Result<(), String> {
    let mut parts = text.split('&');
    let first = parts.next().unwrap_or_default();
    if first.contains("]]>") {
        return Err("]]> in text".to_owned());
    }
    for part in parts {
        let (name, _) = part
            .split_once(';')
            .ok_or_else(|| format!("a bare &: {part}"))?;
        let known = matches!(name, "amp" | "lt" | "gt" | "quot" | "#39" | "#10");
        if !known {
            return Err(format!("no such reference: &{name};"));
        }
    }
    Ok(())
}

#[test]
fn the_checker_finds_what_is_wrong() {
    assert_eq!(check("<a b=\"c\"><d/>x &amp; y</a>\n"), Ok(()));
    for wrong in [
        "",
        "<a>",
        "<a></b>",
        "<a b=c/>",
        "<a>&</a>",
        "<a/><b/>",
        "<a b=\"1\" b=\"2\"/>",
        "<a>\u{1}</a>",
    ] {
        assert!(check(wrong).is_err(), "{wrong}");
    }
}
