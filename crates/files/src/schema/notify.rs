//! Tables of the file of notifications.

use baton_model::notify::{MailTls, NoticeKind, WebhookForm};

use super::Type::{Integer, List, Map, Name, Text, Word};
use super::Zero::Refused;
use super::{Object, Type, field};
use crate::limits::{CHANNELS_MAX, FAILURES_MAX, ROUTES_MAX};

pub(crate) static NOTIFICATIONS: Object = Object::new(
    "Notifications",
    "the file of notifications",
    &[
        field("url", Text, "The address of the scheduler in links, such as https://baton.example.com; by default its own."),
        field("channels", Map(&Type::Object(&CHANNEL), 1), "Ways to tell people, by name.").required(),
        field("routes", List(&Type::Object(&ROUTE), 0, ROUTES_MAX), "Who is told what. Without routes, only entries with `notify` tell anyone."),
    ],
);

pub(crate) static CHANNEL: Object = Object::new(
    "Channel",
    "a channel",
    &[
        field("kind", Word(&["webhook", "mail", "command"]), "How it sends.").required(),
        field("rate", Integer(1, 10_000), "Notices in a minute; what is beyond it comes as one digest.").or("10"),
        field("url", Text, "Of a webhook: where it posts."),
        field("url_file", Text, "A file with the URL, which is often a secret."),
        field("form", Word(WebhookForm::CHOICES), "Of a webhook: the body.").or("json"),
        field("template", Text, "Of a webhook: a body of your own, with `{{ title }}`, `{{ text }}` and others."),
        field("secret_file", Text, "Of a webhook: a file with the secret that signs the body."),
        field("host", Text, "Of mail: the SMTP server."),
        field("port", Integer(1, 65_535), "Of mail: by default 587, or 465 with `tls: implicit`, or 25 with `tls: none`."),
        field("tls", Word(MailTls::CHOICES), "Of mail: the encryption.").or("starttls"),
        field("user", Text, "Of mail: the user name."),
        field("password_file", Text, "Of mail: a file with the password."),
        field("from", Text, "Of mail: the address of the sender."),
        field("to", List(&Text, 1, CHANNELS_MAX), "Of mail: the addresses of the receivers."),
        field("ca_file", Text, "Of a webhook or mail: the CA (PEM) of the receiver; by default those of the system."),
        field("run", List(&Text, 1, CHANNELS_MAX), "Of a command: the program and its arguments, without a shell."),
        field("timeout", Type::Duration(Refused), "Of a command: it is killed then.").or("30s"),
    ],
);

pub(crate) static ROUTE: Object = Object::new(
    "Route",
    "a route",
    &[
        field("channels", List(&Name, 1, CHANNELS_MAX), "Who is told.").required(),
        field("on", List(&Word(NoticeKind::CHOICES), 1, NoticeKind::CHOICES.len()), "What is told.").or(r#"["failed", "recovered"]"#),
        field("owner", Name, "Only work of this owner."),
        field("entry", Text, "Only this task or workflow: OWNER/NAME."),
        field("tags", List(&Name, 1, CHANNELS_MAX), "Only work with all of these tags."),
        field("after", Integer(1, FAILURES_MAX as i64), "Only the failure that is this one in a row."),
    ],
);
