//! The thread that asks backends and ends drains.

use super::{balancers, probe};
use crate::bridges::Bridges;
use crate::failure::Failure;
use datapath::services::elements::Named;
use service::balance::check::Check;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use switch::Switch;
use tokio::runtime::Runtime;

/// Between two looks at who is to be asked.
const TICK: Duration = Duration::from_millis(50);

/// The thread, until it is dropped.
pub(crate) struct Health {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Health {
    /// Asks backends of these bridges' balancers, those that there are now and those that come.
    pub(crate) fn start(bridges: &Bridges) -> Result<Health, Failure> {
        let failed = |error: std::io::Error| Failure::Bad(format!("checks of backends: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (bridges, stopped) = (bridges.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("health".to_owned());
        let thread = thread.spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                for bridge in bridges.all() {
                    look(bridge.switch(), &runtime);
                }
                // Answers are taken meanwhile.
                runtime.block_on(async { tokio::time::sleep(TICK).await });
            }
        });
        Ok(Health { stop, thread: Some(thread.map_err(failed)?) })
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}

/// Ends drains whose time is over, and asks those who are to be asked.
pub(super) fn look(switch: &Switch, runtime: &Runtime) {
    for named in balancers(switch) {
        let Some(spread) = named.spread() else { continue };
        // The active member of the group asks, and tells what it finds: it may reach backends that this one does not.
        if switch.is_standby() || named.is_standby() {
            continue;
        }
        for backend in spread.backends().over(switch.now_ns()) {
            let service = named.name.as_str();
            tracing::info!(
                service,
                backend,
                "the drain is over: the backend is down, its connections are cut"
            );
            switch.note_change("health", "backend", "modify", || {
                format!("{service} {backend} down: its drain is over")
            });
        }
        let Some(check) = spread.check() else { continue };
        for (backend, host) in spread.backends().due(check, switch.now_ns()) {
            let (named, check) = (named.clone(), check.clone());
            runtime.spawn(question(switch.clone(), named, check, backend, host));
        }
    }
}

/// Asks one, and tells what follows.
async fn question(switch: Switch, named: Arc<Named>, check: Check, backend: String, host: IpAddr) {
    let answer = probe::ask(&check, host).await;
    let why = answer.as_ref().err().cloned().unwrap_or_default();
    let Some(spread) = named.spread() else { return };
    let told = spread.backends().told(&backend, &check, switch.now_ns(), answer);
    let service = named.name.as_str();
    match told {
        None => {}
        Some(true) => {
            tracing::info!(service, backend, %host, "the backend answers again");
            switch.note_change("health", "backend", "modify", || format!("{service} {backend} up"));
        }
        Some(false) => {
            tracing::warn!(service, backend, %host, why, "the backend does not answer");
            switch.note_change("health", "backend", "modify", || {
                format!("{service} {backend} down: {why}")
            });
            let status = spread.backends().status();
            let up = service::balance::Health::Up;
            if status.iter().all(|one| one.found.as_ref().is_some_and(|found| !found.alive)) {
                let kept = status.iter().any(|one| one.takes == up);
                let then = if kept { "checks do not count" } else { "new flows get no backend" };
                tracing::error!(service, then, "no backend answers");
            }
        }
    }
}
