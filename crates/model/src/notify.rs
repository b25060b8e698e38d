//! Notifications: what is told to whom, as it is configured, stored and listed.
//!
//! `baton_core::notify` decides which facts deserve a notice; the server delivers it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::time::{Millis, Wall};

/// What a notice is about.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    IntoStaticStr,
    strum::EnumString,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum NoticeKind {
    /// An instance, an array or a run has failed for good.
    Failed,
    /// It has succeeded again after a failure.
    Recovered,
    /// A due time was missed or skipped.
    Missed,
    /// The deadline of an execution has passed, and it has not ended.
    Late,
    /// It waits for a worker for too long.
    Stuck,
    /// It runs for longer than expected, or has succeeded in less time.
    Unusual,
    /// A worker was lost, or its host has a fault; also when that has passed.
    Worker,
    /// A fleet gets no workers, or gets them again.
    Fleet,
    /// The store was found to be a copy, or a worker holds work that it does not know.
    Store,
    /// Several notices in one, beyond the rate of a channel.
    Digest,
    /// A test of a channel.
    Test,
}

impl NoticeKind {
    /// The kinds that routes choose from.
    pub const CHOICES: &[&str] = &[
        "failed",
        "recovered",
        "missed",
        "late",
        "stuck",
        "unusual",
        "worker",
        "fleet",
        "store",
    ];
    /// The kinds that the `notify` of an entry chooses from.
    pub const OF_ENTRIES: &[&str] = &["failed", "recovered", "missed", "late", "stuck", "unusual"];

    /// The spelling everywhere.
    #[must_use]
    pub const fn word(self) -> &'static str {
        self.into_str()
    }
}

impl fmt::Display for NoticeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The `notify` of a task or workflow file: who is told of this entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct NotifyRule {
    /// Names of channels of the scheduler.
    pub channels: Vec<String>,
    /// Sorted, none twice.
    pub on: Vec<NoticeKind>,
    /// Only the failure that is this one in a row; without it, every one.
    pub after: Option<u32>,
}

/// A rule of the scheduler: which notices go to which channels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    pub channels: Vec<String>,
    /// Sorted, none twice.
    pub on: Vec<NoticeKind>,
    /// Only of this owner.
    pub owner: Option<String>,
    /// Only of this task or workflow: `OWNER/NAME`.
    pub entry: Option<String>,
    /// Only of work that has all of these tags.
    pub tags: Vec<String>,
    /// As in [`NotifyRule::after`].
    pub after: Option<u32>,
}

/// The notifications of a scheduler: its channels and routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotifySettings {
    /// The address of the scheduler in links, if not its own.
    pub url: Option<String>,
    pub channels: BTreeMap<String, Channel>,
    pub routes: Vec<Route>,
}

/// One way to tell people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Notices in a minute, beyond which they are collected into one.
    pub rate: u32,
    pub transport: Transport,
}

impl Channel {
    /// The rate of a channel that names none.
    pub const RATE_DEFAULT: u32 = 10;
}

/// The protocol of a channel, with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    Webhook(Webhook),
    Mail(Mail),
    Command(CommandChannel),
}

impl Transport {
    /// The spelling in files and lists.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Webhook(_) => "webhook",
            Self::Mail(_) => "mail",
            Self::Command(_) => "command",
        }
    }
}

/// A text in the configuration, or the file that holds it. The file is read for each delivery, so
/// that it can be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextSource {
    Inline(String),
    File(PathBuf),
}

/// An HTTP request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    pub url: TextSource,
    pub form: WebhookForm,
    /// The file of the secret that signs the body.
    pub secret_file: Option<PathBuf>,
    /// Replaces the body of the form: JSON or text with placeholders.
    pub template: Option<String>,
    /// PEM of the CA of the receiver, if not the system's.
    pub ca_file: Option<PathBuf>,
}

/// The body of a webhook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WebhookForm {
    /// The notice as JSON.
    #[default]
    Json,
    Slack,
    Teams,
    Ntfy,
}

impl WebhookForm {
    pub const CHOICES: &[&str] = &["json", "slack", "teams", "ntfy"];
}

/// A mail by SMTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    pub host: String,
    pub port: u16,
    pub tls: MailTls,
    pub user: Option<String>,
    pub password_file: Option<PathBuf>,
    pub from: String,
    pub to: Vec<String>,
    /// PEM of the CA of the server, if not the system's.
    pub ca_file: Option<PathBuf>,
}

/// The encryption of a connection to a mail server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MailTls {
    /// The connection begins in the clear, and nothing is sent before TLS has begun.
    #[default]
    Starttls,
    /// From the first byte.
    Implicit,
    /// Plain text, for a server on this host.
    None,
}

impl MailTls {
    pub const CHOICES: &[&str] = &["starttls", "implicit", "none"];

    /// The usual port.
    #[must_use]
    pub const fn port(self) -> u16 {
        match self {
            Self::Starttls => 587,
            Self::Implicit => 465,
            Self::None => 25,
        }
    }
}

/// A command on the host of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandChannel {
    /// The program and its arguments, without a shell.
    pub argv: Vec<String>,
    /// It is killed then, with everything that it has started.
    pub timeout: Millis,
}

/// One notification, before it has a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Notice {
    /// Never repeats. A receiver that sees it twice has got one notice twice.
    pub key: String,
    pub kind: NoticeKind,
    /// The time of the fact behind it.
    pub at: Wall,
    /// Notices of one series reach each channel in order.
    pub series: String,
    /// One line.
    pub title: String,
    /// The instance, array, run, worker or fleet.
    pub subject: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The task or workflow: `OWNER/NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Failures in a row, this one included; of a recovery, those before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<u32>,
    /// Of an array or a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<NoticeCounts>,
    /// Some of what it sums up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// The last lines of standard error of the first failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// The command that tries again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The path of its page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// What became of the parts of an array or a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NoticeCounts {
    pub failed: u64,
    pub total: u64,
}

/// The state of one delivery.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    strum::EnumString,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum DeliveryState {
    /// Not acknowledged by the receiver yet.
    Waiting,
    Sent,
    /// Refused for good, or tried for too long.
    GivenUp,
    /// Part of a later digest.
    Digested,
}

impl DeliveryState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Waiting, Self::Sent, Self::GivenUp, Self::Digested];

    #[must_use]
    pub const fn word(self) -> &'static str {
        self.into_str()
    }
}

/// One notice on its way to one channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    pub channel: String,
    pub state: DeliveryState,
    pub attempts: u32,
    /// When it is tried next, if it is waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Wall>,
    /// Time of the last attempt.
    pub changed_at: Wall,
    /// The last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The names that a template of a webhook may use, as `{{ name }}`.
pub const PLACEHOLDERS: &[&str] = &[
    "title",
    "text",
    "kind",
    "key",
    "subject",
    "entry",
    "owner",
    "reason",
    "stderr",
    "command",
    "link",
    "scheduler",
    "at",
];

/// What is before the next `{{ name }}` of a template, the name, and what is after it.
#[must_use]
pub fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (name, after) = rest.split_once("}}")?;
    Some((before, name.trim(), after))
}
