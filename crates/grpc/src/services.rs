//! Which service answers a request: that whose name its path begins with, or a page of just that path.

use crate::pages::{self, Page};
use crate::site::{Limits, Site};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;
use tonic::{Code, Status};

/// What a service comes to.
type Answering = BoxFuture<Response<Body>, Infallible>;

/// A service whose type is forgotten.
trait Answers: Send + Sync {
    fn answer(&self, request: Request<Body>) -> Answering;
}

impl<S> Answers for S
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future = Answering>
        + Clone
        + Send
        + Sync,
{
    fn answer(&self, request: Request<Body>) -> Answering {
        // Services of tonic are always ready.
        self.clone().call(request)
    }
}

/// Services of one address, by name, and pages by path.
#[derive(Clone, Default)]
pub struct Services {
    services: Vec<(&'static str, Arc<dyn Answers>)>,
    pages: Vec<(&'static str, Arc<dyn Page>)>,
    site: Option<(Arc<dyn Site>, Limits)>,
}

impl Services {
    /// A site, which has all paths of its address.
    pub fn of_site(site: Arc<dyn Site>, limits: Limits) -> Services {
        Services { site: Some((site, limits)), ..Services::default() }
    }

    /// The site, if this is one.
    pub(crate) fn site(&self) -> Option<(Arc<dyn Site>, Limits)> {
        self.site.clone()
    }

    /// These, and this one.
    #[must_use]
    pub fn with<S>(mut self, service: S) -> Services
    where
        S: Service<
                Request<Body>,
                Response = Response<Body>,
                Error = Infallible,
                Future = Answering,
            > + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
    {
        self.services.push((S::NAME, Arc::new(service)));
        self
    }

    /// These, and a page at a path such as `/metrics`. Who asks for it may speak HTTP/1.1.
    #[must_use]
    pub fn with_page(mut self, path: &'static str, page: Arc<dyn Page>) -> Services {
        self.pages.push((path, page));
        self
    }

    /// There are pages.
    pub(crate) fn has_pages(&self) -> bool {
        !self.pages.is_empty()
    }

    /// Their names.
    pub fn names(&self) -> Vec<&'static str> {
        self.services.iter().map(|(name, _)| *name).collect()
    }

    fn find(&self, path: &str) -> Option<&dyn Answers> {
        let (service, _) = path.strip_prefix('/')?.split_once('/')?;
        self.services.iter().find(|(name, _)| *name == service).map(|(_, answers)| &**answers)
    }
}

impl Service<Request<Body>> for Services {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answering {
        let path = request.uri().path();
        if let Some((_, page)) = self.pages.iter().find(|(own, _)| *own == path) {
            return pages::answer(page.clone(), &request);
        }
        match self.find(path) {
            Some(answers) => answers.answer(request),
            None if self.services.is_empty() => {
                pages::not_found(path, self.pages.iter().map(|(path, _)| *path))
            }
            None => {
                let path = request.uri().path();
                let names = self.names().join(", ");
                let text = format!("there is no service for {path}; there are {names}");
                let status = Status::new(Code::Unimplemented, text);
                Box::pin(async move { Ok(status.into_http()) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers with its own status.
    #[derive(Clone)]
    struct Fixed<const CODE: i32>;

    impl<const CODE: i32> Service<Request<Body>> for Fixed<CODE> {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Answering;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Answering {
            Box::pin(async { Ok(Status::new(Code::from_i32(CODE), "x").into_http()) })
        }
    }

    impl NamedService for Fixed<5> {
        const NAME: &'static str = "a.A";
    }

    impl NamedService for Fixed<6> {
        const NAME: &'static str = "a.AB";
    }

    #[tokio::test]
    async fn a_request_is_answered_by_the_service_of_its_path() {
        let services = Services::default().with(Fixed::<5>).with(Fixed::<6>);
        assert_eq!(services.names(), ["a.A", "a.AB"]);
        let code = |path: &'static str| {
            let mut services = services.clone();
            async move {
                let request = Request::builder().uri(path).body(Body::empty()).unwrap();
                let response = services.call(request).await.unwrap();
                response.headers()["grpc-status"].to_str().unwrap().parse::<i32>().unwrap()
            }
        };
        assert_eq!(code("/a.A/Get").await, 5);
        assert_eq!(code("/a.AB/Get").await, 6);
        for other in ["/", "/a.A", "/a/Get", "/a.ABC/Get"] {
            assert_eq!(code(other).await, Code::Unimplemented as i32, "{other}");
        }
    }
}
