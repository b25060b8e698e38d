//! The texts and bodies of a notice.

use std::fs;
use std::path::Path;

use baton_model::notify::{Notice, NoticeKind, TextSource, next_placeholder};
use baton_web::time::Stamp;
use serde_json::{Value, json};

/// Bytes of a file with a URL, a secret or a password.
const SECRET_BYTES_MAX: usize = 64 << 10;

/// A notice, and what is added to it when it is sent.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) notice: &'a Notice,
    pub(super) url: &'a str,
    pub(super) scheduler: &'a str,
}

impl Message<'_> {
    /// One line for a subject.
    pub(super) fn title(&self) -> String {
        let title = &self.notice.title;
        title.chars().filter(|it| !it.is_control()).collect()
    }

    /// The address of its page.
    pub(super) fn link(&self) -> Option<String> {
        let path = self.notice.path.as_ref()?;
        Some(format!("{}{path}", self.url.trim_end_matches('/')))
    }

    /// The whole message for people.
    pub(super) fn text(&self) -> String {
        let notice = self.notice;
        let mut text = format!("{}\n", notice.title);
        let mut part = |name: &str, value: &str| {
            text.push_str(&format!("\n{name}: {value}"));
        };
        part("at", &Stamp(notice.at.0).utc());
        part("scheduler", self.scheduler);
        if !notice.subject.is_empty() {
            part("subject", &notice.subject);
        }
        if let Some(link) = self.link() {
            part("link", &link);
        }
        if let Some(command) = &notice.command {
            let name = match notice.kind {
                NoticeKind::Failed => "try again",
                _ => "see",
            };
            part(name, command);
        }
        if !notice.examples.is_empty() {
            text.push_str("\n\n");
            text.push_str(&notice.examples.join("\n"));
        }
        if let Some(stderr) = &notice.stderr {
            text.push_str("\n\nThe last lines of standard error:\n");
            text.push_str(stderr);
        }
        text.push('\n');
        text
    }

    /// The notice for programs.
    pub(super) fn json(&self) -> String {
        let mut value = serde_json::to_value(self.notice).unwrap_or_default();
        if let Value::Object(fields) = &mut value {
            fields.insert("version".to_owned(), 1.into());
            let time = Stamp(self.notice.at.0).rfc3339();
            fields.insert("time".to_owned(), time.into());
            fields.insert("scheduler".to_owned(), self.scheduler.into());
            fields.insert("text".to_owned(), self.text().into());
            if let Some(link) = self.link() {
                fields.insert("link".to_owned(), link.into());
            }
        }
        value.to_string()
    }

    /// The body of an incoming webhook of Slack.
    pub(super) fn slack(&self) -> String {
        let escaped = |text: &str| {
            let text = text.replace('&', "&amp;").replace('<', "&lt;");
            text.replace('>', "&gt;")
        };
        let title = escaped(&self.notice.title);
        let title = match self.link() {
            Some(link) => format!("*<{}|{}>*", escaped(&link), title.replace('|', "¦")),
            None => format!("*{title}*"),
        };
        let (_, rest) = split_title(self);
        json!({"text": format!("{title}\n```{}```", escaped(rest.trim()).replace("```", "'''"))})
            .to_string()
    }

    /// A card for a workflow of Teams.
    pub(super) fn teams(&self) -> String {
        let (_, rest) = split_title(self);
        let mut card = json!({
            "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
            "type": "AdaptiveCard",
            "version": "1.4",
            "body": [
                {"type": "TextBlock", "text": self.notice.title, "weight": "bolder", "wrap": true},
                {"type": "TextBlock", "text": rest.trim(), "wrap": true, "fontType": "monospace"},
            ],
        });
        if let Some(link) = self.link() {
            card["actions"] = json!([{"type": "Action.OpenUrl", "title": "Open", "url": link}]);
        }
        json!({
            "type": "message",
            "attachments": [{
                "contentType": "application/vnd.microsoft.card.adaptive",
                "content": card,
            }],
        })
        .to_string()
    }

    /// A template with its values, and its media type. In JSON, values are escaped for strings.
    pub(super) fn fill(&self, template: &str) -> (String, &'static str) {
        let is_json = template.trim_start().starts_with(['{', '[']);
        let mut body = String::with_capacity(template.len());
        let mut rest = template;
        while let Some((before, name, after)) = next_placeholder(rest) {
            body.push_str(before);
            let value = self.value(name);
            if is_json {
                let quoted = Value::from(value).to_string();
                body.push_str(&quoted[1..quoted.len() - 1]);
            } else {
                body.push_str(&value);
            }
            rest = after;
        }
        body.push_str(rest);
        let media = if is_json {
            "application/json"
        } else {
            "text/plain; charset=utf-8"
        };
        (body, media)
    }

    fn value(&self, name: &str) -> String {
        let notice = self.notice;
        let found = match name {
            "title" => Some(notice.title.clone()),
            "text" => Some(self.text()),
            "kind" => Some(notice.kind.word().to_owned()),
            "key" => Some(notice.key.clone()),
            "subject" => Some(notice.subject.clone()),
            "entry" => notice.entry.clone(),
            "owner" => notice.owner.clone(),
            "reason" => notice.reason.clone(),
            "stderr" => notice.stderr.clone(),
            "command" => notice.command.clone(),
            "link" => self.link(),
            "scheduler" => Some(self.scheduler.to_owned()),
            _ => Some(Stamp(notice.at.0).utc()),
        };
        found.unwrap_or_default()
    }
}

/// The title and the rest of a text.
fn split_title(message: &Message<'_>) -> (String, String) {
    let text = message.text();
    let (title, rest) = text.split_once('\n').unwrap_or((&text, ""));
    (title.to_owned(), rest.to_owned())
}

/// A text of the configuration.
pub(super) fn text_of(source: &TextSource) -> Result<String, String> {
    match source {
        TextSource::Inline(text) => Ok(text.clone()),
        TextSource::File(path) => read(path),
    }
}

/// The content of a file, without the line break at its end.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    if text.len() > SECRET_BYTES_MAX {
        return Err(failed(&format!(
            "it has more than {SECRET_BYTES_MAX} bytes"
        )));
    }
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
