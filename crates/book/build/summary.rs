//! The chapters of `docs/SUMMARY.md` that users read in a terminal.

/// Pages that the binary leaves out: what `--help` says already, and what is for contributors.
const LEFT_OUT: &[&str] = &[
    "../README.md",
    "commands.md",
    "ARCHITECTURE.md",
    "PROTOCOL.md",
];

/// Folders and parts without chapters for users.
const LEFT_OUT_FOLDER: &str = "design/";
const LEFT_OUT_PART: &str = "Project";

/// A chapter: a link of the contents.
pub(crate) struct Chapter {
    /// Its name on the command line.
    pub(crate) topic: String,
    pub(crate) title: String,
    pub(crate) part: String,
    /// The page, from `docs/`.
    pub(crate) path: String,
}

pub(crate) fn chapters(summary: &str) -> Vec<Chapter> {
    let mut part = String::new();
    let mut chapters = Vec::new();
    for line in summary.lines() {
        if let Some(heading) = line.strip_prefix("# ") {
            heading.clone_into(&mut part);
            continue;
        }
        let Some((title, path)) = link(line) else {
            continue;
        };
        let is_left_out = LEFT_OUT.contains(&path) || path.starts_with(LEFT_OUT_FOLDER);
        if !is_left_out && part != LEFT_OUT_PART {
            chapters.push(Chapter {
                topic: topic(path, title),
                title: title.to_owned(),
                part: part.clone(),
                path: path.to_owned(),
            });
        }
    }
    chapters
}

/// The title and the page of a line of the contents.
fn link(line: &str) -> Option<(&str, &str)> {
    let (title, rest) = line.split_once('[')?.1.split_once("](")?;
    Some((title, rest.strip_suffix(')')?))
}

/// The name of a page: that of its file. Pages of other systems and of states have the name of their
/// folder before it, because a bare `cron` or `worker` means something else.
fn topic(path: &str, title: &str) -> String {
    let stem = path.trim_end_matches(".md").to_lowercase();
    if let Some(system) = stem.strip_prefix("coming-from/") {
        return format!("from-{system}");
    }
    match stem.rsplit_once('/') {
        None if stem == "readme" => {
            let words = title.split(',').next().unwrap_or(title);
            words.to_lowercase().replace(' ', "-")
        }
        None => stem,
        Some((folder, "readme")) => folder.trim_start_matches("../").to_owned(),
        Some(("guides", name)) => name.to_owned(),
        Some((folder, name)) => format!("{folder}-{name}"),
    }
}
