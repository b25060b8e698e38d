//! Notifications: the `notify` of an entry, and the file of channels and routes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use baton_model::library::TaskName;
use baton_model::notify::{
    Channel, CommandChannel, Mail, MailTls, NoticeKind, NotifyRule, NotifySettings, PLACEHOLDERS,
    Route, TextSource, Transport, Webhook, next_placeholder,
};

use super::{Fields, Item, Reader};
use crate::error::{Kind, Problem, quote};
use crate::limits::CHANNELS_MAX;
use crate::schema::notify::{CHANNEL, NOTIFICATIONS, ROUTE};
use crate::schema::task::NOTIFY;
use crate::suggest;
use crate::tree::Tree;

const CHANNELS_HINT: &str = "write a list of names of channels, such as [ops]";
const PATH_HINT: &str = "write an absolute path";
const TAGS_HINT: &str = "write a list of words, such as [nightly]";

/// The fields of each kind of channel beside `kind` and `rate`.
const OF_WEBHOOK: &[&str] = &[
    "url",
    "url_file",
    "form",
    "template",
    "secret_file",
    "ca_file",
];
const OF_MAIL: &[&str] = &[
    "host",
    "port",
    "tls",
    "user",
    "password_file",
    "from",
    "to",
    "ca_file",
];
const OF_COMMAND: &[&str] = &["run", "timeout"];

/// Reads and checks a file of notifications.
pub(crate) fn settings(root: &Tree) -> Result<NotifySettings, Vec<Problem>> {
    let mut reader = Reader::default();
    match reader.settings(&Item::root(root)) {
        Some(settings) if reader.problems.is_empty() => Ok(settings),
        _ => Err(reader.problems),
    }
}

impl Reader {
    /// Reads the `notify` of an entry.
    pub(super) fn notify(&mut self, item: &Item<'_>) -> Option<NotifyRule> {
        let fields = self.fields(item, &NOTIFY, |key| {
            (key == "channel").then(|| "write `channels: [NAME]`".to_owned())
        })?;
        Some(NotifyRule {
            channels: self.channel_names(&fields),
            on: self.kinds(&fields, NoticeKind::OF_ENTRIES),
            after: self.integer_field(&fields, "after"),
        })
    }

    fn channel_names(&mut self, fields: &Fields<'_>) -> Vec<String> {
        let Some(item) = fields.get("channels") else {
            self.missing(fields, "channels", CHANNELS_HINT);
            return Vec::new();
        };
        let items = self.list(&item, CHANNELS_HINT);
        if items.len() > CHANNELS_MAX {
            let message = format!("{} channels are listed", items.len());
            let hint = format!("write at most {CHANNELS_MAX}");
            self.note(&item, Kind::OutOfRange, message, hint);
        }
        if items.is_empty() {
            let message = "the list of channels is empty".to_owned();
            self.note(&item, Kind::BadValue, message, CHANNELS_HINT);
        }
        items.iter().filter_map(|item| self.name(item)).collect()
    }

    fn kinds(&mut self, fields: &Fields<'_>, choices: &[&str]) -> Vec<NoticeKind> {
        let Some(item) = fields.get("on") else {
            return vec![NoticeKind::Failed, NoticeKind::Recovered];
        };
        let hint = format!("write a list of these: {}", choices.join(", "));
        let mut kinds = BTreeSet::new();
        for item in self.list(&item, &hint) {
            let Some(word) = self.text(&item, &hint) else {
                continue;
            };
            match word.parse() {
                Ok(kind) if choices.contains(&word) => {
                    kinds.insert(kind);
                }
                _ => {
                    let message = format!("{} is not told here", quote(word));
                    self.note(&item, Kind::BadValue, message, &*hint);
                }
            }
        }
        kinds.into_iter().collect()
    }

    fn settings(&mut self, item: &Item<'_>) -> Option<NotifySettings> {
        let fields = self.fields(item, &NOTIFICATIONS, |_| None)?;
        let mut settings = NotifySettings {
            url: fields.get("url").and_then(|item| self.url(&item)),
            ..NotifySettings::default()
        };
        let Some(channels) = fields.get("channels") else {
            let hint = "add `channels: { NAME: { kind: webhook, url: … } }`";
            self.missing(&fields, "channels", hint);
            return None;
        };
        let mut known = BTreeSet::new();
        for (name, item, position) in self.entries(&channels, "write a map of channels by name") {
            self.key_name(name, &item, position);
            known.insert(name);
            if let Some(channel) = self.channel(&item) {
                settings.channels.insert(name.to_owned(), channel);
            }
        }
        if known.len() > CHANNELS_MAX {
            let message = format!("there are {} channels", known.len());
            let hint = format!("at most {CHANNELS_MAX} are allowed");
            self.note(&channels, Kind::TooLarge, message, hint);
        }
        if let Some(routes) = fields.get("routes") {
            for item in self.list(&routes, "write a list of routes") {
                settings.routes.extend(self.route(&item, &known));
            }
        }
        Some(settings)
    }

    fn route(&mut self, item: &Item<'_>, known: &BTreeSet<&str>) -> Option<Route> {
        let fields = self.fields(item, &ROUTE, |_| None)?;
        let channels = self.channel_names(&fields);
        for name in &channels {
            if let Some(list) = fields.get("channels")
                && !known.contains(name.as_str())
            {
                let known = known.iter().copied();
                let hint = suggest::hint(self.problems.len(), name, known, "the channels are:");
                let message = format!("there is no channel {}", quote(name));
                self.note(&list, Kind::UnknownReference, message, hint);
            }
        }
        Some(Route {
            channels,
            on: self.kinds(&fields, NoticeKind::CHOICES),
            owner: fields.get("owner").and_then(|item| self.name(&item)),
            entry: fields.get("entry").and_then(|item| self.entry_name(&item)),
            tags: match fields.get("tags") {
                Some(item) => {
                    let items = self.list(&item, TAGS_HINT);
                    items.iter().filter_map(|item| self.name(item)).collect()
                }
                None => Vec::new(),
            },
            after: self.integer_field(&fields, "after"),
        })
    }

    fn entry_name(&mut self, item: &Item<'_>) -> Option<String> {
        let hint = "write OWNER/NAME, such as analytics/report";
        let text = self.text(item, hint)?;
        let name = text.parse::<TaskName>();
        name.map(|name| name.to_string())
            .map_err(|message| self.note(item, Kind::BadValue, message, hint))
            .ok()
    }

    fn channel(&mut self, item: &Item<'_>) -> Option<Channel> {
        let fields = self.fields(item, &CHANNEL, |key| match key {
            "secret" | "password" => Some(format!("write it to a file, and `{key}_file: FILE`")),
            _ => None,
        })?;
        if !fields.has("kind") {
            self.missing(&fields, "kind", "write webhook, mail or command");
            return None;
        }
        let kind: String = self.word_field(&fields, "kind")?;
        let own = match &*kind {
            "webhook" => OF_WEBHOOK,
            "mail" => OF_MAIL,
            _ => OF_COMMAND,
        };
        for name in CHANNEL.names() {
            if fields.has(name) && !own.contains(&name) && !["kind", "rate"].contains(&name) {
                self.problems.push(fields.key_problem(
                    name,
                    Kind::Conflict,
                    format!("`{name}` has no meaning for a channel of the kind {kind}"),
                    &format!("its fields are: {}", own.join(", ")),
                ));
            }
        }
        let transport = match &*kind {
            "webhook" => self.webhook(&fields).map(Transport::Webhook),
            "mail" => self.mail(&fields).map(Transport::Mail),
            _ => self.command_channel(&fields).map(Transport::Command),
        };
        Some(Channel {
            rate: match fields.get("rate") {
                Some(_) => self.integer_field(&fields, "rate")?,
                None => Channel::RATE_DEFAULT,
            },
            transport: transport?,
        })
    }

    fn webhook(&mut self, fields: &Fields<'_>) -> Option<Webhook> {
        self.exclude(fields, "url", "url_file");
        self.exclude(fields, "form", "template");
        let url = match (fields.get("url"), self.path_field(fields, "url_file")) {
            (Some(item), _) => TextSource::Inline(self.url(&item)?),
            (None, Some(path)) => TextSource::File(path),
            (None, None) => {
                self.missing(fields, "url", "add `url`, or `url_file` if it is a secret");
                return None;
            }
        };
        let template = fields.get("template");
        Some(Webhook {
            url,
            form: self.word_field(fields, "form").unwrap_or_default(),
            secret_file: self.path_field(fields, "secret_file"),
            template: template.and_then(|item| self.body_template(&item)),
            ca_file: self.path_field(fields, "ca_file"),
        })
    }

    fn exclude(&mut self, fields: &Fields<'_>, one: &str, other: &str) {
        if fields.has(one) && fields.has(other) {
            self.problems.push(fields.key_problem(
                one,
                Kind::Conflict,
                format!("`{one}` and `{other}` exclude each other"),
                "remove one of them",
            ));
        }
    }

    fn body_template(&mut self, item: &Item<'_>) -> Option<String> {
        let text = self.text(item, "write the body as a string")?;
        let mut rest = text;
        while let Some((_, name, after)) = next_placeholder(rest) {
            if !PLACEHOLDERS.contains(&name) {
                let message = format!("a notice has no value {}", quote(name));
                let hint = format!("write one of these: {}", PLACEHOLDERS.join(", "));
                self.note(item, Kind::UnknownReference, message, hint);
            }
            rest = after;
        }
        Some(text.to_owned())
    }

    fn mail(&mut self, fields: &Fields<'_>) -> Option<Mail> {
        let tls: MailTls = self.word_field(fields, "tls").unwrap_or_default();
        let required = [
            ("host", "add the name of the SMTP server"),
            ("from", "add the address of the sender"),
            ("to", "add a list of addresses"),
        ];
        for (name, hint) in required {
            if !fields.has(name) {
                self.missing(fields, name, hint);
            }
        }
        for (one, other) in [("user", "password_file"), ("password_file", "user")] {
            if fields.has(one) && !fields.has(other) {
                self.problems.push(fields.key_problem(
                    one,
                    Kind::Conflict,
                    format!("`{one}` has no effect without `{other}`"),
                    &format!("add `{other}`"),
                ));
            }
        }
        if tls == MailTls::None && fields.has("password_file") {
            self.problems.push(fields.key_problem(
                "password_file",
                Kind::Conflict,
                "the password would be sent in the clear".to_owned(),
                "use `tls: starttls` or `tls: implicit`",
            ));
        }
        let to = self.list(&fields.get("to")?, "write a list of addresses");
        let to: Vec<String> = to
            .iter()
            .filter_map(|item| self.mail_address(item))
            .collect();
        let host = self.text(&fields.get("host")?, "write the name of the SMTP server")?;
        let user = match fields.get("user") {
            Some(item) => Some(self.text(&item, "write the user name")?.to_owned()),
            None => None,
        };
        Some(Mail {
            host: host.to_owned(),
            port: match fields.get("port") {
                Some(_) => self.integer_field(fields, "port")?,
                None => tls.port(),
            },
            tls,
            user,
            password_file: self.path_field(fields, "password_file"),
            from: self.mail_address(&fields.get("from")?)?,
            to,
            ca_file: self.path_field(fields, "ca_file"),
        })
    }

    fn command_channel(&mut self, fields: &Fields<'_>) -> Option<CommandChannel> {
        let hint = "write a program and its arguments, such as [/usr/local/bin/page, --urgent]";
        let Some(run) = fields.get("run") else {
            self.missing(fields, "run", hint);
            return None;
        };
        let words = self.list(&run, hint);
        if words.is_empty() {
            self.note(
                &run,
                Kind::BadValue,
                "the command is empty".to_owned(),
                hint,
            );
        }
        let words = words.iter();
        let words = words.filter_map(|item| self.scalar_text(item, hint));
        Some(CommandChannel {
            argv: words.collect(),
            timeout: self.duration_field(fields, "timeout")?,
        })
    }

    /// An address of mail, as far as anyone but its server can tell.
    fn mail_address(&mut self, item: &Item<'_>) -> Option<String> {
        let hint = "write an address such as ops@example.com";
        let text = self.text(item, hint)?;
        let parts = text.split_once('@');
        let is_address = parts.is_some_and(|(user, domain)| !user.is_empty() && !domain.is_empty());
        if !is_address || text.chars().any(char::is_control) {
            let message = format!("{} is not a mail address", quote(text));
            self.note(item, Kind::BadValue, message, hint);
            return None;
        }
        Some(text.to_owned())
    }

    /// A URL. It may be a secret, so no error repeats it.
    fn url(&mut self, item: &Item<'_>) -> Option<String> {
        let hint = "write a URL such as https://hooks.example.com/T0/B0";
        let text = self.text(item, hint)?;
        let rest = text.strip_prefix("https://");
        let rest = rest.or_else(|| text.strip_prefix("http://"));
        if rest.is_none_or(|rest| rest.is_empty() || rest.contains(char::is_whitespace)) {
            let message = "it is not a URL of http or https".to_owned();
            self.note(item, Kind::BadValue, message, hint);
            return None;
        }
        Some(text.to_owned())
    }

    fn path_field(&mut self, fields: &Fields<'_>, name: &str) -> Option<PathBuf> {
        let item = fields.get(name)?;
        let path = Path::new(self.text(&item, PATH_HINT)?);
        if !path.is_absolute() {
            let message = format!("{} is not absolute", quote(&path.to_string_lossy()));
            self.note(&item, Kind::BadValue, message, PATH_HINT);
            return None;
        }
        Some(path.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Format, parse_notifications};

    use super::*;

    fn parse(text: &str) -> Result<NotifySettings, String> {
        parse_notifications(text, Format::Yaml, "notify.yaml").map_err(|it| it.to_string())
    }

    #[test]
    fn channels_and_routes_are_read() {
        let text = "channels:
  chat: { kind: webhook, url_file: /etc/url, form: slack, rate: 3 }
  post: { kind: mail, host: mx, tls: implicit, from: a@b, to: [c@d] }
  page: { kind: command, run: [page, 7], timeout: 5s }
routes:
  - { channels: [chat, page], on: [worker, failed], owner: lab, entry: lab/x, after: 3 }
  - { channels: [post] }
";
        let settings = parse(text).expect("valid");
        assert_eq!(settings.channels["chat"].rate, 3);
        assert_eq!(settings.channels["post"].rate, Channel::RATE_DEFAULT);
        let Transport::Mail(mail) = &settings.channels["post"].transport else {
            panic!("{settings:?}");
        };
        assert_eq!((mail.port, mail.tls), (465, MailTls::Implicit));
        let Transport::Command(command) = &settings.channels["page"].transport else {
            panic!("{settings:?}");
        };
        assert_eq!(command.argv, ["page", "7"]);
        let route = &settings.routes[0];
        assert_eq!(route.on, [NoticeKind::Failed, NoticeKind::Worker]);
        assert_eq!(route.after, Some(3));
        let default = [NoticeKind::Failed, NoticeKind::Recovered];
        assert_eq!(settings.routes[1].on, default);
    }

    #[test]
    fn every_mistake_is_reported_and_no_secret_repeated() {
        let text = "channels:
  a: { kind: webhook, url: ftp://secret, host: mx }
  b: { kind: webhook, url: 'http://x', secret: hush, template: '{{ titel }}' }
  c: { kind: mail, host: mx, tls: none, user: u, password_file: pw, from: plain, to: [c@d] }
  d: { kind: comand }
routes:
  - { channels: [z], on: [digest] }
";
        let errors = parse(text).expect_err("invalid");
        for part in [
            "channels.a.url",
            "`host` has no meaning for a channel of the kind webhook",
            "write it to a file, and `secret_file: FILE`",
            "a notice has no value `titel`",
            "the password would be sent in the clear",
            "`pw` is not absolute",
            "`plain` is not a mail address",
            "channels.d.kind",
            "there is no channel `z`",
            "`digest` is not told here",
        ] {
            assert!(errors.contains(part), "{part} in\n{errors}");
        }
        assert!(
            !errors.contains("ftp://secret") && !errors.contains("hush"),
            "{errors}"
        );
    }
}
