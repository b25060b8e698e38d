//! Names of the types of representations.
//!
//! A response names its type in the header `Link` (`rel="profile"`): the schema of that name in the
//! OpenAPI document. A type without a name here cannot be sent, and a test of the server compares the
//! names with the document.

use std::borrow::Cow;

use serde::Serialize;

use super::{
    AcceptReply, Alarm, ArrayLimit, AttemptProcesses, Backfill, BackfillLaunch, BackfillReply,
    CancelReply, ChannelTest, CreatedToken, DefineReply, DueTimes, ErrorGroup, Event, Explanation,
    Fleet, FleetJob, FleetJobLog, FleetPage, FleetUsage, Instance, KillCounts, KillReply,
    LibraryPage, Limit, LimitRemoval, List, Notification, NotificationChannel, Owner, Problem,
    RangeSummary, Readiness, Rekeyed, ResumePreview, RetryCounts, Root, Run, RunItem, RunReply,
    RunTask, Scheduler, Secret, Share, SubmitReply, Task, TaskUsage, Tick, Token, TriggerReply,
    Usage, WaitGroup, Worker,
};
use crate::fleet::Trial;

/// The version of all types, which the media type states, too.
const VERSION: &str = "v1";

/// Where a server has its OpenAPI document.
const DOCUMENT: &str = "/openapi.json";

/// A representation of the API, with the name of its type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is a representation without a name",
    note = "add it to the list at the end of crates/model/src/api/representation.rs, or implement `Representation`"
)]
pub trait Representation: Serialize {
    /// The name of its schema in the OpenAPI document.
    fn schema() -> Cow<'static, str>;

    /// The name of the schema of this value: of one of several types, the name of that one.
    fn schema_of(&self) -> Cow<'static, str> {
        Self::schema()
    }
}

/// The value of the header `Link` that names the type and the version of a representation.
pub fn profile(body: &impl Representation) -> String {
    let schema = body.schema_of();
    format!(
        "<{DOCUMENT}#/components/schemas/{schema}>; rel=\"profile\"; title=\"baton.{VERSION}.{schema}\""
    )
}

impl<T: Representation> Representation for List<T> {
    fn schema() -> Cow<'static, str> {
        Cow::Owned(format!("List_{}", T::schema()))
    }
}

impl<T: Representation> Representation for Box<T> {
    fn schema() -> Cow<'static, str> {
        T::schema()
    }

    fn schema_of(&self) -> Cow<'static, str> {
        T::schema_of(self)
    }
}

/// Names types as they are called.
macro_rules! named {
    ($($name:ident $(<$file:ident>)?),+ $(,)?) => {$(
        impl $(<$file: Serialize>)? Representation for $name $(<$file>)? {
            fn schema() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )+};
}

named! {
    AcceptReply,
    Alarm,
    ArrayLimit,
    AttemptProcesses,
    Backfill,
    BackfillLaunch,
    BackfillReply,
    CancelReply,
    ChannelTest,
    CreatedToken,
    DefineReply,
    DueTimes,
    ErrorGroup,
    Event,
    Explanation,
    Fleet,
    FleetJob,
    FleetJobLog,
    FleetPage,
    FleetUsage,
    Instance,
    KillCounts,
    KillReply,
    LibraryPage<F>,
    Limit,
    LimitRemoval,
    Notification,
    NotificationChannel,
    Owner,
    Problem,
    RangeSummary,
    Readiness,
    Rekeyed,
    ResumePreview,
    RetryCounts,
    Root,
    Run,
    RunItem<F>,
    RunReply,
    RunTask,
    Scheduler,
    Secret,
    Share,
    SubmitReply,
    Task<F>,
    TaskUsage,
    Tick,
    Token,
    Trial,
    TriggerReply,
    Usage,
    WaitGroup,
    Worker,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::MEDIA_TYPE;

    #[test]
    fn a_profile_names_the_type_and_its_version() {
        let list = List::<Task<String>> {
            items: Vec::new(),
            total: None,
            links: super::super::Links::new(),
        };
        assert_eq!(
            profile(&list),
            "</openapi.json#/components/schemas/List_Task>; rel=\"profile\"; title=\"baton.v1.List_Task\""
        );
        assert!(MEDIA_TYPE.contains(&format!("baton.{VERSION}+json")));
    }
}
