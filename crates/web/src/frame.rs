//! What all pages share: title, navigation, viewer, and the forms that change something.
//!
//! Two servers have pages: the scheduler, and the observer of a host (`baton local observe`).

use crate::assets;

/// The surroundings of a page.
#[derive(Clone, Debug)]
pub struct Frame {
    pub site: Site,
    pub title: String,
    /// The entry of the navigation that is current: its path.
    pub section: &'static str,
    pub mood: Mood,
    pub viewer: Viewer,
    /// Path and query of this page, to which actions return.
    pub here: String,
    pub refresh: Refresh,
    /// Parts of the page that could not be read, and why.
    pub failures: Vec<String>,
    /// When the page was rendered, in milliseconds since 1970.
    pub now: u64,
}

/// The server of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    Scheduler,
    /// The observer of the tasks of one host.
    Host,
}

/// The reader of a page.
#[derive(Clone, Debug, Default)]
pub struct Viewer {
    /// Who has signed in; `None` where no authentication is required.
    pub name: Option<String>,
    pub may_operate: bool,
    pub may_administer: bool,
    /// Proves that a form comes from a page of this server.
    pub csrf: String,
}

/// The colour of the icon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Idle,
    Busy,
    Failed,
}

/// When the script loads a page again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    Never,
    /// When the history has changed.
    Changes,
    /// The same, and every two seconds: output, health and reasons change without an entry in the
    /// history.
    Often,
    /// When the history has changed, every 15 seconds at most: the page is costly.
    Throttled,
    /// Every two seconds, from a server without a stream of changes.
    Timer,
}

/// An entry of the navigation.
#[derive(Debug)]
pub struct Section {
    pub label: &'static str,
    pub path: &'static str,
    pub current: bool,
}

const SECTIONS: [(&str, &str); 14] = [
    ("Overview", "/"),
    ("Running", "/arena/"),
    ("Waiting", "/bullpen/"),
    ("History", "/history/"),
    ("Runs", "/runs/"),
    ("Alarms", "/alarms/"),
    ("Library", "/library/"),
    ("Backfills", "/backfills/"),
    ("Workers", "/workers/"),
    ("Fleets", "/fleets/"),
    ("Schedulers", "/schedulers/"),
    ("Usage", "/usage/"),
    ("Notifications", "/notifications/"),
    ("Events", "/events"),
];

const HOST_SECTIONS: [(&str, &str); 1] = [("Tasks", "/")];

impl Frame {
    #[must_use]
    pub fn is_host(&self) -> bool {
        self.site == Site::Host
    }

    #[must_use]
    pub fn sections(&self) -> Vec<Section> {
        let sections = match self.site {
            Site::Scheduler => SECTIONS.iter(),
            Site::Host => HOST_SECTIONS.iter(),
        };
        let sections = sections.map(|(label, path)| Section {
            label,
            path,
            current: *path == self.section,
        });
        sections.collect()
    }

    #[must_use]
    pub fn refresh_word(&self) -> &'static str {
        match self.refresh {
            Refresh::Never => "never",
            Refresh::Changes => "changes",
            Refresh::Often => "often",
            Refresh::Throttled => "throttled",
            Refresh::Timer => "timer",
        }
    }

    #[must_use]
    pub fn style_sheet(&self) -> &'static str {
        assets::style_sheet()
    }

    #[must_use]
    pub fn script(&self) -> &'static str {
        assets::script()
    }

    #[must_use]
    pub fn icon(&self) -> &'static str {
        assets::icon(self.mood as usize)
    }
}

/// A request to the API that a page offers as a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// What the button says: `Cancel`.
    pub label: String,
    /// Method and path, as the links of a representation have them: `DELETE /instances/i12`.
    pub target: String,
    /// The body as JSON, or nothing.
    pub body: String,
    /// The question before it; without one the button acts at once.
    pub question: Option<String>,
    pub is_danger: bool,
}

impl Action {
    #[must_use]
    pub fn new(label: &str, target: &str) -> Self {
        Self {
            label: label.to_owned(),
            target: target.to_owned(),
            body: String::new(),
            question: None,
            is_danger: false,
        }
    }

    /// The same, with a body.
    #[must_use]
    pub fn with(mut self, body: &str) -> Self {
        body.clone_into(&mut self.body);
        self
    }

    /// The same, after a question.
    #[must_use]
    pub fn ask(mut self, question: String) -> Self {
        self.question = Some(question);
        self.is_danger = true;
        self
    }
}
