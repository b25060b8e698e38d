//! An HTTP request, signed if there is a secret.

use baton_model::hex::hex;
use baton_model::notify::{Webhook, WebhookForm};
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use sha2::Sha256;

use super::message::{Message, read, text_of};
use crate::clock;
use crate::followers::receiver::{client, reason};

/// Characters of an answer that are repeated.
const ANSWER_CHARS_MAX: usize = 200;
/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 4 << 10;

/// Sends one request; an answer of 2xx acknowledges the notice. URLs may be secret, so no error has one.
pub(super) async fn send(webhook: &Webhook, message: &Message<'_>) -> Result<String, String> {
    let url = text_of(&webhook.url)?;
    let url = Url::parse(&url).map_err(|error| format!("the URL cannot be used: {error}"))?;
    let (body, mut headers) = request(webhook, message);
    if let Some(file) = &webhook.secret_file {
        let secret = read(file)?;
        let at = clock::now().wall.0 / 1_000;
        let signature = signature(secret.as_bytes(), at, body.as_bytes());
        insert(&mut headers, "baton-signature", &signature);
    }
    insert(&mut headers, "baton-notice", &message.notice.key);
    insert(&mut headers, "idempotency-key", &message.notice.key);
    let client = client(&url, webhook.ca_file.as_deref())?;
    let sent = client.post(url).headers(headers).body(body).send().await;
    let mut answer = sent.map_err(|error| reason(&error))?;
    let status = answer.status();
    let mut bytes = Vec::new();
    while bytes.len() < ANSWER_BYTES_MAX
        && let Ok(Some(chunk)) = answer.chunk().await
    {
        bytes.extend_from_slice(&chunk);
    }
    let text = String::from_utf8_lossy(&bytes);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text: String = text.chars().take(ANSWER_CHARS_MAX).collect();
    let answer = format!("{status} {text}").trim_end().to_owned();
    if status.is_success() {
        Ok(answer)
    } else {
        Err(format!("the receiver answers {answer}"))
    }
}

/// The body, and the headers of its form.
fn request(webhook: &Webhook, message: &Message<'_>) -> (String, HeaderMap) {
    let mut headers = HeaderMap::new();
    let (body, media) = match (&webhook.template, webhook.form) {
        (Some(template), _) => message.fill(template),
        (None, WebhookForm::Json) => (message.json(), "application/json"),
        (None, WebhookForm::Slack) => (message.slack(), "application/json"),
        (None, WebhookForm::Teams) => (message.teams(), "application/json"),
        (None, WebhookForm::Ntfy) => {
            insert(&mut headers, "title", &message.title());
            insert(&mut headers, "tags", message.notice.kind.word());
            if let Some(link) = message.link() {
                insert(&mut headers, "click", &link);
            }
            (message.text(), "text/plain; charset=utf-8")
        }
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    (body, headers)
}

fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    let plain: String = value.chars().filter(|it| !it.is_control()).collect();
    if let Ok(value) = HeaderValue::from_bytes(plain.as_bytes()) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// The time, and the HMAC of it and the body: a receiver can refuse what is old.
fn signature(secret: &[u8], at: u64, body: &[u8]) -> String {
    // A key of any length is accepted.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else {
        return String::new();
    };
    mac.update(format!("{at}.").as_bytes());
    mac.update(body);
    format!("t={at},v1={}", hex(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_covers_the_time_and_the_body() {
        // printf '17.hello' | openssl dgst -sha256 -hmac secret
        let digits = "85a6b157fbaef3a53287c5522d496ccd706aa9b6e703d969fb6088b4d3ba2424";
        let signed = signature(b"secret", 17, b"hello");
        assert_eq!(signed, format!("t=17,v1={digits}"));
        assert_ne!(signed, signature(b"secret", 17, b"hallo"));
        assert_ne!(signed[5..], signature(b"secret", 18, b"hello")[5..]);
        assert_ne!(signed, signature(b"other", 17, b"hello"));
    }
}
