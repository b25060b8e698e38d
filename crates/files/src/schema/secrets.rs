//! Tables of the file of secrets that are kept elsewhere.

use super::Type::{List, Name, Text};
use super::Zero::{Allowed, Refused};
use super::task::SECRET_NAME;
use super::{Object, Type, field};
use crate::limits::{SECRET_SOURCES_MAX, SOURCE_WORDS_MAX};

pub(crate) static SECRETS: Object = Object::new(
    "Secrets",
    "the file of secrets",
    &[
        field("secrets", List(&Type::Object(&SECRET_SOURCE), 1, SECRET_SOURCES_MAX), "Secrets that are kept elsewhere.").required(),
    ],
);

pub(crate) static SECRET_SOURCE: Object = Object {
    any_of: &[&["file"], &["environment"], &["command"]],
    exclusive: &["file", "environment", "command"],
    ..Object::new(
        "Source of a secret",
        "a source",
        &[
            field("name", SECRET_NAME, "Its name.").required(),
            field("owner", Name, "Its owner; without one, it is a secret of every owner."),
            field("file", Text, "The file that has it, which the scheduler reads whenever it is needed."),
            field("environment", Text, "The variable of the scheduler that has it."),
            field("command", List(&Text, 1, SOURCE_WORDS_MAX), "The program that prints it, and its arguments, without a shell: `[vault, kv, get, -field=password, secret/db]`."),
            field("timeout", Type::Duration(Refused), "Of a command: it is killed then.").or("10s"),
            field("cache", Type::Duration(Allowed), "Of a command: how long what it has printed is used again, in memory.").or("1m"),
        ],
    )
};
