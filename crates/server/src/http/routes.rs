//! A router that knows its paths: axum's own cannot be asked, and what is said about every path
//! elsewhere must not miss one.

use axum::Router;
use axum::routing::MethodRouter;

use super::App;

/// A router in the making.
#[derive(Default)]
pub(super) struct Routes {
    router: Router<App>,
    #[cfg(test)]
    paths: Vec<&'static str>,
}

impl Routes {
    pub(super) fn route(mut self, path: &'static str, methods: MethodRouter<App>) -> Self {
        #[cfg(test)]
        self.paths.push(path);
        self.router = self.router.route(path, methods);
        self
    }

    /// Every path, as it was given.
    #[cfg(test)]
    pub(super) fn paths(&self) -> &[&'static str] {
        &self.paths
    }

    pub(super) fn into_router(self) -> Router<App> {
        self.router
    }
}
