//! Names and prose use the terms of the field; part of `cargo xtask tidy`.
//!
//! Three rules, each with a replacement in its message:
//!
//! - A type or module is named by a noun: neither a question word nor a
//!   participle ([`NOT_NOUNS`]), and no household metaphor ([`METAPHORS`]).
//! - A doc comment says more than one word or a bare question: a stub is deleted,
//!   or the item is renamed until it needs no doc.
//! - A sentence names its subject and uses the present tense ([`BANNED`]).
//!
//! Bool matches are clippy's business (`match_bool`), and module docs are checked
//! by [`tidy`](crate::tidy). The banned words are composed from parts, so that this
//! file keeps its own rules.

use crate::Findings;

/// The file types that hold code or prose. Goldens and fixtures are `.txt` and
/// `.json`: they follow their sources, or are frozen.
const CHECKED: &[&str] = &[".rs", ".md", ".py", ".sh", ".yaml", ".toml"];

/// Whole names, in snake case, that are question words or participles, each with
/// its replacement.
const NOT_NOUNS: &[(&str, &str)] = &[
    ("how", "the mode or method that it selects (`KillMode`)"),
    ("who", "the party (`Caller`, `Subject`)"),
    ("whom", "the party (`Caller`, `Subject`)"),
    ("whose", "the owner (`Owner`)"),
    ("why", "the cause (`BlockReason`)"),
    ("which", "what it selects (`Selector`, `Filter`)"),
    ("what", "the kind (`EventKind`)"),
    ("when", "the time or condition (`DueTime`, `Condition`)"),
    ("where", "the position (`Location`, `Paths`)"),
    ("told", "the message (`Report`, `Progress`)"),
    ("said", "the message (`Output`, `Reply`)"),
    ("heard", "the message (`Received…`)"),
    ("asked", "the request (`Command`, `Request`)"),
    ("wanted", "the request (`Request`, `DesiredState`)"),
    ("given", "the input (`Args`, `Binding`, `Extract`)"),
    ("kept", "the record (`StoredRows`)"),
    ("unkept", "`transient`"),
    ("seen", "the observation (`Snapshot`, `Observed…`)"),
    ("found", "the result (`Match`, `SearchResult`)"),
    ("again", "`NextAttempt`, `rerun`, `invalidate`"),
    ("whole", "the aggregate (`Document`, `Summary`)"),
    ("go_on", "`resume`"),
    ("untaken", "`TakeoverFailed`"),
    ("carried", "the payload (`Handover`)"),
    ("moved", "the change (`Transition`)"),
    ("ran", "the record (`AttemptRecord`)"),
    ("marked", "the object with its attribute (`MarkedProcess`)"),
    ("placed", "the result (`Placement`)"),
    ("shown", "the view (`Row`, `View`)"),
    ("followed", "the reader (`Follower`)"),
    ("remembered", "the entry (`CacheEntry`)"),
    ("opened", "the handle (`OpenLog`)"),
    ("salvaged", "the result (`Recovery`)"),
    ("measured", "the value (`Measurement`)"),
    ("restless", "`DirtyRuns`"),
];

/// Words of house and family. A name that has one of them among its words is
/// refused, with the term of the field.
const METAPHORS: &[(&str, &str)] = &[
    ("wish", "command"),
    ("wishes", "commands"),
    ("estate", "worker state, handover"),
    ("fate", "outcome"),
    ("words", "messages"),
    ("diary", "logging"),
    ("seldom", "log throttle"),
    ("patient", "write timeout"),
    ("entrance", "accept"),
    ("door", "handshake"),
    ("caretaker", "lease keeper"),
    ("household", "workspace"),
    ("mouth", "outgoing requests"),
    ("kin", "descendants"),
    ("gift", "grant"),
    ("spoil", "corrupt"),
    ("dice", "random number generator"),
];

/// Words that hide the subject of a sentence or its tense, each with its
/// replacement.
const BANNED: &[(&str, &str)] = &[
    (concat!("who", "ever"), "name it: the client, the caller"),
    (concat!("whom", "ever"), "name it: the client, the caller"),
    (
        concat!("some", "body"),
        "name it: the operator, another client",
    ),
    (
        concat!("no", "body"),
        "name what is missing: no worker, no client",
    ),
    (
        concat!("any", "body"),
        "name it: any client, every user of the host",
    ),
    (
        concat!("every", "body"),
        "name them: all workers, every client",
    ),
    (
        concat!("sha", "ll"),
        "write must, will or the present tense",
    ),
    (
        concat!("as good as", " none"),
        "state the effect: it is ignored, it is never served",
    ),
];

/// The Unix account whose name is also one of [`BANNED`]. Between quotation marks,
/// or after one of [`ACCOUNT_AFTER`], it is that account.
const UNIX_ACCOUNT: &str = concat!("no", "body");

/// What introduces an account in task files, commands and messages.
const ACCOUNT_AFTER: &[&str] = &["user ", "user: ", "--reuid "];

/// Openings of a doc comment that is only a question about its item.
const QUESTIONS: &[&str] = &[
    "Which",
    "Whose",
    "Whom",
    "Who",
    "What",
    "When",
    "Where",
    "Why",
    "How",
    "Since when",
    "Until when",
];

/// Together with `whom`, `which` or `what`, the same: `/// Of whom.`
const PREPOSITIONS: &[&str] = &["Of", "To", "From", "By", "For", "At", "In", "On"];

/// A question with so many words after it, or fewer, is a stub.
const STUB_WORDS_MAX: usize = 3;

/// Modules named like the field of task files that they read.
const FIELD_MODULES: &[&str] = &["when"];

/// What introduces a type or a module.
const KEYWORDS: &[&str] = &["struct", "enum", "trait", "type", "union", "mod"];

/// True for files that hold code or prose.
pub(crate) fn is_checked(path: &str) -> bool {
    CHECKED.iter().any(|ending| path.ends_with(ending))
}

/// All findings in the language of one file.
pub(crate) fn check(path: &str, text: &str) -> Findings {
    let rust = path.ends_with(".rs");
    let lines: Vec<&str> = text.lines().collect();
    let mut findings = Findings::new();
    if let Some(stem) = file_stem(path)
        && rust
        && let Some(problem) = problem_of_name(stem)
    {
        findings.push(format!("{path}: {problem}"));
    }
    for (index, line) in lines.iter().enumerate() {
        let mut found = |what: String| findings.push(format!("{path}:{}: {what}", index + 1));
        for (word, replacement) in banned_words(line) {
            found(format!(
                "\"{word}\" does not name its subject; {replacement}"
            ));
        }
        if !rust {
            continue;
        }
        if let Some(problem) = declared_name(line).and_then(problem_of_name) {
            found(problem);
        }
        let alone = |at: Option<usize>| !at.and_then(|at| lines.get(at)).is_some_and(|l| is_doc(l));
        if is_stub(line) && alone(index.checked_sub(1)) && alone(Some(index + 1)) {
            found(format!(
                "\"{}\" repeats what the name says; delete it, or describe the contract",
                line.trim()
            ));
        }
    }
    findings
}

fn file_stem(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?;
    name.split('.').next()
}

/// The name that a line of Rust gives to a type or a module, if it does.
fn declared_name(line: &str) -> Option<&str> {
    if line.trim_start().starts_with("//") {
        return None;
    }
    let mut words = line
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty());
    words.find(|word| KEYWORDS.contains(word))?;
    words.next()
}

/// What is wrong with the name of a type or a module, if anything.
fn problem_of_name(name: &str) -> Option<String> {
    if FIELD_MODULES.contains(&name) {
        return None;
    }
    let words = words_of_name(name);
    let snake = words.join("_");
    if let Some((_, replacement)) = NOT_NOUNS.iter().find(|(word, _)| *word == snake) {
        return Some(format!("the name {name} is no noun; name {replacement}"));
    }
    let (word, term) = METAPHORS
        .iter()
        .find(|(metaphor, _)| words.iter().any(|word| word == metaphor))?;
    Some(format!(
        "the name {name} has the metaphor \"{word}\"; the term of the field is: {term}"
    ))
}

/// The words of `CamelCase` or `snake_case`, in lower case.
fn words_of_name(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut begins = true;
    for c in name.chars() {
        if c == '_' || c == '-' {
            begins = true;
            continue;
        }
        if begins || c.is_uppercase() {
            words.push(String::new());
        }
        begins = false;
        if let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
    }
    words
}

/// The entries of [`BANNED`] that a line has, once each.
fn banned_words(line: &str) -> Vec<(&'static str, &'static str)> {
    let lower = line.to_lowercase();
    BANNED
        .iter()
        .filter(|(word, _)| {
            lower
                .match_indices(word)
                .any(|(at, _)| is_whole_word(&lower, at, word))
        })
        .copied()
        .collect()
}

/// True if the word at `at` is not part of a longer one, and not the name of the
/// Unix account. A word of a snake case name is whole.
fn is_whole_word(line: &str, at: usize, word: &str) -> bool {
    let before = line[..at].chars().next_back();
    let after = line[at + word.len()..].chars().next();
    let quoted = before == after && matches!(before, Some('"' | '`' | '\''));
    let introduced = ACCOUNT_AFTER
        .iter()
        .any(|intro| line[..at].ends_with(intro));
    let part = [before, after]
        .into_iter()
        .flatten()
        .any(char::is_alphanumeric);
    !part && !((quoted || introduced) && word == UNIX_ACCOUNT)
}

fn is_doc(line: &str) -> bool {
    line.trim_start().starts_with("///")
}

/// True for a doc line of one word, or of a question with at most
/// [`STUB_WORDS_MAX`] words after it. One with code in it says something.
fn is_stub(line: &str) -> bool {
    let Some(doc) = line.trim().strip_prefix("/// ") else {
        return false;
    };
    if doc.contains('`') {
        return false;
    }
    if doc.split_whitespace().count() == 1 {
        return true;
    }
    after_question(doc).is_some_and(|rest| rest.split_whitespace().count() <= STUB_WORDS_MAX)
}

/// What follows the question that a doc line begins with.
fn after_question(doc: &str) -> Option<&str> {
    let ends_word = |rest: &&str| !rest.starts_with(|c: char| c.is_alphanumeric());
    let question = QUESTIONS
        .iter()
        .filter_map(|question| doc.strip_prefix(question))
        .find(ends_word);
    question.or_else(|| {
        let (first, rest) = doc.split_once(' ')?;
        PREPOSITIONS.contains(&first).then_some(())?;
        ["whom", "which", "what"]
            .iter()
            .filter_map(|pronoun| rest.strip_prefix(pronoun))
            .find(ends_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> Findings {
        check("crates/x/src/a.rs", text)
    }

    #[test]
    fn nouns_and_ordinary_prose_are_in_order() {
        let text = "//! Commands of a run.\n\
                    /// The command that a client has sent.\n\
                    pub(crate) struct RunCommand;\n\
                    mod placement;\n\
                    type Keywords = u8;\n\
                    /// Where a log ends, in bytes from its beginning.\n\
                    // struct How is only mentioned\n";
        assert_eq!(rust(text), Findings::new());
    }

    #[test]
    fn a_type_or_module_that_is_no_noun_is_found_with_its_replacement() {
        let of_fields = |(word, _): &&(&str, &str)| !FIELD_MODULES.contains(word);
        for (word, replacement) in NOT_NOUNS.iter().filter(of_fields) {
            let findings = rust(&format!("//! Doc.\npub(crate) mod {word};\n"));
            assert_eq!(
                findings,
                [format!(
                    "crates/x/src/a.rs:2: the name {word} is no noun; name {replacement}"
                )]
            );
        }
        for name in ["How", "Told", "GoOn"] {
            for keyword in ["pub struct", "enum", "type"] {
                let findings = rust(&format!("{keyword} {name} = u8;"));
                assert_eq!(findings.len(), 1, "{keyword} {name}");
            }
        }
        assert_eq!(rust("struct HowMany;"), Findings::new());
        assert_eq!(rust(&format!("mod {};", FIELD_MODULES[0])), Findings::new());
    }

    #[test]
    fn code_and_prose_are_checked_and_goldens_are_not() {
        assert!(is_checked("docs/a.md") && is_checked("crates/x/src/a.rs"));
        assert!(!is_checked("crates/x/tests/golden/a.txt") && !is_checked("docs/openapi.json"));
    }

    #[test]
    fn a_metaphor_is_found_wherever_it_stands_in_a_name() {
        for (word, term) in METAPHORS {
            let findings = rust(&format!("mod run_{word};"));
            assert_eq!(findings.len(), 1, "{word}");
            assert!(findings[0].ends_with(&format!("the term of the field is: {term}")));
        }
        assert_eq!(rust(&format!("struct Run{};", "Wish")).len(), 1);
        assert_eq!(rust("struct Mailbox;"), Findings::new());
    }

    #[test]
    fn a_file_is_a_module() {
        assert_eq!(
            check("crates/x/src/kept.rs", "//! Doc.\n"),
            ["crates/x/src/kept.rs: the name kept is no noun; name the record (`StoredRows`)"]
        );
        assert_eq!(check("docs/kept.md", "Text.\n"), Findings::new());
    }

    #[test]
    fn a_stub_doc_is_found_unless_it_is_part_of_a_longer_one() {
        for stub in [
            "Which.",
            "Of whom.",
            "Since when.",
            "Whom to answer.",
            "Name.",
        ] {
            let findings = rust(&format!("    /// {stub}\n    field: u8,\n"));
            assert_eq!(findings.len(), 1, "{stub}");
            assert!(findings[0].starts_with("crates/x/src/a.rs:1: "));
        }
        for doc in [
            "Which of the two ports the worker has dialled.",
            "Whichever.. is first",
            "`pid`.",
            "Of the two the later one counts.",
        ] {
            assert_eq!(rust(&format!("/// {doc}\nx: u8,\n")), Findings::new());
        }
        assert_eq!(rust("/// Name.\n///\n/// More.\n"), Findings::new());
        assert_eq!(
            check("a.md", "/// Which.\n"),
            Findings::new(),
            "only Rust has such comments"
        );
    }

    #[test]
    fn a_banned_word_is_found_in_every_kind_of_text() {
        for (word, replacement) in BANNED {
            for path in ["a.rs", "docs/a.md", "a.py", "a.sh", "a.yaml"] {
                assert_eq!(
                    check(path, &format!("one\n# so {word} comes\n")),
                    [format!(
                        "{path}:2: \"{word}\" does not name its subject; {replacement}"
                    )]
                );
            }
            let upper = word.to_uppercase();
            assert_eq!(check("a.md", &upper).len(), 1, "{upper}");
            assert_eq!(check("a.md", &format!("x{word}")), Findings::new());
        }
    }

    #[test]
    fn a_banned_word_is_found_in_the_name_of_a_test() {
        let (word, _) = BANNED[0];
        assert_eq!(rust(&format!("fn {word}_comes_waits() {{}}")).len(), 1);
    }

    #[test]
    fn the_unix_account_is_a_name_where_it_is_quoted_or_introduced() {
        let account = UNIX_ACCOUNT;
        for intro in ACCOUNT_AFTER {
            assert_eq!(rust(&format!("run as {intro}{account}")), Findings::new());
        }
        assert_eq!(rust(&format!("user: \"{account}\",")), Findings::new());
        assert_eq!(
            check("a.md", &format!("as user `{account}`")),
            Findings::new()
        );
        assert_eq!(check("a.md", &format!("{account} comes")).len(), 1);
        assert_eq!(check("a.md", &format!("\"{account} comes\"")).len(), 1);
    }
}
