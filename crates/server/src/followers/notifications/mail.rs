//! A mail by SMTP.

use std::time::Duration;

use baton_model::notify::{Mail, MailTls};
use lettre::message::{Mailbox, MessageBuilder, header};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};

use super::message::{Message, read};
use crate::limits::NOTICE_SEND_WAIT;

/// Sends one mail to all addresses; the answer of the server acknowledges it.
pub(super) async fn send(mail: &Mail, message: &Message<'_>) -> Result<String, String> {
    let letter = letter(mail, message)?;
    let transport = transport(mail)?;
    let sent = tokio::time::timeout(NOTICE_SEND_WAIT, transport.send(letter)).await;
    let timed_out = |_| format!("{} has not answered within {NOTICE_SEND_WAIT:?}", mail.host);
    let answer = sent.map_err(timed_out)?.map_err(|error| reason(&error))?;
    let lines: Vec<&str> = answer.message().collect();
    Ok(format!("{} {}", answer.code(), lines.join(" ")))
}

fn transport(mail: &Mail) -> Result<AsyncSmtpTransport<Tokio1Executor>, String> {
    let tls = match mail.tls {
        MailTls::None => Tls::None,
        MailTls::Starttls => Tls::Required(parameters(mail)?),
        MailTls::Implicit => Tls::Wrapper(parameters(mail)?),
    };
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&mail.host)
        .port(mail.port)
        .tls(tls)
        .timeout(Some(Duration::from_secs(20)));
    if let (Some(user), Some(file)) = (&mail.user, &mail.password_file) {
        builder = builder.credentials(Credentials::new(user.clone(), read(file)?));
    }
    Ok(builder.build())
}

fn parameters(mail: &Mail) -> Result<TlsParameters, String> {
    let mut builder = TlsParameters::builder(mail.host.clone());
    if let Some(file) = &mail.ca_file {
        let pem = read(file)?;
        let ca = Certificate::from_pem(pem.as_bytes())
            .map_err(|error| format!("{}: {error}", file.display()))?;
        builder = builder
            .certificate_store(CertificateStore::None)
            .add_root_certificate(ca);
    }
    let built = builder.build_rustls();
    built.map_err(|error| format!("TLS for {}: {}", mail.host, reason(&error)))
}

fn letter(mail: &Mail, message: &Message<'_>) -> Result<lettre::Message, String> {
    let parsed = |address: &str| {
        let mailbox = address.parse::<Mailbox>();
        mailbox.map_err(|error| format!("{address} is not a mail address: {error}"))
    };
    let from = parsed(&mail.from)?;
    // The same for each attempt, so that a receiver can tell repeats.
    let key: String = message.notice.key.chars().map(id_char).collect();
    let id = format!("<{key}@{}>", from.email.domain());
    let mut builder = MessageBuilder::new()
        .from(from)
        .subject(message.title())
        .message_id(Some(id))
        .date_now()
        .header(header::ContentType::TEXT_PLAIN);
    for address in &mail.to {
        builder = builder.to(parsed(address)?);
    }
    builder
        .body(message.text())
        .map_err(|error| format!("the mail cannot be written: {error}"))
}

/// A character that may stand in a message id.
const fn id_char(char: char) -> char {
    if char.is_ascii_alphanumeric() || matches!(char, '-' | '.' | '_') {
        char
    } else {
        '.'
    }
}

/// The error with its causes.
fn reason(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
