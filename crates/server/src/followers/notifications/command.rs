//! A command of the operator: gets the message as JSON on its standard input.

use std::time::Duration;

use baton_fleet::{ExecError, Inheritance, Invocation};
use baton_model::notify::CommandChannel;

use super::message::Message;

/// Runs the command; exit status 0 acknowledges the notice.
pub(super) async fn send(
    channel: &CommandChannel,
    message: &Message<'_>,
) -> Result<String, String> {
    let [program, args @ ..] = &*channel.argv else {
        return Err("the command is empty".to_owned());
    };
    let notice = message.notice;
    let invocation = Invocation::new(program)
        .args(args)
        .inherit(Inheritance::Foreign)
        .env("BATON_NOTICE_KEY", &notice.key)
        .env("BATON_NOTICE_KIND", notice.kind.word())
        .env("BATON_NOTICE_TITLE", message.title())
        .env("BATON_NOTICE_SUBJECT", &notice.subject)
        .env(
            "BATON_NOTICE_ENTRY",
            notice.entry.as_deref().unwrap_or_default(),
        )
        .env("BATON_NOTICE_LINK", message.link().unwrap_or_default())
        .env("BATON_NOTICE_TEXT", message.text())
        .input(message.json());
    let timeout = Duration::from_millis(channel.timeout.0);
    let ran = tokio::task::spawn_blocking(move || invocation.run(timeout)).await;
    let ran = ran.map_err(|error| format!("the command cannot be run: {error}"))?;
    let output = ran.map_err(ExecError::reason)?;
    match output.code {
        0 => Ok("exit status 0".to_owned()),
        code => Err(format!("exit status {code}: {}", output.complaint())),
    }
}
