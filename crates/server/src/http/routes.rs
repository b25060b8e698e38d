//! A router that knows its paths: the one of axum cannot list them, and tests check that every path
//! is documented and authorized.

use axum::Router;
use axum::routing::MethodRouter;

use super::App;

/// A router under construction.
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

    /// All paths, as registered.
    #[cfg(test)]
    pub(super) fn paths(&self) -> &[&'static str] {
        &self.paths
    }

    pub(super) fn into_router(self) -> Router<App> {
        self.router
    }
}
